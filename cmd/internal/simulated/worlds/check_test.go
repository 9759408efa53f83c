package worlds_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/cmd/internal/simulated/worlds/procedures"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/cmd/internal/simulated/worlds/tools"
)

// models returns the model of each world, apart from the world: it cannot know a hidden rule.
var models = map[string]func(seed uint64, e worlds.Imperfection) *worlds.Model{
	invoice.Name: invoice.NewModel, text.Name: text.NewModel, text.Drifting: text.NewModel, tools.Name: tools.NewModel, procedures.Name: procedures.NewModel,
}

// openers has a function for each world that opens it.
var openers = map[string]func(seed uint64, e worlds.Imperfection) worlds.World{
	invoice.Name:    func(seed uint64, e worlds.Imperfection) worlds.World { return invoice.New(seed, e) },
	text.Name:       func(seed uint64, e worlds.Imperfection) worlds.World { return text.New(seed, false, e) },
	text.Drifting:   func(seed uint64, e worlds.Imperfection) worlds.World { return text.New(seed, true, e) },
	tools.Name:      func(seed uint64, e worlds.Imperfection) worlds.World { return tools.New(seed, e) },
	procedures.Name: func(seed uint64, e worlds.Imperfection) worlds.World { return procedures.New(seed, e) },
}

// TestWorlds runs the checks that hold for every world. A world is opened twice to compare its results. The world text has the
// rules and the tasks of the drifting one.
func TestWorlds(t *testing.T) {
	t.Parallel()
	baselines := map[string]float64{invoice.Name: 0.15, text.Drifting: 0.15, tools.Name: 0.25, procedures.Name: 0.1}
	for name, baseline := range baselines {
		open := openers[name]
		check := func(part string, run func(*testing.T)) {
			t.Run(name+", "+part, func(t *testing.T) { t.Parallel(); run(t) })
		}
		check("deterministic", func(t *testing.T) { checkDeterministic(t, open) })
		check("accuracy", func(t *testing.T) { checkAccuracy(t, open, baseline, 0.98) })
		check("embeddings", func(t *testing.T) { checkEmbeddings(t, open(1, worlds.Default())) })
		check("distractors", func(t *testing.T) { checkDistractors(t, open(1, worlds.Default())) })
		check("model", func(t *testing.T) { checkModel(t, open(1, worlds.Default()), models[name](1, worlds.Default())) })
		if testing.Short() {
			continue // the others take seconds
		}
		check("altered bullet", func(t *testing.T) { checkAltered(t, open(1, worlds.Default())) })
		check("error rates", func(t *testing.T) { checkRates(t, open) })
	}
}

// systemPrompt returns a system prompt with bullets. Bullet i has the id "b-i".
func systemPrompt(bullets []string) string {
	var b strings.Builder
	b.WriteString("Follow the bullets.\n\n## advice\n")
	for i, text := range bullets {
		fmt.Fprintf(&b, "- [b-%d] %s\n", i, text)
	}
	return b.String()
}

// accuracy returns the share of tasks that the agent answers right with the bullets.
func accuracy(w worlds.World, tasks []worlds.Task, bullets []string) float64 {
	system := systemPrompt(bullets)
	right := 0
	for _, t := range tasks {
		if w.Verdict(t, w.Attempt(t, system)).Right() {
			right++
		}
	}
	return float64(right) / float64(max(len(tasks), 1))
}

