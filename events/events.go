package events

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"debrief/events/chat"
	"debrief/playbook"
)

// Event is a payload with its place on the wire.
type Event interface {
	Kind() Kind
	// InBook is the book that the event's subject names.
	InBook() playbook.Book
	// EventID is the event's id, unique for its kind and book.
	EventID() ID
	// Validate says what a worker could not use, naming the field.
	Validate() error

	setBook(playbook.Book)
}

// envelope is the part that travels in the subject.
type envelope struct {
	Book playbook.Book `msgpack:"-" json:"book"`
}

func (e *envelope) InBook() playbook.Book   { return e.Book }
func (e *envelope) setBook(b playbook.Book) { e.Book = b }

// Purpose says what may be done with a task's outcome. Stored; append only.
type Purpose string

const (
	// Learn is the default: the execution is reflected on.
	Learn Purpose = "learn"
	// Evaluate keeps the execution away from the Reflector.
	Evaluate Purpose = "evaluate"
)

// Origin places a task in a run over a data set. All of it is optional.
type Origin struct {
	Run   string `msgpack:"run,omitempty" json:"run,omitempty" redact:"id"`
	Epoch int    `msgpack:"epoch,omitempty" json:"epoch,omitempty"`
	Index int    `msgpack:"index,omitempty" json:"index,omitempty"`
	Round int    `msgpack:"round,omitempty" json:"round,omitempty"`
	// Source says where a recorded run came from, such as "tau-bench".
	Source string `msgpack:"source,omitempty" json:"source,omitempty" redact:"id"`
	// Task names what a recorded run was an attempt at, the same for every attempt. Where it is empty, attempts at one
	// task have its question in common.
	Task string `msgpack:"task,omitempty" json:"task,omitempty" redact:"id"`
	// Held says that what is made of it changes nothing until an edit gathers it (Edit.Gather): who runs over a data set
	// says which reflections go together, so that the outcome does not depend on how fast each came. Each execution then
	// has a reflection, also where there is nothing to say; feedback on it teaches nothing.
	Held bool `msgpack:"held,omitempty" json:"held,omitempty"`
}

// Task asks a Generator for an answer.
type Task struct {
	envelope `msgpack:"-"`
	// ID is the client's; one task id in one book is one sample. A new epoch is a new sample and has its own.
	ID       string  `msgpack:"id" json:"id" redact:"id"`
	Session  string  `msgpack:"session,omitempty" json:"session,omitempty" redact:"id"`
	Question string  `msgpack:"question" json:"question"`
	Context  string  `msgpack:"context,omitempty" json:"context,omitempty"`
	Purpose  Purpose `msgpack:"purpose,omitempty" json:"purpose,omitempty"`

	// Target is what a right answer is, for the evaluator; it never enters a generator's prompt.
	Target    string `msgpack:"target,omitempty" json:"target,omitempty"`
	Evaluator string `msgpack:"evaluator,omitempty" json:"evaluator,omitempty"`

	// Turn is the client's number of the task within its session, from 1; 0 leaves it to the Generator.
	Turn int `msgpack:"turn,omitempty" json:"turn,omitempty"`

	// Playbook pins the version of the playbook to use (0 is the empty one); nil means the newest. A pinned task is a
	// measurement: its prompt holds nothing that moves, so neither recent reflections nor recalled history, and how old a
	// bullet is counts in whole days from the newest one.
	Playbook *uint64 `msgpack:"playbook,omitempty" json:"playbook,omitempty"`
	// MinVersion is the oldest version that will do. It is waited for, for a while; then the task is answered with what
	// there is, and the execution says so.
	MinVersion uint64 `msgpack:"min,omitempty" json:"min_version,omitempty"`

	// Tries are the rounds of this task that came before, oldest first: each a wrong answer and what a Reflector made of
	// it. A task with tries is answered with them in view.
	Tries []Try `msgpack:"tries,omitempty" json:"tries,omitempty"`

	// Rounds is how many rounds at the task there may be, up to MaxRounds; 0 leaves it to the Reflector.
	Rounds int `msgpack:"rounds,omitempty" json:"rounds,omitempty"`

	// ReplyTo is where the answer is sent once it is stored. Only inboxes are accepted.
	ReplyTo string    `msgpack:"reply,omitempty" json:"-" redact:"-"`
	Origin  Origin    `msgpack:"origin,omitempty" json:"origin,omitzero"`
	Created time.Time `msgpack:"created" json:"created,omitzero"`
}

