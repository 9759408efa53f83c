package events

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Reflection is the Reflector's analysis of one execution, or of feedback on it.
type Reflection struct {
	Book      playbook.Book `msgpack:"-" json:"book"` // in the subject, not in the payload
	ID        ID            `msgpack:"id" json:"id"`
	Execution ID            `msgpack:"execution" json:"execution_id"`
	Handle    Handle        `msgpack:"handle" json:"execution"`
	// Sample is the execution of the first round at the task, if that is not Execution. Votes count for the sample.
	Sample   ID `msgpack:"sample,omitempty" json:"sample_id,omitempty"`
	Feedback ID `msgpack:"feedback,omitempty" json:"feedback_id,omitempty"`
	// Reflector is the version of the rules and the prompt. It is part of the id.
	Reflector string  `msgpack:"reflector" json:"reflector" redact:"id"`
	Owner     string  `msgpack:"owner,omitempty" json:"owner,omitempty" redact:"id"`     // of the execution
	User      string  `msgpack:"user,omitempty" json:"user,omitempty" redact:"id"`       // of the execution
	Session   string  `msgpack:"session,omitempty" json:"session,omitempty" redact:"id"` // of the execution
	Control   bool    `msgpack:"control,omitempty" json:"control,omitempty"`             // the execution is in the control group
	Origin    Origin  `msgpack:"origin,omitempty" json:"origin,omitzero"`
	Question  string  `msgpack:"question,omitempty" json:"question,omitempty"` // beginning and end
	Outcome   Outcome `msgpack:"outcome" json:"outcome"`

	Reasoning           string `msgpack:"reasoning,omitempty" json:"reasoning,omitempty"`
	ErrorIdentification string `msgpack:"error,omitempty" json:"error_identification,omitempty"`
	RootCauseAnalysis   string `msgpack:"cause,omitempty" json:"root_cause_analysis,omitempty"`
	CorrectApproach     string `msgpack:"approach,omitempty" json:"correct_approach,omitempty"`
	KeyInsight          string `msgpack:"insight,omitempty" json:"key_insight,omitempty"` // begins with its condition, if it has one
	// Copied lists the fields whose text the model copied from the run, by their JSON names. People may read such a text; no
	// prompt of an agent contains it.
	Copied []string `msgpack:"copied,omitempty" json:"copied,omitempty"`

	// LabelSuspect is the reason why the Reflector doubts the outcome. Such a reflection has no lesson and no vote. Its outcome
	// counts in the random arms of experiments only.
	LabelSuspect string `msgpack:"suspect,omitempty" json:"label_suspect,omitempty"`

	Tags    []BulletTag `msgpack:"tags,omitempty" json:"bullet_tags,omitempty"`
	Lessons []Lesson    `msgpack:"lessons,omitempty" json:"lessons,omitempty"`

	// Suspends are the bullets that a violation suspends until a person decides.
	Suspends []playbook.BulletID `msgpack:"suspends,omitempty" json:"suspends,omitempty"`
	// Exposures are the bullets that get the score of the first round.
	Exposures       []Exposure `msgpack:"exposures,omitempty" json:"exposures,omitempty"`
	FirstRoundScore float64    `msgpack:"first_round_score,omitempty" json:"first_round_score,omitempty"`
	// FeedbackSeq is the stream sequence of the feedback that the outcome is from, or 0.
	FeedbackSeq uint64 `msgpack:"feedback_seq,omitempty" json:"feedback_seq,omitempty"`
	// Corrects is set if the outcome was already known, so that the Curator must move the votes for the old outcome.
	Corrects bool `msgpack:"corrects,omitempty" json:"corrects,omitempty"`
	// FirstOutcome is set for the first feedback on an execution without outcome or other signal. Then there are no votes to
	// move.
	FirstOutcome bool `msgpack:"first_outcome,omitempty" json:"first_outcome,omitempty"`
	// Records are a model's records of the last steps of the execution, in order. The record of a step that the
	// model did not describe is empty.
	Records []Record `msgpack:"records,omitempty" json:"records,omitempty"`
	// Ignored lists the rejected parts of the model's reply with the reason, one sentence each.
	Ignored []string `msgpack:"ignored,omitempty" json:"ignored,omitempty"`
	// OtherRun is the run that the Reflector compared with the execution in its prompt, or nil.
	OtherRun *OtherRun `msgpack:"other_run,omitempty" json:"other_run,omitempty"`
	// EvidenceTokens is the estimated part of Usage.InputTokens for the description of the agent and the calls of another run.
	EvidenceTokens int `msgpack:"evidence_tokens,omitempty" json:"evidence_tokens,omitempty"`

	// Model wrote the texts; a Reflector sets "unnamed" if the reply of its model has no name. If it is empty, the author is unknown: the
	// texts wait for a person, and no prompt of an agent contains them.
	Model   string     `msgpack:"model,omitempty" json:"model,omitempty"`
	Usage   chat.Usage `msgpack:"usage,omitempty" json:"usage,omitzero"`
	Created time.Time  `msgpack:"created" json:"created,omitzero"`
}

