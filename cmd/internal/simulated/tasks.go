package simulated

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"debrief/events"
)

// Numbers of training and held-out tasks: the default of the demo, and the maximum for a seed.
const (
	TrainTasks      = 200
	HeldOutTasks    = 200
	MaxTrainTasks   = 20_000
	MaxHeldOutTasks = 5_000
)

// Tasks returns the invoices of a seed: training tasks, and held-out tasks that are not among them. The evaluator is
// "steps"; the question names the steps and contains no rule. The caller sets book, purpose, origin and playbook.
func Tasks(seed uint64) (train, heldOut []events.Task) {
	return GenerateTasks(seed, TrainTasks, HeldOutTasks)
}

// GenerateTasks returns the given numbers of tasks, limited to MaxTrainTasks and MaxHeldOutTasks. A longer list of a seed starts
// with the shorter one, independently of the other kind.
func GenerateTasks(seed uint64, trainTasks, heldOutTasks int) (train, heldOut []events.Task) {
	h := houseOf(seed)
	first := newTaskWriter(h, rand.New(rand.NewPCG(seed, 0x7461736b73))) // "tasks"
	for i := range TrainTasks {
		train = append(train, first.next("train", i+1, acceptAll))
	}
	for i := range HeldOutTasks {
		heldOut = append(heldOut, first.next("held-out", i+1, acceptAll))
	}
	// For further invoices a hash of the text decides the kind, so that no invoice is in both lists.
	more := func(tasks []events.Task, kind string, want int, stream uint64, accept func(body string) bool) []events.Task {
		d := first.fork(rand.New(rand.NewPCG(seed, stream)))
		for i := len(tasks); i < want; i++ {
			tasks = append(tasks, d.next(kind, i+1, accept))
		}
		return tasks[:max(want, 0)]
	}
	train = more(train, "train", min(trainTasks, MaxTrainTasks), 0x6d6f7265, func(b string) bool { return !isHeldOut(b) })
	heldOut = more(heldOut, "held-out", min(heldOutTasks, MaxHeldOutTasks), 0x6a75646765, isHeldOut)
	return train, heldOut
}

func acceptAll(string) bool { return true }

// isHeldOut reports whether an invoice is a held-out task. One in five is.
func isHeldOut(body string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(body))
	return h.Sum64()%5 == 0
}

// taskWriter writes different invoices, each suitable for learning.
type taskWriter struct {
	house   house
	numbers map[string]bool
	rng     *rand.Rand
	seen    map[string]bool
}

func newTaskWriter(h house, rng *rand.Rand) *taskWriter {
	return &taskWriter{h, h.numbers(), rng, make(map[string]bool)}
}

// fork returns a taskWriter that avoids the invoices of this one and draws from another source.
func (c *taskWriter) fork(rng *rand.Rand) *taskWriter {
	return &taskWriter{c.house, c.numbers, rng, maps.Clone(c.seen)}
}

func (c *taskWriter) next(kind string, n int, accept func(body string) bool) events.Task {
	for {
		d := draftInvoice(c.rng)
		sheet := fillWorksheet(&d.invoice, c.house.rule)
		if !c.house.isLearnable(&d.invoice, sheet) {
			continue
		}
		body := d.body()
		if c.seen[body] || c.seen[d.number] || !accept(body) || leaksAnswer(body, &d.invoice, sheet, c.numbers) {
			continue
		}
		c.seen[body], c.seen[d.number] = true, true
		return events.Task{
			ID: fmt.Sprintf("%s-%03d", kind, n), Question: d.question(),
			Target: target(&d.invoice, sheet), Evaluator: "steps",
		}
	}
}

// isLearnable reports whether a reader can derive each rule of the invoice from its amount. It is false if an amount is
// zero, or if two forms of a rule give the same cents.
func (h house) isLearnable(inv *invoice, sheet worksheet) bool {
	for i := range steps {
		want, ok := h.rule(i, inv.keys[i])
		if !ok {
			continue
		}
		if got, ok := infer(inv, &sheet, i, sheet[i]); !ok || got != want || sheet[i] == 0 {
			return false
		}
	}
	return sheet.total(inv) > 0
}

var anyNumber = regexp.MustCompile(`\d+(?:\.\d+)?`)

// numbers returns the numbers of all rules as text.
func (h house) numbers() map[string]bool {
	all := make(map[string]bool)
	for _, r := range h {
		all[cents(r.number).String()] = true
		if r.form == share {
			all[points(r.number)] = true
		}
	}
	return all
}

