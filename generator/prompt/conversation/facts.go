package conversation

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
)

// fact is a token that has no synonym, such as a number or a path.
type fact struct {
	token string
	kind  factKind
}

type factKind uint8

const (
	noFact     factKind = iota
	name                // a person, product or unit: capitalized inside a sentence
	number              // 7 %, 2026-11-20, 0x1F, v1.2
	identifier          // snake_case, camelCase, fmt.Println, --force, ann@example.org
	path                // a/b, C:\x, main.go, https://…
)

// factsIn returns the facts in a text, unchanged and in order.
func factsIn(text string) (facts []fact) {
	isFirst := true // the token is the first of a sentence
	for field := range strings.FieldsSeq(text) {
		token := strings.TrimLeft(field, "([{<\"'`*“‘«,;:")
		isCall := strings.Contains(token, "(")
		token = strings.TrimRight(token, ")]}>\"'`*”’»,;:.!?(…")
		if token == "" {
			continue
		}
		k := kindOf(token, isCall)
		if k == name && isFirst { // its capital has no meaning
			k = noFact
		}
		if k != noFact {
			facts = append(facts, fact{token, k})
		}
		isFirst = strings.ContainsAny(field[len(field)-1:], ".:?!")
	}
	return facts
}

// The forms of facts.
var (
	twoLetters = regexp.MustCompile(`\pL.*\pL`)
	pathForm   = regexp.MustCompile(`[/\\]|.[a-zA-Z]\.[a-z][a-z0-9]{0,3}$`) // a slash, or the extension of a file
	// A letter after "_" or "@", a letter after "." or ":" (not in an abbreviation such as e.g), camelCase, or an option.
	identifierForm = regexp.MustCompile(`[_@]\pL|^..+[.:]\pL|\p{Ll}\p{Lu}|^--`)
)

// notPaths are pairs of words joined by a slash.
var notPaths = text.Set("and/or he/she him/her his/her yes/no n/a w/o either/or true/false on/off")

// kindOf returns the kind of a token. isCall reports that a parenthesis follows it.
func kindOf(token string, isCall bool) factKind {
	isLower := !strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsLower(r) })
	if isLower && !isCall { // no form below matches such a word
		return noFact
	}
	first, _ := utf8.DecodeRuneInString(token)
	isWord := twoLetters.MatchString(token)
	switch {
	case isWord && pathForm.MatchString(token) && !notPaths[strings.ToLower(token)]:
		return path
	case isWord && (isCall || identifierForm.MatchString(token)):
		return identifier
	case strings.ContainsFunc(token, unicode.IsDigit):
		return number
	case isWord && unicode.IsUpper(first):
		return name
	}
	return noFact
}