func (*Reflection) Kind() Kind { return KindReflection }

func (r *Reflection) InBook() playbook.Book   { return r.Book }
func (r *Reflection) setBook(b playbook.Book) { r.Book = b }

func (r *Reflection) EventID() ID { return r.ID }

// ReflectionID returns the id of the reflection by one reflector version on an execution, or on feedback to it.
func ReflectionID(execution, feedback ID, reflector string) ID {
	return Hash("reflection", string(execution), string(feedback), reflector)
}

// SampleID returns the id of the first round at the task.
func (r *Reflection) SampleID() ID { return cmp.Or(r.Sample, r.Execution) }

func (r *Reflection) Validate() error {
	errs := []error{r.ID.validate(), r.Execution.validate(), r.Handle.Validate(), r.Outcome.validate(), validateTags(r.Tags)}
	if !(r.FirstRoundScore >= 0 && r.FirstRoundScore <= 1) {
		errs = append(errs, fmt.Errorf("first_round_score: must be between 0 and 1, got %v", r.FirstRoundScore))
	}
	if (r.FeedbackSeq > 0) != (r.Feedback != "") {
		errs = append(errs, fmt.Errorf("feedback_seq: %d with feedback_id %.80q: set both or neither", r.FeedbackSeq, string(r.Feedback)))
	}
	return errors.Join(errs...)
}

// Vote is the rating of a bullet by a reflection.
type Vote = playbook.Vote

// The votes.
const (
	Helpful = playbook.Helpful
	Harmful = playbook.Harmful
	Neutral = playbook.Neutral
)

// BulletTag is a vote on a bullet that was in the prompt.
type BulletTag struct {
	ID  playbook.BulletID `msgpack:"id" json:"id"`
	Tag Vote              `msgpack:"tag" json:"tag"`
}

func validateTags(tags []BulletTag) error {
	var errs []error
	for i, t := range tags {
		if t.ID == "" || !t.Tag.Valid() {
			errs = append(errs, fmt.Errorf("bullet_tags[%d]: id %.80q, tag %.80q: want an id and helpful, harmful or neutral", i, t.ID, t.Tag))
		}
	}
	return errors.Join(errs...)
}

// Lesson is a proposed text for a bullet. The Curator decides whether and how the playbook adopts it.
type Lesson struct {
	Section string `msgpack:"section,omitempty" json:"section,omitempty"`
	// When is the condition under which the content holds, empty if always. The content begins with it, see playbook.CleanText.
	When    string `msgpack:"when,omitempty" json:"when,omitempty"`
	Content string `msgpack:"content" json:"content"`
	// Code is set if the content looks like an order to models, or is copied from a text of the run. Such a lesson waits in quarantine
	// for a person.
	Code playbook.Reason `msgpack:"code,omitempty" json:"code,omitempty"`
	// Reason has the pattern and the sentence, or the name of the copied text.
	Reason string `msgpack:"reason,omitempty" json:"reason,omitempty"`
}

