package records

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events"
)

// The order of the tiers; what is none of them stands in the middle.
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

// evident is the relevance of a call that needs no look at the query, "" if it does.
func evident(c *events.ToolCall, repeats bool) events.Relevance {
	switch {
	case repeats:
		return events.Low
	case c.Outcome.Failed():
		return events.High
	case isNothing(strings.TrimSpace(c.Output)) && wordVerb(c.Tool) != wrote:
		return events.Low
	}
	return ""
}

// topic is the words of a query, each with its bit. Words are known by a hash: a collision makes a call matter more.
type topic map[uint64]uint64

// mention is which words of the query a call has in it.
type mention struct {
	step, call int
	open       bool // its relevance is up to them
	words      uint64
}

const maxWords = 64 // of a query; what comes after them is not looked at

func topicOf(query string) topic {
	t := topic{}
	eachWord(query, func(word string, hash uint64) {
		if len(t) == maxWords || !tells(word) {
			return
		}
		if _, known := t[hash]; !known {
			t[hash] = 1 << len(t)
		}
	})
	return t
}

// in is the set of the words that are in a call's arguments and output.
func (t topic) in(c *events.ToolCall) (set uint64) {
	if len(t) == 0 {
		return 0
	}
	look := func(_ string, hash uint64) { set |= t[hash] }
	eachWord(c.Arguments, look)
	eachWord(c.Output, look)
	return set
}

// rare is the set of the words that few of the calls have.
func (t topic) rare(calls []mention) (set uint64) {
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

// tells reports whether a word can say what a query is about: it has a digit, or is not short and not a common one.
func tells(word string) bool {
	if strings.ContainsFunc(word, unicode.IsDigit) {
		return len(word) > 1
	}
	return utf8.RuneCountInString(word) > 3 && !common[strings.ToLower(word)]
}

var common = func() map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(`about after again also another around because been before being both cannot could does doing done
		down during each either ever every from give have having here into just like made make many more most much must need
		only other ought over please same shall should since some such sure take than thank thanks that their them then there
		these they thing this those through under until very want wants well were what when where whether which while will
		with within without would your yours`) {
		m[word] = true
	}
	return m
}()

// eachWord calls f with the words in the beginning of a text, runs of letters and digits, and a hash of each that case
// does not change.
func eachWord(s string, f func(word string, hash uint64)) {
	s = s[:min(len(s), maxRead)]
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a, by characters
	hash, start := uint64(offset), -1
	for i, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)):
			r = unicode.ToLower(r)
		default:
			if start >= 0 {
				f(s[start:i], hash)
				hash, start = offset, -1
			}
			continue
		}
		if start < 0 {
			start = i
		}
		hash = (hash ^ uint64(r)) * prime
	}
	if start >= 0 {
		f(s[start:], hash)
	}
}
