package simulated

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// cents is an amount of money. Everything is computed in whole cents.
type cents int64

func (c cents) String() string {
	var buf [24]byte
	out := buf[:0]
	if c < 0 {
		out, c = append(out, '-'), -c
	}
	out = strconv.AppendInt(out, int64(c/100), 10)
	return string(append(out, '.', byte('0'+c/10%10), byte('0'+c%10)))
}

// parseCents reads "12", "12.5" or "-12.50"; commas between thousands are allowed.
func parseCents(s string) (cents, bool) {
	s = strings.ReplaceAll(strings.TrimSpace(s), ",", "")
	whole, fraction, _ := strings.Cut(s, ".")
	if len(fraction) > 2 || len(whole) > 12 {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+(fraction + "00")[:2], 10, 64)
	return cents(n), err == nil
}

// percent returns points hundredths of a percent of an amount. It rounds half a cent up.
func percent(of cents, points int64) cents {
	if of < 0 {
		return 0
	}
	return (of*cents(points) + 5000) / 10000
}

// invoice contains the data of an invoice's text.
type invoice struct {
	goods  cents
	keys   [len(steps)]string // by step, such as "gold"; empty if the text has none
	stamps int64
}

var invoiceHead = regexp.MustCompile(`Invoice \d{5}, `)

// readInvoice reads the last invoice in a text. A prompt may also contain invoices of earlier turns.
func readInvoice(text string) (inv invoice, ok bool) {
	heads := invoiceHead.FindAllStringIndex(text, -1)
	if len(heads) == 0 {
		return inv, false
	}
	for line := range strings.Lines(text[heads[len(heads)-1][0]:]) {
		line = strings.TrimSpace(line)
		if field, value, cut := strings.Cut(line, ": "); cut {
			inv.setField(field, strings.ToLower(value))
		} else if count, item, cut := strings.Cut(line, " x "); cut {
			quantity, _ := strconv.ParseInt(count, 10, 32) // 0 if out of range: no invoice has such a line
			price, _ := parseCents(item[strings.LastIndex(item, " ")+1:])
			inv.goods += cents(quantity) * price
		}
	}
	return inv, inv.goods > 0
}

// setField sets the data of a line "field: value". It ignores unknown fields and values.
func (inv *invoice) setField(field, value string) {
	if field == "loyalty stamps" {
		inv.stamps, _ = strconv.ParseInt(value, 10, 32) // 0 as above
		return
	}
	for i := range steps {
		if steps[i].field == field && (value == steps[i].defaultKey || slices.Contains(steps[i].keys, value)) {
			inv.keys[i] = value
		}
	}
}

// worksheet holds the amount of each step of an invoice. Reductions are negative.
type worksheet [len(steps)]cents

// before returns the sum of the goods and of the steps before step i.
func (w *worksheet) before(inv *invoice, i int) cents {
	sum := inv.goods
	for _, c := range w[:i] {
		sum += c
	}
	return sum
}

func (w *worksheet) total(inv *invoice) cents { return w.before(inv, len(w)) }

// fillWorksheet computes all steps. ruleFor returns the known rule of a step and key; a step without a rule is 0.00.
func fillWorksheet(inv *invoice, ruleFor func(step int, key string) (rule, bool)) worksheet {
	var w worksheet
	for i := range steps {
		if r, ok := ruleFor(i, inv.keys[i]); ok {
			w[i] = r.amount(inv, &w)
		}
	}
	return w
}

// base is the amount to which a percentage applies.
type base int

const (
	ofSum  base = iota // everything up to this step
	ofNet              // the goods after discounts, before surcharges
	ofList             // the goods at list price, before discounts
)

func (b base) of(inv *invoice, w *worksheet, step int) cents {
	switch b {
	case ofList:
		return inv.goods
	case ofNet:
		return w.before(inv, min(step, firstSurcharge))
	}
	return w.before(inv, step)
}

// form is the formula of a rule.
type form int

const (
	share   form = iota // a percentage of a base
	flat                // an amount
	each                // an amount for each stamp
	rounded             // down to a multiple of an amount
)

// rule is one house rule: the amount of a step for one key.
type rule struct {
	step   int
	key    string
	form   form
	number int64 // cents, or hundredths of a percent
	base   base
}

// amount applies the rule to an invoice. The worksheet must contain the earlier steps.
func (r rule) amount(inv *invoice, w *worksheet) cents {
	var c cents
	switch r.form {
	case share:
		c = percent(r.base.of(inv, w, r.step), r.number)
	case flat:
		c = cents(r.number)
	case each:
		c = cents(r.number * inv.stamps)
	case rounded:
		if sum := w.before(inv, r.step); r.number > 0 && sum > 0 {
			c = sum % cents(r.number)
		}
	}
	if steps[r.step].reduces {
		return -c
	}
	return c
}