// leaksAnswer reports whether the text of an invoice contains the answer, the result of a step, or the number of a rule.
func leaksAnswer(text string, inv *invoice, sheet worksheet, numbers map[string]bool) bool {
	results := []string{sheet.total(inv).String()}
	for _, c := range sheet {
		if c != 0 {
			results = append(results, strings.TrimPrefix(c.String(), "-"))
		}
	}
	return slices.ContainsFunc(anyNumber.FindAllString(text, -1), func(n string) bool {
		return numbers[n] || slices.Contains(results, n)
	})
}

// target returns the task's target for evaluator "steps".
func target(inv *invoice, sheet worksheet) string {
	type stepAmount struct {
		Name   string `json:"name"`
		Amount string `json:"amount"`
	}
	t := struct {
		Answer string       `json:"answer"`
		Steps  []stepAmount `json:"steps"`
	}{Answer: sheet.total(inv).String(), Steps: []stepAmount{{"goods", inv.goods.String()}}}
	for i, c := range sheet {
		t.Steps = append(t.Steps, stepAmount{steps[i].name, c.String()})
	}
	raw, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings encode
	}
	return string(raw)
}

// invoiceDraft is an invoice with the data of its text.
type invoiceDraft struct {
	invoice
	number, customer string
	lines            []string
}

// invoiceKind is a kind of invoice: its share of all invoices and the rate of each step, both in percent. An invoice
// with late steps also has the early ones. A playbook with few rules therefore fails at the same early step of all of
// them, and the later rules can be learned only after the earlier ones.
type invoiceKind struct {
	share int
	uses  [len(steps)]int
}

var invoiceKinds = [...]invoiceKind{
	{8, [len(steps)]int{}},                                    // no step has a rule: right from the start
	{26, [len(steps)]int{94, 60}},                             // over the counter
	{34, [len(steps)]int{100, 60, 96, 40, 12, 94, 0, 20}},     // delivered
	{32, [len(steps)]int{100, 45, 97, 15, 5, 98, 92, 20, 45}}, // delivered abroad
}

func draftInvoice(rng *rand.Rand) invoiceDraft {
	pick := func(words []string) string { return words[rng.IntN(len(words))] }
	d := invoiceDraft{
		number:   fmt.Sprint(20000 + rng.IntN(80000)),
		customer: pick(places) + " " + pick(trades),
	}
	d.stamps = int64(20 + rng.IntN(40))
	for range 2 + rng.IntN(2) {
		price, quantity := cents(105+5*rng.IntN(180)), 20+rng.IntN(70)
		d.goods += price * cents(quantity)
		d.lines = append(d.lines, fmt.Sprintf("%d x %s at %s", quantity, pick(wares), price))
	}
	kind, at := 0, rng.IntN(100)
	for at >= invoiceKinds[kind].share {
		at -= invoiceKinds[kind].share
		kind++
	}
	for i := range steps {
		s := &steps[i]
		d.keys[i] = s.defaultKey
		if rng.IntN(100) < invoiceKinds[kind].uses[i] {
			d.keys[i] = pick(s.keys)
		}
	}
	return d
}

var (
	places = []string{"Harbour", "Hilltop", "Old Mill", "Station", "Lakeside", "Market", "Orchard", "Canal", "Meadow", "Tower"}
	trades = []string{"Bakery", "Books", "Florist", "Kitchens", "Stationers", "Tea Room", "Toys", "Hardware", "Print Shop", "Bicycles"}
	wares  = []string{"ceramic mugs", "linen bags", "oak trays", "glass jars", "wool blankets", "tin boxes", "brass hooks", "paper lamps", "clay pots", "cork mats", "wax candles", "steel spoons"}
)

// body returns the text without the number and the customer.
func (d *invoiceDraft) body() string {
	var b strings.Builder
	for _, l := range d.lines {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	for i := range steps {
		fmt.Fprintf(&b, "%s: %s\n", steps[i].field, steps[i].label(d.keys[i]))
	}
	fmt.Fprintf(&b, "loyalty stamps: %d\n", d.stamps)
	return b.String()
}

func (d *invoiceDraft) question() string {
	names := []string{"goods"}
	for i := range steps {
		names = append(names, steps[i].name)
	}
	return fmt.Sprintf(`Invoice %s, %s
%s
What is the amount due in EUR? Work by the rules of this desk, in this order of steps: %s. Report every step in your reasoning as a line "name: amount", with two decimals, reductions negative, zero where nothing applies. The final answer is the amount due alone.`,
		d.number, d.customer, d.body(), strings.Join(names, ", "))
}
