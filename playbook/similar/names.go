package similar

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// name reads a word or an identifier, see scanner.
func (s *scanner) name() bool {
	from := s.at // beginning of the prefix
	s.skipPrefix()
	start := s.at // beginning of the name
	for isWord(s.peek(0)) || s.at > start && s.joinsName() {
		if s.at > start && isDigit(s.peek(0)) && unicode.Is(unicode.Lo, s.peek(-1)) {
			break // a script such as Chinese has no space between a word and a number
		}
		s.at++
	}
	if s.at > start && s.peek(0) == '#' && !isWord(s.peek(1)) { // C# is not C
		s.at++
	}
	raw := string(s.text[from:s.at])
	switch {
	case s.at == start:
		s.at = from
		return false
	case start > from || isCode(raw):
		if !stopWords[strings.ToLower(raw)] { // "e.g." has the form of an identifier
			s.addExact(raw)
		}
	default:
		s.word(raw)
	}
	return true
}

// skipPrefix skips the signs before a path, flag, variable or format: at most four, such as ../ or --.
func (s *scanner) skipPrefix() {
	const longest = 4
	before := s.peek(-1)
	beginsWord := unicode.IsSpace(before) || strings.ContainsRune("([,=:", before)
	if !beginsWord {
		return
	}
	n := 0
	for n <= longest && strings.ContainsRune("./~@#$\\-%", s.peek(n)) {
		n++
	}
	signs, next := string(s.text[s.at:s.at+n]), s.peek(n)
	isEllipsis := signs == ".." || signs == "..."
	if n <= longest && !isEllipsis && (unicode.IsLetter(next) || next == '_') {
		s.at += n
	}
}

// joinsName reports whether the current character connects two parts of a name: get.user, a/b, it's.
func (s *scanner) joinsName() bool {
	switch s.peek(0) {
	case '.', '/', '@', '\\':
		return isWord(s.peek(-1)) && isWord(s.peek(1))
	case '\'':
		return unicode.IsLetter(s.peek(-1)) && unicode.IsLetter(s.peek(1))
	}
	return false
}

// isCode reports whether a name is an identifier: snake_case, camelCase, dotted.name, path/name, v2.
func isCode(name string) bool {
	wasLower := false
	for _, r := range name {
		inWord := unicode.IsLetter(r) || unicode.IsMark(r) || r == '\''
		if !inWord || wasLower && unicode.IsUpper(r) {
			return true
		}
		wasLower = unicode.IsLower(r)
	}
	return false
}

// word adds a word of letters, with or without an apostrophe.
func (s *scanner) word(raw string) {
	text := fold(raw)
	if before, after, found := strings.Cut(text, "'"); found {
		switch after {
		case "s", "re", "ll", "ve", "d", "m":
			text = before
		default: // such as the t of "don't"
			text = before + after
		}
	}
	if base, found := splitNegation(text); found {
		if base != "" {
			s.add(Words, base, base)
		}
		s.add(Negations, raw, "not")
		return
	}
	kind := s.kindOf(raw)
	var last term // the term before the word, zero at the beginning
	if n := len(s.terms); n > 0 {
		last = s.terms[n-1]
	}
	isShortCode := len(raw) <= 2 && kind == Identifiers && strings.ToUpper(raw) == raw // AT is not the preposition
	switch {
	case (stopWords[text] || prepositions[text]) && isShortCode:
		s.add(Identifiers, raw, text)
	case text == "always" && last.kind == Negations: // a stop word, but "not always" is weaker than "not"
		s.add(Words, raw, text)
	case prepositions[text]:
		s.preposition = strings.TrimSpace(s.preposition + " " + text)
	case stopWords[text]: // left out
	case numerals[text] != "":
		s.add(Numbers, raw, numerals[text])
	case negations[text] != "":
		if auxiliaries[last.text] && stopWords[last.text] {
			s.terms = s.terms[:len(s.terms)-1] // the DO of "DO NOT": the first case above has taken it for a code
		}
		s.add(Negations, raw, negations[text])
	case synonyms[text] != "":
		s.add(kind, raw, synonyms[text])
	default:
		s.add(kind, raw, text)
	}
}

// splitNegation splits a word such as "shouldnt", which is an auxiliary with "not" and without its apostrophe. ok is false for other words. The
// auxiliary is "" if it is a stop word. Examples:
//
//	shouldnt  "should", true
//	dont      "", true
//	cannot    "can", true
//	wont      "will", true
//	rent      "", false
func splitNegation(word string) (auxiliary string, ok bool) {
	base, found := strings.CutSuffix(word, "nt")
	switch {
	case word == "cannot" || word == "cant":
		return "can", true
	case word == "wont":
		return "will", true
	case !found || !auxiliaries[base]:
		return "", false
	case stopWords[base]:
		return "", true
	}
	return base, true
}

// kindOf returns Identifiers for a code or a proper noun: a word in capitals, a capitalized word inside a sentence, or a single capital letter
// that is not the article A. It returns Words for other words.
func (s *scanner) kindOf(raw string) Kind {
	first, size := utf8.DecodeRuneInString(raw)
	rest := raw[size:]
	switch {
	case !unicode.IsUpper(first) || raw == "I":
		return Words
	case rest == "" && s.sentenceStart && s.peek(0) == ' ': // perhaps the article A
		return Words
	case rest == "" || !s.sentenceStart || strings.ToUpper(rest) == rest:
		return Identifiers
	}
	return Words
}
