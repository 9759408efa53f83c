package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
)

// Manifest says what a context holds, what was left out of it and why. With the texts that its parts refer to, it is
// the context: the same messages can be made of it again.
type Manifest struct {
	// Assembly is the version of the rules that it was put together by; another version may make other messages of it.
	Assembly string `msgpack:"v" json:"assembly" redact:"-"`
	Limit    int    `msgpack:"limit" json:"limit"`   // tokens allowed
	Tokens   int    `msgpack:"tokens" json:"tokens"` // tokens of the messages, by our estimate
	// Window is how many user turns of the session were wanted, -1 for all; Conversation the tokens they could have.
	Window       int    `msgpack:"win,omitempty" json:"window,omitempty"`
	Conversation int    `msgpack:"conv,omitempty" json:"conversation_budget,omitempty"`
	Why          string `msgpack:"why,omitempty" json:"budget_why,omitempty"` // it could have so many
	State        string `msgpack:"state,omitempty" json:"state,omitempty"`    // coding, debugging, research or general
	// Texts says which of the agent's words earlier turns are shown with: final, none or all.
	Texts string    `msgpack:"texts,omitempty" json:"texts,omitempty"`
	At    time.Time `msgpack:"at" json:"at,omitzero"` // when it was put together

	Parts []Part    `msgpack:"parts" json:"parts"`
	Left  []LeftOut `msgpack:"left,omitempty" json:"left_out,omitempty"`
	// Trials are the bullets that bear on the query, with what chance decided about each. One that was withheld would
	// have been among Parts.
	Trials []Trial `msgpack:"try,omitempty" json:"trials,omitempty"`
	// Degraded says what could not be had, such as "recall: the embedding server does not answer". Empty is as it should be.
	Degraded []string `msgpack:"deg,omitempty" json:"degraded,omitempty"`
}

// PartKind is what a part of a context is. Stored; append only.
type PartKind string

// The kinds of part.
const (
	PartSystem     PartKind = "system"     // the role's instructions; Ref is their version
	PartBullet     PartKind = "bullet"     // Ref is the bullet's id
	PartUser       PartKind = "user"       // what a user said in an earlier turn; Ref is <handle>#<place>
	PartAnswer     PartKind = "answer"     // what was answered then
	PartTools      PartKind = "tools"      // a step that called tools, with what they returned
	PartReflection PartKind = "reflection" // Ref is the reflection's handle
	PartRecall     PartKind = "recall"     // an older execution; Ref is its handle
	PartRecord     PartKind = "record"     // one line on an earlier step; Text has it
	PartSummary    PartKind = "summary"    // what older turns were about; Text has it
	PartRecovery   PartKind = "recovery"   // a way out of going in circles; Text has it
	PartContext    PartKind = "context"    // what the query is about
	PartTry        PartKind = "try"        // an earlier round at the query; Ref is its place among them, from 1
	PartQuery      PartKind = "query"
)

// Part is one thing in a context.
type Part struct {
	Kind   PartKind `msgpack:"k" json:"kind"`
	Ref    string   `msgpack:"r,omitempty" json:"ref,omitempty" redact:"id"`
	Tokens int      `msgpack:"t,omitempty" json:"tokens"`
	// Keep is how many bytes of its text are shown; 0 is all of it.
	Keep int `msgpack:"c,omitempty" json:"keep,omitempty"`
	// Text is that of a part that stands nowhere else.
	Text string `msgpack:"x,omitempty" json:"text,omitempty"`
	Why  string `msgpack:"w,omitempty" json:"why,omitempty"` // such as "pinned"; empty where it was simply next
}

// LeftOut counts what a context has no room for, by kind and reason.
type LeftOut struct {
	Kind   PartKind `msgpack:"k" json:"kind"`
	Why    string   `msgpack:"w" json:"why"`
	Count  int      `msgpack:"n" json:"count"`
	Tokens int      `msgpack:"t,omitempty" json:"tokens"`
	Refs   []string `msgpack:"r,omitempty" json:"refs,omitempty" redact:"id"` // the first few
}

// Interaction is an execution as later turns of its session see it. Its texts are cut to what a prompt could show.
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
	// First is, of a further round at a task, the execution of the first one. In a window the last round stands for all.
	First ID  `msgpack:"f,omitempty" json:"first,omitempty"`
	Round int `msgpack:"r,omitempty" json:"round,omitempty"`
	// Budget is what the conversation could have in that turn's context, in tokens; the next one moves from there.
	Budget int `msgpack:"b,omitempty" json:"budget,omitempty"`
}

// Bounds of what later turns see of an execution, in characters of text and in steps. A tool's result is cut at 2,000
// characters as swecli does; all steps together are bounded in bytes, so that an interaction stays far under the 1 MB
// that a stored value may have.
const (
	MaxToolResult  = 2000
	maxQuestion    = 8000
	maxAboutIt     = 2000
	maxStepText    = 2000
	maxAnswer      = 8000
	maxStepsKept   = 64
	maxCallsKept   = 16
	maxToolRequest = 2000
	maxStepBytes   = 512 << 10
)

