package gate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"debrief/curator/gate"
	"debrief/playbook"
)

// TestErrorRatesWithCheckAfterEveryOutcome simulates bullets with a known effect: over 10,000 tasks if they harm, else over 6,000,
// because most of those never retire. The gate assesses each record after every outcome, and chooses how often a bullet is
// withheld. It prints a line with the rates for each effect. DEBRIEF_LONG=1 takes more bullets:
//
//	DEBRIEF_LONG=1 go test ./curator/gate -run TestErrorRates -v | grep GATE
func TestErrorRatesWithCheckAfterEveryOutcome(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const tasks = 10_000
	bullets := 60
	if os.Getenv("DEBRIEF_LONG") != "" {
		bullets = 1000
	}
	t.Logf("GATE without  effect  proven  retired  suspended  tasks until retired, p50  p90")
	for _, c := range []struct {
		base, lift float64
		proven     [2]float64 // least and most share
		retired    [2]float64
		median     int // most tasks until half are retired
	}{
		{0.05, 0, [2]float64{0, 0.05}, [2]float64{0, 0.08}, tasks},
		{0.6, 0, [2]float64{0, 0.05}, [2]float64{0, 0.08}, tasks},
		{0.95, 0, [2]float64{0, 0.05}, [2]float64{0, 0.08}, tasks},
		{0.5, 0.1, [2]float64{0.5, 1}, [2]float64{0, 0.02}, tasks},
		{0.8, 0.1, [2]float64{0.8, 1}, [2]float64{0, 0.02}, tasks},
		{0.4, -0.1, [2]float64{0, 0.02}, [2]float64{0.95, 1}, 2000},
		{0.7, -0.1, [2]float64{0, 0.02}, [2]float64{0.95, 1}, 3500},
		{0.9, -0.1, [2]float64{0, 0.02}, [2]float64{0.95, 1}, 2500},
		{0.5, -0.5, [2]float64{0, 0}, [2]float64{1, 1}, 40},
		{0.7, -0.5, [2]float64{0, 0}, [2]float64{1, 1}, 40},
		{0.9, -0.5, [2]float64{0, 0}, [2]float64{1, 1}, 40},
	} {
		proven, suspended, at := 0, 0, []int{}
		most := tasks
		if c.lift >= 0 {
			most = 6_000
		}
		for seed := range uint64(bullets) {
			l := newLife(seed, playbook.StandingNew, c.base)
			for l.tasks < most && l.task(c.base+c.lift, c.base) {
			}
			if l.proven {
				proven++
			}
			if l.suspensions > 0 {
				suspended++
			}
			if l.retired != "" {
				at = append(at, l.tasks)
			}
		}
		slices.Sort(at)
		p50, p90 := "-", "-"
		if len(at) > 0 {
			p50, p90 = fmt.Sprint(at[len(at)/2]), fmt.Sprint(at[len(at)*9/10])
		}
		percent := func(n int) float64 { return 100 * float64(n) / float64(bullets) }
		t.Logf("GATE %5.0f %%  %+6.0f  %4.1f %%   %4.1f %%     %4.1f %%  %24s  %s",
			100*c.base, 100*c.lift, percent(proven), percent(len(at)), percent(suspended), p50, p90)
		isIn := func(n int, limits [2]float64) bool {
			share := float64(n) / float64(bullets)
			return share >= limits[0] && share <= limits[1]
		}
		if !isIn(proven, c.proven) || !isIn(len(at), c.retired) {
			t.Errorf("base %.2f, lift %+.2f: %d of %d proven and %d retired, want the shares %v and %v", c.base, c.lift, proven, bullets, len(at), c.proven, c.retired)
		}
		if c.lift > 0 && !isIn(suspended, [2]float64{0, 0.02}) || c.lift < -0.1 && !isIn(suspended, [2]float64{0.95, 1}) {
			t.Errorf("base %.2f, lift %+.2f: %d of %d were suspended", c.base, c.lift, suspended, bullets)
		}
		if c.lift < 0 && (len(at) <= bullets/2 || at[bullets/2] > c.median) {
			t.Errorf("base %.2f, lift %+.2f: half of the bullets must retire within %d tasks, got %v", c.base, c.lift, c.median, at)
		}
	}
}

