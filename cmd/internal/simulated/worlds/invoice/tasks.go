package invoice

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Kinds of tasks.
const (
	train   = "train"
	heldOut = "held-out"
)

// MaxTrain and MaxHeldOut limit the numbers of tasks. An invoice number has five digits, so the invoices of a seed are limited.
const (
	MaxTrain   = 20_000
	MaxHeldOut = 5_000
)

// firstTasks is the number of tasks at the beginning of each list. One random source writes both beginnings, so that no invoice is
// in both lists: first the training tasks, then the held-out tasks. For further tasks a hash of the text decides the kind.
const firstTasks = 200

// write returns the first n tasks of a kind.
func (w *World) write(kind string, n int) []worlds.Task {
	wr := writer{world: w, seen: make(map[string]bool), numbers: statedNumbers(w.rules)}
	wr.rng = rand.New(rand.NewPCG(w.Seed, 0x7461736b73)) // "tasks"
	acceptAll := func(string) bool { return true }
	// Both beginnings are written for each kind, so that no further task repeats them.
	first := wr.append(nil, train, firstTasks, acceptAll)
	firstHeldOut := wr.append(nil, heldOut, firstTasks, acceptAll)
	stream := uint64(0x6d6f7265) // "more"
	if kind == heldOut {
		first, stream = firstHeldOut, 0x6a75646765 // "judge"
	}
	wr.rng = rand.New(rand.NewPCG(w.Seed, stream))
	return wr.append(first, kind, n, func(body string) bool { return isHeldOut(body) == (kind == heldOut) })[:n]
}

// isHeldOut reports whether an invoice is a held-out task. One in five is.
func isHeldOut(body string) bool { return worlds.Hash(body)%5 == 0 }

// writer writes different invoices from which each rule can be learned.
type writer struct {
	world   *World
	rng     *rand.Rand
	seen    map[string]bool // numbers and bodies
	numbers map[string]bool // numbers of rules as text
}

// append writes tasks until the list has n. It skips invoices whose body accept refuses.
func (wr *writer) append(tasks []worlds.Task, kind string, n int, accept func(body string) bool) []worlds.Task {
	for len(tasks) < n {
		d := wr.draw()
		inv, _ := readInvoice(d.question())
		sheet, used := fill(&inv, wr.world.rules)
		isKnown := wr.seen[d.body] || wr.seen[d.number]
		if isKnown || !accept(d.body) || !wr.isLearnable(&inv, &sheet, used) || wr.leaks(d.body, &inv, &sheet) {
			continue
		}
		wr.seen[d.body], wr.seen[d.number] = true, true
		id := fmt.Sprintf("%s-%03d", kind, len(tasks)+1)
		tasks = append(tasks, worlds.Task{ID: id, Question: d.question(), Deciding: decidingRules(used)})
	}
	return tasks
}

// decidingRules returns the rules that a worksheet uses.
func decidingRules(used [len(steps)]int) (out []int) {
	for _, at := range used {
		if at >= 0 {
			out = append(out, at)
		}
	}
	return out
}

// isLearnable reports whether a reader can derive each rule of the invoice from the amount of its step. This is impossible if the
// amount is zero, and if a simpler rule gives the same cents.
func (wr *writer) isLearnable(inv *invoice, sheet *worksheet, used [len(steps)]int) bool {
	for i, at := range used {
		if at < 0 {
			continue
		}
		got, ok := infer(inv, sheet, i, sheet[i])
		if !ok || got != wr.world.rules[at] || sheet[i] == 0 {
			return false
		}
	}
	return sheet.total(inv) > 0
}

var anyNumber = regexp.MustCompile(`\d+(?:\.\d+)?`)

// leaks reports whether an invoice contains the answer, the amount of a step, or the number of a rule.
func (wr *writer) leaks(body string, inv *invoice, sheet *worksheet) bool {
	results := []string{sheet.total(inv).String()}
	for _, c := range sheet {
		if c != 0 {
			results = append(results, strings.TrimPrefix(c.String(), "-"))
		}
	}
	return slices.ContainsFunc(anyNumber.FindAllString(body, -1), func(n string) bool {
		return wr.numbers[n] || slices.Contains(results, n)
	})
}

func statedNumbers(rules []rule) map[string]bool {
	all := make(map[string]bool)
	for _, r := range rules {
		all[r.number.String()] = true
		if steps[r.step].form == share {
			all[points(r.number)] = true
		}
	}
	return all
}

// kinds are the kinds of invoices: the share of all invoices, and the rate at which each step has a rule, in percent. Invoices
// with late steps also have the early ones. So an agent with few rules fails at an early step of every such invoice, and can learn
// the later rules only after the earlier ones.
var kinds = [...]struct {
	share int
	rates [len(steps)]int
}{
	{8, [len(steps)]int{}},                                    // right without any rule
	{26, [len(steps)]int{94, 60}},                             // over the counter
	{34, [len(steps)]int{100, 60, 96, 40, 12, 94, 0, 20}},     // delivered
	{32, [len(steps)]int{100, 45, 97, 15, 5, 98, 92, 20, 45}}, // delivered abroad
}

// Words of an invoice that do not matter.
var (
	places = []string{"Harbour", "Hilltop", "Old Mill", "Station", "Lakeside", "Market", "Orchard", "Canal", "Meadow", "Tower"}
	trades = []string{"Bakery", "Books", "Florist", "Kitchens", "Stationers", "Tea Room", "Toys", "Hardware", "Print Shop", "Bicycles"}
	wares  = []string{"ceramic mugs", "linen bags", "oak trays", "glass jars", "wool blankets", "tin boxes", "brass hooks", "paper lamps", "clay pots", "cork mats", "wax candles", "steel spoons"}
)

// draft is the text of an invoice. The body lacks the number and the customer.
type draft struct{ number, customer, body string }

func (wr *writer) draw() draft {
	rng := wr.rng
	pick := func(words []string) string { return words[rng.IntN(len(words))] }
	d := draft{number: fmt.Sprint(20000 + rng.IntN(80000)), customer: pick(places) + " " + pick(trades)}
	stamps := 20 + rng.IntN(40)
	var body strings.Builder
	for range 2 + rng.IntN(2) {
		price, quantity := cents(105+5*rng.IntN(180)), 20+rng.IntN(70)
		fmt.Fprintf(&body, "  %d x %s at %s\n", quantity, pick(wares), price)
	}
	kind := 0
	percent := rng.IntN(100)
	for percent >= kinds[kind].share {
		percent -= kinds[kind].share
		kind++
	}
	for i := range steps {
		s := &steps[i]
		key := s.defaultKey
		if rng.IntN(100) < kinds[kind].rates[i] {
			key = pick(s.keys)
		}
		fmt.Fprintf(&body, "%s: %s\n", s.field, key)
	}
	fmt.Fprintf(&body, "loyalty stamps: %d\n", stamps)
	d.body = body.String()
	return d
}

func (d *draft) question() string {
	names := []string{"goods"}
	for i := range steps {
		names = append(names, steps[i].name)
	}
	return fmt.Sprintf(`Invoice %s, %s
%s
What is the amount due in EUR? Work by the rules of this desk, in this order of steps: %s. Report every step in your reasoning as a line "name: amount", with two decimals, reductions negative, zero where nothing applies. The final answer is the amount due alone.`,
		d.number, d.customer, d.body, strings.Join(names, ", "))
}
