package conversation

import (
	"math"
	"strings"
	"time"

	"debrief/playbook/text"
)

// halfLife is the age at which recency has fallen to a half.
const halfLife = 24 * time.Hour

// The weights of the parts, sources and flags are those of the sliding window of the coding agent swecli.
const (
	recencyWeight  = 0.3
	semanticWeight = 0.4
)

var sourceWeights = [...]float64{Error: 0.4, User: 0.3, Assistant: 0.2, File: 0.1, System: 0.1}

// Priority combines relevance and position. The newest items matter for the next answer even if they share no word
// with the query.
const (
	relevanceShare = 0.6
	positionShare  = 0.4
)

// maxTotal is the maximum of Score.Total.
var maxTotal = recencyWeight + allFlags.weight() + semanticWeight + sourceWeights[Error]

// Score is the score of an item by parts. Total is the sum of the four parts before it. One more flag or a younger age always raises it.
// Beyond an age of about 50 days the recency no longer changes Total, because of the precision of a float64.
type Score struct {
	Recency  float64 // 0.3 × 2^(-age/24h)
	Flags    float64 // starred 0.8, solution 0.7, error 0.6, question 0.5, code 0.4: the largest, and a tenth of the others
	Semantic float64 // 0.4 × similarity to the query
	Source   float64 // error 0.4, user 0.3, assistant 0.2, file and system 0.1
	Total    float64

	// Priority orders the ordinary items: 0.6 × Total / 2.12, which is the maximum of Total, + 0.4 × position. The
	// position is 0 for the oldest item and 1 for the newest.
	Priority float64
}

// score returns the score of the item at a position, from 0, among n items in time order.
func score(i *Item, now time.Time, position, n int) Score {
	f := detectFlags(i.Text, i.Source)
	if i.Starred {
		f |= star
	}
	s := Score{
		Recency:  recencyWeight * recency(now.Sub(i.At)),
		Flags:    f.weight(),
		Semantic: semanticWeight * clampUnit(i.Semantic),
		Source:   sourceWeights[i.Source],
	}
	s.Total = s.Recency + s.Flags + s.Semantic + s.Source
	s.Priority = relevanceShare*s.Total/maxTotal + positionShare*float64(position)/float64(max(1, n-1))
	return s
}

// recency returns 1 for an age of 0 or less and falls by half per halfLife. A time in the future comes from the clock
// of another machine and counts as now.
func recency(age time.Duration) float64 {
	return math.Exp2(-float64(max(0, age)) / float64(halfLife))
}

// clampUnit returns the number from 0 to 1 that is next to x, 0 for NaN.
func clampUnit(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

// flags are properties of an item that raise its score.
type flags uint8

const (
	star flags = 1 << iota
	solution
	failure
	question
	code

	allFlags = star | solution | failure | question | code
)

// flagWeights are the weights of the flags, by bit. The largest is first.
var flagWeights = [...]float64{0.8, 0.7, 0.6, 0.5, 0.4}

// weight returns the largest weight of the flags plus a tenth of the others. An additional flag always raises the
// weight, but without a solution all flags together stay below a star.
func (f flags) weight() (w float64) {
	share := 1.0 // of the weight of the next flag
	for bit, x := range flagWeights {
		if f&(1<<bit) != 0 {
			w += share * x
			share = 0.1
		}
	}
	return w
}

// Limits of detectFlags in bytes. Errors, solutions and questions are at the beginning or the end of a text. Code may
// follow an introduction.
const (
	keywordBytes  = 192
	questionBytes = 64
	fenceBytes    = 4 << 10
	indentBytes   = 512
)

// detectFlags returns the flags of a text:
//
//   - failure: error, exception, traceback, failed, failure
//   - solution: fixed, solved, the solution, works now
//   - question: a question mark at the end, or an interrogative at the beginning of a user's message
//   - code: a code fence, or an indented line that is not a list item
//
// Only whole words match, and words within a name such as ValueError. A word after a negation does not match ("0 failed", "not fixed").
func detectFlags(text string, by Source) flags {
	ends := text
	if len(text) > 2*keywordBytes {
		ends = text[:keywordBytes] + "\n" + text[len(text)-keywordBytes:]
	}
	f := keywordFlags(ends)
	if isQuestion(text, by) {
		f |= question
	}
	if hasCode(text) {
		f |= code
	}
	return f
}

// keywords are the words that indicate a failure or a solution, if isMeant reports so.
var keywords = map[string]flags{
	"error": failure, "errors": failure, "exception": failure, "exceptions": failure, "traceback": failure, "tracebacks": failure,
	"failed": failure, "failure": failure, "failures": failure,
	"fixed": solution, "solved": solution, "solution": solution, "works": solution, "now": solution,
}

var negations = text.Set("no not never without 0 zero t") // the t of isn't

// keywordFlags returns the flags failure and solution of a text.
func keywordFlags(text string) (f flags) {
	before := ""
	for w := range words(text) {
		if flag, ok := keywords[w]; ok && isMeant(w, before) {
			f |= flag
		}
		before = w
	}
	return f
}

// isMeant reports whether a keyword has its usual meaning after the word before it.
func isMeant(keyword, before string) bool {
	switch keyword {
	case "fixed":
		return before != "a" && !negations[before]
	case "solution":
		return before == "the"
	case "works":
		return before == "now"
	case "now":
		return before == "works"
	}
	return !negations[before]
}

var interrogatives = text.Set("how what why where who whose whom which can could would should is are do does did")

// isQuestion reports whether a text is a question, see detectFlags.
func isQuestion(text string, by Source) bool {
	end := strings.TrimRight(text[max(0, len(text)-questionBytes):], " \t\r\n\"'`)]}*_")
	for _, mark := range [...]string{"?", "？", "؟"} {
		if strings.HasSuffix(end, mark) {
			return true
		}
	}
	if by == User {
		for w := range words(text[:min(len(text), questionBytes)]) {
			return interrogatives[w] // the first word decides
		}
	}
	return false
}

// hasCode reports whether a text has code, see detectFlags.
func hasCode(text string) bool {
	if strings.Contains(text[:min(len(text), fenceBytes)], "```") {
		return true
	}
	for line := range strings.Lines(text[:min(len(text), indentBytes)]) {
		if isIndentedCode(line) {
			return true
		}
	}
	return false
}

// isIndentedCode reports whether a line is code: indented by four spaces or a tab, and not a list item.
func isIndentedCode(line string) bool {
	if line[0] != '\t' && !strings.HasPrefix(line, "    ") {
		return false
	}
	line = strings.TrimSpace(line)
	return line != "" && !strings.ContainsAny(line[:1], "-*+0123456789") && !strings.HasPrefix(line, "•")
}
