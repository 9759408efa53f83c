package invoice

import (
	"regexp"
	"strings"
)

// form is the formula of a rule.
type form int

const (
	share   form = iota // a percentage of a base
	flat                // an amount
	each                // an amount for each loyalty stamp
	rounded             // down to a multiple of an amount
)

// base is the amount to which a percentage applies.
type base int

const (
	ofSum  base = iota // everything up to this step
	ofNet              // the goods after discounts, before surcharges
	ofList             // the goods at list price
)

var baseNames = [...]string{
	ofSum:  "the amount so far",
	ofNet:  "the goods after discounts, before surcharges",
	ofList: "the list price of the goods, before discounts",
}

// step is one step of the computation. The key of a step is the value of its field in an invoice. A rule gives the amount of a step for one
// key. The default key has no rule.
type step struct {
	name, field string
	defaultKey  string
	keys        []string
	form        form
	reduces     bool
}

// needsRule reports whether the amount for a key depends on a rule. A text without the field has the key "".
func (s *step) needsRule(key string) bool { return key != "" && key != s.defaultKey }

// firstSurcharge is the index of the first step after the discounts.
const firstSurcharge = 2

// steps are in the order of computation.
var steps = [...]step{
	{name: "tier discount", field: "customer tier", defaultKey: "standard", keys: []string{"bronze", "silver", "gold"}, form: share, reduces: true},
	{name: "volume discount", field: "volume band", defaultKey: "A", keys: []string{"B", "C", "D"}, form: share, reduces: true},
	{name: "delivery surcharge", field: "delivery", defaultKey: "standard", keys: []string{"express", "courier"}, form: flat},
	{name: "handling surcharge", field: "handling", defaultKey: "normal", keys: []string{"fragile", "chilled"}, form: share},
	{name: "small order fee", field: "order size", defaultKey: "regular", keys: []string{"small"}, form: flat},
	{name: "region tax", field: "region", defaultKey: "Export", keys: []string{"North", "South", "East", "West"}, form: share},
	{name: "currency fee", field: "currency", defaultKey: "EUR", keys: []string{"USD", "CHF"}, form: share},
	{name: "loyalty credit", field: "loyalty card", defaultKey: "none", keys: []string{"blue", "green"}, form: each, reduces: true},
	{name: "rounding", field: "payment", defaultKey: "transfer", keys: []string{"cash", "cheque"}, form: rounded, reduces: true},
}

// stepIndex returns the index of a named step, or -1.
func stepIndex(name string) int {
	for i := range steps {
		if steps[i].name == name {
			return i
		}
	}
	return -1
}

// condition is the step and the key that a rule is about.
type condition struct {
	step int
	key  string
}

// conditions maps a phrase such as "customer tier gold" to its condition.
var conditions = func() map[string]condition {
	all := make(map[string]condition)
	for i := range steps {
		for _, key := range steps[i].keys {
			c := condition{i, key}
			all[c.phrase()] = c
		}
	}
	return all
}()

func (c condition) phrase() string { return steps[c.step].field + " " + c.key }

// String identifies the condition.
func (c condition) String() string { return steps[c.step].name + " " + strings.ToLower(c.key) }

var conditionPhrase = func() *regexp.Regexp {
	var phrases []string
	for phrase := range conditions {
		phrases = append(phrases, phrase)
	}
	return regexp.MustCompile(`\b(?:` + strings.Join(phrases, "|") + `)\b`)
}()

// readCondition returns the condition of a text. A text with several phrases has none.
func readCondition(text string) (condition, bool) {
	found := conditionPhrase.FindAllString(text, 2)
	if len(found) != 1 {
		return condition{}, false
	}
	return conditions[found[0]], true
}

// Nonsense lists rules that no task needs.
var Nonsense = []string{
	"For customer tier emerald the tier discount is 37 % of the amount so far.",
	"Invoices written on a Thursday carry a paper fee of 3.15.",
	"For volume band Q the volume discount is 21 % of the list price of the goods, before discounts.",
	"Deliveries by balloon cost 41.30 and save the region tax.",
	"For region Atlantis the region tax is 33 % of the amount so far.",
	"Goods that rhyme with orange are handled for 2.85 each.",
	"A violet loyalty card earns 0.35 for each stamp.",
	"Payments in pearls are rounded down to a multiple of 0.30.",
	"Whoever writes with violet ink gets 11 % off the amount so far.",
	"The third invoice of the hour is charged 1.95 for the lamp oil.",
	"Parcels with a bow need a ribbon surcharge of 4.45.",
	"Amounts paid in doubloons carry a currency fee of 27 %.",
}

// Words of distractors: fields of an invoice, with keys that are invented.
var (
	fields  = []string{"customer tier %s the tier discount", "delivery %s the delivery surcharge", "handling %s the handling surcharge", "region %s the region tax", "currency %s the currency fee", "payment %s the payment fee"}
	onsets  = strings.Fields("zan bru kel mir tov lar wen dos fim gar hul jep nok pra quo rif sut ulm vex yor")
	codas   = strings.Fields("dor ita mun elo ash ipe ond uru ank ebo ist olm arv ige oth une erl axa imo ust")
	numbers = []string{"is %d %% of the amount so far.", "is %d.15.", "is %d %% of the list price of the goods, before discounts."}
)
