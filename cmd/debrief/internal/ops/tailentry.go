package ops

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// tailEntry is an event or a delta of a stream.
type tailEntry struct {
	Time    time.Time       `json:"time"` // when the server stored it
	Kind    events.Kind     `json:"kind"`
	Book    playbook.Book   `json:"book,omitempty"`
	Stream  string          `json:"stream"`
	Seq     uint64          `json:"seq"`
	ID      string          `json:"id,omitempty"`     // handle, version of a delta, or sequence of an unreadable message
	Repeat  bool            `json:"repeat,omitempty"` // it may be a copy of an earlier event
	Event   events.Event    `json:"event,omitempty"`
	Delta   *playbook.Delta `json:"delta,omitempty"`
	Problem string          `json:"problem,omitempty"` // reason why the message is unreadable
}

// line formats an entry as a line of text. It escapes control characters, which may come from untrusted input.
func (e *tailEntry) line() string {
	detail, summary := "", ""
	switch x := e.Event.(type) {
	case *events.Task:
		summary = x.Question
	case *events.Execution:
		detail, summary = outcomeOf(x.Outcome), x.Question
	case *events.Feedback:
		detail, summary = outcomeOf(x.Outcome), "on "+string(x.Execution)+" "+cmp.Or(x.Outcome.Feedback, x.Target)
	case *events.Reflection:
		detail, summary = outcomeOf(x.Outcome), cmp.Or(x.KeyInsight, doubt(x), x.ErrorIdentification, "on "+string(x.Handle))
	case *events.Edit:
		summary = "by " + x.Author + " " + x.Reason
	case *events.DeadLetter:
		detail, summary = x.Role, x.Reason
	}
	if e.Delta != nil {
		detail, summary = explain.CoverSummary(e.Delta), explain.DeltaSummary(e.Delta)
	}
	if e.Problem != "" {
		summary = "unreadable: " + e.Problem
	}
	if e.Repeat {
		summary = "(may be a copy) " + summary
	}
	return strings.TrimSpace(fmt.Sprintf("%s  %-10s  %-10s  %-16s  %-14s  %s", e.Time.Local().Format(time.DateTime), e.Kind, e.Book,
		e.ID, term.Line(detail), text.Clip(term.Line(summary), 120)))
}

// doubt returns the reason why a reflection doubts its outcome, or "".
func doubt(r *events.Reflection) string {
	if r.LabelSuspect == "" {
		return ""
	}
	return "doubts the outcome: " + r.LabelSuspect
}

// outcomeOf formats an outcome as its label and score, "" if it is unknown.
func outcomeOf(o events.Outcome) string {
	if !o.Known() {
		return ""
	}
	return fmt.Sprintf("%s %.2f", o.Label, o.Score)
}
