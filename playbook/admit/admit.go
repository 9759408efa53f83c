// Package admit decides which learned texts may enter the prompt of an agent or a Generator. It decides on all advice:
// bullets, reflections, attempts of earlier rounds, lessons of models and of rules, and imports. Decide and FirstStatus are pure functions of
// the facts about a text, see Text. If a fact is unknown, the text is refused. Screen finds texts that give orders to models. Book finds the facts of
// a playbook.
//
// The package does not decide on prompts of the Reflector and of the Curator: they contain learned texts only as quoted data.
package admit

import "debrief/playbook"

// Source is the kind of author of a text. The zero value is unknown.
type Source string

// The sources.
const (
	Model  Source = "model"
	Rule   Source = "rule" // compares recorded runs without a model
	Import Source = "import"
	Person Source = "person"
)

// Known reports whether the source is known.
func (s Source) Known() bool { return s == Model || s == Rule || s == Import || s == Person }

// State is the state of the bullet that a text belongs to. The zero value is unknown.
type State string

// The states.
const (
	Undecided   State = "undecided" // the Curator has not decided on the reflection yet
	Decided     State = "decided"   // the Curator has decided, and no bullet has the text
	Active      State = "active"
	Probation   State = "probation"
	Candidate   State = "candidate"
	Quarantined State = "quarantined"
	Rejected    State = "rejected" // by a person
	Retired     State = "retired"
	Removed     State = "removed"
	Forgotten   State = "forgotten"
)

// Use is the place of a text in a prompt. The zero value is unknown.
type Use string

// The uses.
const (
	UseBullet Use = "bullet"
	// UseInsight is an insight of the reflection on any run of the playbook.
	UseInsight Use = "insight"
	// UseSession is the error of an earlier run of the same session and owner, with the correct approach.
	UseSession Use = "session"
	// UseRound is the reflection on an earlier round of the same task.
	UseRound Use = "round"
)

// Text has the facts about one text. The zero value of each field is unknown, except for the boolean ones.
type Text struct {
	Use      Use
	Source   Source
	Inferred bool // the outcome behind the text was only inferred
	Trust    playbook.Trust
	State    State
	Gate     playbook.Gate // mode of the gate
	Review   bool          // new texts wait for a person
	Control  bool          // the session is in the control group
	Foreign  bool          // the text is of another owner or session; UseSession only
	Suspect  bool          // Screen or the Reflector found signs of an order to models
	Repeated bool          // this prompt repeats an earlier prompt of the conversation, which contains the text; UseInsight only
	Reworded bool          // the bullet of a repeated text has another text today; UseBullet only
}

// Verdict is the decision on a text.
type Verdict string

// The verdicts.
const (
	Shown   Verdict = "shown"
	Refused Verdict = "refused"
)

// Code is the reason why a text is not shown. It is empty for a text that is shown.
type Code string

// The codes.
const (
	CodeUnknown   Code = "unknown"   // a fact is unknown
	CodeState     Code = "state"     // the state of its bullet
	CodeDecided   Code = "decided"   // the Curator has decided on the reflection: a prompt has its bullet or nothing
	CodeUntrusted Code = "untrusted" // the trust in its source
	CodeInferred  Code = "inferred"  // its outcome was only inferred
	CodeReview    Code = "review"    // a person must approve it first
	CodeMode      Code = "mode"      // the gate is strict, so no new text is shown to all tasks
	CodeForeign   Code = "foreign"   // of another owner or session
	CodeSuspect   Code = "suspect"   // signs of an order to models
	CodeReworded  Code = "reworded"  // its bullet has another text today
	CodeControl   Code = "control"   // the session is in the control group
)

// Decision is a verdict with its reason.
type Decision struct {
	Verdict Verdict
	Code    Code
}

// Shown reports whether the text may enter the prompt.
func (d Decision) Shown() bool { return d.Verdict == Shown }

func refuse(code Code) Decision { return Decision{Refused, code} }

// Decide returns whether a text may enter the prompt of a run.
func Decide(t Text) Decision {
	if t.Control && t.Use != UseRound { // the reflection on an earlier round belongs to the task, not to the playbook
		return refuse(CodeControl)
	}
	switch t.Use {
	case UseBullet:
		return t.decideBullet()
	case UseInsight:
		return t.decideInsight()
	case UseSession:
		return t.decideSession()
	case UseRound:
		return t.decideRound()
	}
	return refuse(CodeUnknown)
}

