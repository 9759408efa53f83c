package explain

import (
	"debrief/cmd/internal/train/report"
	"debrief/events"
)

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
	rate
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
	n[kind].add(e.Outcome.Label == events.Success)
	n[kind].messages += messages
	n[kind].tokens += tokens
	n[kind].omittedTokens += omittedTokens
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
