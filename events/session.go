package events

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

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

// The names of the texts of a note in a prompt. The reason of its part in a manifest lists them.
const (
	NoteError    = "what went wrong"
	NoteApproach = "what to do"
	NoteInsight  = "insight"
)

// Only returns a copy of the note with only the texts that a prompt had. names is the list of their names, as in Part.Why.
func (n *Note) Only(names string) *Note {
	only := *n
	only.Error, only.Approach, only.Insight = "", "", ""
	for name := range strings.SplitSeq(names, ", ") {
		switch name {
		case NoteError:
			only.Error = n.Error
		case NoteApproach:
			only.Approach = n.Approach
		case NoteInsight:
			only.Insight = n.Insight
		}
	}
	return &only
}

// HasText reports whether the note has text for a prompt. Other notes are stored for their records.
func (n *Note) HasText() bool { return n.Approach != "" || n.Insight != "" }

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
