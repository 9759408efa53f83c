package events

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
)

// Manifest records the parts of a context, the omitted parts, and the reasons. Together with the texts that its
// parts refer to, it is sufficient to build the same messages again.
type Manifest struct {
	// Assembly is the version of the rules that built the context. Another version may build other messages from
	// the manifest.
	Assembly string `msgpack:"v" json:"assembly" redact:"-"`
	Limit    int    `msgpack:"limit" json:"limit"`   // maximum number of tokens
	Tokens   int    `msgpack:"tokens" json:"tokens"` // estimated tokens of the messages
	// Window is the requested number of user turns of the session, -1 for all.
	Window int `msgpack:"win,omitempty" json:"window,omitempty"`
	// Conversation is the token budget for the turns of the session.
	Conversation int    `msgpack:"conv,omitempty" json:"conversation_budget,omitempty"`
	BudgetReason string `msgpack:"budget_reason,omitempty" json:"budget_reason,omitempty"` // reason for the budget in Conversation
	State        string `msgpack:"state,omitempty" json:"state,omitempty"`                 // kind of work in the session: coding, debugging, research or general
	// Texts says which agent messages of earlier turns are included: final, none or all.
	Texts string `msgpack:"texts,omitempty" json:"texts,omitempty"`
	// Votes is set if the bullets are shown with their votes.
	Votes bool `msgpack:"votes,omitempty" json:"votes,omitempty"`
	// Advice is set if the context is one text with bullets and reflections, for a user's message.
	Advice bool      `msgpack:"advice,omitempty" json:"advice,omitempty"`
	At     time.Time `msgpack:"at" json:"at,omitzero"` // time of the build

	Parts   []Part     `msgpack:"parts" json:"parts"`
	Omitted []Omission `msgpack:"omitted,omitempty" json:"omitted,omitempty"`
	// Exposures are the bullets in an experiment with their random arm. Withheld bullets would otherwise be among Parts.
	Exposures []Exposure `msgpack:"exposures,omitempty" json:"exposures,omitempty"`
	// Warnings lists the inputs that were unavailable, such as "recall: the embedding server does not answer". It
	// is normally empty.
	Warnings []string `msgpack:"warnings,omitempty" json:"warnings,omitempty"`
}

// PartKind is the type of a part of a context. Stored; append only.
type PartKind string

// The kinds of parts.
const (
	PartSystem        PartKind = "system"         // the role's instructions; Ref is their version
	PartBullet        PartKind = "bullet"         // in a manifest one part for all bullets, see Execution.Shown; Omission.Refs has the ids of omitted ones
	PartUser          PartKind = "user"           // a user message of an earlier turn; Ref is <handle>#<index>
	PartAnswer        PartKind = "answer"         // the answer in an earlier turn
	PartTools         PartKind = "tools"          // a step with tool calls and their output
	PartReflection    PartKind = "reflection"     // Ref is the reflection's handle
	PartRecall        PartKind = "recall"         // an older execution; Ref is its handle
	PartRecord        PartKind = "record"         // a one-line record of an earlier step, in Text
	PartSummary       PartKind = "summary"        // a summary of older turns, in Text
	PartRecovery      PartKind = "recovery"       // advice for an agent that repeats itself, in Text
	PartContext       PartKind = "context"        // the context field of the query
	PartPreviousRound PartKind = "previous_round" // an earlier round at the query; Ref is its number, from 1
	PartQuery         PartKind = "query"
)

// OfWindow reports whether parts of a kind are messages of earlier turns of the session.
func (k PartKind) OfWindow() bool { return k == PartUser || k == PartAnswer || k == PartTools }

