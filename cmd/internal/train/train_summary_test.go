package train

import (
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/train/report"
	"debrief/playbook"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	r := report.New()
	r.Before, r.After = &report.Score{N: 300, Accuracy: 0.307}, &report.Score{N: 300, Accuracy: 0.799}
	r.Paired = &report.Pair{N: 299, Difference: 0.49, Low: 0.43, High: 0.55, Wins: 155, Losses: 8}
	r.Wrong = report.WrongAnswers{Wrong: 60, Of: 299}
	r.Losses = slices.Repeat([]report.Loss{{Sample: "inv-0117\x1b[2J\u202e", Set: "train", Epoch: 2, Reason: "no answer"}}, 7)
	r.Cost.Generator = report.Usage{Calls: 40, InputTokens: 900, OutputTokens: 100, Dollars: 0.5}
	r.Cost.PerBullet = report.NewBulletCost(r.Cost, 10, 4)
	r.Run.Model = "simulated"
	r.Bullets = []report.Bullet{{ID: "a-1", Status: "active"}, {ID: "a-2", Status: "retired"}}
	for i := range 6 {
		r.Bullets = append(r.Bullets, report.Bullet{ID: playbook.MintID("b", uint64(i)), Content: "Add tax.", Status: "candidate", Next: "waits for a request"})
	}
	got, err := summary(&r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"30.7 % → 79.9 % of the test set answered right", "Wrong: 60 of 299 answers.", "of train, epoch 2: no answer", "and 2 more, listed in report.json",
		"40 calls of models, 1000 tokens and 0.0 s, $0.5000.", "For each of 4 added bullets: 10.0 calls of models, 250 tokens and 2.5 s, $0.1250.", "The model was simulated",
		"Of 8 bullets of the final playbook, 7 are in no prompt (6 candidate, 1 retired).\n  b-00000 waits for a request: Add tax.\n", "\n  and 1 more, listed in report.json\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("a text gives the terminal orders: %q", got)
	}
}

// TestLearnSaysWhatWaits checks that the result of learn does not call a playbook empty whose bullets wait for a person or a request.
func TestLearnSaysWhatWaits(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]learnResult{
		"": {Bullets: 1, shown: []*playbook.Bullet{{ID: "a-1", Content: "Add tax."}}},
		"3 more bullets waiting: 2 for a person ('debrief playbook review'), 1 for another execution ('debrief playbook show --hidden')": {ForPerson: 2, Candidates: 1},
		"1 more bullet waiting: 1 for a person ('debrief playbook review')":                                                              {ForPerson: 1},
	} {
		if got := r.waiting(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		var out strings.Builder
		if err := r.printBullets(&out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, "empty") || r.Bullets == 0 && !strings.Contains(got, want) {
			t.Errorf("got %q of a playbook with bullets", got)
		}
	}
}
