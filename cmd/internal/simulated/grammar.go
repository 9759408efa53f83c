package simulated

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// String states the rule in a sentence that readRule understands.
func (r rule) String() string {
	s := &steps[r.step]
	head := fmt.Sprintf("For %s %s the %s is ", s.field, s.label(r.key), s.name)
	switch r.form {
	case flat:
		return head + cents(r.number).String() + "."
	case each:
		return head + cents(r.number).String() + " for each stamp."
	case rounded:
		return head + "down to a multiple of " + cents(r.number).String() + "."
	}
	return head + points(r.number) + " % of " + [...]string{
		ofSum:  "the amount so far",
		ofNet:  "the goods after discounts, before surcharges",
		ofList: "the list price of the goods, before discounts",
	}[r.base] + "."
}

// points writes hundredths of a percent: 700 is "7", 725 is "7.25".
func points(n int64) string {
	return strings.TrimSuffix(strings.TrimRight(cents(n).String(), "0"), ".")
}

// readRule reads what a sentence says about one key of one step. It looks for the key, the number and, for a
// percentage, what it is of; the words around them are free. A text about no key, about several that the words do not
// tell apart, or without a number says nothing.
func readRule(text string) (rule, bool) {
	r, ok := subject(text)
	if !ok {
		return r, false
	}
	number, isShare, ok := quantity(text)
	if !ok {
		return r, false
	}
	r.number = number
	switch form := steps[r.step].form; {
	case isShare:
		r.form, r.base = share, baseSaid(text)
	case form == share:
		r.form = flat
	default:
		r.form = form
	}
	return r, true
}

// subject finds the step and key that a text is about.
func subject(text string) (found rule, ok bool) {
	words := wordsOf(text)
	var named []rule
	for i := range steps {
		for _, key := range steps[i].keys {
			if steps[i].says(words, key) {
				named = append(named, rule{step: i, key: key})
			}
		}
	}
	if len(named) == 1 {
		return named[0], true
	}
	for _, r := range named {
		if steps[r.step].isNear(words) {
			if ok {
				return rule{}, false
			}
			found, ok = r, true
		}
	}
	return found, ok
}

// The ways to say what a percentage is of, in words without "the", "any" and "all"; plurals are free.
var (
	netSaid  = []string{" before surcharge", " before fee", " before delivery", " before shipping", " after discount", " discounted goods", " goods only"}
	listSaid = []string{" list price", " before discount", " undiscounted", " full price"}
)

func baseSaid(text string) base {
	said := ""
	for _, w := range wordsOf(text) {
		if w != "the" && w != "any" && w != "all" {
			said += " " + w
		}
	}
	within := func(phrase string) bool { return strings.Contains(said, phrase) }
	switch {
	case slices.ContainsFunc(netSaid, within):
		return ofNet
	case slices.ContainsFunc(listSaid, within):
		return ofList
	}
	return ofSum
}

// quantity finds the number of a rule: the first percentage, else the first amount with decimals, else the first
// number. Digits inside of words and ids are no numbers.
func quantity(text string) (n int64, isShare, ok bool) {
	const (
		number = 1 + iota
		amount
		percentage
	)
	best := 0
	for start, end := nextFigure(text, 0); start < end; start, end = nextFigure(text, end) {
		before, after := text[:start], text[end:]
		value, valid := parseCents(text[start:end])
		if !valid || endsInWord(before) || strings.HasSuffix(strings.ToLower(strings.TrimRight(before, " ")), "invoice") {
			continue
		}
		rank := number
		unit := strings.ToLower(strings.TrimLeft(after, " \u00a0\u202f"))
		switch {
		case strings.HasPrefix(unit, "%"), strings.HasPrefix(unit, "percent"), strings.HasPrefix(unit, "per cent"):
			rank = percentage
		case strings.HasPrefix(unit, "cent"):
			rank, value = amount, value/100
		case strings.Contains(text[start:end], "."):
			rank = amount
		case startsInWord(after):
			continue
		}
		if rank > best {
			best, n = rank, int64(value)
		}
	}
	return n, best == percentage, best > 0
}

// nextFigure finds the next run of digits from a place on, with a decimal point and digits behind it if there are any.
// There is none when start is end.
func nextFigure(text string, from int) (start, end int) {
	isDigit := func(i int) bool { return i < len(text) && text[i] >= '0' && text[i] <= '9' }
	for start = from; start < len(text) && !isDigit(start); start++ {
	}
	for end = start; isDigit(end); end++ {
	}
	if end < len(text) && text[end] == '.' && isDigit(end+1) {
		for end++; isDigit(end); end++ {
		}
	}
	return start, end
}

func endsInWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s != "" && (inWord(r) || r == '-' || r == '.')
}

func startsInWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s != "" && inWord(r)
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
