package similar

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
)

// parseTerms returns the terms of a text.
func parseTerms(s string) []term {
	p := scanner{text: []rune(strings.Map(canonicalRune, s)), sentenceStart: true}
	for p.at < len(p.text) {
		p.next()
	}
	return p.terms
}

// canonicalRune returns the most common form of a character, or a negative number to remove it.
func canonicalRune(r rune) rune {
	switch narrow := text.Narrow(r); {
	case narrow != r:
		return narrow
	case strings.ContainsRune("’‘‚", r):
		return '\''
	case strings.ContainsRune("“”„«»「」『』", r):
		return '"'
	case r == '−':
		return '-'
	case r == '\u202f' || r == '\u2009':
		return '\u00a0' // separates thousands
	case r == utf8.RuneError:
		return ' '
	case text.Invisible(r):
		return -1
	}
	return r
}

// scanner splits a text into terms from left to right. The methods quotation, number and name each try to read one term at the current
// position. They return false and read nothing if another kind of term or a sign begins there.
type scanner struct {
	text          []rune
	at            int
	sentenceStart bool   // the next term begins a sentence, so its capital has no meaning
	preposition   string // the prepositions before the next term, separated by spaces
	terms         []term
}

// peek returns the character at an offset from the current one, or a line break outside the text.
func (s *scanner) peek(by int) rune {
	if i := s.at + by; i >= 0 && i < len(s.text) {
		return s.text[i]
	}
	return '\n'
}

// add adds a term with the preposition that was read before it.
func (s *scanner) add(kind Kind, raw, text string) {
	s.terms = append(s.terms, term{kind: kind, raw: raw, text: text, preposition: s.preposition})
	s.preposition = ""
}

// addExact adds an identifier, whose text is compared exactly.
func (s *scanner) addExact(text string) {
	s.add(Identifiers, text, text)
	s.terms[len(s.terms)-1].exact = true
}

// next reads a space, a term or a sign.
func (s *scanner) next() {
	r := s.peek(0)
	switch {
	case unicode.IsSpace(r):
		s.sentenceStart = s.sentenceStart || r == '\n'
		s.at++
	case s.quotation() || s.number() || s.name():
		s.sentenceStart = false
	default:
		s.sentenceStart = s.sentenceStart || strings.ContainsRune(".!?:", r)
		s.operator()
	}
}

// Maximum length of a quotation and of a placeholder in characters. Longer ones are read as normal text.
const (
	maxQuotation   = 200
	maxPlaceholder = 64
)

// quotation reads a text in quotes or backticks, or in brackets without a space, as a single term.
func (s *scanner) quotation() bool {
	mark := s.peek(0)
	switch {
	case mark == '`' && s.peek(1) == '`' && s.peek(2) == '`':
		return s.quoted(3, closingFence(s.text[s.at+3:]))
	case mark == '`' || mark == '"':
		return s.quoted(1, closing(s.text[s.at+1:], mark, maxQuotation))
	case mark == '\'' && !isWord(s.peek(-1)) && !unicode.IsSpace(s.peek(1)):
		return s.quoted(1, closingApostrophe(s.text[s.at+1:]))
	case mark == '{':
		return s.bracketed('}')
	case mark == '<' && (unicode.IsLetter(s.peek(1)) || s.peek(1) == '/'):
		return s.bracketed('>')
	}
	return false
}

// quoted reads a quotation of length characters. marks is the number of marks on each side. A length of -1 means that no mark closes it.
func (s *scanner) quoted(marks, length int) bool {
	if length <= 0 {
		return false
	}
	from := s.at + marks
	raw := strings.TrimSpace(string(s.text[from : from+length]))
	if raw == "" {
		return false
	}
	s.addExact(raw)
	s.at = from + length + marks
	return true
}

// bracketed reads a placeholder with its brackets. It must not contain a space.
func (s *scanner) bracketed(end rune) bool {
	n := closing(s.text[s.at:], end, maxPlaceholder) + 1 // the brackets are part of the term
	if n == 0 || slices.ContainsFunc(s.text[s.at:s.at+n], unicode.IsSpace) {
		return false
	}
	s.addExact(string(s.text[s.at : s.at+n]))
	s.at += n
	return true
}

// closingApostrophe returns the index of the mark that closes a quotation in single quotes, or -1; see closing. A mark before a letter is an
// apostrophe, which closes nothing.
func closingApostrophe(body []rune) int {
	end := closing(body, '\'', maxQuotation)
	// While end is an apostrophe, go on to the next mark.
	for end >= 0 && end+1 < len(body) && isWord(body[end+1]) {
		next := closing(body[end+1:], '\'', maxQuotation-end)
		if next < 0 {
			return -1
		}
		end += 1 + next
	}
	return end
}

// closing returns the index of the closing mark, which is also the length of the text before it. It returns -1 if the mark is not on the same
// line within limit characters.
func closing(body []rune, mark rune, limit int) int {
	for i, r := range body[:max(0, min(len(body), limit))] {
		switch r {
		case mark:
			return i
		case '\n':
			return -1
		}
	}
	return -1
}

// closingFence returns the index of the next three backticks, or -1.
func closingFence(body []rune) int {
	for i := range len(body) - 2 {
		if body[i] == '`' && body[i+1] == '`' && body[i+2] == '`' {
			return i
		}
	}
	return -1
}