// NewInteraction is what later turns see of an execution: the same for the same execution, whoever asks. Of very many
// steps the last ones are kept.
func NewInteraction(h Handle, e *Execution) *Interaction {
	i := &Interaction{
		Execution: h, ID: e.ID, Turn: e.Turn, At: e.Started, Label: e.Outcome.Label,
		Question: Cut(e.Question, maxQuestion), Context: Cut(e.Context, maxAboutIt), Answer: Cut(e.Answer, maxAnswer),
	}
	if e.Manifest != nil {
		i.Budget = e.Manifest.Conversation
	}
	if len(e.Tries) > 0 {
		i.First, i.Round = e.Sample(), e.Origin.Round
	}
	bytes := 0
	for _, s := range slices.Backward(e.Steps[max(0, len(e.Steps)-maxStepsKept):]) {
		s.Text, s.Feedback = Cut(s.Text, maxStepText), Cut(s.Feedback, maxStepText)
		calls := s.Calls[:min(len(s.Calls), maxCallsKept)]
		s.Calls = make([]ToolCall, len(calls))
		for j, c := range calls {
			c.Arguments, c.Output = Cut(c.Arguments, maxToolRequest), Cut(c.Output, MaxToolResult)
			s.Calls[j] = c
		}
		if bytes += s.bytes(); bytes > maxStepBytes {
			break
		}
		i.Steps = append(i.Steps, s)
	}
	slices.Reverse(i.Steps)
	return i
}

// bytes is about how large a step is where it is stored.
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

