package train

import (
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/train/report"
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
	got, err := summary(&r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"30.7 % → 79.9 % of the test set answered right", "Wrong: 60 of 299 answers.", "of train, epoch 2: no answer", "and 2 more, listed in report.json",
		"40 calls of models, 1000 tokens and 0.0 s, $0.5000.", "For each of 4 added bullets: 10.0 calls of models, 250 tokens and 2.5 s, $0.1250.", "The model was simulated",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("a text gives the terminal orders: %q", got)
	}
}
