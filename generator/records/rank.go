package records

import (
	"cmp"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// Line is what a call taught, as a context shows it.
type Line struct {
	Step, Call int       // where it is in the steps
	At         time.Time // of the step, zero where it has none
	Relevance  events.Relevance
	Text       string
	Tokens     int // by chat.Tokens, its line break included
}

// Lines are the lines of the calls in steps, in their order. Of says how they are made.
func Lines(steps []events.Step, query string) []Line {
	var lines []Line
	for i, r := range Of(steps, query) {
		for j, c := range r.Calls {
			if c.Line != "" {
				lines = append(lines, Line{i, j, steps[i].At, cmp.Or(c.Relevance, events.Medium), c.Line, chat.Tokens(c.Line + "\n")})
			}
		}
	}
	return lines
}

// Rank keeps the lines that matter most within so many tokens, and says how many it left out: the higher tier of
// relevance first, within a tier the newest first; one that is too long gives way to the next. What it keeps is in
// order of time. A line without a time has that of the line before it.
func Rank(lines []Line, tokens int) (kept []Line, left int) {
	order := make([]ranked, len(lines))
	var at time.Time
	for i, l := range lines {
		if !l.At.IsZero() {
			at = l.At
		}
		order[i] = ranked{i, at}
	}
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(lines[a.place].tier(), lines[b.place].tier()), b.compare(a))
	})
	n := 0
	for _, o := range order {
		if cost := lines[o.place].Tokens; cost <= tokens {
			tokens -= cost
			order[n] = o
			n++
		}
	}
	order = order[:n]
	slices.SortFunc(order, ranked.compare)
	for _, o := range order {
		kept = append(kept, lines[o.place])
	}
	return kept, len(lines) - n
}

// ranked is a line's place and the time that counts for it.
type ranked struct {
	place int
	at    time.Time
}

func (r ranked) compare(s ranked) int {
	return cmp.Or(r.at.Compare(s.at), cmp.Compare(r.place, s.place))
}

func (l *Line) tier() int {
	if t := tier(l.Relevance); t != unknownTier {
		return t
	}
	return mediumTier
}
