package conversation

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook/text"
)

// MaxLine is the maximum length of a line in characters (code points).
const MaxLine = 200

// Line is the record of one call as shown in a context: a single line of at most MaxLine characters.
type Line struct {
	Relevance events.Relevance
	Text      string
	Tokens    int // by chat.Tokens, including the line break
}

// ranks order the known values of a relevance, the highest first. An unknown value has rank 0.
var ranks = map[events.Relevance]int{events.High: 1, events.Medium: 2, events.Low: 3}

// Lines returns the lines of all calls of the agent in order.
//
// If the step does not state the relevance of a call, the first of these rules decides:
//
//   - low: a useless repetition
//   - high: a failure
//   - low: a call that returned nothing or an empty list, and wrote nothing
//   - high: a call with a rare word of the query in its arguments or output; a word is rare if at most two of the calls, or at
//     most a quarter of them, have it
//   - medium: any other call
func Lines(steps []events.Step, query string) (lines []Line) {
	var past history
	words := queryWords(query)
	var found [][]string // by line: the words of the query in its call
	for i := range steps {
		s := &steps[i]
		if s.Speaker == chat.User {
			continue
		}
		args := argumentsOfAll(s.Calls)
		_, repeats := past.add(s.Calls, args)
		for j := range s.Calls {
			c, record := &s.Calls[j], recordOf(s, j)
			lesson := clean(cmp.Or(record.Learning, record.Insights), MaxLine)
			line := cmp.Or(sanitizeLine(record.Line), callLine(c, args[j], lesson))
			relevance := record.Relevance
			if ranks[relevance] == 0 {
				relevance = obviousRelevance(c, repeats[j]) // may still be ""
			}
			lines = append(lines, Line{Relevance: relevance, Text: line, Tokens: chat.Tokens(line + "\n")})
			found = append(found, wordsIn(c, words))
		}
	}
	rateByQuery(lines, found)
	return lines
}

// rateByQuery sets the relevance of the lines without one, by the words of the query. found has, for each line, those that its call has.
func rateByQuery(lines []Line, found [][]string) {
	callCount := make(map[string]int) // by word: the number of calls that have it
	for _, words := range found {
		for _, w := range words {
			callCount[w]++
		}
	}
	maxCount := max(2, len(lines)/4) // of a rare word
	isRare := func(w string) bool { return callCount[w] <= maxCount }
	for i := range lines {
		l := &lines[i]
		switch {
		case l.Relevance != "":
		case slices.ContainsFunc(found[i], isRare):
			l.Relevance = events.High
		default:
			l.Relevance = events.Medium
		}
	}
}

// recordOf returns the record of a call in the record of its step, empty without one.
func recordOf(s *events.Step, call int) events.CallRecord {
	if s.Record == nil || call >= len(s.Record.Calls) {
		return events.CallRecord{}
	}
	return s.Record.Calls[call]
}

// obviousRelevance returns the relevance of a call by the rules that do not need the query, or "" if none applies.
func obviousRelevance(c *events.ToolCall, repeated bool) events.Relevance {
	switch {
	case repeated:
		return events.Low
	case c.Outcome.Failed():
		return events.High
	case isEmptyOutput(strings.TrimSpace(c.Output)) && verbFromName(c.Tool) != wrote:
		return events.Low
	}
	return ""
}

// queryWords returns the words of a query that can describe its topic, in lower case.
func queryWords(query string) map[string]bool {
	words := make(map[string]bool)
	for word := range text.Words(query[:min(len(query), maxCallRead)]) {
		if isTopic(word) {
			words[strings.ToLower(word)] = true
		}
	}
	return words
}

// wordsIn returns those of the words that occur in the arguments or the output of a call, each once.
func wordsIn(c *events.ToolCall, words map[string]bool) (found []string) {
	if len(words) == 0 {
		return nil
	}
	for _, s := range [...]string{c.Arguments, c.Output} {
		for word := range text.Words(s[:min(len(s), maxCallRead)]) {
			if w := strings.ToLower(word); words[w] && !slices.Contains(found, w) {
				found = append(found, w)
			}
		}
	}
	return found
}

// isTopic reports whether a word can describe a topic: it has a digit, or it is long and not common.
func isTopic(word string) bool {
	if strings.ContainsFunc(word, unicode.IsNumber) {
		return len(word) > 1
	}
	return utf8.RuneCountInString(word) > 3 && !text.IsCommon(strings.ToLower(word))
}

// Rank keeps the most relevant lines within the token limit, and the newer ones of equal relevance. A line that does not fit is skipped. The
// kept lines stay in order. omitted is the number of lines that were left out.
func Rank(lines []Line, tokens int) (kept []Line, omitted int) {
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(ranks[lines[a].Relevance], ranks[lines[b].Relevance]), cmp.Compare(b, a))
	})
	var fitting []int
	for _, i := range order {
		if lines[i].Tokens <= tokens {
			tokens -= lines[i].Tokens
			fitting = append(fitting, i)
		}
	}
	slices.Sort(fitting)
	for _, i := range fitting {
		kept = append(kept, lines[i])
	}
	return kept, len(lines) - len(kept)
}
