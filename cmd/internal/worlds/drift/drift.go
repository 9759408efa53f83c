// Package drift is a simulated world with rules that change. Tickets of customers go to a queue with a priority. Forty
// hidden rules decide: by the topic and the impact, with exceptions for products, plans and languages. With training task
// 1,501 the queues of five rules change.
//
// An agent without rules sends every ticket to the reception. The feedback names the right queue and priority, and
// sometimes the reason.
package drift

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/roles"
	"debrief/cmd/internal/worlds/world"
)

// Name is the name of the world.
const Name = "drift"

// ChangeAfter is the number of training tasks of phase 0. All further training tasks are of phase 1.
const ChangeAfter = 1500

// World is the drifting world of one seed.
type World struct {
	seed     uint64
	phases   [2][]rule
	products []string
	changed  []int
	model    roles.Model
	rules    roles.Memo[rule]
	tickets  roles.Memo[ticket]
	tasks    roles.Tasks
}

// New returns the world of a seed.
func New(seed uint64, e world.Imperfection) *World {
	w := &World{seed: seed}
	w.phases, w.products, w.changed = hidden(seed)
	w.model = roles.Model{Seed: seed, Errors: e, Language: w}
	return w
}

// Name implements world.World.
func (w *World) Name() string { return Name }

// Changed implements world.Changer.
func (w *World) Changed() []int { return slices.Clone(w.changed) }

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
	t.Phase = min(max(phase, 0), 1)
	of := w.read(t.Question)
	for _, output := range []string{toQueue, toPriority} {
		if at, _ := decide(w.phases[t.Phase], output, of); at >= 0 {
			t.Deciding = append(t.Deciding, at)
		}
	}
}

