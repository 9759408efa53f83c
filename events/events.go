package events

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Event is a payload together with its kind, book and id.
type Event interface {
	Kind() Kind
	// InBook returns the book, which is in the subject of the event.
	InBook() playbook.Book
	// EventID returns the id, unique for the kind and book of the event.
	EventID() ID
	// Validate returns an error that names each invalid field.
	Validate() error

	setBook(playbook.Book)
}

// Purpose is the permitted use of the outcome of a task. Stored; append only.
type Purpose string

const (
	// Learn is the default: the Reflector analyses the execution.
	Learn Purpose = "learn"
	// Evaluate excludes the execution from learning.
	Evaluate Purpose = "evaluate"
)

// Origin is the position of a task in a run over a data set. All fields are optional.
type Origin struct {
	Run   string `msgpack:"run,omitempty" json:"run,omitempty" redact:"id"`
	Epoch int    `msgpack:"epoch,omitempty" json:"epoch,omitempty"`
	Index int    `msgpack:"index,omitempty" json:"index,omitempty"`
	// Step is the number of the sample among the training samples of all epochs, from 1; 0 outside of training.
	Step int `msgpack:"step,omitempty" json:"step,omitempty"`
	// Steps is the number of training samples of all epochs, 0 if unknown.
	Steps int `msgpack:"steps,omitempty" json:"steps,omitempty"`
	Round int `msgpack:"round,omitempty" json:"round,omitempty"`
	// Source is the origin of a recorded run, such as "tau-bench".
	Source string `msgpack:"source,omitempty" json:"source,omitempty" redact:"id"`
	// Task is the label of the task, the same for all attempts at it. It groups the runs of one owner and is never part of an
	// id. If it is empty, attempts with the same question belong to the same task.
	Task string `msgpack:"task,omitempty" json:"task,omitempty" redact:"id"`
	// Held defers the effect of the reflection until an edit lists it in Edit.Gather. A replay uses it to choose
	// the batches itself, so that the outcome does not depend on timing. Each held execution has a reflection, even
	// an empty one. Feedback on a held execution has no effect.
	Held bool `msgpack:"held,omitempty" json:"held,omitempty"`
	// Model is the required model of the Generator, as its program is configured. A Generator with another model
	// dead-letters the task; the tasks of a run share one letter. Empty accepts every model.
	Model string `msgpack:"model,omitempty" json:"model,omitempty" redact:"id"`
}

// SourceAgent is the source of executions that agents report. For a named token the source is SourceAgent/NAME.
const SourceAgent = "agent"

// FromAgent reports whether an agent reported the execution or submitted its task.
func (o *Origin) FromAgent() bool {
	return o.Source == SourceAgent || strings.HasPrefix(o.Source, SourceAgent+"/")
}