// Fields of a reflection, in Reflection.Copied and AdviceLine.Field.
const (
	FieldError    = "error_identification"
	FieldCause    = "root_cause_analysis"
	FieldApproach = "correct_approach"
	FieldInsight  = "key_insight"
)

// OtherRun is a run of the same task with a better or worse outcome.
type OtherRun struct {
	Execution Handle `msgpack:"x" json:"execution"`
	Label     Label  `msgpack:"l" json:"label"` // when the Reflector compared it; feedback may have corrected it since
	User      string `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"`
	Session   string `msgpack:"n,omitempty" json:"session,omitempty" redact:"id"`
}

// Cover returns the cover for the delta that contains the reflection. seq is the stream sequence of the reflection.
// The cover has the id of the feedback, or else of the sample. These depend only on the ids of the client, so the
// Curator recognizes a copy with another sequence or from another reflector version.
func (r *Reflection) Cover(seq uint64) playbook.Cover {
	return playbook.Cover{ID: string(cmp.Or(r.Feedback, r.SampleID())), Seq: seq, Evidence: r.Evidence()}
}

// Evidence returns the part of the reflection that a delta stores in its cover.
func (r *Reflection) Evidence() *playbook.Evidence {
	return &playbook.Evidence{
		Execution: string(r.Handle), Sample: string(r.SampleID()), Owner: r.Owner, User: clipName(r.User), Session: clipName(r.Session),
		Source: clipName(r.Origin.Source), Inferred: r.Outcome.Inferred, Excerpt: excerpt(cmp.Or(r.Question, r.KeyInsight, r.ErrorIdentification)),
		Outcome: string(r.Outcome.Label), Score: r.Outcome.Score, Reflector: text.Clip(r.Reflector, 64), Model: text.Clip(r.Model, 64),
		FeedbackSeq: r.FeedbackSeq, Control: r.Control, Judge: r.Outcome.Judge(), Compared: r.OtherRun.evidence(),
	}
}

// Evidence returns the part of an execution with a handle that a delta stores in a cover.
func (e *Execution) Evidence(h Handle) playbook.Evidence {
	return playbook.Evidence{
		Execution: string(h), Sample: string(e.SampleID()), Owner: e.Owner, User: clipName(e.User), Session: clipName(e.Session),
		Source: clipName(e.Origin.Source), Excerpt: excerpt(e.Question), Outcome: string(e.Outcome.Label), Score: e.Outcome.Score,
		Inferred: e.Outcome.Inferred, Control: e.InControl(), Judge: e.Outcome.Judge(),
	}
}

// evidence returns the part of the run that a delta stores. It is nil for nil.
func (o *OtherRun) evidence() *playbook.ComparedRun {
	if o == nil {
		return nil
	}
	return &playbook.ComparedRun{Execution: string(o.Execution), User: clipName(o.User), Session: clipName(o.Session)}
}

// Evidence returns the facts about the execution behind the note that decide whether a prompt may contain its texts.
func (n *Note) Evidence() *playbook.Evidence {
	return &playbook.Evidence{
		Execution: string(n.Execution), Sample: string(n.Sample), Owner: n.Owner, User: n.User, Session: n.Session, Source: n.Source,
		Inferred: n.Inferred, Model: n.Model, Compared: n.OtherRun.evidence(),
	}
}

// maxExcerpt is the maximum length of a question in Evidence, in bytes. Similar tasks are found by these words.
const maxExcerpt = 320

// excerpt returns the beginning and the end of a question as one line, without its long lists.
func excerpt(question string) string {
	question = text.WithoutLists(question)
	return text.Ends(text.Line(question, len(question)), maxExcerpt)
}

func clipName(name string) string { return text.Clip(name, playbook.MaxEvidenceName) }