// knowsGate reports whether the mode of the gate is known.
func (t *Text) knowsGate() bool { return t.Gate != "" && t.Gate.Valid() }

// decideBullet decides on a bullet. Source, trust and review are not read here: they have decided the status of the bullet, see FirstStatus.
func (t *Text) decideBullet() Decision {
	isShown := t.State == Active || t.State == Probation && t.Gate == playbook.GateStrict
	switch {
	case !t.knowsGate() || t.State == "":
		return refuse(CodeUnknown)
	case !isShown:
		return refuse(CodeState)
	case t.Reworded:
		return refuse(CodeReworded)
	}
	return Decision{Verdict: Shown}
}

// decideInsight decides on an insight. After the Curator has decided on its reflection, a new prompt has the bullet in place of the insight. A
// prompt that repeats an earlier one keeps the insight, as long as the bullet is shown to others:
//
//	state              new prompt     prompt that repeats the insight
//	undecided          shown          shown
//	active, probation  CodeDecided    shown
//	decided            CodeDecided    CodeDecided
//	any other          CodeState      CodeState
//
// The other facts may refuse an insight that the table shows.
func (t *Text) decideInsight() Decision {
	isBullet := t.State == Active || t.State == Probation
	switch {
	case t.Source != Model && t.Source != Rule, t.Trust == "", t.State == "", !t.knowsGate():
		return refuse(CodeUnknown)
	case t.Suspect:
		return refuse(CodeSuspect)
	case t.State == Decided || isBullet && !t.Repeated:
		return refuse(CodeDecided)
	case t.State != Undecided && !isBullet:
		return refuse(CodeState)
	case t.Trust != playbook.Trusted:
		return refuse(CodeUntrusted)
	case t.Inferred:
		return refuse(CodeInferred)
	case t.Review:
		return refuse(CodeReview)
	case t.Gate == playbook.GateStrict:
		return refuse(CodeMode)
	}
	return Decision{Verdict: Shown}
}

// decideSession decides on the reflection on an earlier run of the session.
func (t *Text) decideSession() Decision {
	switch {
	case t.Source != Model && t.Source != Rule, t.Trust == "", t.State == "", !t.knowsGate():
		return refuse(CodeUnknown)
	case t.Foreign:
		return refuse(CodeForeign)
	case t.Suspect:
		return refuse(CodeSuspect)
	case t.Trust != playbook.Trusted && t.Trust != playbook.Limited:
		return refuse(CodeUntrusted)
	case t.Review:
		return refuse(CodeReview)
	case t.State != Undecided && t.State != Decided && t.State != Active && t.State != Probation && t.State != Candidate:
		return refuse(CodeState)
	}
	return Decision{Verdict: Shown}
}

// decideRound decides on the reflection on an earlier round of the same task. Only this task contains the reflection, so it is shown in every
// mode, unless it is suspect.
func (t *Text) decideRound() Decision {
	if t.Suspect {
		return refuse(CodeSuspect)
	}
	return Decision{Verdict: Shown}
}

// StateOf returns the state of a bullet.
func StateOf(b *playbook.Bullet) State {
	if b == nil {
		return Removed
	}
	switch b.Status {
	case playbook.Active, "":
		return Active
	case playbook.Probation:
		return Probation
	case playbook.Candidate:
		return Candidate
	case playbook.Quarantined:
		return Quarantined
	case playbook.Retired:
		if b.CurrentExperiment().Standing == playbook.StandingKept { // by a person; the gate retires with another standing
			return Rejected
		}
		return Retired
	}
	return ""
}

// FirstStatus returns the status that the Curator gives to a new or changed text, with the reason if the text is not shown at once. It does
// not read State and Use. A text whose outcome was only inferred waits for another execution or a person; with the gate off, executions
// are not counted, so only a person releases it.
func FirstStatus(t Text) (playbook.Status, playbook.Reason) {
	switch {
	case t.Source == Person:
		return playbook.Active, ""
	case t.Suspect:
		return playbook.Quarantined, playbook.ReasonInjection
	case t.Review, !t.Source.Known(), !t.knowsGate():
		return playbook.Quarantined, playbook.ReasonReview
	case t.Source == Import:
		return playbook.Active, ""
	case t.Trust != playbook.Trusted && t.Trust != playbook.Limited:
		return playbook.Quarantined, playbook.ReasonUntrusted
	case t.Inferred:
		return playbook.Candidate, playbook.ReasonInferred
	case t.Gate == playbook.GateStrict:
		return playbook.Probation, ""
	}
	return playbook.Active, ""
}
