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

func TestMoreTasksBeginWithTheFewerAndNeverMix(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	train, heldOut := Tasks(3)
	more, judged := Draw(3, 5000, 700)
	if len(more) != 5000 || len(judged) != 700 {
		t.Fatalf("got %d and %d tasks, want 5000 and 700", len(more), len(judged))
	}
	for i := range train {
		if more[i].Question != train[i].Question || judged[i].Question != heldOut[i].Question {
			t.Fatalf("task %d is another one when more are asked for", i)
		}
	}
	some, _ := Draw(3, 300, 0)
	_, few := Draw(3, 10, 600)
	if some[299].Question != more[299].Question || few[599].Question != judged[599].Question {
		t.Error("what there is of one kind depends on how many are asked for of the other")
	}
	seen := map[string]bool{}
	for _, task := range slices.Concat(more, judged) {
		_, invoice, _ := strings.Cut(task.Question, "\n")
		if seen[invoice] {
			t.Fatalf("%s is there twice", task.ID)
		}
		seen[invoice] = true
	}
}

func TestWrongVerdictsAreTheRightOnesTurnedAround(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const seed = 6
	train, _ := Draw(seed, 1000, 0)
	right, ignorant := informed(seed, rule.String), &desk{client: dial(Options{})}
	v := NewEvaluator(seed, 0.2)
	inverted, lies, wrongRules := 0, 0, 0
	for i := range train {
		d := right
		if i%2 == 0 {
			d = ignorant
		}
		a, truth := d.answer(t, &train[i])
		o, wrong, err := v.Judge(&train[i], a.Final, a.Reasoning)
		if err != nil {
			t.Fatal(err)
		}
		if again, _, _ := v.Judge(&train[i], a.Final, a.Reasoning); again != o {
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
		t.Errorf("of %d right answers called wrong %d teach a wrong rule, want most", lies, wrongRules)
	}
	if _, wrong, _ := NewEvaluator(seed, 0).Judge(&train[1], "1", ""); wrong {
		t.Error("an evaluator that is never wrong inverted a verdict")
	}
}

func TestAttentionTakesInSoManyInsights(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	for i := range 100 {
		fmt.Fprintf(&said, "{\"number\":%d,\"insight\":\"Lesson %d: look at column %d first.\"}\n", i+1, i, i*7)
	}
	ask := func(o Options, text string) int {
		reply, _, _ := NewDirect(o).Reply("curator", []Said{{"user", text}})
		return strings.Count(reply, `"ADD"`)
	}
	if got := ask(Options{}, said.String()); got != 100 {
		t.Errorf("without a limit: got %d bullets of 100 insights, want all", got)
	}
	if got := ask(Options{Attention: 24}, said.String()); got != 24 {
		t.Errorf("got %d bullets of 100 insights, want 24", got)
	}
	if got := ask(Options{Attention: 24}, strings.Join(strings.SplitAfter(said.String(), "\n")[:10], "")); got != 10 {
		t.Errorf("got %d bullets of 10 insights, want 10", got)
	}
}

func TestDirectAnswersAsOverTheWire(t *testing.T) {
	t.Parallel()
	train, _ := Tasks(1)
	d := informed(1, rule.String)
	for i := range train[:5] {
		e := d.execute(t, &train[i])
		if _, _, err := reflector.Ask(t.Context(), d, e, reflector.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Seed: 9, Sloppy: 0.5, Noise: 0.5, Gullible: 0.5}
	wire, direct := dial(o), NewDirect(o)
	for i, p := range d.sent {
		var said []Said
		for _, m := range p.Messages {
			said = append(said, Said{m.Speaker, m.Text})
		}
		if got, _, _ := direct.Reply(p.Name, said); got != wire.must(t, p) {
			t.Errorf("prompt %d: got %q, want what the wire brings", i, got)
		}
	}
}

func TestReducerKeepsOneProposalOfEachThing(t *testing.T) {
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
	reply, _, _ := NewDirect(Options{}).Reply("reducer", []Said{{"user", said}})
	for _, want := range []string{`"keep":4,"drop":[3,1]`, `"keep":6,"drop":[7]`} {
		if !strings.Contains(reply, want) {
			t.Errorf("got %s, want %s in it", reply, want)
		}
	}
	if strings.Count(reply, `"keep"`) != 2 {
		t.Errorf("got %s, want two decisions", reply)
	}
}
