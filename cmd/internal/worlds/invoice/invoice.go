// Package invoice wraps the simulated invoice desk as a world. The amount due of an invoice depends on 21 house rules. The
// feedback names the first wrong step and its expected amount.
//
// The language and the arithmetic are those of package simulated. The decisions of the Reflector and the Curator, with
// their errors, are those of package roles.
package invoice

import (
	"encoding/json"
	"fmt"
	"strings"

	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/roles"
	"debrief/cmd/internal/worlds/world"
)

// Name is the name of the world.
const Name = "invoice"

// World is the invoice desk of one seed.
type World struct {
	seed    uint64
	rules   []simulated.Rule
	agent   *simulated.Direct
	model   roles.Model
	tasks   roles.Tasks
	targets roles.Memo[string]
	read    roles.Memo[simulated.Rule]
}

// New returns the world of a seed.
func New(seed uint64, e world.Imperfection) *World {
	w := &World{seed: seed, rules: simulated.HouseRules(seed), agent: simulated.NewDirect(simulated.Options{})}
	w.model = roles.Model{Seed: seed, Errors: e, Language: w}
	return w
}

// Name implements world.World.
func (*World) Name() string { return Name }

// Train implements world.World. There are at most simulated.MaxTrainTasks.
func (w *World) Train(n int) []world.Task {
	return w.tasks.First("train", min(n, simulated.MaxTrainTasks), func(n int) []world.Task {
		train, _ := simulated.GenerateTasks(w.seed, n, 0)
		out := make([]world.Task, len(train))
		for i := range train {
			out[i] = w.task(train[i].ID, train[i].Question)
		}
		return out
	})
}

// HeldOut implements world.World. There is one phase, and there are at most simulated.MaxHeldOutTasks.
func (w *World) HeldOut(_, n int) []world.Task {
	return w.tasks.First("held-out", min(n, simulated.MaxHeldOutTasks), func(n int) []world.Task {
		_, heldOut := simulated.GenerateTasks(w.seed, 0, n)
		out := make([]world.Task, len(heldOut))
		for i := range heldOut {
			out[i] = w.task(heldOut[i].ID, heldOut[i].Question)
		}
		return out
	})
}

func (w *World) task(id, question string) world.Task {
	return world.Task{ID: id, Question: question, Deciding: simulated.Deciding(w.seed, question)}
}

// ByHand implements world.World.
func (w *World) ByHand(int) []string {
	out := make([]string, len(w.rules))
	for i, r := range w.rules {
		out[i] = r.Text(world.Draw(w.seed, "by hand", r.Condition()))
	}
	return out
}

// States implements world.World.
func (w *World) States(text string, _, rule int) bool {
	r, ok := w.readRule(text)
	return ok && r == w.rules[rule]
}

// Alter implements world.World.
func (w *World) Alter(_, rule int, draw uint64) string {
	r := w.rules[rule]
	return r.Alter(draw).Text(world.Draw(draw, "altered rule", r.Condition()))
}

func (w *World) readRule(text string) (simulated.Rule, bool) {
	return w.read.Find(text, simulated.ReadRule)
}

// Attempt implements world.World.
func (w *World) Attempt(t world.Task, system string) world.Attempt {
	a := w.Answer(t.Question, t.Context, system)
	return world.Attempt{Answer: a.FinalAnswer, Reasoning: a.Reasoning, Cited: a.BulletIDs}
}

// target is the right amount and the right steps.
type target struct {
	Answer string `json:"answer"`
	Steps  []struct {
		Name   string `json:"name"`
		Amount string `json:"amount"`
	} `json:"steps"`
}

func readTarget(text string) (t target) {
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		panic(fmt.Sprintf("invoice: read target: %v", err)) // package simulated wrote it
	}
	return t
}

// Verdict implements world.World.
func (w *World) Verdict(t world.Task, a world.Attempt) world.Verdict {
	text := w.targets.Get(t.Question, func(question string) string { return simulated.Target(w.seed, question) })
	return compare(readTarget(text), a)
}

// Wrong implements world.World.
func (w *World) Wrong(t world.Task, a world.Attempt, v world.Verdict) world.Verdict {
	if !v.Right {
		return world.Verdict{Right: true, Feedback: "The answer is right."}
	}
	return compare(readTarget(simulated.WrongTarget(w.seed, t.ID, t.Question)), a)
}

