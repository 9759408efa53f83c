package simulated

import (
	"slices"
	"strings"
	"unicode"
)

// step is one step of the worksheet. It contains words, but no numbers: the number of a key is a house rule, which only
// rules.go knows.
type step struct {
	name       string // in the answer
	field      string // in the invoice
	defaultKey string // the key without a rule
	keys       []string
	// hints are words that identify the step if a text names keys of several steps.
	hints []string
	// form is the form of the step's rules.
	form    form
	reduces bool
}

// firstSurcharge is the index of the first step after the discounts.
const firstSurcharge = 2

// steps are in the order of computation.
var steps = [...]step{
	{name: "tier discount", field: "customer tier", defaultKey: "standard", keys: []string{"bronze", "silver", "gold"}, hints: []string{"tier", "customer", "customers"}, form: share, reduces: true},
	{name: "volume discount", field: "volume band", defaultKey: "a", keys: []string{"b", "c", "d"}, hints: []string{"volume", "band"}, form: share, reduces: true},
	{name: "delivery surcharge", field: "delivery", defaultKey: "standard", keys: []string{"express", "courier"}, hints: []string{"delivery", "deliveries", "shipping", "shipment", "shipments"}, form: flat},
	{name: "handling surcharge", field: "handling", defaultKey: "normal", keys: []string{"fragile", "chilled"}, hints: []string{"handling"}, form: share},
	{name: "small order fee", field: "order size", defaultKey: "regular", keys: []string{"small"}, hints: []string{"order", "orders", "size"}, form: flat},
	{name: "region tax", field: "region", defaultKey: "export", keys: []string{"north", "south", "east", "west"}, hints: []string{"region", "tax", "taxed"}, form: share},
	{name: "currency fee", field: "currency", defaultKey: "eur", keys: []string{"usd", "chf"}, hints: []string{"currency", "paid", "paying"}, form: share},
	{name: "loyalty credit", field: "loyalty card", defaultKey: "none", keys: []string{"blue", "green"}, hints: []string{"loyalty", "card", "stamp", "stamps", "credit"}, form: each, reduces: true},
	{name: "rounding", field: "payment", defaultKey: "transfer", keys: []string{"cash", "cheque"}, hints: []string{"round", "rounded", "rounding", "payment", "payments"}, form: rounded, reduces: true},
}

// names reports whether the words contain the key. A single letter is a key only after its field: "band C".
func (s *step) names(words []string, key string) bool {
	for i, w := range words {
		if w == key && (len(key) > 1 || i > 0 && words[i-1] == "band") {
			return true
		}
	}
	return false
}

// mentions reports whether the words contain a hint of the step.
func (s *step) mentions(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(s.hints, w) })
}

// lowerWords returns the words of a text in lower case.
func lowerWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// label returns a key as the invoice prints it.
func (s *step) label(key string) string {
	switch s.field {
	case "volume band", "currency":
		return strings.ToUpper(key)
	case "region":
		return strings.ToUpper(key[:1]) + key[1:]
	}
	return key
}

// stepIndex returns the index of the named step, or -1.
func stepIndex(name string) int {
	for i := range steps {
		if strings.EqualFold(steps[i].name, strings.TrimSpace(name)) {
			return i
		}
	}
	return -1
}
