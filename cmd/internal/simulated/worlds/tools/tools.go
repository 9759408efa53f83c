// Package tools is a simulated world of an agent with tools. An operations desk deploys services, restores volumes,
// moves customers. The tools have 45 hidden preconditions and conventions, some with exceptions. A violated rule either
// fails a call with a terse error, or leaves a wrong state without an error.
//
// An agent without rules calls the operation alone, with the usual arguments. The feedback on a failure is often empty,
// often a complaint in the words of a customer, and sometimes states the rule.
package tools

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds/world"
)

// Name is the name of the world.
const Name = "tools"

// Language is the knowledge of a model about requests. It has no hidden rule and no fact of the inventory.
type Language struct {
	rules    world.Memo[world.Case]
	requests world.Memo[request]
}

// NewModel returns a model that knows no hidden rule. The seed selects the prompts with errors.
func NewModel(seed uint64, e world.Imperfection) *world.Model {
	return &world.Model{Seed: seed, Errors: e, Language: new(Language)}
}

// World is the operations desk of one seed.
type World struct {
	*Language
	*world.Model
	hidden []world.Case
	values [factCount][]string
	// service and tenant hold the facts by the names of services and tenants.
	service, tenant map[string]facts
	tasks           world.Tasks
}

// New returns the world of a seed.
func New(seed uint64, e world.Imperfection) *World {
	rng := rand.New(rand.NewPCG(seed, 0x746f6f6c73)) // "tools"
	m := NewModel(seed, e)
	w := &World{Language: m.Language.(*Language), Model: m, service: make(map[string]facts), tenant: make(map[string]facts)}
	names := rng.Perm(len(beginnings) * len(ends))
	for i := range 4 {
		w.values[cluster] = append(w.values[cluster], inventedName(names[i]))
		w.values[region] = append(w.values[region], inventedName(names[4+i]))
	}
	for _, k := range kinds {
		w.values[kind] = append(w.values[kind], k.name)
	}
	w.values[tier] = tiers
	for i, at := range rng.Perm(len(services)) {
		w.service[services[at]] = facts{cluster: w.values[cluster][i%4], kind: w.values[kind][i/4%4]}
	}
	for i, at := range rng.Perm(len(tenants)) {
		w.tenant[tenants[at]] = facts{tier: w.values[tier][i%4], region: w.values[region][i/4%4]}
	}
	w.hidden = hidden(rng, w.values)
	return w
}

// Name implements world.World.
func (w *World) Name() string { return Name }

// Train implements world.World.
func (w *World) Train(n int) []world.Task {
	return w.tasks.First("train", n, func(n int) []world.Task { return w.write("train", n, 1, false) })
}

// HeldOut implements world.World. There is one phase.
func (w *World) HeldOut(_, n int) []world.Task {
	return w.tasks.First("held-out", n, func(n int) []world.Task { return w.write("held-out", n, 2, true) })
}

// request is a task before it is written.
type request struct{ op, service, tenant string }

// read returns the request in a text.
func (l *Language) read(question string) request {
	return l.requests.Get(question, readRequest)
}

// facts returns the operation and all facts of the service and the tenant.
func (w *World) facts(r request) facts {
	return facts{operation: r.op}.With(w.service[r.service]).With(w.tenant[r.tenant])
}

// write writes different requests of one to four rules. A hash of the operation, the service and the tenant decides
// whether a request is held out.
func (w *World) write(name string, n int, stream uint64, heldOut bool) []world.Task {
	rng := rand.New(rand.NewPCG(w.Seed, stream))
	seen := make(map[string]bool)
	out := make([]world.Task, 0, n)
	for len(out) < n {
		r := request{operations[rng.IntN(len(operations))].name, services[rng.IntN(len(services))], tenants[rng.IntN(len(tenants))]}
		if rng.IntN(3) == 0 {
			// Only a request to which a drawn rule applies, so that exceptions are not too rare.
			if h := w.hidden[rng.IntN(len(w.hidden))]; !h.Applies(w.facts(r)) {
				continue
			}
		}
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(r.op + " " + r.service + " " + r.tenant))
		if ((hash.Sum64()>>7)%5 == 0) != heldOut {
			continue
		}
		deciding := w.deciding(r)
		if len(deciding) == 0 || len(deciding) > 4 {
			continue
		}
		// A request that needs no deviation from the usual is easy, and rare.
		isEasy := !slices.ContainsFunc(deciding, func(i int) bool {
			h := w.hidden[i]
			return h.Value != slots[slotIndex(h.Slot)].values[0]
		})
		if isEasy && rng.IntN(3) > 0 {
			continue
		}
		question := w.writeRequest(r, rng)
		if seen[question] {
			continue
		}
		seen[question] = true
		out = append(out, world.Task{ID: fmt.Sprintf("%s-%05d", name, len(out)+1), Question: question, Deciding: deciding})
	}
	return out
}

