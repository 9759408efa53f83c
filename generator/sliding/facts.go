package sliding

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fact is a token that cannot be put in other words.
type fact struct {
	token string
	kind  factKind
}

type factKind uint8

const (
	none       factKind = iota
	name                // of a person, a product, a unit: a capital inside of a sentence
	number              // 7 %, 2026-11-20, 0x1F, v1.2
	identifier          // snake_case, camelCase, fmt.Println, --force, ann@example.org
	path                // a/b, C:\x, main.go, https://…
)

// factsIn is the facts of a sentence, as they are written and in order.
func factsIn(sentence string) (facts []fact) {
	first := true
	for field := range strings.FieldsSeq(sentence) {
		token := strings.TrimLeft(field, "([{<\"'`*“‘«,;:")
		called := strings.Contains(token, "(")
		token = strings.TrimRight(token, ")]}>\"'`*”’»,;:.!?(…")
		if token == "" {
			continue
		}
		k := kindOf(token, called)
		if k == name && first { // any word has a capital there
			k = none
		}
		if k != none {
			facts = append(facts, fact{token, k})
		}
		first = strings.HasSuffix(field, ".") || strings.HasSuffix(field, ":") || strings.HasSuffix(field, "?") || strings.HasSuffix(field, "!")
	}
	return facts
}

// notPaths are pairs of words that a stroke joins.
var notPaths = set("and/or he/she him/her his/her yes/no n/a w/o either/or true/false on/off")

func kindOf(token string, called bool) factKind {
	var digits, letters, capitals, humps, inside int
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
					humps++
				}
			}
			if last == '_' || last == '@' || last == '.' && at > 2 || last == ':' && at > 2 {
				inside++
			}
		}
		last = r
	}
	switch {
	case letters == 0 && digits == 0:
		return none
	case letters > 1 && (extension(token) || strings.ContainsAny(token, `/\`) && !notPaths[strings.ToLower(token)]):
		return path
	case letters > 1 && (inside > 0 || humps > 0 || called || strings.HasPrefix(token, "--")):
		return identifier
	case digits > 0:
		return number
	case capitals > 0 && letters > 1:
		if r, _ := utf8.DecodeRuneInString(token); unicode.IsUpper(r) {
			return name
		}
	}
	return none
}

// extension says whether a token is a file's name by its end.
func extension(token string) bool {
	dot := strings.LastIndexByte(token, '.')
	end := token[dot+1:]
	if dot < 1 || len(end) == 0 || len(end) > 4 {
		return false
	}
	for i := range len(end) {
		if !lower(end[i]) && (end[i] < '0' || end[i] > '9') {
			return false
		}
	}
	return lower(end[0]) && letter(token[dot-1]) && dot > 1
}