// write writes different tickets. A hash of the features decides whether a ticket is held out, so no combination of
// features is in both kinds.
func (w *World) write(kind string, n int, stream uint64, heldOut bool) []world.Task {
	rng := rand.New(rand.NewPCG(w.seed, stream))
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

// draw returns the features of a ticket. One in three has those of an exception.
func (w *World) draw(rng *rand.Rand) ticket {
	var t ticket
	for f := range vocabulary {
		if f := feature(f); f != product {
			// Of two draws the lower one: the first values are the most frequent.
			n := len(vocabulary[f])
			t[f] = vocabulary[f][min(rng.IntN(n), rng.IntN(n))].name
		}
	}
	t[product] = w.products[min(rng.IntN(len(w.products)), rng.IntN(len(w.products)))]
	if rng.IntN(3) == 0 {
		for f, v := range w.phases[0][rng.IntN(len(w.phases[0]))].when {
			if v != "" {
				t[f] = v
			}
		}
	}
	return t
}

// isDecided reports whether the rules of both phases decide a ticket without a contradiction.
func (w *World) isDecided(t ticket) bool {
	for _, rules := range w.phases {
		for _, output := range []string{toQueue, toPriority} {
			if _, tie := decide(rules, output, t); tie {
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
	rules := w.phases[min(max(phase, 0), 1)]
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = r.Text(world.Draw(w.seed, "by hand", r.Condition()))
	}
	return out
}

// States implements world.World.
func (w *World) States(text string, phase, rule int) bool {
	r, ok := w.readRule(text)
	return ok && r == w.phases[min(max(phase, 0), 1)][rule]
}

// Alter implements world.World.
func (w *World) Alter(phase, rule int, draw uint64) string {
	r := w.phases[min(max(phase, 0), 1)][rule]
	values := queues
	if r.output == toPriority {
		values = []string{"1", "2", "3", "4"}
	}
	others := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == r.value })
	r.value = others[draw%uint64(len(others))]
	return r.Text(world.Draw(draw, "altered rule", r.Condition()))
}

// Reply implements world.World.
func (w *World) Reply(schema string, messages []world.Message) string {
	return w.model.Reply(schema, messages)
}

// Embed implements world.World.
func (w *World) Embed(texts []string) [][]float32 {
	return world.Embed(texts, concepts)
}

// Attempt implements world.World.
func (w *World) Attempt(t world.Task, system string) world.Attempt {
	a := w.Answer(t.Question, t.Context, system)
	return world.Attempt{Answer: a.FinalAnswer, Reasoning: a.Reasoning, Cited: a.BulletIDs}
}

// right returns the queue and the priority that the rules of the task's phase decide.
func (w *World) right(t *world.Task) (queue, priority string) {
	of := w.read(t.Question)
	rules := w.phases[t.Phase]
	queue, priority = defaultQueue, defaultPriority
	if at, _ := decide(rules, toQueue, of); at >= 0 {
		queue = rules[at].value
	}
	if at, _ := decide(rules, toPriority, of); at >= 0 {
		priority = rules[at].value
	}
	return queue, priority
}

// Verdict implements world.World. The feedback on a wrong answer contains the reason in four of ten cases.
func (w *World) Verdict(t world.Task, a world.Attempt) world.Verdict {
	queue, priority := w.right(&t)
	got := readAnswer(a.Answer)
	d := roles.Dice(world.Draw(w.seed, "verdict", t.ID, a.Answer))
	if got[0] == queue && got[1] == priority {
		return world.Verdict{Right: true, Feedback: []string{"", "Right.", "Well sorted."}[d.Draw("praise")%3]}
	}
	output, want := toQueue, queue
	if got[0] == queue {
		output, want = toPriority, priority
	}
	var reason ticket
	if d.Chance(0.4, "reason") {
		if at, _ := decide(w.phases[t.Phase], output, w.read(t.Question)); at >= 0 {
			reason = w.phases[t.Phase][at].when
		}
	}
	text := correction(output, want, reason, d)
	if output == toQueue && got[1] != priority {
		text += " " + correction(toPriority, priority, ticket{}, d)
	}
	return world.Verdict{Feedback: text}
}

// Wrong implements world.World.
func (w *World) Wrong(t world.Task, a world.Attempt, v world.Verdict) world.Verdict {
	if !v.Right {
		return world.Verdict{Right: true, Feedback: "Right."}
	}
	queue, priority := w.right(&t)
	d := roles.Dice(world.Draw(w.seed, "wrong verdict", t.ID, a.Answer))
	output, want := toQueue, queues[d.Draw("queue")%uint64(len(queues))]
	if want == queue {
		want = defaultQueue
	}
	if d.Chance(0.4, "output") {
		output, want = toPriority, fmt.Sprint(1+d.Draw("priority")%4)
		if want == priority {
			want = fmt.Sprint(1 + (want[0]-'0')%4)
		}
	}
	var reason ticket
	if d.Chance(0.3, "reason") {
		of := w.read(t.Question)
		f := feature(d.Draw("feature") % uint64(featureCount))
		reason[f] = of[f]
	}
	return world.Verdict{Feedback: correction(output, want, reason, d)}
}

// correction returns feedback with the right value, and with the reason unless it is empty.
func correction(output, value string, reason ticket, d roles.Dice) string {
	forms := []string{"This ticket belongs to %s", "It should have gone to %s", "%s had to deal with this one", "The proper place was %s"}
	if output == toPriority {
		forms = []string{"This ticket has priority %s", "We treat such a ticket as P%s", "It should have had urgency %s", "The right rank was priority %s"}
	}
	text := fmt.Sprintf(forms[d.Draw("form "+output)%4], value)
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
func (w *World) Platitudes(n int) []string {
	return world.Cross(n, w.seed, 7, platitudeStarts, platitudeEnds)
}

// Nonsense implements world.World.
func (w *World) Nonsense(n int) []string {
	return world.Cross(n, w.seed, 7, nonsenseStarts, nonsenseEnds)
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
	rng := rand.New(rand.NewPCG(w.seed, 3))
	return world.Distinct(n, func(int) string {
		r := rule{output: toQueue, value: queues[rng.IntN(len(queues))]}
		if rng.IntN(3) == 0 {
			r.output, r.value = toPriority, fmt.Sprint(1+rng.IntN(4))
		}
		r.when[product] = others[rng.IntN(len(others))]
		for _, f := range []feature{topic, plan, language, impact} {
			if rng.IntN(2) == 0 {
				r.when[f] = vocabulary[f][rng.IntN(len(vocabulary[f]))].name
			}
		}
		return r.Text(rng.Uint64())
	})
}

// readRule is readRule with a cache.
func (w *World) readRule(text string) (rule, bool) {
	return w.rules.Find(text, readRule)
}

// readAnswer returns the queue and the priority of an answer.
func readAnswer(answer string) [2]string {
	return [2]string{readQueue(answer), readPriority(answer)}
}

// read returns the features of a ticket. It is readTicket with a cache.
func (w *World) read(question string) ticket { return w.tickets.Get(question, readTicket) }

// Read implements roles.Language.
func (w *World) Read(text string) (roles.Rule, bool) {
	r, ok := w.readRule(text)
	if !ok {
		return nil, false
	}
	return r, true
}

// Answer implements roles.Language. The model applies the bullets: of several that apply the one with most features,
// else the first.
func (w *World) Answer(question, _, system string) prompt.Answer {
	t := w.read(question)
	var rules []rule
	var ids []string
	for _, b := range prompt.Bullets(system) {
		if r, ok := w.readRule(b.Text); ok && r.applies(t) {
			rules, ids = append(rules, r), append(ids, b.ID)
		}
	}
	out := prompt.Answer{BulletIDs: []string{}}
	queue, priority := defaultQueue, defaultPriority
	if at, _ := decide(rules, toQueue, t); at >= 0 {
		queue = rules[at].value
		out.BulletIDs = append(out.BulletIDs, ids[at])
		out.Reasoning += "The queue follows from [" + ids[at] + "].\n"
	} else {
		out.Reasoning += "No bullet decides the queue, so the reception must help.\n"
	}
	if at, _ := decide(rules, toPriority, t); at >= 0 {
		priority = rules[at].value
		out.BulletIDs = append(out.BulletIDs, ids[at])
		out.Reasoning += "The priority follows from [" + ids[at] + "].\n"
	} else {
		out.Reasoning += "No bullet decides the priority, so it is the usual one.\n"
	}
	out.FinalAnswer = queue + ", priority " + priority
	return out
}