// ProgramEvaluator begins the name of an evaluator that is an outside program. Such a one may know without a target.
const ProgramEvaluator = "program:"

func (*Task) Kind() Kind { return KindTask }

// EventID is the same for the same task; each further round at it has one of its own.
func (t *Task) EventID() ID {
	if t.Origin.Round > 0 {
		return Hash("task", string(t.Book), t.ID, fmt.Sprint(t.Origin.Round))
	}
	return Hash("task", string(t.Book), t.ID)
}

// Validate implements Event.
func (t *Task) Validate() error {
	errs := []error{validName("id", t.ID), validPurpose(t.Purpose), validInbox(t.ReplyTo), validTries(t.Tries)}
	if strings.TrimSpace(t.Question) == "" {
		errs = append(errs, errors.New("question: is empty"))
	}
	if t.Rounds < 0 || t.Rounds > MaxRounds {
		errs = append(errs, fmt.Errorf("rounds: must be 1 to %d, or 0 for the reflector's own, got %d", MaxRounds, t.Rounds))
	}
	if t.Evaluator != "" && t.Target == "" && !strings.HasPrefix(t.Evaluator, ProgramEvaluator) {
		errs = append(errs, fmt.Errorf("target: is empty, evaluator %q has nothing to compare with", t.Evaluator))
	}
	return errors.Join(errs...)
}

// Try is one round at a task that failed, with the advice for the next. It travels with the task, so that a round goes
// on wherever it is picked up.
type Try struct {
	Execution ID     `msgpack:"x" json:"execution_id"`
	Handle    Handle `msgpack:"h,omitempty" json:"execution,omitempty"`
	Answer    string `msgpack:"a,omitempty" json:"answer,omitempty"`
	Error     string `msgpack:"e,omitempty" json:"error_identification,omitempty"`
	Approach  string `msgpack:"p,omitempty" json:"correct_approach,omitempty"`
	Insight   string `msgpack:"k,omitempty" json:"key_insight,omitempty"`
	Section   string `msgpack:"s,omitempty" json:"section,omitempty"` // of the insight
	// Score of the round, and what chance had decided about its prompt: later rounds know more than the playbook told
	// them, so that the first one alone bears witness.
	Score  float64    `msgpack:"o" json:"score"`
	Trials []Trial    `msgpack:"t,omitempty" json:"trials,omitempty"`
	Usage  chat.Usage `msgpack:"u,omitempty" json:"usage,omitzero"` // of the reflection
	// Tags are what its reflection made of the bullets; those of the first round are the sample's.
	Tags []BulletTag `msgpack:"g,omitempty" json:"bullet_tags,omitempty"`
	// Ignored is what was not taken over of the reply; see Reflection.
	Ignored []string `msgpack:"n,omitempty" json:"ignored,omitempty"`
}

// MaxRounds is how many rounds at a task can be asked for.
const MaxRounds = 3

// MaxTries bounds the rounds that a task can have behind it.
const MaxTries = 8

func validTries(tries []Try) error {
	if len(tries) > MaxTries {
		return fmt.Errorf("tries: at most %d, got %d", MaxTries, len(tries))
	}
	for i := range tries {
		t := &tries[i]
		if !(t.Score >= 0 && t.Score <= 1) {
			return fmt.Errorf("tries[%d].score: must be between 0 and 1, got %v", i, t.Score)
		}
		if err := validTags(t.Tags); err != nil {
			return fmt.Errorf("tries[%d].%w", i, err)
		}
	}
	return nil
}

// Trial is a bullet that bears on a task, and what chance decided about it.
type Trial struct {
	Bullet playbook.BulletID `msgpack:"b" json:"bullet_id"`
	Case   int               `msgpack:"c,omitempty" json:"case,omitempty"` // playbook.Case.Number
	Arm    playbook.Arm      `msgpack:"a" json:"arm"`
}

// Label is an outcome in a word. Stored; append only.
type Label string

// The labels of an outcome.
const (
	Success Label = "success"
	Partial Label = "partial"
	Failure Label = "failure"
	Unknown Label = "unknown"
)

// What a call of a tool can also end in.
const (
	TimedOut Label = "timeout"
	Errored  Label = "error"
)

// Failed reports whether it is one of the ways in which a call of a tool fails.
func (l Label) Failed() bool { return l == Failure || l == TimedOut || l == Errored }

