package explain

import (
	"cmp"
	"context"
	"io"

	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// Scanner reads stored events in order.
type Scanner interface {
	Scan(ctx context.Context, stream, subject string, seq uint64, fn func(bus.Stored) error) error
}

// Outcomes are the stored runs of a playbook with a known outcome.
type Outcomes struct {
	Runs    int              `json:"runs"`
	Windows []WindowOutcomes `json:"windows"` // of the runs in sessions, without their first turns
}

// ReadOutcomes reads the stored executions of a playbook with their feedback. A copy of an execution counts once.
func ReadOutcomes(ctx context.Context, s Scanner, b playbook.Book) (*Outcomes, error) {
	feedback := map[uint64][]*events.Feedback{}
	err := s.Scan(ctx, events.StreamExecutions, events.KindFeedback.Subject(b), 0, func(st bus.Stored) error {
		if f, ok := st.Event.(*events.Feedback); ok {
			if seq, _, err := f.Execution.Parse(); err == nil {
				feedback[seq] = append(feedback[seq], f)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := new(Outcomes)
	var windows windowRuns
	seen := map[events.ID]bool{}
	err = s.Scan(ctx, events.StreamExecutions, events.KindExecution.Subject(b), 0, func(st bus.Stored) error {
		e, ok := st.Event.(*events.Execution)
		if !ok || seen[e.ID] {
			return nil
		}
		seen[e.ID] = true
		for _, f := range feedback[st.Seq] {
			e.Outcome = e.Outcome.WithFeedback(f)
		}
		if e.Outcome.Known() {
			out.Runs++
			windows.add(e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Windows = windows.outcomes()
	return out, nil
}

// Write prints the comparison as a table with its limits. It prints nothing without runs in sessions.
func (o *Outcomes) Write(w io.Writer) error {
	if len(o.Windows) == 0 {
		return nil
	}
	writeText(w, "Success with the earlier turns of the session in the prompt, a part of them, and none, with the 95 % interval:")
	t := term.NewTable(w)
	term.Fprintf(t, "turns\tsuccess\tmessages\ttokens\tshare of history\n")
	for _, row := range o.Windows {
		s := row.Success
		term.Fprintf(t, "%s\t%.0f %% (%.0f to %.0f) of %d\t%.1f\t%.0f\t%.0f %%\n", row.Earlier, 100*s.Mean, 100*s.Low, 100*s.High, s.N, row.Messages, row.Tokens, 100*row.Share)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	writeText(w, notRandom)
	return nil
}

// writeText prints a sentence in lines that fit the terminal.
func writeText(w io.Writer, text string) {
	for _, line := range term.Wrap(text, cmp.Or(term.Width(w), 120)) {
		term.Fprintf(w, "%s\n", line)
	}
}

// notRandom explains what the comparison does not prove.
const notRandom = "Turns are not assigned at random: long sessions have a part. So a difference does not prove an effect."

// WindowOutcomes are the results of runs in sessions, for one amount of the earlier turns in the prompt: all, part or none.
type WindowOutcomes struct {
	Earlier  string          `json:"earlier_turns"` // all, part or none
	Success  report.Estimate `json:"success"`
	Messages float64         `json:"messages"` // mean number of messages of earlier turns in a prompt
	Tokens   float64         `json:"tokens"`   // mean number of their tokens
	Share    float64         `json:"share"`    // share of the tokens of all earlier turns that the prompts had, from 0 to 1
}

// How much of the earlier turns was in the prompt: an index of windowRuns and of windowNames.
const (
	windowAll = iota
	windowPart
	windowNone
)

var windowNames = [...]string{"all", "part", "none"}

// windowRuns counts runs by the amount of the earlier turns in their prompts.
type windowRuns [len(windowNames)]struct {
	runs, right      int // runs, and those with the label success
	messages, tokens int // of earlier turns in the prompts
	omittedTokens    int // of earlier turns that the prompts left out
}

// add adds an execution with a known outcome. It ignores a first turn, which has no earlier ones, and a recorded run, whose prompt is unknown.
func (n *windowRuns) add(e *events.Execution) {
	if e.Manifest == nil || e.Session == "" {
		return
	}
	var messages, tokens, omitted, omittedTokens int
	for _, t := range e.Manifest.Totals() {
		if t.Kind.OfWindow() {
			messages += t.Included
			tokens += t.Tokens
			omitted += t.Omitted
			omittedTokens += t.OmittedTokens
		}
	}
	isFirstTurn := messages == 0 && omitted == 0 && e.Turn < 2
	kind := windowPart
	switch {
	case isFirstTurn:
		return
	case messages == 0:
		kind = windowNone
	case omitted == 0:
		kind = windowAll
	}
	w := &n[kind]
	w.runs++
	if e.Outcome.Label == events.Success {
		w.right++
	}
	w.messages += messages
	w.tokens += tokens
	w.omittedTokens += omittedTokens
}

// outcomes returns a row for each amount that has runs.
func (n *windowRuns) outcomes() []WindowOutcomes {
	all := []WindowOutcomes{}
	for kind, w := range n {
		if w.runs == 0 {
			continue
		}
		o := WindowOutcomes{
			Earlier: windowNames[kind], Success: report.Share(w.right, w.runs),
			Messages: float64(w.messages) / float64(w.runs), Tokens: float64(w.tokens) / float64(w.runs),
		}
		if sum := w.tokens + w.omittedTokens; sum > 0 {
			o.Share = float64(w.tokens) / float64(sum)
		}
		all = append(all, o)
	}
	return all
}