// reflectorPrompt returns a Reflector's prompt about an attempt. Bullet i has the id "b-i".
func reflectorPrompt(t worlds.Task, a worlds.Attempt, v worlds.Verdict, bullets []string) []worlds.Message {
	const mark = "00112233445566ff"
	var b strings.Builder
	outcome := "Outcome: failure (score 0.00 of 1)."
	if v.Right() {
		outcome = "Outcome: success."
	}
	b.WriteString(outcome + " The expected answer is not known.\n")
	quote := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n[[begin %s %s]]\n%s\n[[end %s %s]]\n", name, mark, text, name, mark)
		}
	}
	quote("context", t.Context)
	quote("question", t.Question)
	var shown []string
	for i, text := range bullets {
		id := fmt.Sprintf("b-%d", i)
		line, err := json.Marshal(struct {
			ID      string `json:"id"`
			Content string `json:"content"`
			Cited   bool   `json:"cited,omitempty"`
		}{id, text, slices.Contains(a.Cited, id)})
		if err != nil {
			panic(err)
		}
		shown = append(shown, string(line))
	}
	quote("bullets shown", strings.Join(shown, "\n"))
	var trace strings.Builder
	for i, s := range a.Steps {
		result := ""
		if s.Failed {
			result = " [failure]"
		}
		fmt.Fprintf(&trace, "step %d, assistant\n  call %s(%s)%s -> %s\n", i+1, s.Tool, s.Arguments, result, s.Output)
	}
	quote("trace", strings.TrimSuffix(trace.String(), "\n"))
	quote("reasoning", a.Reasoning)
	quote("answer", a.Answer)
	quote("feedback", v.Feedback)
	return []worlds.Message{{Speaker: "system", Text: "Analyse the attempt."}, {Speaker: "user", Text: b.String()}}
}

// curatorPrompt returns a Curator's prompt. Bullet i has the id "b-i".
func curatorPrompt(bullets, insights []string) []worlds.Message {
	var b strings.Builder
	b.WriteString("# Playbook\n\n")
	for i, text := range bullets {
		fmt.Fprintf(&b, "- [b-%d] %s\n", i, text)
	}
	b.WriteString("\n# Insights\n\n")
	for i, text := range insights {
		b.WriteString(worlds.ReplyJSON(worlds.Insight{Number: i + 1, Insight: text}) + "\n")
	}
	return []worlds.Message{{Speaker: "system", Text: "Propose changes."}, {Speaker: "user", Text: b.String()}}
}

func checkDeterministic(t *testing.T, open func(uint64, worlds.Imperfection) worlds.World) {
	a, b := open(1, worlds.Default()), open(1, worlds.Default())
	train, held := a.Train(400), a.HeldOut(0, 300)
	if !reflect.DeepEqual(train, b.Train(400)) || !reflect.DeepEqual(held, b.HeldOut(0, 300)) || !reflect.DeepEqual(train[:100], b.Train(100)) {
		t.Fatal("tasks of one seed differ")
	}
	if reflect.DeepEqual(a.ByHand(0), open(2, worlds.Default()).ByHand(0)) {
		t.Error("two seeds have the same rules")
	}
	questions, ids := make(map[string]bool), make(map[string]bool)
	for _, k := range train {
		questions[k.Question] = true
		ids[k.ID] = true
	}
	for _, k := range held {
		if questions[k.Question] || ids[k.ID] {
			t.Fatalf("held-out task %s is a training task", k.ID)
		}
	}
	// Replies do not depend on the order of calls.
	system := systemPrompt(a.ByHand(0)[:10])
	for _, i := range []int{5, 3, 5, 299, 0} {
		x, y := a.Attempt(held[i], system), b.Attempt(held[i], system)
		if !reflect.DeepEqual(x, y) || !reflect.DeepEqual(a.Verdict(held[i], x), b.Verdict(held[i], y)) {
			t.Fatalf("attempts at task %s differ", held[i].ID)
		}
		p := reflectorPrompt(held[i], x, a.Verdict(held[i], x), a.ByHand(0)[:10])
		if a.Reply("reflector", p) != b.Reply("reflector", p) {
			t.Fatalf("replies to one prompt about %s differ", held[i].ID)
		}
	}
}

func checkAccuracy(t *testing.T, open func(uint64, worlds.Imperfection) worlds.World, baseline, ceiling float64) {
	seeds := uint64(5)
	if testing.Short() {
		seeds = 1
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		w := open(seed, worlds.Default())
		held, hand := w.HeldOut(0, 300), w.ByHand(0)
		none, all := accuracy(w, held, nil), accuracy(w, held, hand)
		crowd := accuracy(w, held, append(w.Distractors(200), hand...))
		t.Logf("seed %d: %d rules, baseline %.1f %%, ceiling %.1f %%, among 200 distractors %.1f %%", seed, len(hand), 100*none, 100*all, 100*crowd)
		if none > baseline || all < ceiling || crowd < ceiling {
			t.Errorf("seed %d: got baseline %.3f, ceiling %.3f, ceiling among distractors %.3f, want at most %.3f and at least %.3f", seed, none, all, crowd, baseline, ceiling)
		}
		for name, advice := range map[string][]string{"platitudes": w.Platitudes(), "distractors": w.Distractors(100)} {
			if got := accuracy(w, held, advice); got != none {
				t.Errorf("seed %d: accuracy with %s: got %.3f, want the baseline %.3f", seed, name, got, none)
			}
		}
	}
}

