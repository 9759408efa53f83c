package similar

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// name reads a word or an identifier.
func (s *scanner) name() bool {
	from := s.at
	s.skipPrefix()
	start := s.at
	for isWord(s.peek(0)) || s.at > start && s.joinsName() {
		if s.at > start && isDigit(s.peek(0)) && unicode.Is(unicode.Lo, s.peek(-1)) {
			break // a script without a space before a number
		}
		s.at++
	}
	raw := string(s.text[from:s.at])
	switch {
	case s.at == start:
		s.at = from
		return false
	case start > from || isCode(raw):
		if !stopWords[strings.ToLower(raw)] { // "e.g."
			s.add(identifier, raw, raw, true)
		}
	default:
		s.word(raw)
	}
	return true
}

// skipPrefix skips the prefix of a path, flag, variable or format.
func (s *scanner) skipPrefix() {
	if before := s.peek(-1); !unicode.IsSpace(before) && !strings.ContainsRune("([,=:", before) {
		return
	}
	n := 0
	for n <= 4 && strings.ContainsRune("./~@#$\\-%", s.peek(n)) {
		n++
	}
	run := string(s.text[s.at : s.at+n])
	isEllipsis := run == ".." || run == "..."
	next := s.peek(n)
	beginsName := unicode.IsLetter(next) || next == '_'
	if beginsName && !isEllipsis && n <= 4 {
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
		beginsPart := wasLower && unicode.IsUpper(r) // camelCase
		if !inWord || beginsPart {
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
		default:
			text = before + after
		}
	}
	if base, found := splitNegation(text); found {
		if base != "" {
			s.add(plainWord, base, base, false)
		}
		s.add(negation, raw, "not", false)
		return
	}
	kind := s.kindOf(raw)
	switch {
	case stopWords[text] || prepositions[text]:
		if len(raw) <= 2 && kind == identifier && strings.ToUpper(raw) == raw {
			s.add(identifier, raw, text, false) // a code such as AT, a letter such as A
		} else if last := len(s.terms) - 1; text == "always" && last >= 0 && s.terms[last].kind == negation {
			s.add(plainWord, raw, text, false) // "not always" is not "not"
		} else if prepositions[text] {
			s.preposition = strings.TrimSpace(s.preposition + " " + text)
		}
	case numerals[text] != "":
		s.add(number, raw, numerals[text], false)
	case negations[text] != "":
		if last := len(s.terms) - 1; last >= 0 && auxiliaries[s.terms[last].text] && stopWords[s.terms[last].text] {
			s.terms = s.terms[:last] // DO in capitals was the auxiliary, not a code
		}
		s.add(negation, raw, negations[text], false)
	case synonyms[text] != "":
		s.add(kind, raw, synonyms[text], false)
	default:
		s.add(kind, raw, text, false)
	}
}

// splitNegation reports whether a word without its apostrophe is an auxiliary with "not". It returns the auxiliary
// unless that is a stop word.
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

// kindOf returns identifier for a word in capitals and for a capitalized word inside a sentence: a code or a proper
// noun. A single capital letter is an identifier too, unless it can be the article.
func (s *scanner) kindOf(raw string) termKind {
	first, size := utf8.DecodeRuneInString(raw)
	rest := raw[size:]
	switch {
	case !unicode.IsUpper(first) || raw == "I":
		return plainWord
	case rest == "" && s.sentenceStart && s.peek(0) == ' ':
		return plainWord
	case rest == "" || !s.sentenceStart || strings.ToUpper(rest) == rest:
		return identifier
	}
	return plainWord
}
