package events

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
)

// Execution is one completed run of a task: by the Generator, by an outside agent, or recorded by another system.
type Execution struct {
	Book     playbook.Book `msgpack:"-" json:"book"` // in the subject, not in the payload
	ID       ID            `msgpack:"id" json:"id"`
	RunID    string        `msgpack:"run_id" json:"run_id" redact:"id"`                   // unique for the owner and the book, see Task.ID
	Owner    string        `msgpack:"owner,omitempty" json:"owner,omitempty" redact:"id"` // see Task.Owner
	User     string        `msgpack:"user,omitempty" json:"user,omitempty" redact:"id"`   // see Task.User
	Session  string        `msgpack:"session,omitempty" json:"session,omitempty" redact:"id"`
	Question string        `msgpack:"question,omitempty" json:"question,omitempty"`
	Context  string        `msgpack:"context,omitempty" json:"context,omitempty"`
	Target   string        `msgpack:"target,omitempty" json:"target,omitempty"`
	Purpose  Purpose       `msgpack:"purpose,omitempty" json:"purpose,omitempty"`
	Origin   Origin        `msgpack:"origin,omitempty" json:"origin,omitzero"`

	Steps     []Step `msgpack:"steps,omitempty" json:"steps,omitempty"`
	Reasoning string `msgpack:"reasoning,omitempty" json:"reasoning,omitempty"`
	Answer    string `msgpack:"answer,omitempty" json:"answer,omitempty"`
	// RawReply is the beginning of the model's reply, if the Generator is configured to keep it. No prompt contains it.
	RawReply string  `msgpack:"raw,omitempty" json:"raw_reply,omitempty"`
	Outcome  Outcome `msgpack:"outcome" json:"outcome"`

	// Version is the playbook version in the prompt.
	Version uint64 `msgpack:"version,omitempty" json:"playbook_version"`
	// Shown are the bullets in the prompt.
	Shown []ShownBullet `msgpack:"shown,omitempty" json:"shown,omitempty"`
	// Cited are the bullets that the answer cites.
	Cited []playbook.BulletID `msgpack:"cited,omitempty" json:"cited,omitempty"`
	// Turn is the number of the execution in its session, from 1.
	Turn int `msgpack:"turn,omitempty" json:"turn,omitempty"`
	// Evaluator, Rounds and PreviousRounds are copied from the task for further rounds.
	Evaluator      string          `msgpack:"evaluator,omitempty" json:"evaluator,omitempty"`
	Rounds         int             `msgpack:"rounds,omitempty" json:"rounds,omitempty"`
	PreviousRounds []PreviousRound `msgpack:"previous_rounds,omitempty" json:"previous_rounds,omitempty"`
	// Pinned is set if the task pinned its version.
	Pinned bool `msgpack:"pinned,omitempty" json:"pinned,omitempty"`
	// Tries is the number of answers to the task, if it asked for several.
	Tries int `msgpack:"tries,omitempty" json:"tries,omitempty"`
	// OtherTry is an answer with another outcome, or nil.
	OtherTry *Try `msgpack:"other_try,omitempty" json:"other_try,omitempty"`
	// ContextID is the context that the service built for an outside agent.
	ContextID ID `msgpack:"ctx,omitempty" json:"context_id,omitempty"`
	// Manifest describes the context of ContextID, or the prompt of the Generator.
	Manifest *Manifest `msgpack:"manifest,omitempty" json:"manifest,omitempty"`
	// Control is the arm of the session while the playbook has a control share; nil without one.
	Control *Control `msgpack:"control,omitempty" json:"control,omitempty"`
	// Agent describes the outside agent of the run, if its system prompt or its tools are known.
	Agent *Agent `msgpack:"agent,omitempty" json:"agent,omitempty"`

	Model        string        `msgpack:"model,omitempty" json:"model,omitempty"`
	PromptSHA256 []byte        `msgpack:"prompt,omitempty" json:"prompt_sha256,omitempty"`
	Usage        chat.Usage    `msgpack:"usage,omitempty" json:"usage,omitzero"`
	Started      time.Time     `msgpack:"started" json:"started,omitzero"`
	Duration     time.Duration `msgpack:"took,omitempty" json:"duration_ns,omitempty"`
}

