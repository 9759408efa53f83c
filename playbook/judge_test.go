package playbook

import (
	"fmt"
	"math"
	"testing"
)

// TestExactEqualsPublishedIntervals compares with intervals of binom.test in R 4.3.
func TestExactEqualsPublishedIntervals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		{0, 10, 0, 0.3084971},
		{10, 10, 0.6915029, 1},
		{5, 50, 0.03327509, 0.2181354},
		{10, 50, 0.1003022, 0.3371831},
		{1, 2, 0.01257912, 0.9874209},
		{0, 0, 0, 1},
	} {
		got := Exact(c.k, c.n)
		if math.Abs(got.Low-c.low) > 1e-6 || math.Abs(got.High-c.high) > 1e-6 {
			t.Errorf("%d of %d: got %v, want %v to %v", c.k, c.n, got, c.low, c.high)
		}
	}
}

func TestJudgeNeedsLabels(t *testing.T) {
	t.Parallel()
	good := Judge{Name: "judge/m/1", Right: 30, Wrong: 20, FalseFailures: 3, FalseSuccesses: 2}
	if err := good.Validate(); err != nil {
		t.Errorf("50 labels: %v", err)
	}
	for name, change := range map[string]func(*Judge){
		"49 labels":        func(j *Judge) { j.Right-- },
		"one kind":         func(j *Judge) { j.Right, j.Wrong, j.FalseSuccesses = 50, 0, 0 },
		"more than labels": func(j *Judge) { j.FalseFailures = 31 },
		"negative":         func(j *Judge) { j.FalseSuccesses = -1 },
		"another name":     func(j *Judge) { j.Name = "ann" },
		"no better":        func(j *Judge) { j.FalseFailures, j.FalseSuccesses = 13, 9 },
	} {
		j := good
		change(&j)
		if j.Validate() == nil {
			t.Errorf("%s: %+v is valid", name, j)
		}
	}
}

// judged returns a playbook with outcomes of a judge, of which the first are successes.
func judged(t *testing.T, j *Judge, by string, outcomes, successes int) *Playbook {
	t.Helper()
	p := new(Playbook)
	apply := func(d *Delta) {
		d.Version = p.Version() + 1
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	apply(&Delta{Judge: j})
	for i := range outcomes {
		e := &Evidence{Execution: "1-00000000000000000000000000000000", Outcome: "failure", Judge: by}
		if i < successes {
			e.Outcome, e.Score = "success", 1
		}
		apply(&Delta{Covers: []Cover{{ID: fmt.Sprint(i), Evidence: e}}})
	}
	return p
}

// TestFalseShares compares with Bayes' rule by hand. Of 100 tasks 26 have the verdict success. With 20 % errors, 10 are successes: 8 of
// them are seen, and 18 of the 90 failures look like a success.
func TestFalseShares(t *testing.T) {
	t.Parallel()
	j := &Judge{Name: "judge/m/1", Right: 98, Wrong: 98, FalseFailures: 19, FalseSuccesses: 19} // 20 of 100 by the rule of succession
	got := judged(t, j, j.Name, 100, 26).Typical("")
	if want := 18.0 / 26; math.Abs(got.FalseSuccesses-want) > 1e-9 {
		t.Errorf("false successes: got %v, want %v", got.FalseSuccesses, want)
	}
	if want := 2.0 / 74; math.Abs(got.FalseFailures-want) > 1e-9 {
		t.Errorf("false failures: got %v, want %v", got.FalseFailures, want)
	}
	for name, p := range map[string]*Playbook{
		"another judge": judged(t, j, "judge/m/2", 100, 26),
		"no judge":      judged(t, j, "", 100, 26),
		"not measured":  judged(t, nil, j.Name, 100, 26),
	} {
		if n := p.Noise(); n != (Noise{}) {
			t.Errorf("%s: got the error %+v, want none", name, n)
		}
	}
}

// TestOtherJudgeDoesNotEndTheCorrection: an agent reports an outcome under the name of a judge that nobody measured.
func TestOtherJudgeDoesNotEndTheCorrection(t *testing.T) {
	t.Parallel()
	j := &Judge{Name: "judge/m/1", Right: 98, Wrong: 98, FalseFailures: 19, FalseSuccesses: 19}
	p := judged(t, j, j.Name, 99, 26)
	d := &Delta{Version: p.Version() + 1, Covers: []Cover{{ID: "x", Evidence: &Evidence{Execution: "1-00000000000000000000000000000000", Outcome: "failure", Judge: "judge/other"}}}}
	if _, err := p.Apply(d); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Noise().FalseFailure, 0.2*0.99; math.Abs(got-want) > 1e-9 {
		t.Errorf("got the probability %v of a false failure, want %v", got, want)
	}
}