// Outcome is how well an execution went and who says so.
type Outcome struct {
	Score    float64 `msgpack:"score" json:"score"` // 0 to 1; without meaning when the label is unknown
	Label    Label   `msgpack:"label" json:"label"`
	Feedback string  `msgpack:"feedback,omitempty" json:"feedback,omitempty"`
	By       string  `msgpack:"by,omitempty" json:"by,omitempty"`
}

// ToolCall is one call of a tool and what it returned.
type ToolCall struct {
	Tool      string        `msgpack:"tool" json:"tool"`
	Arguments string        `msgpack:"args,omitempty" json:"arguments,omitempty"`
	Output    string        `msgpack:"output,omitempty" json:"output,omitempty"`
	Outcome   Label         `msgpack:"outcome,omitempty" json:"outcome,omitempty"` // success, failure, timeout or error; empty is success
	Duration  time.Duration `msgpack:"took,omitempty" json:"duration_ns,omitempty"`
}

// Step is one turn of an agent: what it thought or said, and the tools it called. It is the first of two layers, what
// happened; Record is the second, what it taught.
type Step struct {
	Speaker  string     `msgpack:"who,omitempty" json:"speaker,omitempty"` // "assistant" or "user"
	Text     string     `msgpack:"text,omitempty" json:"text,omitempty"`
	Calls    []ToolCall `msgpack:"calls,omitempty" json:"tool_calls,omitempty"`
	Mode     string     `msgpack:"mode,omitempty" json:"mode,omitempty"` // "fast" or "deep", where the agent has both
	At       time.Time  `msgpack:"at,omitempty" json:"at,omitzero"`
	Feedback string     `msgpack:"feedback,omitempty" json:"user_feedback,omitempty"` // what a person said to it
	Usage    chat.Usage `msgpack:"usage,omitempty" json:"usage,omitzero"`
	Record   *Record    `msgpack:"record,omitempty" json:"record,omitempty"`
}

// Record is what a step taught, in a few words, by the agent that made the step or by a Reflector afterwards. Where
// there is none, one is made from the step when it is needed.
type Record struct {
	Synthesis string       `msgpack:"syn,omitempty" json:"synthesis,omitempty"`
	Progress  Progress     `msgpack:"prog,omitempty" json:"progress,omitempty"`
	Calls     []CallRecord `msgpack:"calls,omitempty" json:"calls,omitempty"` // of the step's calls, in their order
}

// CallRecord is what one call of a tool taught.
type CallRecord struct {
	Line      string    `msgpack:"line,omitempty" json:"line,omitempty"` // "searched X → found Y"
	Insights  string    `msgpack:"ins,omitempty" json:"insights,omitempty"`
	Learning  string    `msgpack:"learn,omitempty" json:"learning,omitempty"`
	Relevance Relevance `msgpack:"rel,omitempty" json:"relevance,omitempty"`
	Next      []string  `msgpack:"next,omitempty" json:"next_suggested_actions,omitempty"`
}

// Progress says whether a step brought its task on. Stored; append only.
type Progress string

// The kinds of progress.
const (
	Advancing  Progress = "advancing"
	Stuck      Progress = "stuck"
	Regressing Progress = "regressing"
)

// Relevance says how much a call matters to what follows. Stored; append only.
type Relevance string

// The tiers of relevance.
const (
	High   Relevance = "high"
	Medium Relevance = "medium"
	Low    Relevance = "low"
)

// ShownBullet is a bullet as it stood in the prompt. The text travels with the execution because the book moves on.
type ShownBullet struct {
	ID      playbook.BulletID `msgpack:"id" json:"id"`
	Content string            `msgpack:"content" json:"content"`
}

