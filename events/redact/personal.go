package redact

import (
	"regexp"
	"strings"
	"sync/atomic"
)

// personal is set if personal data is redacted too.
var personal atomic.Bool

// Personal makes the functions of this package redact personal data too, in the whole process. Personal data are e-mail addresses, phone
// numbers with a country code or in the form of North America, numbers of payment cards, and bank accounts (IBAN). Card and account
// numbers must have a valid check digit. Names, postal addresses and everything else that only a reader recognizes stay.
func Personal(on bool) { personal.Store(on) }

// personalForm is a form of personal data. The forms of numbers do not match a part of a longer row of digits.
type personalForm struct {
	kind    string
	form    *regexp.Regexp
	isValid func(string) bool // nil: always
}

var personalForms = []personalForm{
	{"email address", regexp.MustCompile(`[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}`), nil},
	{"bank account", regexp.MustCompile(`\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`), validIBAN},
	{"card number", regexp.MustCompile(`\b[2-6][0-9]{3}(?:[ -]?[0-9]){9,15}\b`), validCard},
	{"phone number", regexp.MustCompile(`(?:\+|\b00)[1-9][0-9]{0,2}[ ./-]?(?:\([0-9]{1,5}\)[ ./-]?)?[0-9](?:[ ./-]?[0-9]){5,12}\b`), nil},
	{"phone number", regexp.MustCompile(`(?:\([2-9][0-9]{2}\) ?|\b[2-9][0-9]{2}[.-])[2-9][0-9]{2}[.-][0-9]{4}\b`), nil},
}

// findPersonal returns the personal data of a text.
func findPersonal(s string) (edits []edit) {
	for i := range personalForms {
		f := &personalForms[i]
		for _, at := range f.form.FindAllStringIndex(s, -1) {
			if n := f.validLength(s[at[0]:at[1]]); n > 0 {
				edits = append(edits, edit{at[0], at[0] + n, f.kind})
			}
		}
	}
	return edits
}

// validLength returns the length of the longest valid beginning of a match, or 0. A match of a number may end with the next word, such as
// the date after the number of a card.
func (f *personalForm) validLength(match string) int {
	if f.isValid == nil {
		return len(match)
	}
	for end := len(match); end > 0; end = strings.LastIndexAny(match[:end], " -") {
		number := match[:end]
		if f.form.FindString(number) == number && f.isValid(number) {
			return end
		}
	}
	return 0
}

var spaces = strings.NewReplacer(" ", "", "-", "")

// validCard checks the last digit by the algorithm of Luhn (ISO/IEC 7812).
func validCard(s string) bool {
	sum := 0
	digits := spaces.Replace(s)
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			d *= 2
		}
		if d > 9 {
			d -= 9
		}
		sum += d
	}
	return sum%10 == 0
}

// validIBAN checks the two check digits (ISO 13616): the number modulo 97 must be 1.
func validIBAN(s string) bool {
	s = spaces.Replace(s)
	rest := 0
	for _, c := range s[4:] + s[:4] {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest == 1
}