// TestChangedEffectRetiresBullet checks that a trusted bullet whose advice becomes wrong loses its standing and retires.
func TestChangedEffectRetiresBullet(t *testing.T) {
	t.Parallel()
	var at []int
	for seed := range uint64(50) {
		l := newLife(seed, playbook.StandingNew, 0.7)
		for l.tasks < 300 && l.task(0.95, 0.5) {
		}
		if e := l.b.CurrentExperiment(); !e.Standing.Established() {
			t.Fatalf("seed %d: got standing %q before the change", seed, e.Standing)
		}
		changed := l.tasks
		for l.tasks < changed+1000 && l.task(0.1, 0.5) {
		}
		if l.drifts == 0 && l.retired != playbook.ReasonHarms {
			t.Errorf("seed %d: no drift was detected", seed)
		}
		at = append(at, l.tasks-changed)
	}
	slices.Sort(at)
	if at[25] > 60 || at[45] > 120 {
		t.Errorf("tasks until the bullets retired: %v", at)
	}
}

func TestAssessIgnoresEmptyAndKeptRecords(t *testing.T) {
	t.Parallel()
	failed := playbook.Experiment{Number: 1, Cited: playbook.Scores{0: 50}, Recent: strings.Repeat("-", 32)}
	kept := failed
	kept.Standing = playbook.StandingKept
	for name, b := range map[string]*playbook.Bullet{
		"no record":          {},
		"an empty record":    {Experiment: &playbook.Experiment{Number: 3, Standing: playbook.StandingNew, Confirmations: 2}},
		"an empty probation": {Status: playbook.Probation, Experiment: &playbook.Experiment{Standing: playbook.StandingNew}},
		"a kept bullet":      {Experiment: &kept},
	} {
		if a := (gate.Config{}).Assess(b, typical(0.9)); a != (gate.Assessment{}) {
			t.Errorf("%s: got %+v, want no decision", name, a)
		}
	}
	failed.Standing = playbook.StandingNew
	if a := (gate.Config{}).Assess(&playbook.Bullet{Experiment: &failed}, typical(0.9)); !a.Retire {
		t.Errorf("50 failures: got %+v, want the bullet to retire", a)
	}
}

// TestFewOutcomesDoNotProve covers a known failure of systems that promote after a handful of samples.
func TestFewOutcomesDoNotProve(t *testing.T) {
	t.Parallel()
	e := &playbook.Experiment{Number: 1, Standing: playbook.StandingNew}
	e.Shown[playbook.MaxScore], e.Withheld[playbook.MaxScore] = 5, 5
	if a := (gate.Config{}).Assess(&playbook.Bullet{Experiment: e}, typical(0.5)); a != (gate.Assessment{}) {
		t.Errorf("ten successes, half of them without it: got %+v", a)
	}
	e.Withheld[playbook.MaxScore] = 0
	if a := (gate.Config{}).Assess(&playbook.Bullet{Experiment: e}, typical(0.5)); a.Standing == playbook.StandingProven || a.Retire {
		t.Errorf("five successes without a control: got %+v", a)
	}
}