// Task is a request for an answer from a Generator.
type Task struct {
	Book playbook.Book `msgpack:"-" json:"book"` // in the subject, not in the payload
	// ID is the id of the run, chosen by the client. One run id of an owner in a book is one sample. A task in another epoch
	// is another sample and needs another id. The label for grouping is Origin.Task.
	ID string `msgpack:"run_id" json:"run_id" redact:"id"`
	// Owner is the id of the token that submitted the task, empty for the common owner. The subject of the task has it,
	// and only the gateway, and the Reflector for further rounds, may publish on such a subject.
	Owner string `msgpack:"owner,omitempty" json:"owner,omitempty" redact:"id"`
	// User is the person that the agent works for, if the agent names one.
	User     string  `msgpack:"user,omitempty" json:"user,omitempty" redact:"id"`
	Session  string  `msgpack:"session,omitempty" json:"session,omitempty" redact:"id"`
	Question string  `msgpack:"question" json:"question"`
	Context  string  `msgpack:"context,omitempty" json:"context,omitempty"`
	Purpose  Purpose `msgpack:"purpose,omitempty" json:"purpose,omitempty"`

	// Target is the reference answer for the evaluator. It is never part of a generator's prompt.
	Target    string `msgpack:"target,omitempty" json:"target,omitempty"`
	Evaluator string `msgpack:"evaluator,omitempty" json:"evaluator,omitempty"`

	// Turn is the number of the task in its session, from 1. If it is 0, the Generator assigns it.
	Turn int `msgpack:"turn,omitempty" json:"turn,omitempty"`

	// Playbook pins a version of the playbook; 0 is the empty playbook, nil the newest version. A pinned task is a
	// measurement, so its prompt contains only stable parts: no recent reflections and no recalled history. The age
	// of a bullet is counted in whole days from the newest bullet.
	Playbook *uint64 `msgpack:"playbook,omitempty" json:"playbook,omitempty"`
	// MinVersion is the oldest acceptable version. The Generator waits for it for a limited time. After that it
	// answers with an older version, and the execution records this.
	MinVersion uint64 `msgpack:"min,omitempty" json:"min_version,omitempty"`

	// PreviousRounds are the earlier rounds of this task, oldest first: a wrong answer and the advice from its reflection.
	// The prompt includes them. Only a further round has them. It has its own subject, debrief.round.
	PreviousRounds []PreviousRound `msgpack:"previous_rounds,omitempty" json:"previous_rounds,omitempty"`

	// Rounds is the maximum number of rounds for the task, up to MaxRounds; 0 is the default of the Reflector.
	Rounds int `msgpack:"rounds,omitempty" json:"rounds,omitempty"`
	// Tries is the maximum number of independent answers, up to MaxTries; 0 means one. The Generator stops when two have different
	// outcomes. The first is the answer, unless a later one is a violation. The Reflector compares the two. A further round has one try.
	Tries int `msgpack:"tries,omitempty" json:"tries,omitempty"`

	Origin  Origin    `msgpack:"origin,omitempty" json:"origin,omitzero"`
	Created time.Time `msgpack:"created" json:"created,omitzero"`
}

// Names of evaluators. Both kinds may work without a target.
const (
	JudgeEvaluator   = "judge"    // the evaluator that asks a model
	ProgramEvaluator = "program:" // prefix of the name of an evaluator that is an external program
)

// JudgePrefix begins the name of a judge in Outcome.By. Its model and the version of its rubric follow.
const JudgePrefix = playbook.JudgePrefix

// WorksWithoutTarget reports whether an evaluator can score an answer without a reference answer.
func WorksWithoutTarget(evaluator string) bool {
	return evaluator == JudgeEvaluator || strings.HasPrefix(evaluator, ProgramEvaluator)
}

func (*Task) Kind() Kind { return KindTask }

func (t *Task) InBook() playbook.Book   { return t.Book }
func (t *Task) setBook(b playbook.Book) { t.Book = b }

// EventID returns the same id for copies of a task. Each further round has a separate id.
func (t *Task) EventID() ID {
	if t.Origin.Round > 0 {
		return Hash("task", string(t.Book), t.Owner, t.ID, fmt.Sprint(t.Origin.Round))
	}
	return Hash("task", string(t.Book), t.Owner, t.ID)
}

func (t *Task) Validate() error {
	errs := []error{validateRunID(t.ID), names{t.Session, t.User, t.Origin.Task}.validate(), ValidateOwner(t.Owner), validatePurpose(t.Purpose), validatePreviousRounds(t.PreviousRounds)}
	if strings.TrimSpace(t.Question) == "" {
		errs = append(errs, errors.New("question: is empty"))
	}
	if t.Rounds < 0 || t.Rounds > MaxRounds {
		errs = append(errs, fmt.Errorf("rounds: must be 1 to %d, or 0 for the default of the reflector, got %d", MaxRounds, t.Rounds))
	}
	if t.Tries < 0 || t.Tries > MaxTries {
		errs = append(errs, fmt.Errorf("tries: must be 1 to %d, or 0 for one, got %d", MaxTries, t.Tries))
	}
	if t.Evaluator != "" && t.Target == "" && !WorksWithoutTarget(t.Evaluator) {
		errs = append(errs, fmt.Errorf("target: required by evaluator %q", t.Evaluator))
	}
	return errors.Join(errs...)
}