// checkAltered removes each rule and checks that exactly the tasks it decides can change.
func checkAltered(t *testing.T, w worlds.World) {
	held, hand := w.HeldOut(0, 150), w.ByHand(0)
	answers := func(bullets []string) []string {
		out := make([]string, len(held))
		system := systemPrompt(bullets)
		for i, k := range held {
			out[i] = w.Attempt(k, system).Answer
		}
		return out
	}
	full := answers(hand)
	changed := 0
	for i := range hand {
		other := slices.Clone(hand)
		other[i] = "Keep calm."
		for j, got := range answers(other) {
			decides := slices.Contains(held[j].Deciding, i)
			switch {
			case got != full[j] && !decides:
				t.Errorf("task %s changes without rule %d, which does not decide it", held[j].ID, i)
			case got != full[j]:
				changed++
				if w.Verdict(held[j], worlds.Attempt{Answer: got}).Right() {
					t.Errorf("task %s is right with another answer without its rule %d", held[j].ID, i)
				}
			}
		}
	}
	if changed < len(held) {
		t.Errorf("got %d changed answers, want at least %d", changed, len(held))
	}
}

// sample is a prompt with the reply of a model without errors.
type sample struct {
	prompt []worlds.Message
	clean  string
}

// samples returns prompts about failures, about successes, and for a Curator.
func samples(clean worlds.World) (failures, successes, curations []sample) {
	hand := clean.ByHand(0)
	add := func(list *[]sample, schema string, p []worlds.Message) {
		*list = append(*list, sample{p, clean.Reply(schema, p)})
	}
	for i, k := range clean.Train(800) {
		a := clean.Attempt(k, "")
		if v := clean.Verdict(k, a); !v.Right() {
			add(&failures, "reflector", reflectorPrompt(k, a, v, nil))
		}
		bullets := make([]string, 0, len(k.Deciding))
		for _, at := range k.Deciding {
			bullets = append(bullets, hand[at])
		}
		a = clean.Attempt(k, systemPrompt(bullets))
		add(&successes, "reflector", reflectorPrompt(k, a, clean.Verdict(k, a), bullets))
		rule := hand[i%len(hand)]
		add(&curations, "curator", curatorPrompt([]string{rule}, []string{rule, fmt.Sprintf("Remark %d.", i)}))
	}
	failures = slices.DeleteFunc(failures, func(s sample) bool { return readReflection(s.clean).KeyInsight == "" })
	successes = slices.DeleteFunc(successes, func(s sample) bool { return len(readReflection(s.clean).BulletTags) == 0 })
	return failures, successes, curations
}

