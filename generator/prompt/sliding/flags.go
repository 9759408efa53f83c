package sliding

import (
	"strings"

	"debrief/playbook/text"
)

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

// flagWeights are indexed by bit, the largest first.
var flagWeights = [...]float64{0.8, 0.7, 0.6, 0.5, 0.4}

// weight returns the largest weight of the flags plus a tenth of the others. An additional flag always raises the
// weight, but many small flags never exceed a star.
func (f flags) weight() (w float64) {
	share := 1.0
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
	keywordBytes = 192
	fenceBytes   = 4 << 10
	indentBytes  = 512
)

// detectFlags returns the flags of a text:
//
//   - failure: error, exception, traceback, failed, failure, also inside names such as ValueError
//   - solution: fixed, solved, the solution, works now
//   - question: a question mark at the end, or an interrogative at the beginning of a user's message
//   - code: a code fence, or an indented line that is not a list item
//
// Only whole words match, and not after a negation ("0 failed", "not fixed").
func detectFlags(text string, by Source) flags {
	var f flags
	if len(text) <= 2*keywordBytes {
		f = detectKeywords(text)
	} else {
		f = detectKeywords(text[:keywordBytes]) | detectKeywords(text[len(text)-keywordBytes:])
	}
	if isQuestion(text, by) {
		f |= question
	}
	if hasCode(text) {
		f |= code
	}
	return f
}

var interrogatives = text.Set("how what why where who whose whom which can could would should is are do does did")

func isQuestion(text string, by Source) bool {
	end := len(text)
	for start := max(0, end-64); end > start && strings.IndexByte(" \t\r\n\"'`)]}*_", text[end-1]) >= 0; {
		end--
	}
	for _, mark := range [...]string{"?", "？", "؟"} {
		if strings.HasSuffix(text[:end], mark) {
			return true
		}
	}
	if by != User {
		return false
	}
	for w := range words(text[:min(len(text), 64)]) {
		return interrogatives[w]
	}
	return false
}

func hasCode(text string) bool {
	if strings.Contains(text[:min(len(text), fenceBytes)], "```") || isIndentedCode(text) {
		return true
	}
	text = text[:min(len(text), indentBytes)]
	for {
		end := strings.IndexByte(text, '\n')
		if end < 0 {
			return false
		}
		if text = text[end+1:]; isIndentedCode(text) {
			return true
		}
	}
}

// isIndentedCode reports whether the first line of a text is code: indented by four spaces or a tab, and not a list
// item.
func isIndentedCode(text string) bool {
	if text == "" || text[0] != '\t' && !strings.HasPrefix(text, "    ") {
		return false
	}
	text = strings.TrimLeft(text[:min(len(text), 64)], " \t")
	return text != "" && !strings.ContainsAny(text[:1], "\r\n-*+0123456789") && !strings.HasPrefix(text, "•")
}

// keywords are the words that indicate a failure or a solution.
var keywords = [...]struct {
	word string
	flag flags
}{
	{"error", failure},
	{"exception", failure},
	{"traceback", failure},
	{"failed", failure},
	{"failure", failure},
	{"fixed", solution},
	{"solved", solution},
	{"solution", solution},
	{"works", solution},
}

// detectKeywords searches for all keywords at once and skips most of the text: Wu and Manber, "A fast algorithm for
// multi-pattern searching" (1994). The last two letters of the window of minKeyword letters give the distance to the
// next possible keyword.
const minKeyword = 5 // letters of the shortest keyword

var shifts = func() (t [1 << 13]uint8) {
	for i := range t {
		t[i] = minKeyword - 1
	}
	for _, s := range keywords {
		for end := 1; end < minKeyword; end++ {
			at := &t[pair(s.word[end-1], s.word[end])]
			*at = min(*at, uint8(minKeyword-1-end))
		}
	}
	return t
}()

// pair maps two letters to a number below 1<<13. It ignores case.
func pair(a, b byte) uint16 { return (uint16(a) | uint16(b)<<8) & 0x1f1f }

func detectKeywords(text string) (f flags) {
	for end := minKeyword - 1; end < len(text); {
		shift := shifts[pair(text[end-1], text[end])]
		if shift > 0 {
			end += int(shift)
			continue
		}
		f |= keywordAt(text, end-(minKeyword-1), f)
		if f == failure|solution {
			break
		}
		end++
	}
	return f
}

// keywordAt returns the flag of the keyword at an offset. It returns 0 without a keyword, or if its flag is already
// known.
func keywordAt(text string, at int, known flags) flags {
	if at > 0 && sameWord(text[at-1], text[at]) {
		return 0
	}
	for i := range keywords {
		s := &keywords[i]
		end := at + len(s.word)
		if s.flag&known != 0 || s.word[0] != text[at]|0x20 || end > len(text) || !strings.EqualFold(text[at:end], s.word) {
			continue
		}
		rest := text[end:]
		if rest != "" && rest[0]|0x20 == 's' && sameWord(text[end-1], rest[0]) {
			rest = rest[1:]
		}
		if rest != "" && sameWord(text[end-1], rest[0]) {
			return 0
		}
		if confirmed(s.word, wordBefore(text[:at]), rest) {
			return s.flag
		}
		return 0
	}
	return 0
}

// confirmed reports whether a keyword has its usual meaning between the word before it and the text after it.
func confirmed(keyword, before, rest string) bool {
	for _, n := range negations {
		if strings.EqualFold(before, n) {
			return false
		}
	}
	switch keyword {
	case "fixed": // no fixed-size array
		return !strings.EqualFold(before, "a") && !strings.HasPrefix(rest, "-")
	case "solution":
		return strings.EqualFold(before, "the")
	case "works":
		rest = strings.TrimLeft(rest, " ")
		return strings.EqualFold(before, "now") || (len(rest) >= 3 && strings.EqualFold(rest[:3], "now") && (len(rest) == 3 || !isLetter(rest[3])))
	}
	return true
}

var negations = strings.Fields("no not never without 0 zero isn't wasn't didn't doesn't don't hasn't haven't aren't")

// wordBefore returns the last word of a text, ignoring spaces and emphasis marks after it.
func wordBefore(text string) string {
	end := len(text)
	for end > 0 && strings.IndexByte(" *_`\"", text[end-1]) >= 0 {
		end--
	}
	start := end
	for start > 0 && (isLetter(text[start-1]) || '0' <= text[start-1] && text[start-1] <= '9' || text[start-1] == '\'') {
		start--
	}
	return text[start:end]
}

// sameWord reports whether two neighbouring bytes belong to the same word. "ValueError" is two words.
func sameWord(a, b byte) bool { return isLetter(a) && isLetter(b) && !(isLower(a) && !isLower(b)) }

func isLower(c byte) bool  { return 'a' <= c && c <= 'z' }
func isLetter(c byte) bool { return isLower(c | 0x20) }
