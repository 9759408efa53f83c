package notes

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/world"
)

// TestErrorRates checks that the model makes the configured errors, and none if none are configured.
func TestErrorRates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, e := range []world.Imperfection{{}, world.Default(), {Platitude: 0.5, WrongTag: 0.5, BrokenJSON: 0.5, Idle: 0.3, Duplicate: 0.5, UnknownID: 0.5, Paraphrase: 1}} {
		const n = 2000
		w := New(1, e)
		var broken, idle, platitude, wrongTag, unknown, usual, stated float64
		for _, task := range w.Train(n) {
			shown := []prompt.Bullet{{ID: "a-1", Text: "Post dining out to account 4630.", Cited: true}}
			a := world.Attempt{Answer: "none"}
			text := w.Reply("reflector", reflection(task, a, w.Verdict(task, a), shown))
			var r prompt.Reflection
			if json.Unmarshal([]byte(text), &r) != nil {
				broken++
				continue
			}
			rule, ok := language().readRule(r.KeyInsight)
			switch {
			case r.KeyInsight == "":
				idle++
			case !ok:
				platitude++
			default:
				stated++
				if (phrasing{}).state(&rule, sentences) == r.KeyInsight {
					usual++
				}
			}
			for _, tag := range r.BulletTags {
				if tag.ID != "a-1" {
					unknown++
				} else if tag.Tag != "harmful" {
					wrongTag++
				}
			}
		}
		parsed := n - broken
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"broken JSON", broken / n, e.BrokenJSON},
			{"idle", idle / parsed, e.Idle},
			{"platitude", platitude / (parsed - idle), e.Platitude},
			{"wrong tag", wrongTag / parsed, e.WrongTag},
			{"unknown id", unknown / parsed, e.UnknownID},
			// Some paraphrases are equal to the usual wording, or are in the words of employees.
			{"usual wording", usual / stated, 0.7 * (1 - 0.92*e.Paraphrase)},
		} {
			if math.Abs(c.got-c.want) > 0.04 {
				t.Errorf("%+v: %s %.3f, want %.3f", e, c.name, c.got, c.want)
			}
		}
		w.checkCuratorRates(t)
	}
}

// checkCuratorRates counts the replies to an insight that a bullet already states.
func (w *World) checkCuratorRates(t *testing.T) {
	t.Helper()
	const n = 1500
	var parsed, idle, added, unknown, same float64
	for i := range n {
		user := fmt.Sprintf("- [b-1] Post rail journey to account 4630.\n{\"number\":1,\"insight\":\"Account 4630 is the right one for train.\",\"question\":\"%d\"}\n", i)
		var c prompt.Curated
		if json.Unmarshal([]byte(w.Reply("curator", []world.Message{{Speaker: "user", Text: user}})), &c) != nil {
			continue
		}
		parsed++
		switch {
		case len(c.Operations) == 0:
			idle++
		case c.Operations[0].Type == "ADD":
			added++
		case c.Operations[0].BulletID != "b-1":
			unknown++
		case c.Operations[0].Type == "SAME":
			same++
		}
	}
	active := parsed - idle
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"curator idle", idle / parsed, w.e.Idle},
		{"duplicate", added / active, w.e.Duplicate},
		{"curator unknown id", unknown / (active - added), w.e.UnknownID},
	} {
		if math.Abs(c.got-c.want) > 0.05 {
			t.Errorf("%+v: %s %.3f, want %.3f", w.e, c.name, c.got, c.want)
		}
	}
	if same == 0 {
		t.Errorf("%+v: the curator confirms no bullet", w.e)
	}
}

// TestReflectorUsesTheReason checks that a reason in the feedback determines the rule.
func TestReflectorUsesTheReason(t *testing.T) {
	t.Parallel()
	w := New(1, world.Imperfection{})
	explained := 0
	for _, task := range w.Train(600) {
		a := world.Attempt{Answer: "none"}
		v := w.Verdict(task, a)
		want := w.ledger.rules[task.Deciding[0]]
		if reason, ok := language().readRule(v.Feedback); !ok || !slices.Equal(reason.concepts, want.concepts) {
			continue
		}
		explained++
		var r prompt.Reflection
		if err := json.Unmarshal([]byte(w.Reply("reflector", reflection(task, a, v, nil))), &r); err != nil {
			t.Fatal(err)
		}
		if got, ok := language().readRule(r.KeyInsight); !ok || !slices.Equal(got.concepts, want.concepts) || got.account != want.account || got.over != want.over {
			t.Errorf("feedback %q, insight %q, want %+v", v.Feedback, r.KeyInsight, want)
		}
	}
	if explained < 120 || explained > 240 {
		t.Errorf("%d of 600 verdicts have a reason, want about 180", explained)
	}
}