// Execution is one finished attempt at a task: by our Generator, by an outside agent, or recorded elsewhere.
type Execution struct {
	envelope `msgpack:"-"`
	ID       ID      `msgpack:"id" json:"id"`
	TaskID   string  `msgpack:"task" json:"task_id" redact:"id"`
	Session  string  `msgpack:"session,omitempty" json:"session,omitempty" redact:"id"`
	Question string  `msgpack:"question,omitempty" json:"question,omitempty"`
	Context  string  `msgpack:"context,omitempty" json:"context,omitempty"`
	Target   string  `msgpack:"target,omitempty" json:"target,omitempty"`
	Purpose  Purpose `msgpack:"purpose,omitempty" json:"purpose,omitempty"`
	Origin   Origin  `msgpack:"origin,omitempty" json:"origin,omitzero"`

	Steps     []Step  `msgpack:"steps,omitempty" json:"steps,omitempty"`
	Reasoning string  `msgpack:"reasoning,omitempty" json:"reasoning,omitempty"`
	Answer    string  `msgpack:"answer,omitempty" json:"answer,omitempty"`
	Outcome   Outcome `msgpack:"outcome" json:"outcome"`

	// Version of the playbook that the model was given, what of it was shown, and what the answer cites.
	Version uint64              `msgpack:"version,omitempty" json:"playbook_version"`
	Shown   []ShownBullet       `msgpack:"shown,omitempty" json:"shown,omitempty"`
	Cited   []playbook.BulletID `msgpack:"cited,omitempty" json:"cited,omitempty"`
	// Turn is its place in its session, from 1.
	Turn int `msgpack:"turn,omitempty" json:"turn,omitempty"`
	// Evaluator, Rounds and Tries are the task's, so that another round can be asked for; Pinned says that it pinned its
	// version.
	Evaluator string `msgpack:"evaluator,omitempty" json:"evaluator,omitempty"`
	Rounds    int    `msgpack:"rounds,omitempty" json:"rounds,omitempty"`
	Tries     []Try  `msgpack:"tries,omitempty" json:"tries,omitempty"`
	Pinned    bool   `msgpack:"pinned,omitempty" json:"pinned,omitempty"`
	// ContextID is the context that an outside agent was served, and Manifest what was in it or in our own prompt.
	ContextID ID        `msgpack:"ctx,omitempty" json:"context_id,omitempty"`
	Manifest  *Manifest `msgpack:"manifest,omitempty" json:"manifest,omitempty"`

	Model        string        `msgpack:"model,omitempty" json:"model,omitempty"`
	PromptSHA256 []byte        `msgpack:"prompt,omitempty" json:"prompt_sha256,omitempty"`
	Usage        chat.Usage    `msgpack:"usage,omitempty" json:"usage,omitzero"`
	Started      time.Time     `msgpack:"started" json:"started,omitzero"`
	Duration     time.Duration `msgpack:"took,omitempty" json:"duration_ns,omitempty"`
}

func (*Execution) Kind() Kind    { return KindExecution }
func (e *Execution) EventID() ID { return e.ID }

// ExecutionID is the id of one round at one task of a book.
func ExecutionID(b playbook.Book, taskID string, round int) ID {
	return Hash("execution", string(b), taskID, fmt.Sprint(round))
}

// Sample is the execution of the first round at the execution's task: itself, where there was none before.
func (e *Execution) Sample() ID {
	if len(e.Tries) == 0 {
		return e.ID
	}
	return ExecutionID(e.Book, e.TaskID, e.Origin.Round-len(e.Tries))
}

// Validate implements Event.
func (e *Execution) Validate() error {
	return errors.Join(e.ID.validate(), validName("task_id", e.TaskID), validPurpose(e.Purpose), e.Outcome.validate(), validTries(e.Tries))
}

func (o *Outcome) validate() error {
	switch o.Label {
	case Success, Partial, Failure, Unknown, "":
	default:
		return fmt.Errorf("outcome.label: %.80q is none of success, partial, failure, unknown", o.Label)
	}
	if !(o.Score >= 0 && o.Score <= 1) { // also NaN
		return fmt.Errorf("outcome.score: must be between 0 and 1, got %v", o.Score)
	}
	return nil
}

// Feedback judges an execution later.
type Feedback struct {
	envelope  `msgpack:"-"`
	ID        ID        `msgpack:"id" json:"id"`
	Execution Handle    `msgpack:"execution" json:"execution"`
	Outcome   Outcome   `msgpack:"outcome" json:"outcome"`
	Target    string    `msgpack:"target,omitempty" json:"target,omitempty"`
	Created   time.Time `msgpack:"created" json:"created,omitzero"`
}

func (*Feedback) Kind() Kind    { return KindFeedback }
func (f *Feedback) EventID() ID { return f.ID }

// Validate implements Event.
func (f *Feedback) Validate() error {
	_, _, err := f.Execution.Parse()
	if err != nil {
		err = fmt.Errorf("execution: %w", err)
	}
	return errors.Join(f.ID.validate(), err, f.Outcome.validate())
}

// Vote is a reflection's judgement of one bullet.
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

func validTags(tags []BulletTag) error {
	var errs []error
	for i, t := range tags {
		if t.ID == "" || !t.Tag.Valid() {
			errs = append(errs, fmt.Errorf("bullet_tags[%d]: id %.80q, tag %.80q: want an id and helpful, harmful or neutral", i, t.ID, t.Tag))
		}
	}
	return errors.Join(errs...)
}