func TestAssessmentsByRecord(t *testing.T) {
	t.Parallel()
	const top = playbook.MaxScore
	type scores = playbook.Scores
	for _, test := range []struct {
		name     string
		status   playbook.Status
		e        playbook.Experiment
		standing playbook.Standing
		code     playbook.Reason
		retire   bool
		restart  bool
		suspend  bool
	}{
		{name: "successes and a sign of harm", e: playbook.Experiment{Standing: "new", Cited: scores{top: 3}, Recent: "+++", Shown: scores{0: 2}, Withheld: scores{top: 2}}},
		{name: "one success", e: playbook.Experiment{Standing: "new", Cited: scores{top: 1}, Recent: "+"}},
		{name: "three successes", e: playbook.Experiment{Standing: "new", Cited: scores{top: 3}, Recent: "+++"}, standing: "trusted", code: playbook.ReasonTrusted},
		{name: "three successes on probation", status: playbook.Probation, e: playbook.Experiment{Standing: "new", Cited: scores{top: 3}, Recent: "+++"}, standing: "trusted", code: playbook.ReasonTrusted},
		{name: "three successes of an import", e: playbook.Experiment{Cited: scores{top: 3}, Recent: "+++"}, standing: "trusted", code: playbook.ReasonTrusted},
		{name: "half scores", e: playbook.Experiment{Standing: "new", Cited: scores{5: 9}, Recent: "+++++++++"}},
		{name: "trusted and even", e: playbook.Experiment{Standing: "trusted", Cited: scores{0: 4, top: 4}, Recent: "-+-+-+-+"}, standing: "new", code: playbook.ReasonSuspect},
		{name: "trusted and ahead", e: playbook.Experiment{Standing: "trusted", Cited: scores{0: 1, top: 4}, Recent: "++++-"}},
		{name: "some failures", e: playbook.Experiment{Standing: "new", Cited: scores{0: 6}, Withheld: scores{top: 1}, Recent: "------"}, standing: "new", code: playbook.ReasonSuspended, suspend: true},
		{name: "some failures, requested again", e: playbook.Experiment{Standing: "new", Cited: scores{0: 6}, Withheld: scores{top: 1}, Recent: "------", Confirmations: 1}},
		{name: "some failures of an import", e: playbook.Experiment{Cited: scores{0: 6}, Withheld: scores{top: 1}, Recent: "------"}, standing: "suspect", code: playbook.ReasonSuspect},
		{name: "some failures on probation", status: playbook.Probation, e: playbook.Experiment{Standing: "new", Cited: scores{0: 6}, Withheld: scores{top: 1}, Recent: "------"}, standing: "new", code: playbook.ReasonSuspended, suspend: true},
		{name: "many failures", e: playbook.Experiment{Standing: "suspect", Cited: scores{0: 9}, Withheld: scores{top: 2}, Recent: "---------"}, standing: "suspect", code: playbook.ReasonFails, retire: true},
		{name: "drift", e: playbook.Experiment{Standing: "proven", Cited: scores{0: 8, top: 100}, Recent: "++++++++--------"}, standing: "suspect", code: playbook.ReasonDrift, restart: true},
		{name: "harm", e: playbook.Experiment{Standing: "trusted", Shown: scores{0: 40}, Withheld: scores{top: 40}}, standing: "suspect", code: playbook.ReasonHarms, retire: true},
		{name: "some harm", e: playbook.Experiment{Standing: "trusted", Cited: scores{top: 1}, Recent: "+", Shown: scores{0: 4}, Withheld: scores{top: 4}}, standing: "suspect", code: playbook.ReasonSuspect},
		{name: "benefit", e: playbook.Experiment{Standing: "new", Shown: scores{top: 40}, Withheld: scores{0: 40}}, standing: "proven", code: playbook.ReasonHelps},
		{name: "proven already", e: playbook.Experiment{Standing: "proven", Shown: scores{top: 40}, Withheld: scores{0: 40}}},
		{name: "harm on probation", status: playbook.Probation, e: playbook.Experiment{Standing: "new", Shown: scores{0: 40}, Withheld: scores{top: 40}}, standing: "suspect", code: playbook.ReasonHarms, retire: true},
		{name: "undecided on probation", status: playbook.Probation, e: playbook.Experiment{Standing: "new", Shown: scores{0: 50, top: 50}, Withheld: scores{0: 50, top: 50}}, standing: "suspect", code: playbook.ReasonNoBenefit, retire: true},
		{name: "undecided and shown", e: playbook.Experiment{Standing: "new", Shown: scores{0: 50, top: 50}, Withheld: scores{0: 50, top: 50}}},
	} {
		a := gate.Config{}.Assess(&playbook.Bullet{Status: test.status, Experiment: &test.e}, typical(0.5))
		if a.Standing != test.standing || a.Code != test.code || a.Retire != test.retire || a.Restart != test.restart || a.Suspend != test.suspend {
			t.Errorf("%s: got %+v", test.name, a)
		}
		if (a.Reason == "") != (test.code == "") {
			t.Errorf("%s: code %q with the reason %q", test.name, a.Code, a.Reason)
		}
	}
}

// TestAssessDoesNotDependOnOrder leaves out drift, which depends on the order by definition.
func TestAssessDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seen := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) playbook.Exposure {
			x := playbook.Exposure{Arm: rapid.SampledFrom([]playbook.Arm{playbook.ArmShown, playbook.ArmWithheld, playbook.ArmOpen}).Draw(t, "arm")}
			x.Score = rapid.SampledFrom([]int{0, 0, 3, 7, 10}).Draw(t, "score")
			x.Cited = x.Arm == playbook.ArmOpen || x.Arm == playbook.ArmShown && rapid.Bool().Draw(t, "cited")
			return x
		}), 1, 60).Draw(t, "exposures")
		standing := rapid.SampledFrom([]playbook.Standing{playbook.StandingNew, playbook.StandingSuspect}).Draw(t, "standing")
		assess := func(seen []playbook.Exposure) (gate.Assessment, gate.Lift) {
			b := &playbook.Bullet{Experiment: &playbook.Experiment{Standing: standing}}
			b = b.Apply(&playbook.Op{Kind: playbook.AddExposures, Exposures: seen}, nil)
			return gate.Config{}.Assess(b, typical(0.6)), gate.Config{}.Lift(b.Experiment)
		}
		a, lift := assess(seen)
		if b, other := assess(rapid.Permutation(seen).Draw(t, "order")); a != b || lift != other {
			t.Fatalf("another order: got %+v and %v, want %+v and %v", b, other, a, lift)
		}
	})
}