// PreviousRound is a failed round at a task, with advice for the next round. It is part of the next task, so any Generator
// can process that task.
type PreviousRound struct {
	Execution ID      `msgpack:"x" json:"execution_id"`
	Handle    Handle  `msgpack:"h,omitempty" json:"execution,omitempty"`
	Answer    string  `msgpack:"a,omitempty" json:"answer,omitempty"`
	Error     string  `msgpack:"e,omitempty" json:"error_identification,omitempty"`
	Approach  string  `msgpack:"p,omitempty" json:"correct_approach,omitempty"`
	Insight   string  `msgpack:"k,omitempty" json:"key_insight,omitempty"`
	When      string  `msgpack:"w,omitempty" json:"when,omitempty"`    // condition with which the insight begins
	Section   string  `msgpack:"s,omitempty" json:"section,omitempty"` // of the insight
	Score     float64 `msgpack:"o" json:"score"`
	// Exposures are the bullets that get the score. Only the exposures of the first round count, because the prompts of later rounds
	// contain advice that is not from the playbook.
	Exposures []Exposure `msgpack:"t,omitempty" json:"exposures,omitempty"`
	Usage     chat.Usage `msgpack:"u,omitempty" json:"usage,omitzero"`  // of the reflection
	Model     string     `msgpack:"m,omitempty" json:"model,omitempty"` // of the reflection
	// Tags are the votes of the round's reflection on bullets. The tags of the first round count for the sample.
	Tags []BulletTag `msgpack:"g,omitempty" json:"bullet_tags,omitempty"`
	// Ignored lists the rejected parts of the model's reply; see Reflection.
	Ignored []string `msgpack:"n,omitempty" json:"ignored,omitempty"`
	// Flagged are the lessons of the round's reflection that wait for a person. No prompt contains them.
	Flagged []Lesson `msgpack:"f,omitempty" json:"flagged,omitempty"`
}

// MaxRounds is the maximum of Task.Rounds, and MaxTries the maximum of Task.Tries.
const (
	MaxRounds = 3
	MaxTries  = 8
)

// Try is another answer to the prompt of an execution. It has no votes and counts for no bullet.
type Try struct {
	Reasoning string  `msgpack:"r,omitempty" json:"reasoning,omitempty"`
	Answer    string  `msgpack:"a,omitempty" json:"answer,omitempty"`
	Outcome   Outcome `msgpack:"o" json:"outcome"`
}

// MaxPreviousRounds is the maximum number of earlier rounds in a task.
const MaxPreviousRounds = 8

func validatePreviousRounds(rounds []PreviousRound) error {
	if len(rounds) > MaxPreviousRounds {
		return fmt.Errorf("previous_rounds: at most %d, got %d", MaxPreviousRounds, len(rounds))
	}
	for i := range rounds {
		r := &rounds[i]
		if !(r.Score >= 0 && r.Score <= 1) {
			return fmt.Errorf("previous_rounds[%d].score: must be between 0 and 1, got %v", i, r.Score)
		}
		if err := validateTags(r.Tags); err != nil {
			return fmt.Errorf("previous_rounds[%d].%w", i, err)
		}
	}
	return nil
}

// Exposure is a bullet whose record gets the outcome of a task: the bullet of an experiment with its random arm, or another
// bullet that the answer cited.
type Exposure struct {
	Bullet     playbook.BulletID `msgpack:"b" json:"bullet_id"`
	Experiment int               `msgpack:"c,omitempty" json:"experiment,omitempty"` // playbook.Experiment.Number
	Arm        playbook.Arm      `msgpack:"a" json:"arm"`
	Cited      bool              `msgpack:"q,omitempty" json:"cited,omitempty"`
}

// MaxExposures is the maximum number of exposures of one execution.
const MaxExposures = 16