// Lesson is text that a reflection thinks worth a bullet; whether and how it becomes one the Curator decides.
type Lesson struct {
	Section string `msgpack:"section,omitempty" json:"section,omitempty"`
	Content string `msgpack:"content" json:"content"`
}

// Finding is one run's sighting of something that a rule counts. Sightings with one key count on one bullet, a vote a
// run: helpful where the run succeeded, harmful where it failed, neutral where nobody knows.
type Finding struct {
	// Key is what was seen, such as "order/get_user/book": the identity of the bullet.
	Key     string `msgpack:"key" json:"key" redact:"id"`
	Section string `msgpack:"section" json:"section"`
	// Text is the bullet's content. {runs}, {helpful}, {harmful} and {neutral} stand for the counts so far,
	// {base.runs} and so on for those of Base.
	Text string `msgpack:"text" json:"text"`
	Vote Vote   `msgpack:"vote" json:"vote"`
	// Base is the key of the finding that counts the same runs without the condition. With one, the bullet is shown
	// only while successes have it clearly more often than failures; the Curator's policy says how much more.
	Base string `msgpack:"base,omitempty" json:"base,omitempty" redact:"id"`
	// CountOnly findings are kept for their counts and never shown.
	CountOnly bool `msgpack:"count,omitempty" json:"count_only,omitempty"`
	// Paired findings come from two runs of one task, one that succeeded and one that failed. Helpful is a pair in which
	// the success had it, harmful one in which the failure had it; the bullet is shown only while the first are clearly
	// more.
	Paired bool `msgpack:"pair,omitempty" json:"paired,omitempty"`
	// Confidence, from 0 to 1, is how sure the rule is that this teaches something; 0 stands for certain. What is under
	// 0.7 is told and makes no bullet.
	Confidence float64 `msgpack:"conf,omitempty" json:"confidence,omitempty"`
}

// Reflection is what a Reflector made of one execution.
type Reflection struct {
	envelope  `msgpack:"-"`
	ID        ID     `msgpack:"id" json:"id"`
	Execution ID     `msgpack:"execution" json:"execution_id"`
	Handle    Handle `msgpack:"handle" json:"execution"`
	// Sample is the execution of the first round at the task, where that is not Execution. Votes count for the sample.
	Sample   ID `msgpack:"sample,omitempty" json:"sample_id,omitempty"`
	Feedback ID `msgpack:"feedback,omitempty" json:"feedback_id,omitempty"`
	// Reflector is the version of rules or prompt that made it; part of the id.
	Reflector string  `msgpack:"reflector" json:"reflector" redact:"id"`
	Session   string  `msgpack:"session,omitempty" json:"session,omitempty" redact:"id"` // of the execution
	Origin    Origin  `msgpack:"origin,omitempty" json:"origin,omitzero"`
	Question  string  `msgpack:"question,omitempty" json:"question,omitempty"` // its beginning, for the Curator
	Outcome   Outcome `msgpack:"outcome" json:"outcome"`

	Reasoning           string `msgpack:"reasoning,omitempty" json:"reasoning,omitempty"`
	ErrorIdentification string `msgpack:"error,omitempty" json:"error_identification,omitempty"`
	RootCauseAnalysis   string `msgpack:"cause,omitempty" json:"root_cause_analysis,omitempty"`
	CorrectApproach     string `msgpack:"approach,omitempty" json:"correct_approach,omitempty"`
	KeyInsight          string `msgpack:"insight,omitempty" json:"key_insight,omitempty"`

	Tags     []BulletTag `msgpack:"tags,omitempty" json:"bullet_tags,omitempty"`
	Lessons  []Lesson    `msgpack:"lessons,omitempty" json:"lessons,omitempty"`
	Findings []Finding   `msgpack:"findings,omitempty" json:"findings,omitempty"`

	// Trials are what chance decided about the prompt of the first round, and Score what that came to.
	Trials []Trial `msgpack:"trials,omitempty" json:"trials,omitempty"`
	Score  float64 `msgpack:"trial_score,omitempty" json:"trial_score,omitempty"`
	// Judged is the sequence of the feedback that the outcome is from. Corrects says that the outcome was known before,
	// so that the votes cast on it are to be moved.
	Judged   uint64 `msgpack:"judged,omitempty" json:"judged,omitempty"`
	Corrects bool   `msgpack:"corrects,omitempty" json:"corrects,omitempty"`
	// First says that nothing was made of the execution before and no other feedback on it was taken up, so that there is
	// nothing to move.
	First bool `msgpack:"first,omitempty" json:"first,omitempty"`
	// Records are the second layer of the execution's last steps, in their order, as a model sees it; what it says nothing
	// of is empty.
	Records []Record `msgpack:"records,omitempty" json:"records,omitempty"`
	// Ignored says what of the model's reply was not taken over and why, a sentence each.
	Ignored []string `msgpack:"ignored,omitempty" json:"ignored,omitempty"`

	Model   string     `msgpack:"model,omitempty" json:"model,omitempty"`
	Usage   chat.Usage `msgpack:"usage,omitempty" json:"usage,omitzero"`
	Created time.Time  `msgpack:"created" json:"created,omitzero"`
}

