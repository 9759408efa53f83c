package similar

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// name reads a word or an identifier.
func (s *scanner) name() bool {
	from := s.at // of the prefix
	s.skipPrefix()
	start := s.at // of the name
	for isWord(s.peek(0)) || s.at > start && s.joinsName() {
		if s.at > start && isDigit(s.peek(0)) && unicode.Is(unicode.Lo, s.peek(-1)) {
			break // such as Chinese: it has no space between a word and a number
		}
		s.at++
	}
	raw := string(s.text[from:s.at])
	switch {
	case s.at == start:
		s.at = from
		return false
	case start > from || isCode(raw):
		if !stopWords[strings.ToLower(raw)] { // "e.g." has the form of an identifier
			s.addExact(identifier, raw)
		}
	default:
		s.word(raw)
	}
	return true
}

// skipPrefix skips the signs before a path, flag, variable or format: at most four, such as ../ or --.
func (s *scanner) skipPrefix() {
	const longest = 4
	before := s.peek(-1) // a line break at the beginning of the text
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
			s.add(plainWord, base, base)
		}
		s.add(negation, raw, "not")
		return
	}
	kind := s.kindOf(raw)
	var last term // zero at the beginning
	if n := len(s.terms); n > 0 {
		last = s.terms[n-1]
	}
	isShortCode := len(raw) <= 2 && kind == identifier && strings.ToUpper(raw) == raw // such as AT, or a letter such as A
	switch {
	case (stopWords[text] || prepositions[text]) && isShortCode:
		s.add(identifier, raw, text)
	case text == "always" && last.kind == negation: // else it is left out, but "not always" is weaker than "not"
		s.add(plainWord, raw, text)
	case prepositions[text]:
		s.preposition = strings.TrimSpace(s.preposition + " " + text)
	case stopWords[text]: // left out
	case numerals[text] != "":
		s.add(number, raw, numerals[text])
	case negations[text] != "":
		if auxiliaries[last.text] && stopWords[last.text] {
			s.terms = s.terms[:len(s.terms)-1] // in DO NOT, the case of short codes has added DO, which is a stop word
		}
		s.add(negation, raw, negations[text])
	case synonyms[text] != "":
		s.add(kind, raw, synonyms[text])
	default:
		s.add(kind, raw, text)
	}
}

// splitNegation splits a word that is an auxiliary with "not", without its apostrophe. It returns false for another word. The auxiliary is ""
// if it is a stop word, which is left out. Examples:
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

// kindOf returns identifier for a code or a proper noun: a word in capitals, a capitalized word inside a sentence, or a single capital letter
// that cannot be an article. It returns plainWord for other words.
func (s *scanner) kindOf(raw string) termKind {
	first, size := utf8.DecodeRuneInString(raw)
	rest := raw[size:]
	switch {
	case !unicode.IsUpper(first) || raw == "I":
		return plainWord
	case rest == "" && s.sentenceStart && s.peek(0) == ' ': // perhaps the article A
		return plainWord
	case rest == "" || !s.sentenceStart || strings.ToUpper(rest) == rest:
		return identifier
	}
	return plainWord
}
