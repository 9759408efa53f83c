package events

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
)

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

	// Playbook pins a version of the playbook; 0 is the empty playbook, nil the newest version. Training runs and
	// measurements pin it. The prompt of a pinned task contains only stable parts: no recent reflections and no recalled
	// history. The age of a bullet is counted in whole days from the newest bullet.
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
	// outcomes. The first is the answer, unless a later one is a violation (Outcome.Violation). The Reflector compares the two. A further round
	// has one try.
	Tries int `msgpack:"tries,omitempty" json:"tries,omitempty"`

	// Record makes the Generator record where it stores the execution, so that a submitter finds the answer by the id of the task. It costs a write.
	// The execution of a task in a session is always recorded.
	Record bool `msgpack:"record,omitempty" json:"record,omitempty"`

	Origin  Origin    `msgpack:"origin,omitempty" json:"origin,omitzero"`
	Created time.Time `msgpack:"created" json:"created,omitzero"`
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
	errs := []error{
		validateRunID(t.ID), names{session: t.Session, user: t.User, task: t.Origin.Task}.validate(), ValidateOwner(t.Owner),
		validatePurpose(t.Purpose), validatePreviousRounds(t.PreviousRounds),
	}
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

// Purpose is the permitted use of the outcome of a task. The values are stored, so they must not change.
type Purpose string

const (
	// Learn is the default: the Reflector analyses the execution.
	Learn Purpose = "learn"
	// Evaluate excludes the execution from learning.
	Evaluate Purpose = "evaluate"
)

func validatePurpose(p Purpose) error {
	if p != "" && p != Learn && p != Evaluate {
		return fmt.Errorf("purpose: must be learn or evaluate, got %.80q", p)
	}
	return nil
}

// Origin says where a task comes from. For a task of a run over a data set it has the position in that run. All fields are optional.
type Origin struct {
	Run   string `msgpack:"run,omitempty" json:"run,omitempty" redact:"id"` // name of the run over a data set
	Epoch int    `msgpack:"epoch,omitempty" json:"epoch,omitempty"`
	Index int    `msgpack:"index,omitempty" json:"index,omitempty"` // of the sample in its set
	// Step is the number of the sample among the training samples of all epochs, from 1; 0 outside of training.
	Step int `msgpack:"step,omitempty" json:"step,omitempty"`
	// Steps is the number of training samples of all epochs, 0 if unknown.
	Steps int `msgpack:"steps,omitempty" json:"steps,omitempty"`
	// Round is the number of the round at the task, from 0.
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

// Names of evaluators. Both kinds may work without a target.
const (
	JudgeEvaluator   = "judge"    // the evaluator that asks a model
	ProgramEvaluator = "program:" // prefix of the name of an evaluator that is an external program
)

// WorksWithoutTarget reports whether an evaluator can score an answer without a reference answer.
func WorksWithoutTarget(evaluator string) bool {
	return evaluator == JudgeEvaluator || strings.HasPrefix(evaluator, ProgramEvaluator)
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

// MaxPreviousRounds is the maximum number of earlier rounds in a task. The Reflector submits at most MaxRounds-1.
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