// deciding returns the rules that decide a slot of a request.
func (w *World) deciding(r request) []int {
	var out []int
	for i := range slots {
		if at, _ := world.Decide(w.hidden, slots[i].name, w.facts(r)); at >= 0 {
			out = append(out, at)
		}
	}
	return out
}

// Words of a request that do not matter.
var (
	openings = []string{"Please", "Could you", "We have to", "The desk is asked to", "Kindly", "It is time to", "Would somebody", "I need you to"}
	owners   = []string{"%s uses it.", "This is for %s.", "The order comes from %s.", "%s is the party concerned.", "It is on behalf of %s."}
	asides   = []string{"The deadline is the %d.", "See thread %d.", "Budget line %d covers it.", "My extension is %d.", "They called %d times.", "Shelf mark %d."}
)

// writeRequest returns a request as a text. It states about half of the facts; the inventory has all of them.
func (w *World) writeRequest(r request, rng *rand.Rand) string {
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	var phrases []string
	for i := range operations {
		if operations[i].name == r.op {
			phrases = operations[i].requests
		}
	}
	parts := []string{fmt.Sprintf(pick(owners), r.tenant), fmt.Sprintf(pick(asides), 3+rng.IntN(900))}
	for f, v := range w.facts(r) {
		if fact(f) != operation && rng.IntN(2) == 0 {
			subject := capital(r.service)
			if fact(f) == tier || fact(f) == region {
				subject = r.tenant
			}
			parts = append(parts, subject+" "+report(fact(f), v)+".")
		}
	}
	rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return pick(openings) + " " + pick(phrases) + " " + r.service + ". " + strings.Join(parts, " ")
}

// ByHand implements world.World.
func (w *World) ByHand(int) []string {
	out := make([]string, len(w.hidden))
	for i, r := range w.hidden {
		out[i] = rule{r}.Text(world.Draw(w.Seed, "by hand", r.Condition()))
	}
	return out
}

// States implements world.World.
func (w *World) States(text string, _, rule int) bool {
	r, ok := w.readRule(text)
	return ok && r == w.hidden[rule]
}

// readRule caches the function readRule.
func (l *Language) readRule(text string) (world.Case, bool) {
	return l.rules.Find(text, readRule)
}

// Embed implements world.World.
func (*Language) Embed(texts []string) [][]float32 {
	return world.Embed(texts, concepts)
}

// Read implements world.Language.
func (l *Language) Read(text string) (world.Rule, bool) {
	r, ok := l.readRule(text)
	return rule{r}, ok
}

// Answer implements world.Language. The model knows the facts in the request only, because it cannot call the inventory.
func (l *Language) Answer(question, _, system string) world.Answer {
	p := l.plan(question, readFacts(question), system)
	return world.Answer{Reasoning: p.reasoning, BulletIDs: p.cited, FinalAnswer: p.text()}
}

// Platitudes implements world.World.
func (*Language) Platitudes(n int) []string {
	return world.Cross(n, 0, 5, platitudeStarts, platitudeEnds)
}

// Nonsense implements world.World.
func (*Language) Nonsense(n int) []string {
	return world.Cross(n, 0, 5, nonsenseStarts, nonsenseEnds)
}

var (
	platitudeStarts = []string{"Read the request twice", "Think before you act", "Plan the work", "Mind the consequences", "Keep an eye on the goal", "Look at the whole system", "Prefer the safe path"}
	platitudeEnds   = []string{"in all circumstances.", "and check the outcome.", "because incidents are costly.", "as good engineers do.", "when the situation is unclear.", "so that users can rely on us."}
	nonsenseStarts  = []string{"Hot-air balloons over the data hall", "Robots with a cold", "Tapes that hum", "Racks painted in violet", "Cables longer than a river", "Servers on a sailing ship", "Lamps that blink in Morse code"}
	nonsenseEnds    = []string{"are greeted with a trumpet.", "must be watered on Fridays.", "wait for a full moon.", "take the stairs.", "get a medal of brass.", "are logged in the green book."}
)

// Distractors implements world.World. The rules are about clusters and regions that do not exist in this world.
func (w *World) Distractors(n int) []string {
	var others []string
	for i := range len(beginnings) * len(ends) {
		if name := inventedName(i); !slices.Contains(w.values[cluster], name) && !slices.Contains(w.values[region], name) {
			others = append(others, name)
		}
	}
	rng := rand.New(rand.NewPCG(w.Seed, 3))
	return world.Distinct(n, func(int) string {
		s := &slots[rng.IntN(len(slots))]
		r := world.Case{Slot: s.name}
		r.When[operation], r.Value = operations[rng.IntN(len(operations))].name, s.values[rng.IntN(len(s.values))]
		absent, present := cluster, tier
		if rng.IntN(2) == 0 {
			absent, present = region, kind
		}
		r.When[absent] = others[rng.IntN(len(others))]
		if rng.IntN(2) == 0 {
			r.When[present] = w.values[present][rng.IntN(4)]
		}
		return rule{r}.Text(rng.Uint64())
	})
}
