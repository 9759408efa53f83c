package report

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"debrief/cmd/internal/components"
)

func TestText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := example().Text(&out); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	has(t, out.String(), "Accuracy on validation samples, with the 95 % interval", "after    0   ", "Wrong: 60 of 299\u00a0answers. The first 25 with their bullets are in report.html.", "inv-0117 of train, epoch 2: the model's answer", "The model was simulated")
	has(t, strings.Join(strings.Fields(out.String()), " "), "30.7 % → 79.9 % of the test set answered right", "epoch training validation lost bullets tokens version", "3 725 calls", "before 10.1 s 41.5 s – – – – 1 24.2 s 3 min 30.0 s 3 min 21 s 11.5 s –")
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

func TestCostPerBullet(t *testing.T) {
	t.Parallel()
	r := example()
	r.Cost = Cost{Generator: Usage{6, 1000, 200, 0.5, 0}, Reflector: Usage{3, 500, 100, 0.3, 0}, Curator: Usage{1, 150, 50, 0.2, 0}}
	if r.Cost.PerBullet = NewBulletCost(r.Cost, 10, 4); *r.Cost.PerBullet != (BulletCost{4, 2.5, 500, 2.5, 0.25}) {
		t.Errorf("got %+v, want a quarter of all", r.Cost.PerBullet)
	}
	want := "For each of 4 added bullets: 2.5 calls of models, 500 tokens and 2.5 s, $0.2500."
	var text, page strings.Builder
	if err := errors.Join(r.Text(&text), r.page(&page)); err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{text.String(), page.String()} {
		has(t, strings.Join(strings.Fields(got), " "), want)
	}
	if c := NewBulletCost(r.Cost, 10, 0); c != nil {
		t.Errorf("no bullets: got %+v, want nil", c)
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]components.Mark{
		"   --o--  ": {Value: 55, Low: 35, High: 79},
		"o---------": {Value: 0, Low: 0, High: 100},
		"        -o": {Value: 100, Low: 85, High: 100},
	} {
		if got := bar(m, 10); got != want {
			t.Errorf("%+v: got %q, want %q", m, got, want)
		}
	}
}

// TestTextListsMeasurements: the summary has no point that was not measured.
func TestTextListsMeasurements(t *testing.T) {
	t.Parallel()
	r := &Report{}
	for i := range 40 {
		r.Points = append(r.Points, Point{Step: i * 10, Set: "validation", Score: Score{N: 40, Right: i, Accuracy: float64(i) / 40}})
	}
	var out strings.Builder
	r.writeCurve(&out)
	rows := regexp.MustCompile(`(?m)^after +([0-9]+) +([0-9.]+) %  \|[ o-]{40}\|$`).FindAllStringSubmatch(out.String(), -1)
	if len(rows) != maxRows || !strings.Contains(out.String(), "28 other measurements") {
		t.Errorf("got %d rows of %s", len(rows), out.String())
	}
	for _, row := range rows {
		step, _ := strconv.Atoi(row[1])
		if want := fmt.Sprintf("%.1f", 100*float64(step/10)/40); row[2] != want {
			t.Errorf("after %d: got %s, want %s", step, row[2], want)
		}
	}
}
