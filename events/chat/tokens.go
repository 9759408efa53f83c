package chat

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// perMessage and perCall are the approximate tokens that the protocol adds to a message and to a tool call.
const (
	perMessage = 4
	perCall    = 6
)

// Tokens estimates the tokens of a message, including the overhead of the protocol.
func (m *Message) Tokens() int {
	n := perMessage + Tokens(m.Text)
	for _, c := range m.Calls {
		n += perCall + Tokens(c.Tool) + Tokens(c.Arguments)
	}
	return n
}

// Tokens estimates the tokens of a prompt with its schema.
func (p *Prompt) Tokens() int {
	n := Tokens(string(p.Schema))
	for i := range p.Messages {
		n += p.Messages[i].Tokens()
	}
	return n
}

// ReplyTokens is a typical number of tokens of a reply, for estimates before a call.
const ReplyTokens = 300

// Tokens estimates the tokens of a text, rather too high than too low. The vocabulary of a tokenizer would be as
// large as the rest of a worker. So this is a state machine with about sixty states. It reads a text byte by byte
// and distinguishes words, numbers, punctuation, space and scripts, as tokenizers do before they merge. Each
// transition adds the average cost of the byte in that state. The costs are fitted to the larger of o200k_base and
// cl100k_base; tokens_test.go measures the error.
//
// An empty text has 0 tokens, any other text at least 1. The estimate never decreases when a text gets longer. The
// estimate for a concatenation exceeds the sum of the estimates by at most one, and not at all if the first text
// ends with a line feed.
func Tokens(text string) int { return CostTokens(Cost("", text)) }

// token is the cost of one token: costs are in twentieths of a token.
const token = 20

// Cost estimates a text that follows another text, in twentieths of a token; CostTokens returns the tokens. The costs of a text and
// of the text that follows it add up to the cost of both. After a line feed the cost of a text does not depend on the text before.
func Cost(before, text string) int {
	var e entry
	for i := range len(before) {
		e = e.after(before[i])
	}
	sum := 0
	for i := range len(text) {
		e = e.after(text[i])
		sum += e.cost()
	}
	return sum
}

// CostTokens returns the tokens of a cost, rounded up.
func CostTokens(cost int) int { return (cost + token - 1) / token }

// PrefixLen returns the length in bytes of the longest prefix of text with at most that many tokens. The prefix does not
// end within a rune.
func PrefixLen(text string, tokens int) int {
	limit := min(max(tokens, 0), math.MaxInt/token) * token
	var e entry
	sum := 0
	for i := range len(text) {
		e = e.after(text[i])
		sum += e.cost()
		if sum > limit {
			return runeStart(text, i)
		}
	}
	return len(text)
}

// runeStart returns the start of the rune that contains byte i, or i if the text is not UTF-8 there.
func runeStart(text string, i int) int {
	for j := i; j >= 0 && i-j < utf8.UTFMax; j-- {
		if utf8.RuneStart(text[j]) {
			if _, n := utf8.DecodeRuneInString(text[j:]); j+n > i {
				return j
			}
			break
		}
	}
	return i
}

// entry is the result of one transition: the next state in the high byte, and the cost in the low byte. Its zero value has the
// state start.
type entry uint16

// costs contains an entry for each state (high byte of the index) and input byte (low byte).
var costs = func() (t [states << 8]entry) {
	for s := range state(states) {
		for b := range 256 {
			next, cost := s.step(byte(b))
			t[int(s)<<8|b] = entry(next)<<8 | entry(cost)
		}
	}
	return t
}()

// after returns the entry for the byte that follows.
func (e entry) after(b byte) entry { return costs[e&^0xff|entry(b)] }

func (e entry) cost() int { return int(e & 0xff) }

// state summarizes the preceding bytes.
type state uint8

const (
	start   state = iota
	line          // line feeds
	indent        // a space at the start of a line
	indents       // several
	space         // a space within a line
	spaces        // several
	tab           // tabs
	word          // a lower-case letter; the states after it are words of 2, 3 … letters
)

const (
	longWord = word + 12       // 13 letters or more
	upper    = longWord + 1    // a capital; then two, three …
	capitals = upper + 4       // five or more
	digit    = capitals + 1    // a digit, then two, three
	mark     = digit + 3       // punctuation
	marks    = mark + 1        // a character of ruler, one state for each
	rulers   = marks + nRuler  // the same character repeated
	foreign  = rulers + nRuler // letters of other scripts
	accent   = foreign + 1     // expects the second byte of a Latin letter
	letter1  = accent + 1      // expects the last byte of another letter
	letter2  = letter1 + 1     // expects the last two bytes of it
	mark1    = letter2 + 1     // expects the last byte of a symbol
	mark2    = mark1 + 1       // expects the last two bytes of it
	leadE0   = mark2 + 1       // the byte was E0, and the next one determines the script
	leadE1   = leadE0 + 1      // the byte was E1
	leadE2   = leadE1 + 1      // E2
	leadE3   = leadE2 + 1      // E3
	leadEA   = leadE3 + 1      // EA
	leadF0   = leadEA + 1      // F0 to F4
	states   = int(leadF0) + 1
)