// Cut is text of at most so many characters (Unicode code points) and valid UTF-8. Where something is missing it says
// how much; the remark comes on top.
func Cut(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	n := 0
	for at := range text {
		if n++; n > most {
			return fmt.Sprintf("%s… [%d bytes left out]", strings.ToValidUTF8(text[:at], "\uFFFD"), len(text)-at)
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Note is a reflection as prompts show it.
type Note struct {
	Reflection Handle    `msgpack:"x" json:"reflection"`
	ID         ID        `msgpack:"i" json:"id"`
	Session    string    `msgpack:"s,omitempty" json:"session,omitempty" redact:"id"`
	At         time.Time `msgpack:"at" json:"at"`
	Label      Label     `msgpack:"l,omitempty" json:"label,omitempty"`
	Error      string    `msgpack:"e,omitempty" json:"error_identification,omitempty"`
	Approach   string    `msgpack:"a,omitempty" json:"correct_approach,omitempty"`
	Insight    string    `msgpack:"k,omitempty" json:"key_insight,omitempty"`
	// Execution is what the reflection is on, and Records the second layer of its last steps, in place of what can be made
	// of them without a model.
	Execution Handle   `msgpack:"of,omitempty" json:"execution,omitempty"`
	Records   []Record `msgpack:"rec,omitempty" json:"records,omitempty"`
}

const maxNoteText = 600 // characters of each text of a note

// Worded reports whether there is something in it for a reader. The others are kept for their records.
func (n *Note) Worded() bool { return n.Approach != "" || n.Insight != "" }

// NewNote is what prompts show of a reflection, nil if there is nothing in it for one.
func NewNote(h Handle, r *Reflection) *Note {
	n := &Note{
		Reflection: h, ID: r.ID, Session: r.Session, At: r.Created, Label: r.Outcome.Label,
		Error: Cut(r.ErrorIdentification, maxNoteText), Approach: Cut(r.CorrectApproach, maxNoteText), Insight: Cut(r.KeyInsight, maxNoteText),
		Records: r.Records,
	}
	if len(n.Records) > 0 {
		n.Execution = r.Handle
	}
	if !n.Worded() && len(n.Records) == 0 {
		return nil
	}
	return n
}

// Summary is what a session's older turns were about, as a model sees it.
type Summary struct {
	Through int       `msgpack:"n" json:"through"` // the last turn that it covers
	Text    string    `msgpack:"x" json:"text"`
	Model   string    `msgpack:"m,omitempty" json:"model,omitempty"`
	At      time.Time `msgpack:"at" json:"at"`
}

// Mark is what a person says of one item of a session.
type Mark string

// The marks. Pinned and starred items stay in the window; a star also counts as worth more.
const (
	Pin  Mark = "pin"
	Star Mark = "star"
)

// Marked is an interaction that a person marked, kept whole, so that it outlives its place in the window.
type Marked struct {
	Mark        Mark        `msgpack:"m" json:"mark"`
	By          string      `msgpack:"by,omitempty" json:"by,omitempty"`
	At          time.Time   `msgpack:"at" json:"at"`
	Interaction Interaction `msgpack:"i" json:"interaction"`
}

// Served is a context that an outside agent was given, kept until it reports what it did.
type Served struct {
	ID       ID            `msgpack:"i" json:"context_id"`
	Book     playbook.Book `msgpack:"b" json:"book"`
	Session  string        `msgpack:"s,omitempty" json:"session,omitempty" redact:"id"`
	Query    string        `msgpack:"q,omitempty" json:"query,omitempty"`
	Context  string        `msgpack:"c,omitempty" json:"context,omitempty"`
	Turn     int           `msgpack:"n,omitempty" json:"turn,omitempty"`
	Version  uint64        `msgpack:"v" json:"playbook_version"`
	Shown    []ShownBullet `msgpack:"sh,omitempty" json:"shown,omitempty"`
	Manifest Manifest      `msgpack:"m" json:"manifest"`
	SHA256   []byte        `msgpack:"h" json:"sha256"`
	Created  time.Time     `msgpack:"t" json:"created"`
}

// ContextRequest asks for what a model should see. In JSON it is the body of POST /v1/context and of a request on the
// subject of VerbContext.
type ContextRequest struct {
	Book    playbook.Book `json:"book,omitempty"` // of the subject; default "default" over HTTP
	Session string        `json:"session,omitempty" redact:"id"`
	Query   string        `json:"query"`
	Context string        `json:"context,omitempty"` // what the query is about
	// System are the agent's own instructions; empty is Debrief's line about how to use bullets alone.
	System string `json:"system,omitempty"`
	// Steps are what happened since: the running turn, in which the agent has called tools already. A step of a user
	// begins a new turn.
	Steps []Step `json:"steps,omitempty"`

	Playbook   *uint64 `json:"playbook,omitempty"`    // the version to use; nil is the newest
	MinVersion uint64  `json:"min_version,omitempty"` // the oldest that will do
	Limit      int     `json:"limit,omitempty"`       // tokens; 0 is the service's
	// Window is "none", "adaptive" or a number of user turns; empty is the service's.
	Window  string `json:"window,omitempty"`
	Task    string `json:"task,omitempty"`    // general, research, coding, debugging or analysis; empty is found out
	Explain bool   `json:"explain,omitempty"` // with the parts of every bullet's score
	DryRun  bool   `json:"dry_run,omitempty"` // for a look: nothing is kept, so nothing can be reported on it
}

// Validate says what cannot be served, naming the field.
func (r *ContextRequest) Validate() error {
	var errs []error
	if strings.TrimSpace(r.Query) == "" {
		errs = append(errs, errors.New("query: is empty"))
	}
	if r.Limit < 0 {
		errs = append(errs, fmt.Errorf("limit: must be positive, got %d", r.Limit))
	}
	return errors.Join(append(errs, r.Book.Validate())...)
}

// ContextReply is a context, ready for a model.
type ContextReply struct {
	ID       ID             `json:"context_id,omitempty"` // to report the execution with
	Book     playbook.Book  `json:"book"`
	Session  string         `json:"session,omitempty"`
	Turn     int            `json:"turn,omitempty"`
	Version  uint64         `json:"playbook_version"`
	Stale    bool           `json:"stale,omitempty"` // older than the version that was asked for
	Messages []chat.Message `json:"messages"`
	Shown    []ShownBullet  `json:"shown"`
	Manifest Manifest       `json:"manifest"`
	SHA256   string         `json:"sha256"` // of the messages
	Scores   []BulletScore  `json:"scores,omitempty"`
}

// BulletScore is why a bullet stands where it stands: each part between 0 and 1, and their weighted sum.
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

// Report is what an outside agent did: the body of POST /v1/executions and of a request on the subject of VerbReport.
type Report struct {
	Book      playbook.Book `json:"book,omitempty"`
	ContextID ID            `json:"context_id,omitempty"`
	// TaskID is the agent's own name for what it worked on: the same id again is the same sample. Default: the
	// context's id.
	TaskID    string              `json:"task_id,omitempty" redact:"id"`
	Session   string              `json:"session,omitempty" redact:"id"`
	Question  string              `json:"question,omitempty"`
	Context   string              `json:"context,omitempty"`
	Steps     []Step              `json:"steps,omitempty"`
	Reasoning string              `json:"reasoning,omitempty"`
	Answer    string              `json:"answer,omitempty"`
	Cited     []playbook.BulletID `json:"cited,omitempty"`
	Outcome   Outcome             `json:"outcome,omitzero"`
	Target    string              `json:"target,omitempty"`
	Purpose   Purpose             `json:"purpose,omitempty"`
	Model     string              `json:"model,omitempty"`
	Usage     chat.Usage          `json:"usage,omitzero"`
	Started   time.Time           `json:"started,omitzero"`
	Duration  time.Duration       `json:"duration_ns,omitempty"`
}

// Stored says what became of a report or of feedback.
type Stored struct {
	Handle    Handle   `json:"handle"`
	Duplicate bool     `json:"duplicate,omitempty"` // it was there already
	Degraded  []string `json:"degraded,omitempty"`  // what could not be done with it, such as an unknown context
}

// FeedbackRequest judges an execution later: the body of POST /v1/feedback and of a request on the subject of
// VerbFeedback.
type FeedbackRequest struct {
	Book      playbook.Book `json:"book,omitempty"`
	ID        ID            `json:"id,omitempty"` // the same id again is the same feedback; default: a new one
	Execution Handle        `json:"execution"`
	Outcome   Outcome       `json:"outcome,omitzero"`
	Target    string        `json:"target,omitempty"`
}

// Refusal is the body of an answer that is an error.
type Refusal struct {
	Error string `json:"error"`
}
