// Package records makes the second layer of an agent's steps: what each call of a tool taught, in one line such as
// "searched X → found Y", how much it matters, and whether the work goes in circles. What the agent or a Reflector
// wrote down stands; what they left out is taken from the call itself. No model is asked, so the next turn has it
// already.
//
// Everything is a pure function of the steps. Texts of a trace are anybody's: what of them gets into a line or a
// recovery prompt is short, one line, and without the characters that could end a quotation or pass for structure.
package records

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"debrief/events"
	"debrief/events/chat"
)

const (
	// MaxLine is how many characters (code points) a line of a record has at most.
	MaxLine = 200
	maxNext = 3 // suggested actions kept of a call

	markup = "#*+-=|~›… " // what a heading, a list or a cut text begins with
)

// Of are the records of steps, in their order; that of a user's turn is empty. Lines never are: every text is one line
// of at most MaxLine characters.
//
// Progress, where the step does not say: a call fails that worked the last time is regressing; only failures, and calls
// that gave the answer which they had given before, are stuck; all else is advancing. A step without calls says nothing.
//
// Relevance, where the step does not say, by the first of these that holds: a call that repeats an earlier one to no use
// is low; one that failed is high; one that returned nothing, or an empty list, and wrote nothing, is low; one that has
// a rare word of the query in its arguments or its output is high; all else is medium. A rare word is in at most two of
// the calls, or in a quarter of them.
func Of(steps []events.Step, query string) []events.Record {
	list := make([]events.Record, len(steps))
	var past history
	words := topicOf(query)
	var open []mention // calls whose relevance is up to the words of the query
	for i := range steps {
		s := &steps[i]
		if s.Speaker == chat.User {
			continue
		}
		args := argumentsOfAll(s.Calls)
		seen, repeats := past.step(s.Calls, args)
		r := own(s.Record)
		r.Progress = cmp.Or(r.Progress, seen)
		r.Synthesis = cmp.Or(r.Synthesis, clean(firstLine(s.Text), MaxLine))
		for j := range s.Calls {
			if j == len(r.Calls) {
				r.Calls = append(r.Calls, events.CallRecord{})
			}
			c, said := &s.Calls[j], &r.Calls[j]
			if said.Line == "" {
				said.Line = line(c, args[j], cmp.Or(said.Learning, said.Insights))
			}
			tier := said.Relevance
			if tier == "" {
				tier = evident(c, repeats[j])
			}
			open = append(open, mention{i, j, tier == "", words.in(c)})
			said.Relevance = cmp.Or(tier, events.Medium)
		}
		list[i] = r
	}
	rare := words.rare(open)
	for _, m := range open {
		if m.open && m.words&rare != 0 {
			list[m.step].Calls[m.call].Relevance = events.High
		}
	}
	return list
}

// own is a copy of what the step says of itself, without what cannot be used.
func own(said *events.Record) events.Record {
	if said == nil {
		return events.Record{}
	}
	r := events.Record{Synthesis: clean(said.Synthesis, MaxLine), Progress: progress(said)}
	for _, c := range said.Calls {
		kept := events.CallRecord{
			Line: ownLine(c.Line), Insights: clean(c.Insights, MaxLine), Learning: clean(c.Learning, MaxLine), Relevance: c.Relevance,
		}
		if tier(c.Relevance) == unknownTier {
			kept.Relevance = ""
		}
		for _, next := range c.Next {
			if next = clean(next, MaxLine); next != "" && len(kept.Next) < maxNext {
				kept.Next = append(kept.Next, next)
			}
		}
		r.Calls = append(r.Calls, kept)
	}
	return r
}

// progress is what a step says of its own, "" if it says nothing that we know.
func progress(said *events.Record) events.Progress {
	if said != nil {
		switch said.Progress {
		case events.Advancing, events.Stuck, events.Regressing:
			return said.Progress
		}
	}
	return ""
}

// ownLine is a line that somebody wrote: only its first arrow is one, only a tool's name after "called" is in backticks,
// and it does not begin like a heading or a list. A line of ours stays as it is.
func ownLine(s string) string {
	did, came, _ := strings.Cut(s[:min(len(s), maxRead)], arrow)
	if rest, ok := strings.CutPrefix(did, string(called)+" `"); ok {
		tool, about, _ := strings.Cut(rest, "`")
		did = strings.TrimSpace(calledTool(tool) + " " + clean(about, maxAbout))
	} else {
		did = strings.TrimLeft(clean(did, MaxLine), markup)
	}
	switch came = clean(came, MaxLine); {
	case did == "":
		return strings.TrimLeft(came, markup)
	case came == "":
		return did
	}
	if room := MaxLine - utf8.RuneCountInString(did) - arrowRoom; room > 0 {
		return did + " " + arrow + " " + clean(came, room)
	}
	return did
}
