package simulated

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/reflector"
)

func TestLargerDrawsExtendSmallerOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	train, heldOut := Tasks(3)
	more, judged := GenerateTasks(3, 5000, 700)
	if len(more) != 5000 || len(judged) != 700 {
		t.Fatalf("got %d and %d tasks, want 5000 and 700", len(more), len(judged))
	}
	for i := range train {
		if more[i].Question != train[i].Question || judged[i].Question != heldOut[i].Question {
			t.Fatalf("task %d differs in a larger draw", i)
		}
	}
	some, _ := GenerateTasks(3, 300, 0)
	_, few := GenerateTasks(3, 10, 600)
	if some[299].Question != more[299].Question || few[599].Question != judged[599].Question {
		t.Error("tasks of one kind depend on the number of the other kind")
	}
	seen := map[string]bool{}
	for _, task := range slices.Concat(more, judged) {
		_, invoice, _ := strings.Cut(task.Question, "\n")
		if seen[invoice] {
			t.Fatalf("%s occurs twice", task.ID)
		}
		seen[invoice] = true
	}
}

func TestEvaluatorInvertsAShareOfLabels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const seed = 6
	train, _ := GenerateTasks(seed, 1000, 0)
	right, ignorant := learnerWithAllRules(seed, rule.String), &learner{client: newClient(Options{})}
	v := NewEvaluator(seed, 0.2)
	inverted, lies, wrongRules := 0, 0, 0
	for i := range train {
		d := right
		if i%2 == 0 {
			d = ignorant
		}
		a, truth := d.answer(t, &train[i])
		o, wrong, err := v.Evaluate(&train[i], a.Final, a.Reasoning)
		if err != nil {
			t.Fatal(err)
		}
		if again, _, _ := v.Evaluate(&train[i], a.Final, a.Reasoning); again != o {
			t.Fatalf("%s: judged %+v, then %+v", train[i].ID, o, again)
		}
		if (o.Label == truth.Label) == wrong {
			t.Fatalf("%s: got verdict %q on an answer that is a %s, inverted %v", train[i].ID, o.Label, truth.Label, wrong)
		}
		if !wrong {
			continue
		}
		inverted++
		if o.Label != events.Failure {
			continue
		}
		lies++
		e := d.execute(t, &train[i])
		e.Target, e.Outcome = "", o
		out, _, err := reflector.Ask(t.Context(), d, e, reflector.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := readRule(out.KeyInsight); ok {
			if h, _ := houseOf(seed).rule(r.step, r.key); h != r {
				wrongRules++
			}
		}
	}
	// 1000 draws of a fifth: four standard deviations are 51.
	if math.Abs(float64(inverted)-200) > 51 {
		t.Errorf("got %d of 1000 verdicts inverted, want about 200", inverted)
	}
	if lies == 0 || wrongRules*10 < lies*7 {
		t.Errorf("%d right answers labelled as failures give %d wrong rules, want at least 70 %%", lies, wrongRules)
	}
	if _, wrong, _ := NewEvaluator(seed, 0).Evaluate(&train[1], "1", ""); wrong {
		t.Error("an evaluator with Wrong 0 inverted a label")
	}
}

func TestAttentionLimitsInsights(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	for i := range 100 {
		fmt.Fprintf(&said, "{\"number\":%d,\"insight\":\"Lesson %d: look at column %d first.\"}\n", i+1, i, i*7)
	}
	ask := func(o Options, text string) int {
		reply, _, _ := NewDirect(o).Reply("curator", []Message{{"user", text}})
		return strings.Count(reply, `"ADD"`)
	}
	if got := ask(Options{}, said.String()); got != 100 {
		t.Errorf("without a limit: got %d bullets of 100 insights, want all", got)
	}
	if got := ask(Options{MaxInsights: 24}, said.String()); got != 24 {
		t.Errorf("got %d bullets of 100 insights, want 24", got)
	}
	if got := ask(Options{MaxInsights: 24}, strings.Join(strings.SplitAfter(said.String(), "\n")[:10], "")); got != 10 {
		t.Errorf("got %d bullets of 10 insights, want 10", got)
	}
}

func TestDirectEqualsHTTP(t *testing.T) {
	t.Parallel()
	train, _ := Tasks(1)
	d := learnerWithAllRules(1, rule.String)
	for i := range train[:5] {
		e := d.execute(t, &train[i])
		if _, _, err := reflector.Ask(t.Context(), d, e, reflector.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Seed: 9, SloppyRate: 0.5, NonsenseRate: 0.5, ObeyRate: 0.5}
	wire, direct := newClient(o), NewDirect(o)
	for i, p := range d.sent {
		var said []Message
		for _, m := range p.Messages {
			said = append(said, Message{m.Speaker, m.Text})
		}
		if got, _, _ := direct.Reply(p.Name, said); got != wire.must(t, p) {
			t.Errorf("prompt %d: got %q, want the reply of the server", i, got)
		}
	}
}

func TestReducerDropsDuplicates(t *testing.T) {
	t.Parallel()
	said := `# Proposals, one JSON object a line

{"proposal":1,"type":"ADD","content":"For delivery express the delivery surcharge is 5.20.","insights":[1]}
{"proposal":2,"type":"ADD","content":"For delivery courier the delivery surcharge is 2.05.","insights":[2]}
{"proposal":3,"type":"ADD","content":"For delivery express the delivery surcharge is 7.00.","insights":[3,4]}
{"proposal":4,"type":"ADD","content":"Express deliveries are charged 5.20 for delivery.","insights":[1,5,6]}
{"proposal":5,"type":"REMOVE","bullet_id":"misc-00001","insights":[7]}
{"proposal":6,"type":"ADD","content":"Look twice.","insights":[8]}
{"proposal":7,"type":"ADD","content":"look twice","insights":[9]}
`
	reply, _, _ := NewDirect(Options{}).Reply("reducer", []Message{{"user", said}})
	for _, want := range []string{`"keep":4,"drop":[3,1]`, `"keep":6,"drop":[7]`} {
		if !strings.Contains(reply, want) {
			t.Errorf("got %s, want %s in it", reply, want)
		}
	}
	if strings.Count(reply, `"keep"`) != 2 {
		t.Errorf("got %s, want two decisions", reply)
	}
}