func (*Reflection) Kind() Kind    { return KindReflection }
func (r *Reflection) EventID() ID { return r.ID }

// ReflectionID is the id of what this version of a reflector makes of an execution, or of feedback on it.
func ReflectionID(execution, feedback ID, reflector string) ID {
	return Hash("reflection", string(execution), string(feedback), reflector)
}

// SampleID is the execution of the first round at the reflection's task.
func (r *Reflection) SampleID() ID { return cmp.Or(r.Sample, r.Execution) }

// Cover returns the cover for the delta that has the effect of the reflection, which was received under a sequence. It
// names the feedback, or else the sample: ids of the client, so that a resent copy is recognized. It depends neither on the
// reflector's version nor on the sequence of the execution.
func (r *Reflection) Cover(seq uint64) playbook.Cover {
	return playbook.Cover{ID: string(cmp.Or(r.Feedback, r.SampleID())), Seq: seq, Evidence: r.Evidence()}
}

// maxExcerpt bounds what evidence keeps of a question, in bytes.
const maxExcerpt = 120

// Evidence is what a delta that covers the reflection keeps of it.
func (r *Reflection) Evidence() *playbook.Evidence {
	excerpt := cmp.Or(r.Question, r.KeyInsight, r.ErrorIdentification)
	return &playbook.Evidence{
		Execution: string(r.Handle), Sample: string(r.SampleID()), Session: Beginning(r.Session, 256), Source: Beginning(r.Origin.Source, 256),
		Excerpt: Beginning(strings.Join(strings.Fields(excerpt), " "), maxExcerpt),
		Outcome: string(r.Outcome.Label), Score: r.Outcome.Score, Reflector: Beginning(r.Reflector, 64), Model: Beginning(r.Model, 64),
		Judged: r.Judged,
	}
}

// Beginning is text, cut to so many bytes at the start of a character, with an ellipsis where something is missing.
func Beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// Validate implements Event.
func (r *Reflection) Validate() error {
	_, _, err := r.Handle.Parse()
	errs := []error{r.ID.validate(), r.Execution.validate(), err, r.Outcome.validate(), validTags(r.Tags)}
	if !(r.Score >= 0 && r.Score <= 1) {
		errs = append(errs, fmt.Errorf("trial_score: must be between 0 and 1, got %v", r.Score))
	}
	if (r.Judged > 0) != (r.Feedback != "") {
		errs = append(errs, fmt.Errorf("judged: %d with feedback_id %.80q: want both or none", r.Judged, string(r.Feedback)))
	}
	for i, f := range r.Findings {
		if f.Key == "" || f.Text == "" || !f.Vote.Valid() {
			errs = append(errs, fmt.Errorf("findings[%d]: key %.80q, vote %.80q: want a key, a text and a vote", i, f.Key, f.Vote))
		}
	}
	return errors.Join(errs...)
}

func validName(field, s string) error {
	if s == "" || len(s) > 256 {
		return fmt.Errorf("%s: must be 1 to 256 bytes, got %d", field, len(s))
	}
	return nil
}

func validPurpose(p Purpose) error {
	if p != "" && p != Learn && p != Evaluate {
		return fmt.Errorf("purpose: %.80q is neither learn nor evaluate", p)
	}
	return nil
}

// validInbox keeps a client from making a worker publish, with the worker's rights, where the client may not.
func validInbox(subject string) error {
	if subject != "" && (!strings.HasPrefix(subject, "_INBOX") || strings.ContainsAny(subject, " \t\r\n*>")) {
		return fmt.Errorf("reply: %.160q is not an inbox", subject)
	}
	return nil
}

// ReplySubject and SetReply are where the answer to a task goes.

func (t *Task) ReplySubject() string    { return t.ReplyTo }
func (t *Task) SetReply(subject string) { t.ReplyTo = subject }
