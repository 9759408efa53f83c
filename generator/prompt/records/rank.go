package records

import (
	"cmp"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// Line is the record of one call as shown in a context.
type Line struct {
	Step, Call int       // indices of the step and of the call in it
	At         time.Time // time of the step, may be zero
	Relevance  events.Relevance
	Text       string
	Tokens     int // by chat.Tokens, including the line break
}

// Lines returns the lines of all calls in order. FromSteps describes them.
func Lines(steps []events.Step, query string) []Line {
	var lines []Line
	for i, r := range FromSteps(steps, query) {
		for j, c := range r.Calls {
			if c.Line != "" {
				lines = append(lines, Line{i, j, steps[i].At, cmp.Or(c.Relevance, events.Medium), c.Line, chat.Tokens(c.Line + "\n")})
			}
		}
	}
	return lines
}

// Rank keeps the most relevant lines within the token limit and returns the number of lines it left out. Higher
// relevance comes first, then newer lines. A line that does not fit is skipped. The kept lines are in time order. A
// line without a time has the time of the line before it.
func Rank(lines []Line, tokens int) (kept []Line, omitted int) {
	order := make([]sortKey, len(lines))
	var at time.Time
	for i, l := range lines {
		if !l.At.IsZero() {
			at = l.At
		}
		order[i] = sortKey{i, at}
	}
	slices.SortFunc(order, func(a, b sortKey) int {
		return cmp.Or(cmp.Compare(lines[a.index].tier(), lines[b.index].tier()), b.compare(a))
	})
	n := 0
	for _, o := range order {
		if cost := lines[o.index].Tokens; cost <= tokens {
			tokens -= cost
			order[n] = o
			n++
		}
	}
	order = order[:n]
	slices.SortFunc(order, sortKey.compare)
	for _, o := range order {
		kept = append(kept, lines[o.index])
	}
	return kept, len(lines) - n
}

// sortKey is the index of a line and its effective time.
type sortKey struct {
	index int
	at    time.Time
}

func (r sortKey) compare(s sortKey) int {
	return cmp.Or(r.at.Compare(s.at), cmp.Compare(r.index, s.index))
}

func (l *Line) tier() int {
	if t := tier(l.Relevance); t != unknownTier {
		return t
	}
	return mediumTier
}
