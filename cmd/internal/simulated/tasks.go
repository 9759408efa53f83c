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

// How many tasks the demo has of each kind, and how many of them a seed can come to.
const (
	TrainTasks      = 200
	HeldOutTasks    = 200
	MaxTrainTasks   = 20_000
	MaxHeldOutTasks = 5_000
)

// Tasks are the invoices of a seed's house: some to learn from and others, none of them among the first, to be judged
// by. They are judged in steps; the question names the steps and gives no rule. Book, purpose, origin and playbook are
// the caller's to set.
func Tasks(seed uint64) (train, heldOut []events.Task) { return Draw(seed, TrainTasks, HeldOutTasks) }

// Draw is as Tasks, and as many of each as asked for, up to the most that there can be. Of one seed more tasks begin with
// the fewer, whatever is asked for of the other kind.
func Draw(seed uint64, trainTasks, heldOutTasks int) (train, heldOut []events.Task) {
	h := houseOf(seed)
	first := newClerk(h, rand.New(rand.NewPCG(seed, 0x7461736b73))) // "tasks"
	for i := range TrainTasks {
		train = append(train, first.next("train", i+1, anyone))
	}
	for i := range HeldOutTasks {
		heldOut = append(heldOut, first.next("held-out", i+1, anyone))
	}
	// What an invoice is for beyond these follows from what stands in it, so that neither kind can come to hold one of
	// the other.
	more := func(tasks []events.Task, kind string, want int, stream uint64, mine func(body string) bool) []events.Task {
		d := first.fork(rand.New(rand.NewPCG(seed, stream)))
		for i := len(tasks); i < want; i++ {
			tasks = append(tasks, d.next(kind, i+1, mine))
		}
		return tasks[:max(want, 0)]
	}
	train = more(train, "train", min(trainTasks, MaxTrainTasks), 0x6d6f7265, func(b string) bool { return !judges(b) })
	heldOut = more(heldOut, "held-out", min(heldOutTasks, MaxHeldOutTasks), 0x6a75646765, judges)
	return train, heldOut
}

func anyone(string) bool { return true }

// judges reports whether an invoice is one to be judged by: one in five is.
func judges(body string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(body))
	return h.Sum64()%5 == 0
}

// clerk writes invoices that differ from one another and are fit to learn from.
type clerk struct {
	house   house
	numbers map[string]bool
	rng     *rand.Rand
	seen    map[string]bool
}

func newClerk(h house, rng *rand.Rand) *clerk {
	return &clerk{h, h.numbers(), rng, make(map[string]bool)}
}

// fork is a clerk who knows what this one has written, and writes on from another place.
func (c *clerk) fork(rng *rand.Rand) *clerk {
	return &clerk{c.house, c.numbers, rng, maps.Clone(c.seen)}
}

func (c *clerk) next(kind string, n int, mine func(body string) bool) events.Task {
	for {
		d := draft(c.rng)
		sheet := work(&d.invoice, c.house.rule)
		if !c.house.teachable(&d.invoice, sheet) {
			continue
		}
		body := d.body()
		if c.seen[body] || c.seen[d.number] || !mine(body) || leaks(body, &d.invoice, sheet, c.numbers) {
			continue
		}
		c.seen[body], c.seen[d.number] = true, true
		return events.Task{
			ID: fmt.Sprintf("%s-%03d", kind, n), Question: d.question(),
			Target: target(&d.invoice, sheet), Evaluator: "steps",
		}
	}
}

// teachable reports whether every rule that the invoice uses can be told from its one amount, and makes a difference.
// Where two kinds of rules come to the same cents, the invoice is not used.
func (h house) teachable(inv *invoice, sheet worksheet) bool {
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

// numbers are those that the rules state, as text.
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

// leaks reports whether an invoice's text has the answer in it, the result of a step, or the number of a rule.
func leaks(text string, inv *invoice, sheet worksheet, numbers map[string]bool) bool {
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

// target is what evaluator "steps" compares with.
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

// paper is an invoice before it is written down.
type paper struct {
	invoice
	number, customer string
	lines            []string
}

// trade is a kind of invoice: its share of all, and how often it uses each step, both in percent. What comes late in the
// work comes with all that is before it, so an attempt that knows little gets the same early step wrong on all of
// them, and the later rules come to light only when the earlier ones are known.
type trade struct {
	share int
	uses  [len(steps)]int
}

var mix = [...]trade{
	{8, [len(steps)]int{}},                                    // nothing that a rule is about: right from the start
	{26, [len(steps)]int{94, 60}},                             // over the counter
	{34, [len(steps)]int{100, 60, 96, 40, 12, 94, 0, 20}},     // delivered
	{32, [len(steps)]int{100, 45, 97, 15, 5, 98, 92, 20, 45}}, // delivered abroad
}

func draft(rng *rand.Rand) paper {
	pick := func(words []string) string { return words[rng.IntN(len(words))] }
	d := paper{
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
	for at >= mix[kind].share {
		at -= mix[kind].share
		kind++
	}
	for i := range steps {
		s := &steps[i]
		d.keys[i] = s.plain
		if rng.IntN(100) < mix[kind].uses[i] {
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

// body is everything but the number and the name.
func (d *paper) body() string {
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

func (d *paper) question() string {
	names := []string{"goods"}
	for i := range steps {
		names = append(names, steps[i].name)
	}
	return fmt.Sprintf(`Invoice %s, %s
%s
What is the amount due in EUR? Work by the rules of this desk, in this order of steps: %s. Report every step in your reasoning as a line "name: amount", with two decimals, reductions negative, zero where nothing applies. The final answer is the amount due alone.`,
		d.number, d.customer, d.body(), strings.Join(names, ", "))
}