// ruler contains the characters that tokenizers merge into few tokens when they are repeated.
const (
	ruler  = "-=*#_.~/`"
	nRuler = state(len(ruler))
)

func (s state) in(first, last state) bool { return first <= s && s <= last }

// step returns the next state and the cost for one byte.
func (s state) step(b byte) (next state, cost int) {
	if s >= accent {
		if 0x80 <= b && b < 0xC0 {
			return s.onNext(b)
		}
		next, cost = mark.step(b) // incomplete rune
		return next, cost + 6
	}
	switch {
	case 'a' <= b && b <= 'z':
		return s.onLower()
	case 'A' <= b && b <= 'Z':
		return s.onUpper()
	case '0' <= b && b <= '9':
		return s.onDigit()
	case b == ' ' || b == '\t' || b == '\n' || b == '\r':
		return s.onBlank(b)
	case b < 0x20 || b == 0x7F:
		return mark, 20
	case b < 0x80:
		return s.onMark(b)
	}
	return s.onLead(b)
}

// onLower: most words are one token including the space before them. Rarer and longer words are several. A word at
// the start of a line or directly after a number is seldom in a vocabulary.
func (s state) onLower() (state, int) {
	switch {
	case s.in(word, word+2):
		return s + 1, 0
	case s.in(word+3, word+6):
		return s + 1, 3
	case s.in(word+7, word+10):
		return s + 1, 6
	case s.in(word+11, longWord):
		return longWord, 7
	case s == upper:
		return word + 1, 0
	case s.in(upper+1, capitals):
		return word + 1, 18
	}
	return word, s.begin()
}

// onUpper: a capital within a word begins another word, which is cheap in CamelCase and expensive in base64.
func (s state) onUpper() (state, int) {
	switch {
	case s.in(upper, upper+2):
		return s + 1, 6
	case s.in(upper+3, capitals):
		return capitals, 10
	case s.in(word, word+2):
		return upper, 28
	case s.in(word+3, longWord):
		return upper, 16
	}
	return upper, s.begin() + 2
}

// begin returns the cost of the first letter of a word.
func (s state) begin() int {
	switch {
	case s == space || s == spaces || s == indent || s == indents:
		return 13
	case s.in(digit, digit+2) || s == foreign:
		return 32
	case s.in(mark, foreign-1):
		return 22
	}
	return 35 // begins a line
}

// onDigit: three digits are one token, and the space before them is another.
func (s state) onDigit() (state, int) {
	switch {
	case s.in(digit, digit+1):
		return s + 1, 0
	case s.in(word, word+2) || s.in(upper, upper+2):
		return digit, 29
	case s.in(indent, tab):
		return digit, 41
	}
	return digit, 21
}

// onBlank: a space belongs to the word after it, many spaces are one token, and a line feed is often one token
// together with the text before it.
func (s state) onBlank(b byte) (state, int) {
	switch {
	case b == '\t' && s == tab:
		return tab, 2
	case b == '\t' && (s == line || s == start):
		return tab, 6
	case b == '\t':
		return tab, 8
	case b == ' ':
		switch s {
		case start, line:
			return indent, 6
		case indent:
			return indents, 6
		case space, tab:
			return spaces, 14
		case indents, spaces:
			return s, 1
		}
		return space, 6
	case s == line:
		return line, 2
	case s.in(mark, foreign-1):
		return line, 9
	case s.in(indent, tab):
		return line, 14
	}
	return line, 24
}

// onMark: a punctuation mark directly after a word is often one token with the next word, or with marks that
// usually follow.
func (s state) onMark(b byte) (state, int) {
	next := mark
	at := strings.IndexByte(ruler, b)
	if at >= 0 {
		once, repeated := marks+state(at), rulers+state(at)
		switch s {
		case once:
			return repeated, 8
		case repeated:
			return repeated, 2
		}
		next = once
	}
	joins := strings.IndexByte("\"'_()[]{}<>=*#", b) >= 0
	switch {
	case s.in(start, tab) && joins:
		return next, 13
	case s.in(start, tab):
		return next, 20
	case s.in(mark, foreign-1):
		switch {
		case strings.IndexByte("\"'_=:", b) >= 0:
			return next, 4
		case strings.IndexByte("()[]{}<>.,;*#-/\\", b) >= 0:
			return next, 14
		}
		return next, 20
	case joins:
		return next, 6
	}
	return next, 16
}

