// Package text is a simulated world of rules in words. Tickets of customers go to a queue with a priority. Forty hidden rules
// decide: by the topic and the impact, with exceptions for products, plans and languages. In a drifting world the queues of five
// rules change after ChangeAfter training tasks: phase 0 ends, and phase 1 begins.
//
// An agent without rules sends every ticket to the default queue. The feedback names the right queue and priority, and
// sometimes the reason.
package text

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds/world"
)

// Names of the world with rules that stay, and of the world with rules that change. Both have the same rules and tasks up to
// training task ChangeAfter.
const (
	Name     = "text"
	Drifting = "drift"
)

// ChangeAfter is the number of training tasks of phase 0. All further training tasks of a drifting world are of phase 1.
const ChangeAfter = 1500

// Language is the knowledge of a model about tickets. It has no hidden rule.
type Language struct {
	rules   world.Memo[world.Case]
	tickets world.Memo[ticket]
}

// NewModel returns a model that knows no hidden rule. The seed selects the prompts with errors.
func NewModel(seed uint64, e world.Imperfection) *world.Model {
	return &world.Model{Seed: seed, Errors: e, Language: new(Language)}
}

// World is the world of one seed.
type World struct {
	*Language
	*world.Model
	drifts   bool
	phases   [2][]world.Case // rules of each phase
	products []string
	changed  []int // indexes of the rules that differ in phase 1
	tasks    world.Tasks
}

// New returns the world of a seed. With drifts, some of its rules change.
func New(seed uint64, drifts bool, e world.Imperfection) *World {
	m := NewModel(seed, e)
	w := &World{Language: m.Language.(*Language), Model: m, drifts: drifts}
	w.phases, w.products, w.changed = hidden(seed)
	return w
}

// Name implements world.World.
func (w *World) Name() string {
	if w.drifts {
		return Drifting
	}
	return Name
}

// Changed implements world.Changer.
func (w *World) Changed() []int {
	if !w.drifts {
		return nil
	}
	return slices.Clone(w.changed)
}

// phase returns n as a phase that the world has: only a drifting world has phase 1.
func (w *World) phase(n int) int {
	if n <= 0 || !w.drifts {
		return 0
	}
	return 1
}

// Train implements world.World.
func (w *World) Train(n int) []world.Task {
	return w.tasks.First("train", n, func(n int) []world.Task {
		tasks := w.write("train", n, 1, false)
		for i := range tasks {
			phase := 0
			if i >= ChangeAfter {
				phase = 1
			}
			w.setPhase(&tasks[i], phase)
		}
		return tasks
	})
}

// HeldOut implements world.World. The tickets of the phases are the same, and their right answers differ.
func (w *World) HeldOut(phase, n int) []world.Task {
	phase = w.phase(phase)
	name := fmt.Sprintf("held-out-%d", phase)
	return w.tasks.First(name, n, func(n int) []world.Task {
		tasks := w.write(name, n, 2, true)
		for i := range tasks {
			w.setPhase(&tasks[i], phase)
		}
		return tasks
	})
}

// setPhase sets the phase and the deciding rules.
func (w *World) setPhase(t *world.Task, phase int) {
	t.Phase = w.phase(phase)
	features := w.read(t.Question)
	for _, slot := range []string{toQueue, toPriority} {
		if at, _ := world.Decide(w.phases[t.Phase], slot, features); at >= 0 {
			t.Deciding = append(t.Deciding, at)
		}
	}
}

// write writes different tickets. A hash of the features decides whether a ticket is held out, so no combination of
// features is in both kinds.
func (w *World) write(kind string, n int, stream uint64, heldOut bool) []world.Task {
	rng := rand.New(rand.NewPCG(w.Seed, stream))
	seen := make(map[string]bool)
	out := make([]world.Task, 0, n)
	for len(out) < n {
		t := w.draw(rng)
		h := fnv.New64a()
		_, _ = h.Write([]byte(strings.Join(t[:], "|")))
		if (h.Sum64()%5 == 0) != heldOut || !w.isDecided(t) {
			continue
		}
		question := writeTicket(t, rng)
		if seen[question] {
			continue
		}
		seen[question] = true
		out = append(out, world.Task{ID: fmt.Sprintf("%s-%05d", kind, len(out)+1), Question: question})
	}
	return out
}

// draw returns the features of a ticket. The first values of a feature are the most frequent ones. One ticket in three gets the
// features of a rule, because otherwise few would have those of an exception.
func (w *World) draw(rng *rand.Rand) ticket {
	lowOf := func(n int) int { return min(rng.IntN(n), rng.IntN(n)) }
	var t ticket
	for f := range vocabulary {
		if feature(f) != product {
			t[f] = vocabulary[f][lowOf(len(vocabulary[f]))].name
		}
	}
	t[product] = w.products[lowOf(len(w.products))]
	if rng.IntN(3) == 0 {
		r := w.phases[0][rng.IntN(len(w.phases[0]))]
		t = t.With(r.When)
	}
	return t
}