// TestIntervalContainsLift checks the interval after every tenth outcome. It must rarely miss the lift.
func TestIntervalContainsLift(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const bullets = 60
	for _, base := range []float64{0.1, 0.5, 0.9} {
		rng := rand.New(rand.NewPCG(3, 9))
		missed := 0
		for range bullets {
			e := new(playbook.Experiment)
			lift := rng.Float64() - base // success rates from 0 to 1
			ever := false
			for n := range 300 {
				arm, p, score := &e.Withheld, base, 0
				if rng.IntN(2) == 0 {
					arm, p = &e.Shown, base+lift
				}
				if rng.Float64() < p {
					score = playbook.MaxScore
				}
				if arm[score]++; n%10 == 0 {
					l := gate.Config{}.Lift(e)
					ever = ever || lift < l.Low || lift > l.High
				}
			}
			if ever {
				missed++
			}
		}
		if missed > bullets/10 { // 5 % on each side at most
			t.Errorf("base %.1f: %d of %d intervals missed the lift at some time", base, missed, bullets)
		}
	}
}

func TestAssessmentAgreesWithInterval(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := &playbook.Experiment{Number: 1, Standing: playbook.StandingNew}
		for _, s := range []*playbook.Scores{&e.Shown, &e.Withheld, &e.Cited} {
			for i := range s {
				s[i] = rapid.SampledFrom([]int{0, 0, 1, 3, 50, 4000}).Draw(t, "count")
			}
		}
		l := gate.Config{}.Lift(e)
		if math.IsNaN(l.Low) || l.Low < -1 || l.High > 1 || l.Low > l.High+0.01 {
			t.Fatalf("got %+v", l)
		}
		if l.Low == -1 && l.High == 1 {
			return // no random assignment produces such counts
		}
		a := gate.Config{}.Assess(&playbook.Bullet{Experiment: e}, typical(0.5))
		if a.Code == playbook.ReasonHelps && l.Low < -0.002 {
			t.Errorf("proven, but the lower limit of the lift is %v", l.Low)
		}
		if a.Code == playbook.ReasonHarms && l.High > 0.002 {
			t.Errorf("harmful, but the upper limit of the lift is %v", l.High)
		}
	})
}

func TestConfigValidateNamesFields(t *testing.T) {
	t.Parallel()
	if err := (gate.Config{}).Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for field, c := range map[string]gate.Config{
		"Alpha": {Alpha: 0.7}, "MaxOutcomes": {MaxOutcomes: -1},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("got %v, want it to name %s", err, field)
		}
	}
}

// benchmarkRecord is the record of a bullet without effect.
func benchmarkRecord() *playbook.Experiment {
	e := &playbook.Experiment{Number: 1, Standing: playbook.StandingNew}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		for _, s := range []*playbook.Scores{&e.Shown, &e.Withheld, &e.Cited} {
			s[rng.IntN(playbook.MaxScore+1)]++
		}
	}
	return e
}

func BenchmarkAssess(b *testing.B) {
	bullet := &playbook.Bullet{Experiment: benchmarkRecord()}
	for b.Loop() {
		gate.Config{}.Assess(bullet, typical(0.6))
	}
}

func BenchmarkLift(b *testing.B) {
	e := benchmarkRecord()
	for b.Loop() {
		gate.Config{}.Lift(e)
	}
}

// typical returns a rate of other tasks that rests on few outcomes.
func typical(rate float64) playbook.Typical { return playbook.Typical{Rate: rate} }

// A lift is measured if there are outcomes with the bullet and without it. Otherwise its estimate of 0 says nothing.
func TestLiftIsMeasured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shown, withheld int
		want            bool
	}{{0, 0, false}, {3, 0, false}, {0, 1, false}, {1, 1, true}} {
		e := &playbook.Experiment{Shown: playbook.Scores{playbook.MaxScore: tt.shown}, Withheld: playbook.Scores{0: tt.withheld}}
		if l := (gate.Config{}).Lift(e); l.IsMeasured() != tt.want {
			t.Errorf("%d shown, %d withheld: measured: %t, want %t", tt.shown, tt.withheld, !tt.want, tt.want)
		}
	}
}
