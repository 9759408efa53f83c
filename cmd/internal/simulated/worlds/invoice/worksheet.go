package invoice

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"debrief/cmd/internal/simulated/worlds"
)

// cents is an amount of money.
type cents int64

// String returns the amount with two decimals.
func (c cents) String() string {
	if c < 0 {
		return "-" + (-c).String()
	}
	return fmt.Sprintf("%d.%02d", int64(c/100), int64(c%100))
}

// readCents reads an amount such as "12.50" or "-7". Hundredths of a percent are read the same way.
func readCents(text string) (cents, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return cents(math.Round(100 * n)), err == nil
}

// invoice holds the data in the text of an invoice.
type invoice struct {
	goods  cents
	keys   [len(steps)]string // by step; empty if the text has none
	stamps int64
}

var (
	invoiceHead = regexp.MustCompile(`Invoice \d{5}, `)
	goodsLine   = regexp.MustCompile(`(?m)^ *(\d{1,6}) x .* at (\d{1,6}\.\d\d)$`)
	fieldLine   = regexp.MustCompile(`(?m)^([a-z ]+): (\w+)$`)
)

// readInvoice reads the last invoice in a text. It returns false if the text has none.
var readInvoice = worlds.CachedOK(func(text string) (inv invoice, ok bool) {
	heads := invoiceHead.FindAllStringIndex(text, -1)
	if len(heads) == 0 {
		return inv, false
	}
	text = text[heads[len(heads)-1][0]:]
	for _, m := range goodsLine.FindAllStringSubmatch(text, -1) {
		quantity, _ := readCents(m[1]) // the pattern admits only numbers
		price, _ := readCents(m[2])
		inv.goods += quantity / 100 * price
	}
	for _, m := range fieldLine.FindAllStringSubmatch(text, -1) {
		inv.setField(m[1], m[2])
	}
	return inv, inv.goods > 0
})

// setField sets the data of a line "field: value". It ignores unknown fields and values.
func (inv *invoice) setField(field, value string) {
	if field == "loyalty stamps" {
		inv.stamps, _ = strconv.ParseInt(value, 10, 32) // 0 if invalid
		return
	}
	for i := range steps {
		if s := &steps[i]; s.field == field && (value == s.defaultKey || slices.Contains(s.keys, value)) {
			inv.keys[i] = value
		}
	}
}

// worksheet holds the amount of each step. Reductions are negative.
type worksheet [len(steps)]cents

// before returns the sum of the goods and of the steps before a step.
func (w *worksheet) before(inv *invoice, step int) cents {
	sum := inv.goods
	for _, c := range w[:step] {
		sum += c
	}
	return sum
}

func (w *worksheet) total(inv *invoice) cents { return w.before(inv, len(w)) }

// fill computes all steps. Of two rules about one condition it uses the first; a step without a rule is 0. used holds the
// index of the rule of each step, or -1.
func fill(inv *invoice, rules []rule) (sheet worksheet, used [len(steps)]int) {
	for i := range steps {
		used[i] = slices.IndexFunc(rules, func(r rule) bool { return r.condition == condition{i, inv.keys[i]} })
		if used[i] >= 0 {
			sheet[i] = rules[used[i]].amount(inv, &sheet)
		}
	}
	return sheet, used
}

// of returns the base for a step, or 0 if it is negative.
func (b base) of(inv *invoice, w *worksheet, step int) cents {
	switch b {
	case ofList:
		step = 0
	case ofNet:
		step = min(step, firstSurcharge)
	}
	return max(w.before(inv, step), 0)
}

// amount applies the rule to an invoice. The worksheet must contain the earlier steps. It rounds half a cent up.
func (r rule) amount(inv *invoice, w *worksheet) cents {
	s := &steps[r.step]
	c := r.number
	switch s.form {
	case share:
		c = (r.base.of(inv, w, r.step)*r.number + 5000) / 10000
	case each:
		c = r.number * cents(inv.stamps)
	case rounded:
		c = 0
		if r.number > 0 {
			c = ofSum.of(inv, w, r.step) % r.number
		}
	}
	if s.reduces {
		return -c
	}
	return c
}
