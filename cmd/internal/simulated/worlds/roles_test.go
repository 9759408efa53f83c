package worlds_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/text"
)

// TestCurator checks the decisions of a Curator without errors.
func TestCurator(t *testing.T) {
	t.Parallel()
	w, language := openers[text.Name](1, worlds.Imperfection{}), text.Language{}
	r, _ := language.Read(w.ByHand(0)[0])
	opposite, ok := language.Read(regexp.MustCompile(`into the \w+ queue`).ReplaceAllString(r.Text(0), "into the Fir queue"))
	if !ok || opposite == r {
		t.Fatalf("got %q, want a rule with another queue than %q", opposite.Text(0), r.Text(0))
	}
	for name, c := range map[string]struct {
		bullets, insights []string
		want              []string // types and ids
	}{
		"new":       {nil, []string{r.Text(0)}, []string{"ADD "}},
		"stated":    {[]string{"Keep calm.", r.Text(1 << 32)}, []string{r.Text(0)}, []string{"SAME b-1"}},
		"outdated":  {[]string{"Keep calm.", r.Text(1 << 32)}, []string{opposite.Text(0)}, []string{"UPDATE b-1"}},
		"twice":     {nil, []string{r.Text(0), r.Text(1 << 32)}, []string{"ADD "}},
		"disagree":  {nil, []string{r.Text(0), opposite.Text(0), r.Text(2 << 32)}, []string{"ADD "}},
		"duplicate": {[]string{r.Text(0), r.Text(1 << 32)}, nil, []string{"MERGE "}},
	} {
		var got worlds.Curated
		if err := json.Unmarshal([]byte(w.Reply("curator", curatorPrompt(c.bullets, c.insights))), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Operations) != len(c.want) {
			t.Errorf("%s: got %+v, want %v", name, got.Operations, c.want)
			continue
		}
		for i, op := range got.Operations {
			if have := op.Type + " " + op.BulletID; have != c.want[i] {
				t.Errorf("%s: got %q, want %q", name, have, c.want[i])
			}
			if stated, ok := language.Read(op.Content); op.Content != "" && (!ok || stated.Condition() != r.Condition() || (name != "outdated") != (stated == r)) {
				t.Errorf("%s: got content %q", name, op.Content)
			}
		}
	}
}

// TestGenerator checks that a Generator's prompt has the answer of an attempt.
func TestGenerator(t *testing.T) {
	t.Parallel()
	w := openers[text.Name](1, worlds.Default())
	system := systemPrompt(w.ByHand(0))
	for _, k := range w.HeldOut(0, 50) {
		reply := w.Reply("generator", []worlds.Message{{Speaker: "system", Text: system}, {Speaker: "user", Text: "# Task\n\n" + k.Question}})
		var got worlds.Answer
		if err := json.Unmarshal([]byte(reply), &got); err != nil {
			t.Fatal(err)
		}
		if want := w.Attempt(k, system); got.FinalAnswer != want.Answer || len(got.BulletIDs) != len(want.Cited) {
			t.Errorf("task %s: got %+v, want %+v", k.ID, got, want)
		}
	}
}