// Exposures returns the exposures of the execution: the bullets of the experiment first, then the other cited bullets.
// A cited bullet that was not shown has none.
func (e *Execution) Exposures() []Exposure {
	var all []Exposure
	if e.Manifest != nil {
		all = slices.Clone(e.Manifest.Exposures)
	}
	inExperiments := all
	for i := range all {
		all[i].Cited = all[i].Arm == playbook.ArmShown && slices.Contains(e.Cited, all[i].Bullet)
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

// ToolCall is a tool call and its output.
type ToolCall struct {
	Tool      string        `msgpack:"tool" json:"tool"`
	Arguments string        `msgpack:"args,omitempty" json:"arguments,omitempty"`
	Output    string        `msgpack:"output,omitempty" json:"output,omitempty"`
	Outcome   Label         `msgpack:"outcome,omitempty" json:"outcome,omitempty"` // success, partial, failure, timeout, error or unknown; empty is unknown
	Duration  time.Duration `msgpack:"took,omitempty" json:"duration_ns,omitempty"`
}

// Step is one step of an agent: its text, and its tool calls. A Record may summarize it.
type Step struct {
	Speaker  string     `msgpack:"speaker,omitempty" json:"speaker,omitempty"` // chat.Assistant, the same as empty, or chat.User
	Text     string     `msgpack:"text,omitempty" json:"text,omitempty"`
	Calls    []ToolCall `msgpack:"calls,omitempty" json:"tool_calls,omitempty"`
	Mode     string     `msgpack:"mode,omitempty" json:"mode,omitempty"` // "fast" or "deep", where the agent has both
	At       time.Time  `msgpack:"at,omitempty" json:"at,omitzero"`
	Feedback string     `msgpack:"feedback,omitempty" json:"user_feedback,omitempty"` // a user's comment on the step
	Usage    chat.Usage `msgpack:"usage,omitempty" json:"usage,omitzero"`
	Record   *Record    `msgpack:"record,omitempty" json:"record,omitempty"`
}

// Record is a short summary of a step and its lessons, written by the agent or later by a Reflector. If it is
// missing, it is derived from the step when it is needed.
type Record struct {
	Synthesis string       `msgpack:"syn,omitempty" json:"synthesis,omitempty"`
	Progress  Progress     `msgpack:"prog,omitempty" json:"progress,omitempty"`
	Calls     []CallRecord `msgpack:"calls,omitempty" json:"calls,omitempty"` // one for each call of the step, in order
}

// CallRecord summarizes one tool call.
type CallRecord struct {
	Line      string    `msgpack:"line,omitempty" json:"line,omitempty"` // "searched X → found Y"
	Insights  string    `msgpack:"ins,omitempty" json:"insights,omitempty"`
	Learning  string    `msgpack:"learn,omitempty" json:"learning,omitempty"`
	Relevance Relevance `msgpack:"rel,omitempty" json:"relevance,omitempty"`
	Next      []string  `msgpack:"next,omitempty" json:"next_suggested_actions,omitempty"`
}

// Progress rates the contribution of a step to its task. Stored; append only.
type Progress string

// The values of Progress.
const (
	Advancing  Progress = "advancing"
	Stuck      Progress = "stuck"
	Regressing Progress = "regressing"
)

// Relevance rates the importance of a call for later steps. Stored; append only.
type Relevance string

// The values of Relevance.
const (
	High   Relevance = "high"
	Medium Relevance = "medium"
	Low    Relevance = "low"
)

// ShownBullet is a bullet in a prompt. A stored execution does not contain its text: a prompt often has more than a hundred bullets, and
// the log of the playbook has every text. In MessagePack it is an array of ID, Wording, Experiment and Why, because the
// names of the fields would be most of its bytes.
type ShownBullet struct {
	ID playbook.BulletID `json:"id"`
	// Content is the text in the prompt. It is not in MessagePack: deltalog.Texts reads it. It stays empty if the text is lost.
	Content string `json:"content,omitempty"`
	// Wording is WordingOf the text, since the bullet may change later.
	Wording uint32 `json:"wording"`
	// Experiment is the number of the bullet's experiment, so that the outcome counts for this wording.
	Experiment int `json:"experiment,omitempty"`
	// Why is the reason why the bullet is in the prompt, such as "pinned", or empty for its rank.
	Why string `json:"why,omitempty"`
}

// WordingOf returns the checksum of the text of a bullet (CRC-32C). It tells whether a text has changed, and protects from no attack.
func WordingOf(content string) uint32 { return crc32.Checksum([]byte(content), castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
		e.ID.validate(), validateRunID(e.RunID), names{e.Session, e.User, e.Origin.Task}.validate(), ValidateOwner(e.Owner), validatePurpose(e.Purpose), e.Outcome.validate(),
		validatePreviousRounds(e.PreviousRounds), e.Agent.validate(), e.Control.Validate(),
	)
}

// Feedback records or corrects the outcome of an execution after it was stored.
type Feedback struct {
	Book      playbook.Book `msgpack:"-" json:"book"` // in the subject, not in the payload
	ID        ID            `msgpack:"id" json:"id"`
	Execution Handle        `msgpack:"execution" json:"execution"`
	Outcome   Outcome       `msgpack:"outcome" json:"outcome"`
	Target    string        `msgpack:"target,omitempty" json:"target,omitempty"`
	Created   time.Time     `msgpack:"created" json:"created,omitzero"`
}

func (*Feedback) Kind() Kind { return KindFeedback }

func (f *Feedback) InBook() playbook.Book   { return f.Book }
func (f *Feedback) setBook(b playbook.Book) { f.Book = b }

func (f *Feedback) EventID() ID { return f.ID }

func (f *Feedback) Validate() error {
	_, _, err := f.Execution.Parse()
	if err != nil {
		err = fmt.Errorf("execution: %w", err)
	}
	return errors.Join(f.ID.validate(), err, f.Outcome.validate())
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

// OtherRun is a run of the same task with the opposite outcome.
type OtherRun struct {
	Execution Handle `msgpack:"x" json:"execution"`
	Label     Label  `msgpack:"l" json:"label"` // when the Reflector compared it; feedback may have corrected it since
	User      string `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"`
	Session   string `msgpack:"n,omitempty" json:"session,omitempty" redact:"id"`
}

// evidence returns the part of the run that a delta stores. It is nil for nil.
func (o *OtherRun) evidence() *playbook.ComparedRun {
	if o == nil {
		return nil
	}
	return &playbook.ComparedRun{Execution: string(o.Execution), User: clipName(o.User), Session: clipName(o.Session)}
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

// Cover returns the cover for the delta that contains the reflection. seq is the stream sequence of the reflection.
// The cover has the id of the feedback, or else of the sample. These depend only on the ids of the client, so the
// Curator recognizes a copy with another sequence or from another reflector version.
func (r *Reflection) Cover(seq uint64) playbook.Cover {
	return playbook.Cover{ID: string(cmp.Or(r.Feedback, r.SampleID())), Seq: seq, Evidence: r.Evidence()}
}

// maxExcerpt is the maximum length of a question in Evidence, in bytes. Similar tasks are found by these words.
const maxExcerpt = 320

// excerpt returns the beginning and the end of a question as one line.
func excerpt(question string) string {
	return text.Ends(text.Line(question, len(question)), maxExcerpt)
}

func clipName(name string) string { return text.Clip(name, playbook.MaxEvidenceName) }

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

func (r *Reflection) Validate() error {
	_, _, err := r.Handle.Parse()
	errs := []error{r.ID.validate(), r.Execution.validate(), err, r.Outcome.validate(), validateTags(r.Tags)}
	if !(r.FirstRoundScore >= 0 && r.FirstRoundScore <= 1) {
		errs = append(errs, fmt.Errorf("first_round_score: must be between 0 and 1, got %v", r.FirstRoundScore))
	}
	if (r.FeedbackSeq > 0) != (r.Feedback != "") {
		errs = append(errs, fmt.Errorf("feedback_seq: %d with feedback_id %.80q: set both or neither", r.FeedbackSeq, string(r.Feedback)))
	}
	return errors.Join(errs...)
}

func validatePurpose(p Purpose) error {
	if p != "" && p != Learn && p != Evaluate {
		return fmt.Errorf("purpose: must be learn or evaluate, got %.80q", p)
	}
	return nil
}
