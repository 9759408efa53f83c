package events

import (
	"time"

	"debrief/events/chat"
)

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

// ToolCall is a tool call and its output.
type ToolCall struct {
	Tool      string        `msgpack:"tool" json:"tool"`
	Arguments string        `msgpack:"args,omitempty" json:"arguments,omitempty"`
	Output    string        `msgpack:"output,omitempty" json:"output,omitempty"`
	Outcome   Label         `msgpack:"outcome,omitempty" json:"outcome,omitempty"` // success, partial, failure, timeout, error or unknown; empty is unknown
	Duration  time.Duration `msgpack:"took,omitempty" json:"duration_ns,omitempty"`
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

// Progress rates the contribution of a step to its task. The values are stored, so they must not change.
type Progress string

// The values of Progress.
const (
	Advancing  Progress = "advancing"
	Stuck      Progress = "stuck"
	Regressing Progress = "regressing"
)

// Relevance rates the importance of a call for later steps. The values are stored, so they must not change.
type Relevance string

// The values of Relevance.
const (
	High   Relevance = "high"
	Medium Relevance = "medium"
	Low    Relevance = "low"
)

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