// Part is one element of a context.
type Part struct {
	Kind   PartKind `msgpack:"k" json:"kind"`
	Ref    string   `msgpack:"r,omitempty" json:"ref,omitempty" redact:"id"`
	Tokens int      `msgpack:"t,omitempty" json:"tokens"`
	// Count is the number of bullets in the part of a manifest that has them all; 0 for other parts.
	Count int `msgpack:"n,omitempty" json:"count,omitempty"`
	// Keep is the number of bytes of the part's text that are included; 0 includes the whole text.
	Keep int `msgpack:"c,omitempty" json:"keep,omitempty"`
	// Text is the text of a part that is not stored elsewhere.
	Text string `msgpack:"x,omitempty" json:"text,omitempty"`
	Why  string `msgpack:"w,omitempty" json:"why,omitempty"` // such as "pinned"; empty for the usual order
}

// Omission counts the parts of one kind that were omitted for one reason.
type Omission struct {
	Kind   PartKind `msgpack:"k" json:"kind"`
	Why    string   `msgpack:"w" json:"why"`
	Count  int      `msgpack:"n" json:"count"`
	Tokens int      `msgpack:"t,omitempty" json:"tokens"`
	Refs   []string `msgpack:"r,omitempty" json:"refs,omitempty" redact:"id"` // the first few
}

// Interaction is the part of an execution that later turns of its session can see. Texts are truncated to the size
// that a prompt could include.
type Interaction struct {
	Execution Handle    `msgpack:"x" json:"execution"`
	ID        ID        `msgpack:"i" json:"id"`
	Turn      int       `msgpack:"n,omitempty" json:"turn"`
	At        time.Time `msgpack:"at" json:"at"`
	Question  string    `msgpack:"q" json:"question"`
	Context   string    `msgpack:"ctx,omitempty" json:"context,omitempty"`
	Steps     []Step    `msgpack:"s,omitempty" json:"steps,omitempty"`
	Answer    string    `msgpack:"a,omitempty" json:"answer,omitempty"`
	Label     Label     `msgpack:"l,omitempty" json:"label,omitempty"`
	// First is the execution of the first round, if this is a later round at the same task. In a window only the
	// last round of a task is used.
	First    ID     `msgpack:"f,omitempty" json:"first_round,omitempty"`
	Round    int    `msgpack:"r,omitempty" json:"round,omitempty"`
	User     string `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"` // see Task.User
	Source   string `msgpack:"o,omitempty" json:"source,omitempty" redact:"id"`
	Inferred bool   `msgpack:"d,omitempty" json:"inferred,omitempty"` // the outcome was only inferred
	// Budget is the token budget of the conversation in the context of that turn. The budget of the next turn
	// starts from it.
	Budget int `msgpack:"b,omitempty" json:"budget,omitempty"`
}

// Limits of an Interaction, in characters of text and in numbers of steps and calls. The output of a tool is
// truncated to 2,000 characters, as in the agent swecli. All steps together are limited in bytes, so that an interaction
// stays far below the 1 MB limit of a stored value.
const (
	maxToolResult = 2000
	maxQuestion   = 8000
	maxContext    = 2000
	maxStepText   = 2000
	maxAnswer     = 8000
	maxSteps      = 64
	maxCalls      = 16 // of one step
	maxArguments  = 2000
	maxStepBytes  = 512 << 10
)

// NewInteraction returns the interaction for an execution. The result depends only on the arguments. If there are too many
// steps, the last ones are kept.
func NewInteraction(h Handle, e *Execution) *Interaction {
	i := &Interaction{
		Execution: h, ID: e.ID, Turn: e.Turn, At: e.Started, Label: e.Outcome.Label,
		User: e.User, Source: e.Origin.Source, Inferred: e.Outcome.Inferred,
		Question: TruncateChars(e.Question, maxQuestion), Context: TruncateChars(e.Context, maxContext), Answer: TruncateChars(e.Answer, maxAnswer),
	}
	if e.Manifest != nil {
		i.Budget = e.Manifest.Conversation
	}
	if len(e.PreviousRounds) > 0 {
		i.First, i.Round = e.SampleID(), e.Origin.Round
	}
	bytes := 0
	for _, s := range slices.Backward(e.Steps[max(0, len(e.Steps)-maxSteps):]) {
		s.Text = TruncateChars(s.Text, maxStepText)
		s.Feedback = TruncateChars(s.Feedback, maxStepText)
		calls := s.Calls[:min(len(s.Calls), maxCalls)]
		s.Calls = make([]ToolCall, len(calls))
		for j, c := range calls {
			c.Arguments = TruncateChars(c.Arguments, maxArguments)
			c.Output = TruncateChars(c.Output, maxToolResult)
			s.Calls[j] = c
		}
		bytes += s.bytes()
		if bytes > maxStepBytes {
			break
		}
		i.Steps = append(i.Steps, s)
	}
	slices.Reverse(i.Steps)
	return i
}

