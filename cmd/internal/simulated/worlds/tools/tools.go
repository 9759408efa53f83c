// Package tools is a simulated world of an agent with tools. An operations desk deploys services, restores volumes,
// moves customers. The tools have 45 hidden preconditions and conventions, some with exceptions. A violated rule either
// fails a call with a terse error, or leaves a wrong state without an error.
//
// An agent without rules calls the operation alone, with the usual arguments. The feedback on a failure is often empty,
// often a complaint in the words of a customer, and sometimes states the rule.
package tools

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Name is the name of the world.
const Name = "tools"

// World is the operations desk of one seed.
type World struct {
	Language
	*worlds.Model
	hidden []worlds.Case
	values [factCount][]string // of each fact; the operations are not in it
	// service and tenant hold the facts by the names of services and tenants.
	service, tenant map[string]facts
	tasks           worlds.Tasks
}

// New returns the world of a seed.
func New(seed uint64, e worlds.Imperfection) *World {
	rng := rand.New(rand.NewPCG(seed, 0x746f6f6c73)) // "tools"
	w := &World{Model: NewModel(seed, e), service: make(map[string]facts), tenant: make(map[string]facts)}
	drawn := rng.Perm(len(names))
	for i := range 4 {
		w.values[cluster] = append(w.values[cluster], names[drawn[i]])
		w.values[region] = append(w.values[region], names[drawn[4+i]])
	}
	for _, k := range kinds {
		w.values[kind] = append(w.values[kind], k.name)
	}
	w.values[tier] = tiers
	// Each fact has four values, and each pair of values is about as frequent as the others.
	for i, k := range rng.Perm(len(services)) {
		w.service[services[k]] = facts{cluster: w.values[cluster][i%4], kind: w.values[kind][i/4%4]}
	}
	for i, k := range rng.Perm(len(tenants)) {
		w.tenant[tenants[k]] = facts{tier: w.values[tier][i%4], region: w.values[region][i/4%4]}
	}
	w.hidden = hidden(rng, w.values)
	return w
}

// Name implements worlds.World.
func (w *World) Name() string { return Name }

// Train implements worlds.World.
func (w *World) Train(n int) []worlds.Task {
	return w.tasks.First("train", n, func(n int) []worlds.Task { return w.write("train", n, 1, false) })
}

// HeldOut implements worlds.World. There is one phase.
func (w *World) HeldOut(_, n int) []worlds.Task {
	return w.tasks.First("held-out", n, func(n int) []worlds.Task { return w.write("held-out", n, 2, true) })
}

// factsOf returns the operation and all facts of the service and the tenant.
func (w *World) factsOf(r request) facts {
	return facts{operation: r.op}.With(w.service[r.service]).With(w.tenant[r.tenant])
}

// write writes different requests of one to four rules. A hash of the operation, the service and the tenant decides
// whether a request is held out.
func (w *World) write(list string, n int, stream uint64, heldOut bool) []worlds.Task {
	rng := rand.New(rand.NewPCG(w.Seed, stream))
	return worlds.WriteTasks(list, n, func() (t worlds.Task, ok bool) {
		r := request{operations[rng.IntN(len(operations))].name, services[rng.IntN(len(services))], tenants[rng.IntN(len(tenants))]}
		// One request in three is skipped unless a drawn rule applies to it, so that exceptions are not too rare.
		if rng.IntN(3) == 0 && !w.hidden[rng.IntN(len(w.hidden))].Applies(w.factsOf(r)) {
			return t, false
		}
		isHeldOut := worlds.Hash(r.op+" "+r.service+" "+r.tenant)>>7%5 == 0
		if isHeldOut != heldOut {
			return t, false
		}
		for _, i := range w.deciding(r) {
			if i >= 0 {
				t.Deciding = append(t.Deciding, i)
			}
		}
		if len(t.Deciding) == 0 || len(t.Deciding) > 4 {
			return t, false
		}
		// A request that needs no deviation from the usual is easy, and rare.
		isEasy := !slices.ContainsFunc(t.Deciding, func(i int) bool {
			h := w.hidden[i]
			return h.Value != slots[slotIndex(h.Slot)].values[0]
		})
		if isEasy && rng.IntN(3) > 0 {
			return t, false
		}
		t.Question = w.writeRequest(r, rng)
		return t, true
	})
}

// deciding returns, for each slot, the rule that decides it for a request, or -1.
func (w *World) deciding(r request) []int {
	out := make([]int, len(slots))
	for i := range slots {
		out[i] = worlds.Decide(w.hidden, slots[i].name, w.factsOf(r))
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
	for f, v := range w.factsOf(r) {
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

// ByHand implements worlds.World.
func (w *World) ByHand(int) []string {
	return worlds.ByHand(w.Seed, w.hidden, func(c worlds.Case) worlds.Rule { return rule{c} })
}

// States implements worlds.World.
func (w *World) States(text string, _, rule int) bool {
	c, ok := readCase(text)
	return ok && c == w.hidden[rule]
}

// Distractors implements worlds.World. The rules are about clusters and regions that do not exist in this world.
func (w *World) Distractors(n int) []string {
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.Contains(w.values[cluster], name) || slices.Contains(w.values[region], name)
	})
	rng := rand.New(rand.NewPCG(w.Seed, 3))
	return worlds.Distinct(n, func(int) string {
		s := &slots[rng.IntN(len(slots))]
		r := worlds.Case{Slot: s.name}
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