// checkRates measures the error rates of replies one by one: the others are 0.
func checkRates(t *testing.T, open func(uint64, worlds.Imperfection) worlds.World) {
	failures, successes, curations := samples(open(1, worlds.Imperfection{}))
	measure := func(e worlds.Imperfection, differs func(clean, got string) bool, list []sample, schema string) float64 {
		w := open(1, e)
		n := 0
		for _, s := range list {
			if differs(s.clean, w.Reply(schema, s.prompt)) {
				n++
			}
		}
		return float64(n) / float64(len(list))
	}
	insight := func(a, b string) bool { return readReflection(a).KeyInsight != readReflection(b).KeyInsight }
	text := func(a, b string) bool { return a != b }
	for _, c := range []struct {
		name    string
		e       worlds.Imperfection
		differs func(a, b string) bool
		samples []sample
		schema  string
		lo, hi  float64
	}{
		{"wrong generalisation", worlds.Imperfection{WrongGeneralisation: 0.3}, insight, failures, "reflector", 0.2, 0.36},
		{"platitude", worlds.Imperfection{Platitude: 0.3}, insight, failures, "reflector", 0.25, 0.35},
		{"paraphrase", worlds.Imperfection{Paraphrase: 0.5}, insight, failures, "reflector", 0.3, 0.55},
		{"idle reflector", worlds.Imperfection{Idle: 0.3}, insight, failures, "reflector", 0.25, 0.35},
		{"broken JSON", worlds.Imperfection{BrokenJSON: 0.3}, func(_, b string) bool { return !json.Valid([]byte(b)) }, failures, "reflector", 0.25, 0.35},
		{"wrong tag", worlds.Imperfection{WrongTag: 0.3}, text, successes, "reflector", 0.25, 0.35},
		{"unknown id", worlds.Imperfection{UnknownID: 0.3}, text, successes, "reflector", 0.25, 0.35},
		{"idle curator", worlds.Imperfection{Idle: 0.3}, text, curations, "curator", 0.25, 0.35},
		{"duplicate", worlds.Imperfection{Duplicate: 0.3}, text, curations, "curator", 0.25, 0.35},
	} {
		got := measure(c.e, c.differs, c.samples, c.schema)
		t.Logf("%s: %.3f of %d replies", c.name, got, len(c.samples))
		if got < c.lo || got > c.hi {
			t.Errorf("%s: got a rate of %.3f, want %.2f to %.2f", c.name, got, c.lo, c.hi)
		}
	}
}

func readReflection(reply string) worlds.Reflection {
	var r worlds.Reflection
	_ = json.Unmarshal([]byte(reply), &r) // a broken reply has no insight
	return r
}

// checkEmbeddings compares the similarity of a task to its deciding rules with that to other rules.
func checkEmbeddings(t *testing.T, w worlds.World) {
	hand := w.ByHand(0)
	var rules [][]float32
	for _, text := range hand {
		rules = append(rules, worlds.Embed(w.Features(text)))
	}
	near, far, n, m := 0.0, 0.0, 0, 0
	for _, k := range w.HeldOut(0, 200) {
		v := worlds.Embed(w.Features(k.Question))
		for i, r := range rules {
			if slices.Contains(k.Deciding, i) {
				near += cosine(v, r)
				n++
			} else {
				far += cosine(v, r)
				m++
			}
		}
	}
	near, far = near/float64(n), far/float64(m)
	t.Logf("mean cosine of a task: %.3f to deciding rules, %.3f to others", near, far)
	if near < far+0.05 {
		t.Errorf("mean cosine: got %.3f to deciding rules and %.3f to others", near, far)
	}
}

func cosine(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// checkModel checks that the replies of the model do not depend on the hidden rules: those of a model apart from the world are the
// same as those of the world.
func checkModel(t *testing.T, w worlds.World, apart *worlds.Model) {
	hand := w.ByHand(0)[:20]
	for i, k := range w.Train(300) {
		bullets := hand[:i%20]
		a := w.Attempt(k, systemPrompt(bullets))
		v := w.Verdict(k, a)
		if i%3 == 0 {
			v = w.Wrong(k, a, v)
		}
		prompts := map[string][]worlds.Message{
			"generator": {{Speaker: "system", Text: systemPrompt(bullets)}, {Speaker: "user", Text: "# Task\n\n" + k.Question}},
			"reflector": reflectorPrompt(k, a, v, bullets),
			"curator":   curatorPrompt(bullets, []string{hand[i*7%20], hand[i*3%20], v.Feedback}),
			"refiner":   curatorPrompt(append(bullets, hand...), nil),
		}
		for schema, p := range prompts {
			if w.Reply(schema, p) != apart.Reply(schema, p) {
				t.Fatalf("task %s: the reply of the %s depends on the hidden rules", k.ID, schema)
			}
		}
	}
}

// checkDistractors checks that distractors are different and that the same seed gives the same ones.
func checkDistractors(t *testing.T, w worlds.World) {
	all := w.Distractors(20_000)
	distinct := make(map[string]bool)
	for _, d := range all {
		distinct[d] = true
	}
	if len(distinct) != len(all) || !slices.Equal(all[:50], w.Distractors(50)) {
		t.Errorf("got %d distinct distractors of %d", len(distinct), len(all))
	}
}