// lead describes the first bytes of runes that are not ASCII, up to a byte.
type lead struct {
	last   byte
	next   state
	cost   int
	begins bool // the cost is higher outside of letters of other scripts
}

// leads are sorted by byte. cl100k_base knows few words in other scripts, so each letter has a cost.
var leads = []lead{
	{0xC1, mark, 20, false},   // not UTF-8
	{0xC2, mark1, 20, false},  // symbols
	{0xC3, accent, 0, false},  // Latin letters with accents, see onLead
	{0xC5, accent, 14, false}, // rarer ones
	{0xCC, letter1, 30, true}, // rare Latin letters, combining accents
	{0xCF, letter1, 19, true}, // Greek
	{0xD3, letter1, 8, true},  // Cyrillic, see onLead
	{0xD6, letter1, 40, true}, // Armenian
	{0xD7, letter1, 20, true}, // Hebrew
	{0xDB, letter1, 14, true}, // Arabic
	{0xDF, letter1, 40, true}, // others
	{0xE0, leadE0, 19, true},  // scripts of India, Thai
	{0xE1, leadE1, 8, false},  // Vietnamese
	{0xE2, leadE2, 24, false}, // symbols
	{0xE3, leadE3, 19, true},  // Japanese
	{0xE9, letter2, 29, true}, // Chinese
	{0xEA, leadEA, 21, true},  // others, Korean
	{0xED, letter2, 21, true}, // Korean
	{0xEE, mark2, 60, false},  // private use
	{0xEF, mark2, 36, false},  // full-width symbols
	{0xF4, leadF0, 50, false}, // emoji
	{0xFF, mark, 20, false},   // not UTF-8
}

// onLead handles the first byte of a rune that is not ASCII. A letter with an accent also shows that the words around it are not English.
func (s state) onLead(b byte) (state, int) {
	i := slices.IndexFunc(leads, func(l lead) bool { return b <= l.last })
	l := leads[i]
	switch {
	case l.next == accent && s.in(word, capitals):
		l.cost += 56
	case l.next == accent:
		l.cost += s.begin() + 44
	case l.last == 0xD3 && s != foreign: // the first letter of a Cyrillic word
		l.cost = 32
	case l.begins && s != foreign:
		l.cost += 13
	}
	return l.next, l.cost
}

// further describes the bytes that follow in a state, up to a byte.
type further struct {
	after state
	last  byte
	next  state
	cost  int
}

// furthers are sorted by state and byte. The second byte determines the script after some first bytes, and the rest of the cost.
var furthers = []further{
	{accent, 0xBF, word + 3, 0},
	{letter1, 0xBF, foreign, 0},
	{letter2, 0xBF, letter1, 0},
	{mark1, 0xBF, mark, 0},
	{mark2, 0xBF, mark1, 0},
	{leadE0, 0xA3, letter1, 21},
	{leadE0, 0xA5, letter1, 3}, // Devanagari
	{leadE0, 0xA7, letter1, 7}, // Bengali
	{leadE0, 0xAD, letter1, 21},
	{leadE0, 0xAF, letter1, 10}, // Tamil
	{leadE0, 0xB3, letter1, 21},
	{leadE0, 0xB5, letter1, 15}, // Malayalam
	{leadE0, 0xB7, letter1, 21},
	{leadE0, 0xB9, letter1, 0}, // Thai
	{leadE0, 0xBF, letter1, 21},
	{leadE1, 0xB7, letter1, 34},
	{leadE1, 0xBB, accent, 0}, // Vietnamese
	{leadE1, 0xBF, letter1, 34},
	{leadE2, 0x80, mark1, 2}, // dashes and quotes
	{leadE2, 0x93, mark1, 32},
	{leadE2, 0x95, mark1, 0}, // box drawing
	{leadE2, 0xBF, mark1, 32},
	{leadE3, 0x80, letter1, 7}, // Japanese punctuation
	{leadE3, 0x83, letter1, 0}, // kana
	{leadE3, 0xBF, letter1, 23},
	{leadEA, 0xAF, letter1, 29},
	{leadEA, 0xBF, letter1, 0}, // Korean
	{leadF0, 0x9E, mark2, 30},
	{leadF0, 0x9F, mark2, 0}, // emoji
	{leadF0, 0xBF, mark2, 30},
}

// onNext handles a further byte of a rune.
func (s state) onNext(b byte) (state, int) {
	i := slices.IndexFunc(furthers, func(f further) bool { return f.after == s && b <= f.last })
	return furthers[i].next, furthers[i].cost
}