// isDecided reports whether the rules of each phase decide a ticket without a contradiction.
func (w *World) isDecided(t ticket) bool {
	for _, rules := range w.phases {
		for _, slot := range []string{toQueue, toPriority} {
			if _, tie := world.Decide(rules, slot, t); tie {
				return false
			}
		}
	}
	return true
}

// Words of a ticket that do not matter.
var (
	people   = strings.Fields("Anouk Bilal Chiara Dagmar Emre Farida Goran Hiroko Imani Jorge Katya Liam Mireille Noor Otis Priya Quentin Rosa Sven Tomoko")
	fillers  = []string{"Our reference is %d.", "We wrote to you on the %d. already.", "My callback number ends in %d.", "This concerns file %d.", "We are office %d."}
	closings = []string{"Thanks, %s", "Regards, %s", "Yours, %s", "Best wishes from %s", "Sincerely, %s"}
	places   = []string{"It happens in %s.", "We are speaking of %s.", "%s is the part in question.", "The matter is %s.", "You will know it: %s."}
)

// writeTicket returns a ticket as a text.
func writeTicket(t ticket, rng *rand.Rand) string {
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	phrase := func(f feature) string {
		for i := range vocabulary[f] {
			if v := &vocabulary[f][i]; v.name == t[f] {
				return pick(v.tickets)
			}
		}
		return ""
	}
	sentence := func(s string) string {
		if s == "" {
			return s
		}
		return strings.ToUpper(s[:1]) + s[1:] + "."
	}
	parts := []string{
		sentence(phrase(topic)), sentence(phrase(plan)), sentence(phrase(impact)),
		fmt.Sprintf(pick(places), t[product]), fmt.Sprintf(pick(fillers), 2+rng.IntN(27)+100*rng.IntN(9)),
	}
	rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return phrase(language) + ",\n" + strings.Join(parts, " ") + "\n" + fmt.Sprintf(pick(closings), pick(people))
}

// ByHand implements world.World.
func (w *World) ByHand(phase int) []string {
	rules := w.phases[w.phase(phase)]
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = rule{r}.Text(world.Draw(w.Seed, "by hand", r.Condition()))
	}
	return out
}

// States implements world.World.
func (w *World) States(text string, phase, rule int) bool {
	r, ok := w.readRule(text)
	return ok && r == w.phases[w.phase(phase)][rule]
}

// Embed implements world.World.
func (*Language) Embed(texts []string) [][]float32 {
	return world.Embed(texts, concepts)
}

// right returns the queue and the priority that the rules of the task's phase decide.
func (w *World) right(t *world.Task) (queue, priority string) {
	features := w.read(t.Question)
	rules := w.phases[t.Phase]
	queue, priority = defaultQueue, defaultPriority
	if at, _ := world.Decide(rules, toQueue, features); at >= 0 {
		queue = rules[at].Value
	}
	if at, _ := world.Decide(rules, toPriority, features); at >= 0 {
		priority = rules[at].Value
	}
	return queue, priority
}

// Verdict implements world.World. The feedback on a wrong answer contains the reason in four of ten cases.
func (w *World) Verdict(t world.Task, a world.Attempt) world.Verdict {
	queue, priority := w.right(&t)
	got := readAnswer(a.Answer)
	d := world.Dice(world.Draw(w.Seed, "verdict", t.ID, a.Answer))
	if got[0] == queue && got[1] == priority {
		return world.Verdict{Score: 1, Feedback: []string{"", "Right.", "Well sorted."}[d.Draw("praise")%3]}
	}
	slot, want := toQueue, queue
	if got[0] == queue {
		slot, want = toPriority, priority
	}
	var reason ticket // the condition of the rule; empty without a reason
	if d.Chance(0.4, "reason") {
		if at, _ := world.Decide(w.phases[t.Phase], slot, w.read(t.Question)); at >= 0 {
			reason = w.phases[t.Phase][at].When
		}
	}
	text := correction(slot, want, reason, d)
	if slot == toQueue && got[1] != priority {
		text += " " + correction(toPriority, priority, ticket{}, d)
	}
	return world.Verdict{Feedback: text}
}

// Wrong implements world.World: it praises a wrong answer, and corrects a right one by an invented value, some with a reason.
func (w *World) Wrong(t world.Task, a world.Attempt, v world.Verdict) world.Verdict {
	if !v.Right() {
		return world.Verdict{Score: 1, Feedback: "Right."}
	}
	queue, priority := w.right(&t)
	d := world.Dice(world.Draw(w.Seed, "wrong verdict", t.ID, a.Answer))
	slot, invented := toQueue, queues[d.Draw("queue")%uint64(len(queues))]
	if invented == queue {
		invented = defaultQueue
	}
	if d.Chance(0.4, "output") {
		slot, invented = toPriority, fmt.Sprint(1+d.Draw("priority")%4)
		if invented == priority {
			invented = fmt.Sprint(1 + (invented[0]-'0')%4) // the next priority
		}
	}
	var reason ticket
	if d.Chance(0.3, "reason") {
		f := feature(d.Draw("feature") % uint64(featureCount))
		reason[f] = w.read(t.Question)[f]
	}
	return world.Verdict{Feedback: correction(slot, invented, reason, d)}
}

