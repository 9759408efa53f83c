package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/inspect"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Entry is an event or a delta of a stream as JSON.
type Entry struct {
	Time    time.Time       `json:"time"`
	Kind    string          `json:"kind"`
	Book    string          `json:"book,omitempty"`
	Stream  string          `json:"stream"`
	Seq     uint64          `json:"seq"`
	ID      string          `json:"id,omitempty"`     // handle, version of a delta, or sequence of an unreadable message
	Repeat  bool            `json:"repeat,omitempty"` // it may be a copy of an earlier event
	Event   events.Event    `json:"event,omitempty"`
	Delta   *playbook.Delta `json:"delta,omitempty"`
	Problem string          `json:"problem,omitempty"` // reason why the message is unreadable
}

// NewEntry returns an entry of a stream as JSON.
func NewEntry(e *inspect.Entry) Entry {
	out := Entry{Time: e.Time, Kind: string(e.Kind), Book: string(e.Book), Stream: e.Stream, Seq: e.Seq, ID: entryID(e), Repeat: e.Repeat, Event: e.Event, Delta: e.Delta}
	if e.Err != nil {
		out.Problem = e.Err.Error()
	}
	return out
}

// entryID returns the label of a delta, the handle of another event, or the sequence of an unreadable message.
func entryID(e *inspect.Entry) string {
	switch {
	case e.Delta != nil:
		return playbook.VersionLabel(e.Delta.Version, e.Chain)
	case e.Event != nil:
		return string(events.NewHandle(e.Seq, e.Event.EventID()))
	}
	return fmt.Sprint(e.Seq)
}

// EntryLine formats an event as a line of text. It escapes control characters, which may come from untrusted input.
func EntryLine(e *inspect.Entry) string {
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
		detail, summary = CoverSummary(e.Delta), DeltaSummary(e.Delta)
	}
	if e.Err != nil {
		summary = "unreadable: " + e.Err.Error()
	}
	if e.Repeat {
		summary = "(may be a copy) " + summary
	}
	return strings.TrimSpace(fmt.Sprintf("%s  %-10s  %-10s  %-16s  %-14s  %s", e.Time.Local().Format(time.DateTime), e.Kind, e.Book,
		entryID(e), term.Line(detail), text.Clip(term.Line(summary), 120)))
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
