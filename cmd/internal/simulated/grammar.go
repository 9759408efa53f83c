package simulated

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// String returns the rule as a sentence that readRule can parse.
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

// points formats hundredths of a percent: 700 is "7", 725 is "7.25".
func points(n int64) string {
	return strings.TrimSuffix(strings.TrimRight(cents(n).String(), "0"), ".")
}

// readRule parses a sentence about one key of one step. It looks for the key, the number and the base of a percentage,
// and ignores all other words. It returns false without a number, without a key, or if the text names several keys and
// its words do not single out one step.
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
		r.form, r.base = share, readBase(text)
	case form == share:
		r.form = flat
	default:
		r.form = form
	}
	return r, true
}

// subject finds the step and key of a text.
func subject(text string) (found rule, ok bool) {
	words := lowerWords(text)
	var named []rule
	for i := range steps {
		for _, key := range steps[i].keys {
			if steps[i].names(words, key) {
				named = append(named, rule{step: i, key: key})
			}
		}
	}
	if len(named) == 1 {
		return named[0], true
	}
	for _, r := range named {
		if steps[r.step].mentions(words) {
			if ok {
				return rule{}, false
			}
			found, ok = r, true
		}
	}
	return found, ok
}

// Phrases for the base of a percentage, without the words "the", "any" and "all". A plural also matches.
var (
	netPhrases  = []string{" before surcharge", " before fee", " before delivery", " before shipping", " after discount", " discounted goods", " goods only"}
	listPhrases = []string{" list price", " before discount", " undiscounted", " full price"}
)

func readBase(text string) base {
	said := ""
	for _, w := range lowerWords(text) {
		if w != "the" && w != "any" && w != "all" {
			said += " " + w
		}
	}
	within := func(phrase string) bool { return strings.Contains(said, phrase) }
	switch {
	case slices.ContainsFunc(netPhrases, within):
		return ofNet
	case slices.ContainsFunc(listPhrases, within):
		return ofList
	}
	return ofSum
}

// quantity finds the number of a rule: the first percentage, else the first amount with decimals, else the first
// number. It ignores digits in words and ids.
func quantity(text string) (n int64, isShare, ok bool) {
	const (
		number = 1 + iota
		amount
		percentage
	)
	best := 0
	for start, end := nextNumber(text, 0); start < end; start, end = nextNumber(text, end) {
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

// nextNumber finds the next digits from an offset on, with a decimal point and the digits after it. Without a number,
// start equals end.
func nextNumber(text string, from int) (start, end int) {
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