// correction returns feedback with the right value, and with the reason unless it is empty.
func correction(slot, value string, reason ticket, d world.Dice) string {
	forms := []string{"This ticket belongs to %s", "It should have gone to %s", "%s had to deal with this one", "The proper place was %s"}
	if slot == toPriority {
		forms = []string{"This ticket has priority %s", "We treat such a ticket as P%s", "It should have had urgency %s", "The right rank was priority %s"}
	}
	text := fmt.Sprintf(forms[d.Draw("form "+slot)%4], value)
	var why []string
	for f, v := range reason {
		if v != "" {
			why = append(why, say(feature(f), v, d.Draw("reason "+featureNames[f])))
		}
	}
	if len(why) > 0 {
		text += ", because of " + strings.Join(why, " and ")
	}
	return text + "."
}

// Platitudes implements world.World.
func (*Language) Platitudes(n int) []string {
	return world.Cross(n, 0, 7, platitudeStarts, platitudeEnds)
}

// Nonsense implements world.World.
func (*Language) Nonsense(n int) []string {
	return world.Cross(n, 0, 7, nonsenseStarts, nonsenseEnds)
}

var (
	platitudeStarts = []string{"Read the whole message", "Stay polite", "Take your time", "Check the details again", "Keep the customer in mind", "Avoid hasty conclusions", "Work with care", "Note the essential facts", "Consider the wider picture"}
	platitudeEnds   = []string{"before you decide.", "in every situation.", "because quality counts.", "and confirm the result.", "as a matter of good service.", "so that errors stay rare.", "whenever you are unsure."}
	nonsenseStarts  = []string{"Letters sealed with wax", "Requests from lighthouse keepers", "Parrots that recite poems", "Telegrams in violet ink", "Complaints about moon dust", "Calls from submarines", "Notes found in bottles", "Invitations to a regatta", "Bees with a passport"}
	nonsenseEnds    = []string{"are answered by the harbour master.", "wait until the tide turns.", "go up the spiral staircase.", "need a stamp with a swan.", "are read aloud at noon.", "belong into the blue drawer.", "are counted twice on Sundays."}
)

// Distractors implements world.World. The rules are about products that no ticket names.
func (w *World) Distractors(n int) []string {
	var others []string
	for i := range len(names) {
		if name := productName(i); !slices.Contains(w.products, name) {
			others = append(others, name)
		}
	}
	rng := rand.New(rand.NewPCG(w.Seed, 3))
	return world.Distinct(n, func(int) string {
		r := world.Case{Slot: toQueue, Value: queues[rng.IntN(len(queues))]}
		if rng.IntN(3) == 0 {
			r.Slot, r.Value = toPriority, fmt.Sprint(1+rng.IntN(4))
		}
		r.When[product] = others[rng.IntN(len(others))]
		for _, f := range []feature{topic, plan, language, impact} {
			if rng.IntN(2) == 0 {
				r.When[f] = vocabulary[f][rng.IntN(len(vocabulary[f]))].name
			}
		}
		return rule{r}.Text(rng.Uint64())
	})
}

// readRule caches the function readRule.
func (l *Language) readRule(text string) (world.Case, bool) {
	return l.rules.Find(text, readRule)
}

// readAnswer returns the queue and the priority of an answer.
func readAnswer(answer string) [2]string {
	return [2]string{readQueue(answer), readPriority(answer)}
}

// read caches the function readTicket.
func (l *Language) read(question string) ticket { return l.tickets.Get(question, readTicket) }

// Read implements world.Language.
func (l *Language) Read(text string) (world.Rule, bool) {
	r, ok := l.readRule(text)
	return rule{r}, ok
}

// Answer implements world.Language. The model applies the bullets. If several apply, the one with most features decides, then
// the first.
func (l *Language) Answer(question, _, system string) world.Answer {
	t := l.read(question)
	advice := world.ReadAdvice(world.ReadBullets(system), l.readRule)
	out := world.Answer{BulletIDs: []string{}}
	decide := func(slot, usual string) string {
		c, id := advice.Decide(slot, t)
		if id == "" {
			out.Reasoning += "No bullet decides the " + slot + ", so it is the usual one.\n"
			return usual
		}
		out.BulletIDs = append(out.BulletIDs, id)
		out.Reasoning += "The " + slot + " follows from [" + id + "].\n"
		return c.Value
	}
	queue, priority := decide(toQueue, defaultQueue), decide(toPriority, defaultPriority)
	out.FinalAnswer = queue + ", priority " + priority
	return out
}
