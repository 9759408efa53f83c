package simulated

import (
	"slices"
	"strings"
	"unicode"
)

// step is one step of the desk's work sheet: the words of the trade, no numbers. Which number goes with a key is a
// house rule, and those are known to house.go alone.
type step struct {
	name  string // as the answer reports it
	field string // as the invoice writes it
	plain string // the key that no rule is about
	keys  []string
	// near are words that tell this step from others when a text names keys of several.
	near []string
	// form is what an amount of this step can come from, as far as one knows before seeing any.
	form    form
	reduces bool
}

// firstSurcharge is the step at which the discounts are done.
const firstSurcharge = 2

// steps are in the order in which the desk works.
var steps = [...]step{
	{name: "tier discount", field: "customer tier", plain: "standard", keys: []string{"bronze", "silver", "gold"}, near: []string{"tier", "customer", "customers"}, form: share, reduces: true},
	{name: "volume discount", field: "volume band", plain: "a", keys: []string{"b", "c", "d"}, near: []string{"volume", "band"}, form: share, reduces: true},
	{name: "delivery surcharge", field: "delivery", plain: "standard", keys: []string{"express", "courier"}, near: []string{"delivery", "deliveries", "shipping", "shipment", "shipments"}, form: flat},
	{name: "handling surcharge", field: "handling", plain: "normal", keys: []string{"fragile", "chilled"}, near: []string{"handling"}, form: share},
	{name: "small order fee", field: "order size", plain: "regular", keys: []string{"small"}, near: []string{"order", "orders", "size"}, form: flat},
	{name: "region tax", field: "region", plain: "export", keys: []string{"north", "south", "east", "west"}, near: []string{"region", "tax", "taxed"}, form: share},
	{name: "currency fee", field: "currency", plain: "eur", keys: []string{"usd", "chf"}, near: []string{"currency", "paid", "paying"}, form: share},
	{name: "loyalty credit", field: "loyalty card", plain: "none", keys: []string{"blue", "green"}, near: []string{"loyalty", "card", "stamp", "stamps", "credit"}, form: each, reduces: true},
	{name: "rounding", field: "payment", plain: "transfer", keys: []string{"cash", "cheque"}, near: []string{"round", "rounded", "rounding", "payment", "payments"}, form: rounded, reduces: true},
}

// says reports whether a text, given as its words, names a key. A letter is a key only behind its field: "band C".
func (s *step) says(words []string, key string) bool {
	for i, w := range words {
		if w == key && (len(key) > 1 || i > 0 && words[i-1] == "band") {
			return true
		}
	}
	return false
}

// isNear reports whether a text, given as its words, has a word of the step's own.
func (s *step) isNear(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(s.near, w) })
}

// wordsOf is a text's words in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// label is a key as people write it.
func (s *step) label(key string) string {
	switch s.field {
	case "volume band", "currency":
		return strings.ToUpper(key)
	case "region":
		return strings.ToUpper(key[:1]) + key[1:]
	}
	return key
}

// stepNamed is the index of a step by its name, -1 if there is none.
func stepNamed(name string) int {
	for i := range steps {
		if strings.EqualFold(steps[i].name, strings.TrimSpace(name)) {
			return i
		}
	}
	return -1
}