// TestWrongVerdicts checks that a wrong verdict is the opposite of the truth and names an account.
func TestWrongVerdicts(t *testing.T) {
	t.Parallel()
	w := New(1, world.Default())
	for _, task := range w.Train(200) {
		right := world.Attempt{Answer: w.ledger.rules[task.Deciding[0]].account}
		wrong := w.Wrong(task, right, w.Verdict(task, right))
		if wrong.Right || number.FindString(wrong.Feedback) == "" || number.FindString(wrong.Feedback) == right.Answer {
			t.Errorf("%s: right answer %s, wrong verdict %+v", task.ID, right.Answer, wrong)
		}
		if v := w.Wrong(task, world.Attempt{Answer: "1"}, world.Verdict{}); !v.Right || number.FindString(v.Feedback) != "" {
			t.Errorf("%s: wrong answer, wrong verdict %+v", task.ID, v)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	w := New(1, world.Default())
	hand, tasks := w.ByHand(0), w.Train(400)
	texts := slices.Clone(hand)
	for _, task := range tasks {
		texts = append(texts, task.Question)
	}
	vectors := w.Embed(texts)
	cosine := func(a, b []float32) (sum float64) {
		for i := range a {
			sum += float64(a[i]) * float64(b[i])
		}
		return sum
	}
	rank := func(q []float32, rules [][]float32, deciding int) (better int) {
		mine := cosine(q, rules[deciding])
		for j := range rules {
			if cosine(q, rules[j]) > mine {
				better++
			}
		}
		return better
	}
	among := append(slices.Clone(vectors[:len(hand)]), w.Embed(w.Distractors(2000))...)
	top, topAmong := 0, 0
	var own, other float64
	for i, task := range tasks {
		q := vectors[len(hand)+i]
		own += cosine(q, vectors[task.Deciding[0]]) / float64(len(tasks))
		for j := range hand {
			other += cosine(q, vectors[j]) / float64(len(tasks)*len(hand))
		}
		if rank(q, vectors[:len(hand)], task.Deciding[0]) < 10 {
			top++
		}
		if rank(q, among, task.Deciding[0]) < 30 {
			topAmong++
		}
	}
	t.Logf("cosine to the deciding rule %.2f, to all rules %.2f; deciding rule in the first 10 of 60: %.1f %%, in the first 30 of 2060: %.1f %%",
		own, other, float64(top)/4, float64(topAmong)/4)
	if own < 0.2 || other > 0.15 || top < 360 || topAmong < 280 || topAmong > 396 {
		t.Errorf("cosine %.2f and %.2f, %d and %d of 400 in the first", own, other, top, topAmong)
	}
}

// TestReductions checks that the reducer and the refiner find statements with one meaning.
func TestReductions(t *testing.T) {
	t.Parallel()
	w := New(1, world.Imperfection{})
	proposals := "{\"proposal\":1,\"type\":\"ADD\",\"content\":\"Post rail journey to account 4630.\",\"insights\":[1]}\n" +
		"{\"proposal\":2,\"type\":\"ADD\",\"content\":\"Account 4630 is the right one for train.\",\"insights\":[2,3]}\n" +
		"{\"proposal\":3,\"type\":\"ADD\",\"content\":\"Post dining out to account 4630.\",\"insights\":[4]}\n"
	var r prompt.Reduction
	if err := json.Unmarshal([]byte(w.Reply("reducer", []world.Message{{Speaker: "user", Text: proposals}})), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Decisions) != 1 || r.Decisions[0].Keep != 2 || !slices.Equal(r.Decisions[0].Drop, []int{1}) {
		t.Errorf("got %+v", r.Decisions)
	}
	bullets := "- [a] Post rail journey to account 4630.\n- [b] Account 4630 is the right one for train.\n- [c] Post dining out to account 4630.\n"
	var c prompt.Curated
	if err := json.Unmarshal([]byte(w.Reply("refiner", []world.Message{{Speaker: "user", Text: bullets}})), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Operations) != 1 || !slices.Equal(c.Operations[0].SourceIDs, []string{"a", "b"}) {
		t.Errorf("got %+v", c.Operations)
	}
}
