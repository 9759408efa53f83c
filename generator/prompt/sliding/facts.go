package sliding

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

// factsIn returns the facts of a sentence, unchanged and in order.
func factsIn(sentence string) (facts []fact) {
	first := true
	for field := range strings.FieldsSeq(sentence) {
		token := strings.TrimLeft(field, "([{<\"'`*“‘«,;:")
		isCall := strings.Contains(token, "(")
		token = strings.TrimRight(token, ")]}>\"'`*”’»,;:.!?(…")
		if token == "" {
			continue
		}
		k := kindOf(token, isCall)
		if k == name && first { // the first word is always capitalized
			k = noFact
		}
		if k != noFact {
			facts = append(facts, fact{token, k})
		}
		first = strings.ContainsAny(field[len(field)-1:], ".:?!")
	}
	return facts
}

// extension matches the end of a file name.
var extension = regexp.MustCompile(`.[a-zA-Z]\.[a-z][a-z0-9]{0,3}$`)

// notPaths are pairs of words joined by a slash.
var notPaths = text.Set("and/or he/she him/her his/her yes/no n/a w/o either/or true/false on/off")

// kindOf returns the kind of a token. isCall reports that a parenthesis follows it.
func kindOf(token string, isCall bool) factKind {
	var digits, letters, capitals, camelCase, separators int
	var last rune
	for at, r := range token {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
			if unicode.IsUpper(r) {
				capitals++
				if unicode.IsLower(last) {
					camelCase++
				}
			}
			isJoined := last == '_' || last == '@'
			isQualified := at > 2 && (last == '.' || last == ':') // not an abbreviation such as e.g
			if isJoined || isQualified {
				separators++
			}
		}
		last = r
	}
	isFile := strings.Contains(token, ".") && extension.MatchString(token)
	hasForm := separators > 0 || camelCase > 0 || isCall || strings.HasPrefix(token, "--") // of an identifier
	hasSlash := strings.ContainsAny(token, `/\`) && !notPaths[strings.ToLower(token)]
	switch {
	case letters == 0 && digits == 0:
		return noFact
	case letters > 1 && (isFile || hasSlash):
		return path
	case letters > 1 && hasForm:
		return identifier
	case digits > 0:
		return number
	case capitals > 0 && letters > 1:
		if r, _ := utf8.DecodeRuneInString(token); unicode.IsUpper(r) {
			return name
		}
	}
	return noFact
}