// bytes returns the approximate size of a stored step.
func (s *Step) bytes() int {
	n := len(s.Speaker) + len(s.Text) + len(s.Mode) + len(s.Feedback)
	for i := range s.Calls {
		c := &s.Calls[i]
		n += len(c.Tool) + len(c.Arguments) + len(c.Output)
	}
	if s.Record != nil {
		n += len(s.Record.Synthesis)
		for i := range s.Record.Calls {
			c := &s.Record.Calls[i]
			n += len(c.Line) + len(c.Insights) + len(c.Learning)
			for _, next := range c.Next {
				n += len(next)
			}
		}
	}
	return n
}

// TruncateChars returns text as valid UTF-8, truncated to limit characters (Unicode code points). A truncated text ends with a
// note of the number of omitted bytes, which the limit does not include.
func TruncateChars(text string, limit int) string {
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	n := 0
	for i := range text {
		n++
		if n > limit {
			return fmt.Sprintf("%s… [%d bytes left out]", strings.ToValidUTF8(text[:i], "\uFFFD"), len(text)-i)
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Note is the part of a reflection that prompts can include.
type Note struct {
	Reflection Handle    `msgpack:"x" json:"reflection"`
	ID         ID        `msgpack:"i" json:"id"`
	Owner      string    `msgpack:"w,omitempty" json:"owner,omitempty" redact:"id"`
	User       string    `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"` // see Task.User
	Session    string    `msgpack:"s,omitempty" json:"session,omitempty" redact:"id"`
	At         time.Time `msgpack:"at" json:"at"`
	Label      Label     `msgpack:"l,omitempty" json:"label,omitempty"`
	Question   string    `msgpack:"q,omitempty" json:"question,omitempty"` // beginning of the question of the execution
	Error      string    `msgpack:"e,omitempty" json:"error_identification,omitempty"`
	Approach   string    `msgpack:"a,omitempty" json:"correct_approach,omitempty"`
	Insight    string    `msgpack:"k,omitempty" json:"key_insight,omitempty"`
	Execution  Handle    `msgpack:"of,omitempty" json:"execution,omitempty"` // that the reflection is about
	Sample     ID        `msgpack:"f,omitempty" json:"sample_id,omitempty"`  // the execution of the first round
	// Source and Inferred tell who reported the outcome, and Model is the model of the reflection; empty if only rules reflected.
	Source   string `msgpack:"o,omitempty" json:"source,omitempty" redact:"id"`
	Inferred bool   `msgpack:"d,omitempty" json:"inferred,omitempty"`
	Model    string `msgpack:"m,omitempty" json:"model,omitempty"`
	// Records are a model's records of the last steps of the execution. A prompt contains them in place of records that rules derive
	// from those steps.
	Records []Record `msgpack:"rec,omitempty" json:"records,omitempty"`
	// OtherRun is the run that the Reflector compared the execution with, or nil.
	OtherRun *OtherRun `msgpack:"or,omitempty" json:"other_run,omitempty"`
}

const maxNoteText = 600 // characters in each text of a note

// HasText reports whether the note has text for a prompt. Other notes are stored for their records.
func (n *Note) HasText() bool { return n.Approach != "" || n.Insight != "" }

// Evidence returns the facts about the execution behind the note that decide whether a prompt may contain its texts.
func (n *Note) Evidence() *playbook.Evidence {
	return &playbook.Evidence{
		Execution: string(n.Execution), Sample: string(n.Sample), Owner: n.Owner, User: n.User, Session: n.Session, Source: n.Source,
		Inferred: n.Inferred, Model: n.Model, Compared: n.OtherRun.evidence(),
	}
}

// NewNote returns the note for a reflection, without the texts that are copied from the run. It returns nil if the reflection has
// neither advice nor records.
func NewNote(h Handle, r *Reflection) *Note {
	n := &Note{
		Reflection: h, ID: r.ID, Owner: r.Owner, User: r.User, Session: r.Session, At: r.Created, Label: r.Outcome.Label, Question: TruncateChars(r.Question, maxNoteText),
		Error: TruncateChars(r.ErrorIdentification, maxNoteText), Approach: TruncateChars(r.CorrectApproach, maxNoteText), Insight: TruncateChars(r.KeyInsight, maxNoteText),
		Execution: r.Handle, Sample: r.SampleID(), Source: r.Origin.Source, Inferred: r.Outcome.Inferred, Model: r.Model, Records: r.Records,
		OtherRun: r.OtherRun,
	}
	if slices.Contains(r.Copied, FieldError) {
		n.Error = ""
	}
	if slices.Contains(r.Copied, FieldApproach) {
		n.Approach = ""
	}
	if !n.HasText() && len(n.Records) == 0 {
		return nil
	}
	return n
}

// Fields of a reflection, in Reflection.Copied and AdviceLine.Field.
const (
	FieldError    = "error_identification"
	FieldCause    = "root_cause_analysis"
	FieldApproach = "correct_approach"
	FieldInsight  = "key_insight"
)

// Summary is a model's summary of the older turns of a session.
type Summary struct {
	Through int `msgpack:"n" json:"through"` // the last turn that it covers
	// Version is a version of the playbook. The summary contains nothing that was forgotten up to this version.
	Version uint64    `msgpack:"v,omitempty" json:"playbook_version,omitempty"`
	Text    string    `msgpack:"x" json:"text"`
	Model   string    `msgpack:"m,omitempty" json:"model,omitempty"`
	At      time.Time `msgpack:"at" json:"at"`
}

// Mark is a user's mark on a turn of a session.
type Mark string

// The marks. Pinned and starred turns stay in the window. A star also increases the relevance of the turn.
const (
	Pin  Mark = "pin"
	Star Mark = "star"
)

// MarkedInteraction is an interaction with a mark. It is a complete copy, because the window may drop the original.
type MarkedInteraction struct {
	Mark        Mark        `msgpack:"m" json:"mark"`
	By          string      `msgpack:"by,omitempty" json:"by,omitempty"`
	At          time.Time   `msgpack:"at" json:"at"`
	Interaction Interaction `msgpack:"i" json:"interaction"`
}

// ServedContext is a context that an outside agent received. It is stored until the agent reports the execution.
type ServedContext struct {
	ID       ID            `msgpack:"i" json:"context_id"`
	Book     playbook.Book `msgpack:"b" json:"book"`
	Owner    string        `msgpack:"w,omitempty" json:"owner,omitempty" redact:"id"`
	User     string        `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"`
	Session  string        `msgpack:"s,omitempty" json:"session,omitempty" redact:"id"`
	Query    string        `msgpack:"q,omitempty" json:"query,omitempty"`
	Context  string        `msgpack:"c,omitempty" json:"context,omitempty"`
	Turn     int           `msgpack:"n,omitempty" json:"turn,omitempty"`
	Version  uint64        `msgpack:"v" json:"playbook_version"`
	Shown    []ShownBullet `msgpack:"sh,omitempty" json:"shown,omitempty"`
	Manifest Manifest      `msgpack:"m" json:"manifest"`
	Control  *Control      `msgpack:"ctl,omitempty" json:"control,omitempty"`
	SHA256   []byte        `msgpack:"h" json:"sha256"` // of the messages
	Created  time.Time     `msgpack:"t" json:"created"`
}

// ContextRequest requests the messages for a model call. In JSON it is the body of POST /api/v1/contexts, and of a
// request on the subject of VerbContext.
type ContextRequest struct {
	Caller  Caller        `json:"-" redact:"-"`
	Book    playbook.Book `json:"book,omitempty"`             // over NATS from the subject; over HTTP the default is DefaultBook
	User    string        `json:"user,omitempty" redact:"id"` // see Task.User
	Session string        `json:"session,omitempty" redact:"id"`
	// RunID is the agent's id of the run. Without a session, all contexts with the same RunID are in the same arm of the control share.
	RunID   string `json:"run_id,omitempty" redact:"id"`
	Query   string `json:"query"`
	Context string `json:"context,omitempty"` // background of the query
	// System contains the agent's instructions. If it is empty, the system message explains only how to use
	// bullets.
	System string `json:"system,omitempty"`
	// Steps are the steps of the current turn, if the agent has already called tools. A step by a user begins a new
	// turn.
	Steps []Step `json:"steps,omitempty"`

	Playbook   *uint64 `json:"playbook,omitempty"`    // version to use; nil is the newest
	MinVersion uint64  `json:"min_version,omitempty"` // oldest acceptable version
	Limit      int     `json:"limit,omitempty"`       // tokens; 0 is the default of the service
	// Window is "none", "adaptive" or a number of user turns; empty is the default of the service.
	Window  string `json:"window,omitempty"`
	Task    string `json:"task,omitempty"`    // kind of the task: general, research, coding, debugging or analysis; empty: detected
	Explain bool   `json:"explain,omitempty"` // include the components of every score
	DryRun  bool   `json:"dry_run,omitempty"` // do not store the context; it cannot be reported on

	// Unstored asks the service not to store the context, because the caller stores it (see NewServedContext): the gateway does so while
	// its model works. If nobody stores it, the shown bullets of the report are unknown.
	Unstored bool `json:"unstored,omitempty"`

	// Advice requests one message with bullets and reflections, or none if there are none. The agent adds its text to the
	// user's message, and keeps its own instructions and history: Context, System, Steps and Window must be empty.
	Advice bool `json:"advice,omitempty"`
}

// Validate returns an error for each invalid field.
func (r *ContextRequest) Validate() error {
	errs := []error{names{session: r.Session, user: r.User}.validate(), validateName("run_id", r.RunID, MaxName)}
	if strings.TrimSpace(r.Query) == "" {
		errs = append(errs, errors.New("query: is empty"))
	}
	if r.Limit < 0 {
		errs = append(errs, fmt.Errorf("limit: must be positive, got %d", r.Limit))
	}
	if r.Advice {
		for _, field := range []struct {
			name  string
			empty bool
		}{
			{"context", r.Context == ""}, {"system", r.System == ""}, {"steps", len(r.Steps) == 0}, {"window", r.Window == ""},
		} {
			if !field.empty {
				errs = append(errs, fmt.Errorf("%s: must be empty with advice", field.name))
			}
		}
	}
	return errors.Join(append(errs, r.Book.Validate())...)
}

// ContextReply is a context, ready for a model call.
type ContextReply struct {
	ID       ID             `json:"context_id,omitempty"` // for the report of the execution
	Book     playbook.Book  `json:"book"`
	Session  string         `json:"session,omitempty"`
	Turn     int            `json:"turn,omitempty"`
	Version  uint64         `json:"playbook_version"`
	Stale    bool           `json:"stale,omitempty"` // older than the requested version
	Messages []chat.Message `json:"messages"`
	Shown    []ShownBullet  `json:"shown"`
	Manifest Manifest       `json:"manifest"`
	Control  *Control       `json:"control,omitempty"` // arm of the session while the playbook has a control share
	SHA256   string         `json:"sha256"`            // of the messages
	Scores   []BulletScore  `json:"scores,omitempty"`
	// WindowScores are the scores of the messages and tool steps in the window, in time order.
	WindowScores []WindowScore `json:"window_scores,omitempty"`
	// Lines are the learned texts in the message of advice, in order.
	Lines []AdviceLine `json:"lines,omitempty"`
}

// NewServedContext returns the context of a reply in the form that is stored. It shares the reply's slices. It returns an error if the
// hash in the reply is invalid.
func NewServedContext(r *ContextRequest, reply *ContextReply) (*ServedContext, error) {
	sum, err := hex.DecodeString(reply.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sha256 of context %.80q: %w", string(reply.ID), err)
	}
	return &ServedContext{
		ID: reply.ID, Book: r.Book, Owner: r.Caller.Owner, User: r.User, Session: r.Session, Query: r.Query, Context: r.Context, Turn: reply.Turn, Version: reply.Version,
		Shown: reply.Shown, Manifest: reply.Manifest, Control: reply.Control, SHA256: sum, Created: reply.Manifest.At,
	}, nil
}

// AdviceLine is a learned text in the message of advice: a bullet, or a text of a reflection. A program that repeats
// the advice in later calls of a conversation leaves out the lines that may not be shown by then.
type AdviceLine struct {
	Start int `msgpack:"s" json:"start"` // in the message, in bytes
	End   int `msgpack:"e" json:"end"`   // after the line feed
	// Bullet is the bullet of the line, empty for a reflection.
	Bullet playbook.BulletID `msgpack:"b,omitempty" json:"bullet,omitempty"`
	// Wording is WordingOf the bullet's text, 0 for a reflection.
	Wording uint32 `msgpack:"w,omitempty" json:"wording,omitempty"`
	// Reflection is the reflection of the line.
	Reflection Handle `msgpack:"r,omitempty" json:"reflection,omitempty"`
	// Field names the text of the reflection. It is empty for the heading before the texts of a reflection.
	Field string `msgpack:"f,omitempty" json:"field,omitempty"`
}

// KeepAdvice returns a message of advice without the lines for which keep returns false, and the lines that stay. Their offsets are
// still those in text. A line is a bullet, a field of a reflection, or the heading of the reflection whose fields follow. A heading stays
// if one of its fields does. If no line stays, rest is empty.
func KeepAdvice(text string, lines []AdviceLine, keep func(l *AdviceLine, text string) bool) (rest string, kept []AdviceLine) {
	keeps := make([]bool, len(lines))
	heading := 0 // index of the last heading
	for i := range lines {
		l := &lines[i]
		if l.Bullet == "" && l.Field == "" {
			heading = i
			continue
		}
		keeps[i] = keep(l, text[l.Start:l.End])
		if keeps[i] && l.Field != "" {
			keeps[heading] = true
		}
	}
	if !slices.Contains(keeps, true) {
		return "", nil
	}
	end := 0 // of the last line that was left out
	for i, l := range lines {
		if keeps[i] {
			kept = append(kept, l)
			continue
		}
		rest += text[end:l.Start]
		end = l.End
	}
	return rest + text[end:], kept
}

// BulletScore explains the rank of a bullet by components between 0 and 1. Relevance is the best score of any method:
// past tasks, words or embeddings. Total is the reciprocal of the best rank by any method, or the weighted sum of the
// components if weights are set. It is 0 if no method found the bullet.
type BulletScore struct {
	ID            playbook.BulletID `json:"id"`
	Effectiveness float64           `json:"effectiveness"`
	Recency       float64           `json:"recency"`
	Relevance     float64           `json:"relevance"`
	Total         float64           `json:"total"`
	Tokens        int               `json:"tokens"`
	Shown         bool              `json:"shown"`
	Why           string            `json:"why,omitempty"`
}

// DefaultBook is the playbook of requests that name none.
const DefaultBook = playbook.Book("default")

// WindowScore explains the place of an item in the window of a session: a message or a step with tool calls. Total is the
// sum of Recency (at most 0.3), Flags (at most 1.02), Semantic (at most 0.4) and Source (at most 0.4). Priority orders the items: 0.6 ×
// Total / 2.12 + 0.4 × its position in time, from 0 to 1. Newest, pinned and starred items come first whatever their score.
type WindowScore struct {
	Kind     PartKind `json:"kind"`
	Ref      string   `json:"ref"`
	Recency  float64  `json:"recency"`
	Flags    float64  `json:"flags"`
	Semantic float64  `json:"semantic"`
	Source   float64  `json:"source"`
	Total    float64  `json:"total"`
	Priority float64  `json:"priority"`
	Tokens   int      `json:"tokens"`
	Shown    bool     `json:"shown"`
	Why      string   `json:"why,omitempty"` // such as "pinned", or the reason why the item is not shown
}

// Report describes an execution by an outside agent. It is the body of POST /api/v1/executions, and of a request on the
// subject of VerbReport.
type Report struct {
	Caller    Caller        `json:"-" redact:"-"`
	Book      playbook.Book `json:"book,omitempty"` // default: the book of the context, else DefaultBook
	ContextID ID            `json:"context_id,omitempty"`
	// RunID is the agent's id of the run. A report that is sent again with the same id counts once. The default is the id of
	// the context, else a random id.
	RunID string `json:"run_id,omitempty" redact:"id"`
	// Task is a label that groups attempts at the same task.
	Task      string              `json:"task,omitempty" redact:"id"`
	User      string              `json:"user,omitempty" redact:"id"` // see Task.User
	Session   string              `json:"session,omitempty" redact:"id"`
	Turn      int                 `json:"turn,omitempty"` // number of the run in its session, from 1; default: counted
	Question  string              `json:"question,omitempty"`
	Context   string              `json:"context,omitempty"`
	Steps     []Step              `json:"steps,omitempty"`
	Reasoning string              `json:"reasoning,omitempty"`
	Answer    string              `json:"answer,omitempty"`
	Agent     *Agent              `json:"agent,omitempty"` // system prompt and tools of the agent, for the Reflector
	Cited     []playbook.BulletID `json:"cited,omitempty"`
	Outcome   Outcome             `json:"outcome,omitzero"`
	Target    string              `json:"target,omitempty"`
	Purpose   Purpose             `json:"purpose,omitempty"`
	Model     string              `json:"model,omitempty"`
	Usage     chat.Usage          `json:"usage,omitzero"`
	Started   time.Time           `json:"started,omitzero"`
	Duration  time.Duration       `json:"duration_ns,omitempty"`
}

// StoredReply is the reply to a report or to feedback.
type StoredReply struct {
	Handle    Handle   `json:"handle"`
	Duplicate bool     `json:"duplicate,omitempty"` // it was stored before; Handle is the handle of the first copy
	Warnings  []string `json:"warnings,omitempty"`  // such as an unknown context
}

// FeedbackRequest records the outcome of an execution later. It is the body of POST /api/v1/feedback, and of a request
// on the subject of VerbFeedback.
type FeedbackRequest struct {
	Caller Caller        `json:"-" redact:"-"`
	Book   playbook.Book `json:"book,omitempty"`
	// ID is chosen by the client. Feedback of an owner on an execution that is sent again with the same id counts once. The
	// default is a random id.
	ID        ID      `json:"id,omitempty"`
	Execution Handle  `json:"execution"`
	Outcome   Outcome `json:"outcome,omitzero"`
	Target    string  `json:"target,omitempty"`
}

// ErrorReply is the body of an error reply.
type ErrorReply struct {
	Error string `json:"error"`
}