func (*Execution) Kind() Kind { return KindExecution }

func (e *Execution) InBook() playbook.Book   { return e.Book }
func (e *Execution) setBook(b playbook.Book) { e.Book = b }

func (e *Execution) EventID() ID { return e.ID }

// ExecutionID returns the id of one round of a run. A run id is unique for its book and owner.
func ExecutionID(b playbook.Book, owner, runID string, round int) ID {
	return Hash("execution", string(b), owner, runID, fmt.Sprint(round))
}

// ReportedByAgent reports whether an agent has run the execution, and not a Generator. A Generator that answers the task of an agent
// records a Manifest and no ContextID.
func (e *Execution) ReportedByAgent() bool {
	return e.Origin.FromAgent() && (e.ContextID != "" || e.Manifest == nil)
}

// InControl reports whether the execution is in the control group.
func (e *Execution) InControl() bool { return e.Control != nil && e.Control.Held }

// SampleID returns the id of the first round at the same task. Without earlier rounds it is the id of the execution.
func (e *Execution) SampleID() ID {
	if len(e.PreviousRounds) == 0 {
		return e.ID
	}
	return ExecutionID(e.Book, e.Owner, e.RunID, e.Origin.Round-len(e.PreviousRounds))
}

func (e *Execution) Validate() error {
	return errors.Join(
		e.ID.validate(), validateRunID(e.RunID), names{session: e.Session, user: e.User, task: e.Origin.Task}.validate(), ValidateOwner(e.Owner),
		validatePurpose(e.Purpose), e.Outcome.validate(), validatePreviousRounds(e.PreviousRounds), e.Agent.validate(), e.Control.Validate(),
	)
}

// ShownBullet is a bullet in a prompt. A stored execution does not contain its text: a prompt often has more than a hundred bullets, and
// the log of the playbook has every text. In MessagePack it is an array of ID, Wording, Experiment and Why, because the
// names of the fields would be most of its bytes.
type ShownBullet struct {
	ID playbook.BulletID `json:"id"`
	// Content is the text in the prompt. It is not in MessagePack: deltalog.Texts reads it. It stays empty if the text is lost. Secrets in it are
	// redacted when the bullet is stored.
	Content string `json:"content,omitempty" redact:"-"`
	// Wording is the checksum of the text (WordingOf): the bullet may change later.
	Wording uint32 `json:"wording"`
	// Experiment is the number of the bullet's experiment, so that the outcome counts for this wording.
	Experiment int `json:"experiment,omitempty"`
	// Why is the reason why the bullet is in the prompt, such as "pinned", or empty for its rank.
	Why string `json:"why,omitempty"`
}

