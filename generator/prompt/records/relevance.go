package records

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events"
	"debrief/playbook/text"
)

// The tiers in order. An unknown relevance ranks as medium.
const (
	highTier = iota
	mediumTier
	lowTier
	unknownTier
)

func tier(r events.Relevance) int {
	switch r {
	case events.High:
		return highTier
	case events.Medium:
		return mediumTier
	case events.Low:
		return lowTier
	}
	return unknownTier
}

// obviousRelevance returns the relevance of a call if it does not depend on the query, else "".
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

// queryWords maps the hash of each word of a query to a bit. A hash collision only makes a call more relevant.
type queryWords map[uint64]uint64

// wordMatch is the set of query words in a call.
type wordMatch struct {
	step, call int
	undecided  bool // the words decide its relevance
	words      uint64
}

const maxWords = 64 // maximum number of query words; later words are ignored

func newQueryWords(query string) queryWords {
	t := queryWords{}
	for word := range text.Words(query[:min(len(query), maxRead)]) {
		if len(t) == maxWords {
			break
		}
		if !isContentWord(word) {
			continue
		}
		hash := text.Hash(word)
		if _, known := t[hash]; !known {
			t[hash] = 1 << len(t)
		}
	}
	return t
}

// match returns the set of query words in a call's arguments and output.
func (t queryWords) match(c *events.ToolCall) (set uint64) {
	if len(t) == 0 {
		return 0
	}
	for _, s := range [...]string{c.Arguments, c.Output} {
		for word := range text.Words(s[:min(len(s), maxRead)]) {
			set |= t[text.Hash(word)]
		}
	}
	return set
}

// rare returns the set of query words that occur in few of the calls.
func (t queryWords) rare(calls []wordMatch) (set uint64) {
	few := max(2, len(calls)/4)
	for bit := range len(t) {
		n := 0
		for _, m := range calls {
			n += int(m.words >> bit & 1)
		}
		if n <= few {
			set |= 1 << bit
		}
	}
	return set
}

// isContentWord reports whether a word can describe the topic of a query: it has a digit, or it is long and not
// common.
func isContentWord(word string) bool {
	if strings.ContainsFunc(word, unicode.IsNumber) {
		return len(word) > 1
	}
	return utf8.RuneCountInString(word) > 3 && !commonWords[strings.ToLower(word)]
}

var commonWords = text.Set(`about after again also another around because been before being both cannot could does doing done
	down during each either ever every from give have having here into just like made make many more most much must need
	only other ought over please same shall should since some such sure take than thank thanks that their them then there
	these they thing this those through under until very want wants well were what when where whether which while will
	with within without would your yours`)
