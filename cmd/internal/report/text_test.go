package report

import (
	"math"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := example().Text(&out); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	has(t, out.String(), "validation accuracy, % after 0 to 1000 training samples", "100 ┤", "inv-0117 of train, epoch 2: the model's answer", "The model was simulated")
	has(t, strings.Join(strings.Fields(out.String()), " "), "30.7 % → 79.9 % of the test set answered right", "epoch training validation lost bullets tokens version", "3 725 calls")
	out.Reset()
	r := poisoned("\x1b[2J\x07\u202e\r\n\u009b1m")
	r.Losses = append(r.Losses, make([]Loss, 10)...)
	if err := r.Text(&out); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07\r\u202e\u009b") {
		t.Errorf("a text gives the terminal orders: %q", out.String())
	}
	has(t, out.String(), "and 6 more, listed in report.json")
	if err := (&Report{}).Text(&out); err != nil {
		t.Error(err)
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	got := spread([]mark{{Step: 0, Value: 0}, {Step: 0, Value: 10}, {Step: 10, Value: 20}, {Step: 100, Value: 110}}, 11)
	for i, want := range []float64{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110} {
		if math.Abs(got[i]-want) > 1e-9 {
			t.Errorf("column %d: got %v, want %v", i, got[i], want)
		}
	}
	for i, v := range spread([]mark{{Step: 5, Value: 1}, {Step: 5, Value: 2}}, 4) {
		if v != 2 {
			t.Errorf("column %d of one moment: got %v", i, v)
		}
	}
}