// WordingOf returns the checksum of the text of a bullet (CRC-32C). It tells whether a text has changed, and protects from no attack.
func WordingOf(content string) uint32 { return crc32.Checksum([]byte(content), castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Exposure is a bullet whose record gets the outcome of a task: the bullet of an experiment with its random arm, or another
// bullet that the answer cited.
type Exposure struct {
	Bullet     playbook.BulletID `msgpack:"b" json:"bullet_id"`
	Experiment int               `msgpack:"c,omitempty" json:"experiment,omitempty"` // playbook.Experiment.Number
	Arm        playbook.Arm      `msgpack:"a" json:"arm"`
	Cited      bool              `msgpack:"q,omitempty" json:"cited,omitempty"`
	// Wording is the checksum of the text of a withheld bullet, see ShownBullet. The execution has it nowhere else.
	Wording uint32 `msgpack:"w,omitempty" json:"wording,omitempty"`
	// Content is the text of a withheld bullet. It is not stored: the Reflector reads it from the log of the playbook.
	Content string `msgpack:"-" json:"-" redact:"-"`
}

// MaxExposures is the maximum number of exposures of one execution.
const MaxExposures = 16

// Exposures returns the exposures of the execution: the bullets of the experiment first, then the other cited bullets.
// A cited bullet that was not shown has none.
func (e *Execution) Exposures() []Exposure {
	var inExperiments []Exposure
	if e.Manifest != nil {
		inExperiments = e.Manifest.Exposures
	}
	var all []Exposure
	for _, x := range inExperiments {
		x.Cited = x.Arm == playbook.ArmShown && slices.Contains(e.Cited, x.Bullet)
		all = append(all, x)
	}
	for i := range e.Shown {
		b := &e.Shown[i]
		inExperiment := slices.ContainsFunc(inExperiments, func(x Exposure) bool { return x.Bullet == b.ID })
		if !inExperiment && slices.Contains(e.Cited, b.ID) {
			all = append(all, Exposure{Bullet: b.ID, Experiment: b.Experiment, Arm: playbook.ArmOpen, Cited: true})
		}
	}
	return all[:min(len(all), MaxExposures)]
}

// Blamed returns the bullets that a violation of the execution suspends: the cited bullets that were shown, else the bullets that
// an experiment showed at random.
func (e *Execution) Blamed() (ids []playbook.BulletID) {
	for i := range e.Shown {
		if id := e.Shown[i].ID; slices.Contains(e.Cited, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 || e.Manifest == nil {
		return ids
	}
	for _, x := range e.Manifest.Exposures {
		if x.Arm == playbook.ArmShown {
			ids = append(ids, x.Bullet)
		}
	}
	return ids
}

// Agent describes an outside agent: its rules and its tools. No prompt of an agent contains it. Thousands of runs
// have the same description, so it is stored once, and the executions have only its name.
type Agent struct {
	// Ref is the SHA-256 of a stored description, in hexadecimal. The other fields are empty then, see bus.Reader.LoadAgent. It is not in
	// JSON: reports and files come from outside, and with a name they could read what another owner has stored.
	Ref          string `msgpack:"ref,omitempty" json:"-" redact:"-"`
	SystemPrompt string `msgpack:"system,omitempty" json:"system_prompt,omitempty"`
	Tools        []Tool `msgpack:"tools,omitempty" json:"tools,omitempty"`
}

// Tool is a tool that an agent can call.
type Tool struct {
	Name        string `msgpack:"name" json:"name"`
	Description string `msgpack:"about,omitempty" json:"description,omitempty"`
}

// IsEmpty reports whether a is nil or describes nothing.
func (a *Agent) IsEmpty() bool {
	return a == nil || a.SystemPrompt == "" && len(a.Tools) == 0 && a.Ref == ""
}

func (a *Agent) validate() error {
	if a == nil || a.Ref == "" {
		return nil
	}
	if sum, err := hex.DecodeString(a.Ref); err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("agent.ref: must be a SHA-256 in hexadecimal, got %.80q", a.Ref)
	}
	return nil
}

// Control is the random arm of a session, while its playbook has a control share (playbook.Share). All runs of the session have the same
// arm. A run without a session is a session of its own. Evaluations, pinned tasks, training and calls that are only observed have none: a
// run without a Control is neither in the control group nor in the other one.
type Control struct {
	// Held is set in the control group: no prompt of the session contains learned texts of the playbook. In the other arm it is false, and
	// the prompts are as usual. Some of these have no learned text either, for example if no bullet applies.
	Held bool `msgpack:"h,omitempty" json:"held"`
	// Share is the probability of the control group when the session was assigned, in tenths of a percent: 1 to 500.
	Share int `msgpack:"s" json:"share_per_mille"`
}

// Probability returns the probability with which the session got its arm.
func (c *Control) Probability() float64 {
	held := float64(c.Share) / 1000
	if c.Held {
		return held
	}
	return 1 - held
}

// Validate returns an error for an invalid share. Nil is valid.
func (c *Control) Validate() error {
	if c != nil && (c.Share < 1 || c.Share > 500) {
		return fmt.Errorf("control.share_per_mille: must be 1 to 500, got %d", c.Share)
	}
	return nil
}
