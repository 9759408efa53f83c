package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// table returns samples: both right, right only after, right only before, and never right.
func table(both, wins, losses, neither int) (before, after []bool) {
	add := func(n int, b, a bool) {
		for range n {
			before, after = append(before, b), append(after, a)
		}
	}
	add(both, true, true)
	add(wins, false, true)
	add(losses, true, false)
	add(neither, false, false)
	return before, after
}

func near(a, b, within float64) bool { return math.Abs(a-b) <= within }

// TestPairedAgainstAPublishedInterval uses Newcombe's interval for the example of airway hyper-responsiveness in
// Fagerland, Lydersen and Laake, "Recommended tests and confidence intervals for paired binomial proportions" (2014).
func TestPairedAgainstAPublishedInterval(t *testing.T) {
	t.Parallel()
	got := Paired(table(1, 1, 7, 12))
	if !near(got.Difference, -0.286, 5e-4) || !near(got.Low, -0.507, 6e-4) || !near(got.High, -0.026, 6e-4) || !near(got.P, 0.0703, 5e-5) {
		t.Errorf("got %+v, want -0.286 from -0.507 to -0.026, p 0.0703", got)
	}
	if got.Wins != 1 || got.Losses != 7 || got.N != 21 {
		t.Errorf("got %+v, want 1 win and 7 losses of 21", got)
	}
}

func TestPairedExtremes(t *testing.T) {
	t.Parallel()
	if got := Paired(nil, nil); got != (Pair{Low: -1, High: 1, P: 1}) {
		t.Errorf("nothing: got %+v", got)
	}
	same := Paired(table(50, 0, 0, 50))
	if same.Difference != 0 || same.P != 1 || same.Low > 0 || same.High < 0 || same.High-same.Low > 0.06 {
		t.Errorf("the same answers: got %+v", same)
	}
	all := Paired(table(0, 20, 0, 0))
	if all.Difference != 1 || all.High != 1 || all.Low < 0.7 || !near(all.P, math.Pow(2, -19), 1e-12) {
		t.Errorf("all won: got %+v", all)
	}
	if many := Paired(table(0, 5200, 4800, 0)); !(many.P > 1e-6 && many.P < 1e-4) { // z = 4: 6.6e-5 with the correction
		t.Errorf("many: got %+v", many)
	}
}

// TestPairedIsSymmetric: exchanging before and after changes only the sign.
func TestPairedIsSymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30)
		before, after := table(n.Draw(t, "both"), n.Draw(t, "wins"), n.Draw(t, "losses"), n.Draw(t, "neither"))
		a, b := Paired(before, after), Paired(after, before)
		if !near(a.Difference, -b.Difference, 1e-12) || !near(a.Low, -b.High, 1e-12) || !near(a.High, -b.Low, 1e-12) || a.Wins != b.Losses || a.P != b.P {
			t.Fatalf("got %+v and %+v", a, b)
		}
		if !(a.Low <= a.Difference && a.Difference <= a.High && a.P > 0 && a.P <= 1) {
			t.Fatalf("got %+v", a)
		}
	})
}

// TestIntervalCoverage: the intervals contain the true value in 95 of 100 cases, for any shares and any correlation.
func TestIntervalCoverage(t *testing.T) {
	t.Parallel()
	const runs = 4000
	rng := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		n                  int
		both, wins, losses float64 // probabilities
	}{
		{30, 0.5, 0.15, 0.15},
		{50, 0.8, 0.1, 0.02},
		{100, 0.3, 0.3, 0.1},
		{100, 0.05, 0.85, 0.02},
		{300, 0.6, 0.05, 0.03},
		{300, 0.9, 0.02, 0.02},
		{30, 0.4, 0.03, 0.03},
	} {
		covered, shares, falsely := 0, 0, 0
		for range runs {
			var k [4]int
			for range test.n {
				switch x := rng.Float64(); {
				case x < test.both:
					k[0]++
				case x < test.both+test.wins:
					k[1]++
				case x < test.both+test.wins+test.losses:
					k[2]++
				default:
					k[3]++
				}
			}
			p := Paired(table(k[0], k[1], k[2], k[3]))
			if d := test.wins - test.losses; p.Low <= d && d <= p.High {
				covered++
			}
			if p.P < 0.05 {
				falsely++
			}
			if s := Share(k[0]+k[1], test.n); s.Low <= test.both+test.wins && test.both+test.wins <= s.High {
				shares++
			}
		}
		if got := float64(covered) / runs; got < 0.935 {
			t.Errorf("%+v: the difference is covered %.3f of the time", test, got)
		}
		if got := float64(shares) / runs; got < 0.92 {
			t.Errorf("%+v: the share is covered %.3f of the time", test, got)
		}
		if got := float64(falsely) / runs; test.wins == test.losses && got > 0.055 {
			t.Errorf("%+v: a difference that is none is found %.3f of the time", test, got)
		}
	}
}

// TestShare against the intervals that Newcombe, "Two-sided confidence intervals for the single proportion" (1998), gives
// for his four examples by the score method.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		part, of  int
		low, high float64
	}{{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}} {
		got := Share(test.part, test.of)
		if !near(got.Low, test.low, 5e-5) || !near(got.High, test.high, 5e-5) || got.N != test.of {
			t.Errorf("%d of %d: got %+v, want %+v", test.part, test.of, got, test)
		}
	}
	if got := Share(0, 0); got.Low != 0 || got.High != 1 {
		t.Errorf("none: got %+v", got)
	}
}