// compare returns the feedback of a clerk. It names the first wrong step.
func compare(want target, a world.Attempt) world.Verdict {
	if a.Answer == want.Answer {
		return world.Verdict{Right: true, Feedback: "The answer is right."}
	}
	got := make(map[string]string)
	for line := range strings.Lines(a.Reasoning) {
		if name, amount, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			got[name] = amount
		}
	}
	feedback := fmt.Sprintf("The answer is wrong: expected %s, got %s.", want.Answer, a.Answer)
	for _, s := range want.Steps {
		if got[s.Name] != s.Amount {
			return world.Verdict{Feedback: feedback + fmt.Sprintf(" First step that is off: %s: expected %s, got %s.", s.Name, s.Amount, got[s.Name])}
		}
	}
	return world.Verdict{Feedback: feedback}
}

// Reply implements world.World.
func (w *World) Reply(schema string, messages []world.Message) string {
	return w.model.Reply(schema, messages)
}

// Embed implements world.World.
func (*World) Embed(texts []string) [][]float32 {
	return world.Embed(texts, concepts)
}

// concepts returns the features of a text: the keys that it speaks of, and with less weight its words and noise.
func concepts(text string) map[string]float64 {
	out := make(map[string]float64)
	for _, c := range simulated.Concepts(text) {
		out["key "+c] = 1
	}
	for _, word := range strings.Fields(strings.ToLower(text)) {
		out["word "+strings.Trim(word, ".,:;%?\"")] += 0.08
	}
	out["noise "+text] = 0.25 + 0.5*world.Uniform(0, "noise", text)
	return out
}

// Read implements roles.Language.
func (w *World) Read(text string) (roles.Rule, bool) {
	r, ok := w.readRule(text)
	return r, ok
}

// Answer implements roles.Language.
func (w *World) Answer(question, _, system string) prompt.Answer {
	reply, _, _ := w.agent.Reply("generator", []simulated.Message{{Speaker: "system", Text: system}, {Speaker: "user", Text: "# Task\n\n" + question}})
	var a prompt.Answer
	if err := json.Unmarshal([]byte(reply), &a); err != nil {
		panic(fmt.Sprintf("invoice: read answer: %v", err)) // a model without faults replies in JSON
	}
	return a
}

// Analyse implements roles.Language.
func (w *World) Analyse(e *prompt.Execution, _ roles.Dice) roles.Analysis {
	r, ok := simulated.Infer(e.Question, e.Reasoning, e.Feedback)
	if !ok {
		return roles.Analysis{Reasoning: "No rule follows from the feedback."}
	}
	a := roles.Analysis{Insight: r, Reasoning: "One rule gives the expected amount.", Error: "The " + r.Section() + " is wrong.", Approach: "Compute the " + r.Section() + " by the rule."}
	for _, b := range e.Shown {
		if old, ok := w.readRule(b.Text); ok && b.Cited && old.Condition() == r.Condition() {
			a.Blamed = append(a.Blamed, b.ID)
			break
		}
	}
	return a
}

// Generalise implements roles.Language.
func (*World) Generalise(of roles.Rule, _ *prompt.Execution, d roles.Dice) roles.Rule {
	r, ok := of.(simulated.Rule)
	if !ok {
		return of
	}
	return r.Vary(d.Draw("other key"))
}

var (
	platitudeStarts = []string{"Add up carefully", "Check every line", "Keep the order of the steps", "Write clearly", "Read the invoice to its end", "Stay consistent"}
	platitudeEnds   = []string{"before you answer.", "on each invoice.", "because errors annoy customers.", "as a good clerk does.", "and look at the result again."}
)

// Platitudes implements world.World.
func (w *World) Platitudes(n int) []string {
	return world.Cross(n, w.seed, 7, platitudeStarts, platitudeEnds)
}

// Nonsense implements world.World.
func (*World) Nonsense(n int) []string {
	all := simulated.Nonsense()
	out := make([]string, n)
	for i := range out {
		out[i] = all[i%len(all)]
	}
	return out
}

// Words of distractors: fields of an invoice with values that no invoice has.
var (
	fields  = []string{"customer tier %s the tier discount", "delivery %s the delivery surcharge", "handling %s the handling surcharge", "region %s the region tax", "currency %s the currency fee", "payment %s the payment fee"}
	onsets  = strings.Fields("zan bru kel mir tov lar wen dos fim gar hul jep nok pra quo rif sut ulm vex yor")
	codas   = strings.Fields("dor ita mun elo ash ipe ond uru ank ebo ist olm arv ige oth une erl axa imo ust")
	numbers = []string{"is %d %% of the amount so far.", "is %d.15.", "is %d %% of the list price of the goods, before discounts."}
)

// Distractors implements world.World.
func (w *World) Distractors(n int) []string {
	return world.Distinct(n, func(i int) string {
		d := world.Draw(w.seed, "distractor", fmt.Sprint(i))
		value := onsets[d%20] + codas[d>>8%20]
		return "For " + fmt.Sprintf(fields[d>>16%6], value) + " " + fmt.Sprintf(numbers[d>>24%3], 2+d>>32%17)
	})
}