// number reads a number with its sign and an adjacent percent or currency sign.
func (s *scanner) number() bool {
	from := s.at
	currency, sign := "", ""
	if unicode.Is(unicode.Sc, s.peek(0)) {
		currency = string(s.peek(0))
		s.at++
		s.skipSpace()
	}
	if s.peek(0) == '-' && !isWord(s.peek(-1)) && !strings.ContainsRune("-)]%", s.peek(-1)) {
		sign = "-"
		s.at++
	}
	isFraction := s.peek(0) == '.' && isDigit(s.peek(1)) && !isWord(s.peek(-1)) // such as .5
	if !isDigit(s.peek(0)) && !isFraction {
		s.at = from
		return false
	}
	integer := s.integer()
	point, dots := s.at, 0 // beginning of the fraction, and number of its points
	for ; s.peek(0) == '.' && isDigit(s.peek(1)); dots++ {
		s.at++
		s.skipDigits()
	}
	if dots > 1 { // a version, an address
		raw := string(s.text[from:s.at])
		s.addExact(raw)
		return true
	}
	fraction := string(s.text[point:s.at])
	if strings.Trim(fraction, ".0") == "" {
		fraction = "" // 10.0 is 10, but 3.10 is not 3.1: it may be a version
	}
	unit := s.unit()
	s.add(Numbers, string(s.text[from:s.at]), sign+integer+fraction+cmp.Or(currency, unit))
	return true
}

// integer reads digits, with or without groups of three, and returns them without separators. A point does not separate groups, because 1.000
// may be the number one.
func (s *scanner) integer() string {
	const separators = ",_'\u00a0"
	from := s.at
	s.skipDigits()
	n := s.at - from
	if n == 0 {
		return "0" // of .5
	}
	if n <= 3 && s.text[from] != '0' { // groups may follow
		for strings.ContainsRune(separators, s.peek(0)) && s.isGroup(1) {
			s.at += 4
		}
	}
	return strings.Map(func(r rune) rune {
		if isDigit(r) {
			return r
		}
		return -1
	}, string(s.text[from:s.at]))
}

// isGroup reports whether exactly three digits begin at an offset from the current character.
func (s *scanner) isGroup(by int) bool {
	return isDigit(s.peek(by)) && isDigit(s.peek(by+1)) && isDigit(s.peek(by+2)) && !isDigit(s.peek(by+3))
}

// skipDigits skips digits.
func (s *scanner) skipDigits() {
	for isDigit(s.peek(0)) {
		s.at++
	}
}

// skipSpace skips one space.
func (s *scanner) skipSpace() {
	if r := s.peek(0); r != '\n' && unicode.IsSpace(r) {
		s.at++
	}
}

// unit reads a percent or currency sign after a number, or the word percent. It returns "" without one.
func (s *scanner) unit() string {
	from := s.at
	s.skipSpace()
	r := s.peek(0)
	isSign := r == '%' || r == '‰' || unicode.Is(unicode.Sc, r)
	if isSign && (s.at == from || !isWord(s.peek(1))) { // not the %s of "7 %s"
		s.at++
		return string(r)
	}
	for _, word := range []string{"percent", "per cent", "pct"} {
		end := s.at + len(word)
		if end <= len(s.text) && strings.EqualFold(string(s.text[s.at:end]), word) && (end == len(s.text) || !isWord(s.text[end])) {
			s.at = end
			return "%"
		}
	}
	s.at = from
	return ""
}

// operator reads an operator of code or arithmetic, a symbol such as an emoji, or a bracket that groups operands. It skips any other sign.
func (s *scanner) operator() {
	from := s.at
	r := s.peek(0)
	left := s.peek(-1)
	s.at++
	switch {
	case r == '%':
		s.add(Words, "%", "percent")
		return
	case isOperator(r):
		for isOperator(s.peek(0)) {
			s.at++
		}
	case !unicode.In(r, unicode.Sm, unicode.Sc, unicode.So) && !s.isGrouping(from):
		return // no symbol, and no bracket that groups
	}
	sign, right := string(s.text[from:s.at]), s.peek(0)
	infix := isWord(left) && isWord(right) || left == ' ' && right == ' '
	switch {
	case strings.Trim(sign, "!") == "": // skip an exclamation
	case sign == "&": // skip it like the stop word "and"
	case strings.Trim(sign, "*/") == "" && !infix: // skip emphasis, or the end of a path
	default:
		s.add(Words, sign, sign)
	}
}

// isGrouping reports whether there is a bracket with an operator next to it, on its outer side: (a + b) * c is not a + (b * c).
func (s *scanner) isGrouping(at int) bool {
	step := map[rune]int{'(': -1, ')': 1}[s.text[at]] // direction of the outer side; 0 for another sign
	if step == 0 {
		return false
	}
	at += step
	for at >= 0 && at < len(s.text) && s.text[at] == ' ' {
		at += step
	}
	if at < 0 || at >= len(s.text) {
		return false
	}
	r := s.text[at]
	return r == '-' || isOperator(r) || unicode.Is(unicode.Sm, r)
}

func isOperator(r rune) bool { return strings.ContainsRune("<>=!+|~^&*/", r) }

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isWord(r rune) bool { return r == '_' || text.InWord(r) }
