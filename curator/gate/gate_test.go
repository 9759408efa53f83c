package gate_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"debrief/curator/gate"
	"debrief/playbook"
)

// see adds the random outcome, 0 or 1, of one task to a case.
func see(rng *rand.Rand, k *playbook.Experiment, base, lift float64) {
	arm, p := &k.Withheld, base
	if rng.IntN(100) < k.Share {
		arm, p = &k.Shown, base+lift
	}
	score := 0
	if rng.Float64() < p {
		score = playbook.MaxScore
	}
	arm[score]++
}

// TestErrorRatesWithCheckAfterEveryOutcome checks, for several shares and base rates, that few bullets without effect are
// promoted, and that most bullets with a large effect are.
func TestErrorRatesWithCheckAfterEveryOutcome(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, c := range []struct {
		base, lift float64
		share      int
		least      float64 // share promoted
		most       float64
	}{
		{0.7, 0, 50, 0, 0.06},
		{0.05, 0, 50, 0, 0.06},
		{0.5, 0, 20, 0, 0.06},
		{0.95, 0, 80, 0, 0.06},
		{0.5, -0.2, 50, 0, 0.005},
		{0, 0.15, 50, 0.99, 1},
		{0.7, 0.2, 50, 0.98, 1},
		{0.3, 0.3, 80, 0.98, 1},
	} {
		rng := rand.New(rand.NewPCG(7, 7))
		promoted := 0
		const bullets = 200
		for range bullets {
			k := &playbook.Experiment{Number: 1, Share: c.share}
			for {
				see(rng, k, c.base, c.lift)
				if v, why := (gate.Config{}).Evaluate(k); v != gate.Undecided {
					if v == gate.Promote {
						promoted++
					}
					if !strings.Contains(why, "lift") {
						t.Fatalf("got the reason %q", why)
					}
					break
				}
			}
		}
		if got := float64(promoted) / bullets; got < c.least || got > c.most {
			t.Errorf("base %.2f, lift %+.2f, %d %% shown: %.3f promoted, want %.3f to %.3f", c.base, c.lift, c.share, got, c.least, c.most)
		}
	}
}

// TestFewOutcomesAreUndecided covers a known failure of systems that promote after a handful of samples.
func TestFewOutcomesAreUndecided(t *testing.T) {
	t.Parallel()
	k := &playbook.Experiment{Number: 1, Share: 50}
	k.Shown[playbook.MaxScore] = 5
	if v, _ := (gate.Config{}).Evaluate(k); v != gate.Undecided {
		t.Errorf("five successes without a control: got verdict %d, want Undecided", v)
	}
	k.Withheld[playbook.MaxScore] = 5
	if v, _ := (gate.Config{}).Evaluate(k); v != gate.Undecided {
		t.Errorf("ten successes: got verdict %d, want Undecided", v)
	}
}

// TestIntervalContainsLift checks the interval after every tenth outcome. It must rarely miss the lift.
func TestIntervalContainsLift(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 9))
	missed := 0
	const bullets = 120
	for range bullets {
		k := &playbook.Experiment{Number: 1, Share: 50}
		lift := rng.Float64() - 0.5
		ever := false
		for n := range 300 {
			see(rng, k, 0.5, lift)
			if n%10 == 0 {
				l := gate.Config{}.Lift(k)
				ever = ever || lift < l.Low || lift > l.High
			}
		}
		if ever {
			missed++
		}
	}
	if missed > bullets/10 { // 5 % on each side at most
		t.Errorf("%d of %d intervals missed the lift at some time", missed, bullets)
	}
}

func TestVerdictAgreesWithInterval(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := &playbook.Experiment{Number: 1, Share: rapid.IntRange(-1, 101).Draw(t, "share")}
		for _, s := range []*playbook.Scores{&k.Shown, &k.Withheld, &k.Open} {
			for i := range s {
				s[i] = rapid.SampledFrom([]int{0, 0, 1, 3, 50, 4000}).Draw(t, "count")
			}
		}
		cfg := gate.Config{}
		l := cfg.Lift(k)
		if math.IsNaN(l.Low) || l.Low < -1 || l.High > 1 || l.Low > l.High+0.01 {
			t.Fatalf("got %+v", l)
		}
		v, _ := cfg.Evaluate(k)
		if v == gate.Promote && l.Low < -0.002 {
			t.Errorf("promoted, but the lower limit of the lift is %v", l.Low)
		}
		if v == gate.Harm && l.High > 0.002 {
			t.Errorf("harmful, but the upper limit of the lift is %v", l.High)
		}
		gate.HasDrifted(k)
	})
}

func TestDrifted(t *testing.T) {
	t.Parallel()
	book := new(playbook.Playbook)
	apply := func(op playbook.Op) {
		d := &playbook.Delta{Version: book.Version() + 1, Ops: []playbook.Op{op}, Covers: []playbook.Cover{{ID: "x"}}}
		if _, err := book.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	apply(playbook.Op{Kind: playbook.Add, Bullet: "a-1", Section: "a", Content: "x"})
	rng := rand.New(rand.NewPCG(1, 1))
	after := func(n int, p float64) (at int) {
		for i := range n {
			score := 0
			if rng.Float64() < p {
				score = playbook.MaxScore
			}
			apply(playbook.Op{Kind: playbook.AddExposures, Bullet: "a-1", Support: []int{0}, Exposures: []playbook.Exposure{{Arm: playbook.ArmOpen, Score: score}}})
			if ok, why := gate.HasDrifted(book.Bullet("a-1").Experiment); ok {
				t.Log(why)
				return i + 1
			}
		}
		return 0
	}
	if at := after(1500, 0.8); at != 0 {
		t.Errorf("a false alarm after %d outcomes", at)
	}
	if at := after(300, 0.55); at == 0 {
		t.Error("outcomes fell from 0.8 to 0.55: got no drift after 300")
	}
}

func TestConfigValidateNamesFields(t *testing.T) {
	t.Parallel()
	if err := (gate.Config{}).Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for field, c := range map[string]gate.Config{
		"Alpha": {Alpha: 0.7}, "Margin, MinLift": {Margin: 0.1}, "Share": {Share: 100}, "Slots": {Slots: -1}, "MaxOutcomes": {MaxOutcomes: -1},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("got %v, want it to name %s", err, field)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	k := &playbook.Experiment{Number: 1, Share: 50}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		see(rng, k, 0.7, 0)
	}
	for b.Loop() {
		gate.Config{}.Evaluate(k)
	}
}

func BenchmarkLift(b *testing.B) {
	k := &playbook.Experiment{Number: 1, Share: 50}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		see(rng, k, 0.7, 0)
	}
	for b.Loop() {
		gate.Config{}.Lift(k)
	}
}
