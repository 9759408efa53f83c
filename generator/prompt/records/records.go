// Package records summarizes an agent's steps. Each tool call becomes one line such as "searched X → found Y" with a
// relevance, and Stuck detects work that repeats without progress. A record written by the agent or a Reflector is
// kept; missing parts are computed from the call. No model is needed, so the next turn already has the records.
//
// All functions are pure functions of the steps. The text of a trace is untrusted. Text that is copied into a line or
// a recovery prompt is shortened to one line and loses all characters that could end a quotation or look like
// structure.
package records

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"debrief/events"
	"debrief/events/chat"
)

const (
	// MaxLine is the maximum length of a line in characters (code points).
	MaxLine = 200
	maxNext = 3 // maximum number of suggested actions per call

	markup = "#*+-=|~›… " // first characters of headings, lists and shortened text
)

// FromSteps returns one record per step, in order. The record of a user's turn is empty. Every text in a record is a
// single line of at most MaxLine characters.
//
// FromSteps computes the progress if the step does not state it. The step is regressing if a call fails that worked
// the last time. It is stuck if every call failed or repeated an earlier answer, and advancing otherwise. A step
// without calls has no progress.
//
// FromSteps computes the relevance of a call, if the step does not state it, by the first rule that applies. A
// useless repetition is low. A failure is high. A call that returned nothing or an empty list, and wrote nothing, is
// low. A call with a rare word of the query in its arguments or output is high. All others are medium. A word is rare
// if it occurs in at most two of the calls or a quarter of them.
func FromSteps(steps []events.Step, query string) []events.Record {
	list := make([]events.Record, len(steps))
	var past history
	words := newQueryWords(query)
	var matches []wordMatch // query words in each call
	for i := range steps {
		s := &steps[i]
		if s.Speaker == chat.User {
			continue
		}
		args := argumentsOfAll(s.Calls)
		computed, repeats := past.add(s.Calls, args)
		r := sanitize(s.Record)
		r.Progress = cmp.Or(r.Progress, computed)
		r.Synthesis = cmp.Or(r.Synthesis, clean(firstLine(s.Text), MaxLine))
		for j := range s.Calls {
			if j == len(r.Calls) {
				r.Calls = append(r.Calls, events.CallRecord{})
			}
			c, record := &s.Calls[j], &r.Calls[j]
			if record.Line == "" {
				record.Line = callLine(c, args[j], cmp.Or(record.Learning, record.Insights))
			}
			tier := record.Relevance
			if tier == "" {
				tier = obviousRelevance(c, repeats[j])
			}
			matches = append(matches, wordMatch{i, j, tier == "", words.match(c)})
			record.Relevance = cmp.Or(tier, events.Medium)
		}
		list[i] = r
	}
	rare := words.rare(matches)
	for _, m := range matches {
		if m.undecided && m.words&rare != 0 {
			list[m.step].Calls[m.call].Relevance = events.High
		}
	}
	return list
}

// sanitize returns a copy of a step's own record without invalid values.
func sanitize(record *events.Record) events.Record {
	if record == nil {
		return events.Record{}
	}
	r := events.Record{Synthesis: clean(record.Synthesis, MaxLine), Progress: knownProgress(record)}
	for _, c := range record.Calls {
		safe := events.CallRecord{
			Line: sanitizeLine(c.Line), Insights: clean(c.Insights, MaxLine), Learning: clean(c.Learning, MaxLine), Relevance: c.Relevance,
		}
		if tier(c.Relevance) == unknownTier {
			safe.Relevance = ""
		}
		for _, next := range c.Next {
			if next = clean(next, MaxLine); next != "" && len(safe.Next) < maxNext {
				safe.Next = append(safe.Next, next)
			}
		}
		r.Calls = append(r.Calls, safe)
	}
	return r
}

// knownProgress returns the progress stated in a record, or "" if it is missing or unknown.
func knownProgress(record *events.Record) events.Progress {
	if record != nil {
		switch record.Progress {
		case events.Advancing, events.Stuck, events.Regressing:
			return record.Progress
		}
	}
	return ""
}

// sanitizeLine cleans a line written by an agent or a Reflector. Only the first arrow and the backticks around a
// tool's name after "called" keep their meaning, and the line does not begin like a heading or a list. Lines from
// this package stay unchanged.
func sanitizeLine(s string) string {
	action, outcome, _ := strings.Cut(s[:min(len(s), maxRead)], arrow)
	if rest, ok := strings.CutPrefix(action, string(called)+" `"); ok {
		tool, summary, _ := strings.Cut(rest, "`")
		action = strings.TrimSpace(calledTool(tool) + " " + clean(summary, maxSummary))
	} else {
		action = strings.TrimLeft(clean(action, MaxLine), markup)
	}
	switch outcome = clean(outcome, MaxLine); {
	case action == "":
		return strings.TrimLeft(outcome, markup)
	case outcome == "":
		return action
	}
	if room := MaxLine - utf8.RuneCountInString(action) - arrowRoom; room > 0 {
		return action + " " + arrow + " " + clean(outcome, room)
	}
	return action
}
