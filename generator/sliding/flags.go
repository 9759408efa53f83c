package sliding

import "strings"

// flags are what an item is besides being relevant.
type flags uint8

const (
	star flags = 1 << iota
	solution
	failure
	question
	code

	allFlags = star | solution | failure | question | code
)

// flagWeights by bit, the largest first.
var flagWeights = [...]float64{0.8, 0.7, 0.6, 0.5, 0.4}

// weight is the largest of the flags' weights and a tenth of the others'. So a flag more is always worth more, and an
// item of many small flags does not pass one that was starred.
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

// How much of a text flags are read from, in bytes. Errors, solutions and questions stand at the beginning or at the
// end of what is said; code may come after an introduction.
const (
	signsAtEnds = 192
	fencesUpTo  = 4 << 10
	indentsUpTo = 512
)

// readFlags is the flags that a text shows:
//
//   - failure: error, exception, traceback, failed, failure, also in names such as ValueError
//   - solution: fixed, solved, the solution, works now
//   - question: a question mark at the end, or a user who begins with an interrogative
//   - code: a fence, or an indented line that is not an item of a list
//
// Words count whole, and not after a negation ("0 failed", "not fixed").
func readFlags(text string, by Source) flags {
	var f flags
	if len(text) <= 2*signsAtEnds {
		f = readSigns(text)
	} else {
		f = readSigns(text[:signsAtEnds]) | readSigns(text[len(text)-signsAtEnds:])
	}
	if asks(text, by) {
		f |= question
	}
	if hasCode(text) {
		f |= code
	}
	return f
}

var interrogatives = set("how what why where who whose whom which can could would should is are do does did")

func asks(text string, by Source) bool {
	end := len(text)
	for least := max(0, end-64); end > least && strings.IndexByte(" \t\r\n\"'`)]}*_", text[end-1]) >= 0; {
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
	if strings.Contains(text[:min(len(text), fencesUpTo)], "```") || indented(text) {
		return true
	}
	text = text[:min(len(text), indentsUpTo)]
	for {
		end := strings.IndexByte(text, '\n')
		if end < 0 {
			return false
		}
		if text = text[end+1:]; indented(text) {
			return true
		}
	}
}

// indented says whether a text begins with a line of code by its indent: four spaces or a tab, and no item of a list.
func indented(text string) bool {
	if text == "" || text[0] != '\t' && !strings.HasPrefix(text, "    ") {
		return false
	}
	text = strings.TrimLeft(text[:min(len(text), 64)], " \t")
	return text != "" && !strings.ContainsAny(text[:1], "\r\n-*+0123456789") && !strings.HasPrefix(text, "•")
}

// signs are the words that speak of a failure or a solution.
var signs = [...]struct {
	word string
	says flags
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

// A text is searched for all signs at once, most of it unread: Wu and Manber, "A fast algorithm for multi-pattern
// searching" (1994). The two letters at the end of the first signSize of a sign say how far ahead the next one can be.
const signSize = 5 // letters of the shortest sign

var leaps = func() (t [1 << 13]uint8) {
	for i := range t {
		t[i] = signSize - 1
	}
	for _, s := range signs {
		for end := 1; end < signSize; end++ {
			at := &t[pair(s.word[end-1], s.word[end])]
			*at = min(*at, uint8(signSize-1-end))
		}
	}
	return t
}()

// pair is two letters as a number below 1<<13, whatever their case.
func pair(a, b byte) uint16 { return (uint16(a) | uint16(b)<<8) & 0x1f1f }

func readSigns(text string) (f flags) {
	for end := signSize - 1; end < len(text); {
		leap := leaps[pair(text[end-1], text[end])]
		if leap > 0 {
			end += int(leap)
			continue
		}
		f |= signAt(text, end-(signSize-1), f)
		if f == failure|solution {
			break
		}
		end++
	}
	return f
}

// signAt is what the sign at a place says, 0 if there is none or if that is known.
func signAt(text string, at int, known flags) flags {
	if at > 0 && within(text[at-1], text[at]) {
		return 0
	}
	for i := range signs {
		s := &signs[i]
		end := at + len(s.word)
		if s.says&known != 0 || s.word[0] != text[at]|0x20 || end > len(text) || !strings.EqualFold(text[at:end], s.word) {
			continue
		}
		rest := text[end:]
		if rest != "" && rest[0]|0x20 == 's' && within(text[end-1], rest[0]) {
			rest = rest[1:]
		}
		if rest != "" && within(text[end-1], rest[0]) {
			return 0
		}
		if holds(s.word, wordBefore(text[:at]), rest) {
			return s.says
		}
		return 0
	}
	return 0
}

// holds says whether a sign means what it says, by the word before it and the text after it.
func holds(sign, before, rest string) bool {
	for _, n := range negations {
		if strings.EqualFold(before, n) {
			return false
		}
	}
	switch sign {
	case "fixed": // no fixed-size array
		return !strings.EqualFold(before, "a") && !strings.HasPrefix(rest, "-")
	case "solution":
		return strings.EqualFold(before, "the")
	case "works":
		rest = strings.TrimLeft(rest, " ")
		return strings.EqualFold(before, "now") || (len(rest) >= 3 && strings.EqualFold(rest[:3], "now") && (len(rest) == 3 || !letter(rest[3])))
	}
	return true
}

var negations = strings.Fields("no not never without 0 zero isn't wasn't didn't doesn't don't hasn't haven't aren't")

// wordBefore is the last word of a text, if nothing but spaces and emphasis follow it.
func wordBefore(text string) string {
	end := len(text)
	for end > 0 && strings.IndexByte(" *_`\"", text[end-1]) >= 0 {
		end--
	}
	start := end
	for start > 0 && (letter(text[start-1]) || '0' <= text[start-1] && text[start-1] <= '9' || text[start-1] == '\'') {
		start--
	}
	return text[start:end]
}

// within says whether two neighbouring bytes are inside of one word, "ValueError" being two.
func within(a, b byte) bool { return letter(a) && letter(b) && !(lower(a) && !lower(b)) }

func lower(c byte) bool  { return 'a' <= c && c <= 'z' }
func letter(c byte) bool { return lower(c | 0x20) }
