package learning

import (
	"cmp"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"

	"debrief/cmd/internal/console"
	"debrief/curator/gate"

	book "debrief/playbook"
)

// planting configures the measurement of the gate alone. The lift of each bullet is known, and its outcomes are drawn
// directly. The playbook, the experiments and the decisions are the real ones; no model and no server run.
type planting struct {
	seeds   int
	bullets int // a seed
	most    int // outcomes of one bullet
	gate    gate.Config
}

// gateRow is the result for one kind of bullet.
type gateRow struct {
	Case    string   `json:"case"`
	Bullets int      `json:"bullets"`
	Goal    string   `json:"goal"`
	Rate    interval `json:"rate"` // of the bullets of which the goal's thing is true
	Harm    float64  `json:"retired_for_harm"`
	// Outcomes until the decision, of those that had one.
	Median int  `json:"median_outcomes"`
	P90    int  `json:"p90_outcomes"`
	Met    bool `json:"met"`
}

// rankRow compares two ways to rank bullets with their true effect.
type rankRow struct {
	Case     string  `json:"case"`
	Bullets  int     `json:"bullets"`
	Lift     float64 `json:"rank_correlation_lift"`
	Counters float64 `json:"rank_correlation_counters"`
}

const plantedBase = 0.7 // mean score without a bullet

// gateRows measures the gate alone: harmful, neutral and helpful bullets, and bullets whose effect changes.
func gateRows(ctx context.Context, seeds, bullets int) ([]gateRow, error) {
	p := planting{seeds: seeds, bullets: bullets, most: 2000}
	rows := []struct {
		name, goal string
		lift, then float64 // then: after it was promoted and 500 outcomes have passed
		turns      bool
		is         func(*planted) bool
		met        func(interval) bool
	}{
		{"-10 points", "at least 95 % retired", -0.1, 0, false, (*planted).retired, func(i interval) bool { return i.Mean >= 0.95 }},
		{"no effect", "at most 5 % promoted, bound 6 %", 0, 0, false, (*planted).promoted, func(i interval) bool { return i.Mean <= 0.05 && i.High <= 0.06 }},
		{"+10 points", "at least 90 % promoted", 0.1, 0, false, (*planted).promoted, func(i interval) bool { return i.Mean >= 0.9 }},
		{"+10, then -10 points", "retired after it turned", 0.1, -0.1, true, (*planted).retired, func(i interval) bool { return i.Mean >= 0.9 }},
		{"+10, then no effect", "(told, no goal)", 0.1, 0, true, (*planted).retired, func(interval) bool { return true }},
	}
	var out []gateRow
	for _, r := range rows {
		all, err := p.grow(ctx, func(rng *rand.Rand) *planted {
			t := plant(rng, plantedBase, r.lift)
			t.run(p.most)
			if r.turns && t.promoted() {
				t.run(500)
				t.lift, t.outcomes = r.then, 0
				t.run(p.most)
			}
			return t
		})
		if err != nil {
			return nil, err
		}
		if r.turns { // those that were promoted first
			all = slices.DeleteFunc(all, func(t *planted) bool { return t.lift != r.then })
		}
		row := gateRow{Case: r.name, Goal: r.goal, Bullets: len(all)}
		hits, harmed := 0, 0
		var took []int
		for _, t := range all {
			if r.is(t) {
				hits++
			}
			if t.harmed {
				harmed++
			}
			if t.decided > 0 {
				took = append(took, t.decided)
			}
		}
		row.Rate, row.Harm = share(hits, len(all)), float64(harmed)/float64(max(1, len(all)))
		if slices.Sort(took); len(took) > 0 {
			row.Median, row.P90 = took[len(took)/2], took[len(took)*9/10]
		}
		row.Met = r.met(row.Rate)
		out = append(out, row)
	}
	return out, nil
}

// rankRows compares two rankings after the same number of outcomes: by estimated lift, where half of the tasks show
// each bullet, and by helpful minus harmful, where every task shows each bullet.
func rankRows(ctx context.Context, seeds, bullets int) ([]rankRow, error) {
	p := planting{seeds: seeds, bullets: bullets, most: 2000}
	var out []rankRow
	for _, r := range []struct {
		name   string
		spread float64 // of the bases around the planted one
	}{{"all tasks equally hard", 0}, {"tasks from 50 to 90 % right without it", 0.2}} {
		truth, lifts, counters := []float64{}, []float64{}, []float64{}
		all, err := p.grow(ctx, func(rng *rand.Rand) *planted {
			base := plantedBase + r.spread*(2*rng.Float64()-1)
			t := plant(rng, base, 0.2*(rng.Float64()-0.5))
			for range p.most {
				t.see(t.coin())
				if t.score(book.ArmOpen) > 0 {
					t.helpful++
				} else {
					t.harmful++
				}
			}
			return t
		})
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			truth = append(truth, t.lift)
			lifts = append(lifts, p.gate.Lift(t.bullet().Experiment).Estimate)
			counters = append(counters, float64(t.helpful-t.harmful))
		}
		out = append(out, rankRow{r.name, len(all), spearman(truth, lifts), spearman(truth, counters)})
	}
	return out, nil
}

// grow plants bullets on all cores. Each bullet has a separate random source.
func (p *planting) grow(ctx context.Context, one func(*rand.Rand) *planted) ([]*planted, error) {
	all := make([]*planted, p.seeds*p.bullets)
	var group sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := w; i < len(all) && ctx.Err() == nil; i += runtime.GOMAXPROCS(0) {
				all[i] = one(rand.New(rand.NewPCG(uint64(1+i/p.bullets), uint64(i%p.bullets))))
			}
		})
	}
	group.Wait()
	return all, ctx.Err()
}

// planted is a bullet whose lift is known.
type planted struct {
	rng        *rand.Rand
	base, lift float64
	cfg        gate.Config
	book       book.Playbook
	outcomes   int // since it was planted, or turned
	decided    int // how many outcomes the last decision took
	harmed     bool

	helpful, harmful int
}

const plantedID = book.BulletID("rule-00001")

func plant(rng *rand.Rand, base, lift float64) *planted {
	t := &planted{rng: rng, base: base, lift: lift, cfg: gate.Config{}.WithDefaults()}
	t.apply(book.Op{Kind: book.Add, Bullet: plantedID, Section: "rules", Content: "a rule", Status: book.Probation, Share: t.cfg.Share})
	return t
}

func (t *planted) apply(op book.Op) {
	d := book.Delta{Version: t.book.Version() + 1, Ops: []book.Op{op}}
	if len(op.Exposures) > 0 {
		d.Covers, d.Ops[0].Support = []book.Cover{{ID: "outcome"}}, []int{0}
	}
	if _, err := t.book.Apply(&d); err != nil {
		panic(err) // versions follow one another
	}
}

func (t *planted) bullet() *book.Bullet { return t.book.Bullet(plantedID) }
func (t *planted) promoted() bool       { return t.bullet().Status == book.Active }
func (t *planted) retired() bool        { return t.bullet().Status == book.Retired }

// coin draws the arm of the next task.
func (t *planted) coin() book.Arm {
	switch {
	case t.bullet().Status != book.Probation:
		return book.ArmOpen
	case t.rng.IntN(100) < t.bullet().Experiment.Share:
		return book.ArmShown
	}
	return book.ArmWithheld
}

// score draws the outcome of a task in tenths, right or wrong.
func (t *planted) score(arm book.Arm) int {
	p := t.base
	if arm != book.ArmWithheld {
		p += t.lift
	}
	if t.rng.Float64() < p {
		return book.MaxScore
	}
	return 0
}

func (t *planted) see(arm book.Arm) {
	t.apply(book.Op{Kind: book.AddExposures, Bullet: plantedID, ExperimentNumber: t.bullet().Experiment.Number, Exposures: []book.Exposure{{Arm: arm, Score: t.score(arm)}}})
}

// run draws outcomes and checks the bullet after each one, until it is retired, its probation ends, or after most
// outcomes.
func (t *planted) run(most int) {
	began := t.bullet().Status
	for range most {
		b := t.bullet()
		if b.Status == book.Retired || began == book.Probation && b.Status == book.Active {
			return
		}
		t.outcomes++
		t.see(t.coin())
		b = t.bullet()
		if b.Status == book.Active {
			if drifted, _ := gate.HasDrifted(b.Experiment); drifted {
				t.apply(book.Op{Kind: book.SetStatus, Bullet: plantedID, Status: book.Probation, Share: t.cfg.Share})
			}
			continue
		}
		status := book.Active
		switch v, _ := t.cfg.Evaluate(b.Experiment); v {
		case gate.Undecided:
			continue
		case gate.Harm, gate.Futile:
			status, t.harmed = book.Retired, v == gate.Harm
		}
		t.decided = t.outcomes
		t.apply(book.Op{Kind: book.SetStatus, Bullet: plantedID, Status: status})
	}
}

// interval is a mean with its 95 % confidence bounds.
type interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// share returns hits divided by n, with the exact bounds of Clopper and Pearson (1934), 5 % on each side.
func share(hits, n int) interval {
	if n == 0 {
		return interval{0, 0, 1}
	}
	i := interval{Mean: float64(hits) / float64(n), High: 1}
	if hits > 0 {
		i.Low = solve(func(p float64) bool { return 1-atMost(hits-1, n, p) < 0.05 })
	}
	if hits < n {
		i.High = solve(func(p float64) bool { return atMost(hits, n, p) > 0.05 })
	}
	return i
}

// solve returns the point in 0 to 1 where holds changes from true to false.
func solve(holds func(float64) bool) float64 {
	low, high := 0.0, 1.0
	for range 50 {
		if mid := (low + high) / 2; holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// atMost returns the probability of at most k hits in n.
func atMost(k, n int, p float64) float64 {
	lg := func(x int) float64 { l, _ := math.Lgamma(float64(x + 1)); return l }
	sum := 0.0
	for i := range k + 1 {
		sum += math.Exp(lg(n) - lg(i) - lg(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// spearman returns the rank correlation of two lists. Ties get the mean of their ranks.
func spearman(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	mean := float64(len(a)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mean) * (y[i] - mean)
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
	}
	if xx*yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

func ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	r := make([]float64, len(v))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && v[order[j]] == v[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			r[at] = float64(i+j-1) / 2
		}
		i = j
	}
	return r
}

// tellGate prints the results of the gate.
func tellGate(w io.Writer, rows []gateRow, order []rankRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	console.Fprintf(t, "bullet\tn\tgoal\trate\t95 %% bounds\toutcomes p50\tp90\tmet\n")
	for _, r := range rows {
		console.Fprintf(t, "%s\t%d\t%s\t%.1f %%\t%.1f to %.1f\t%d\t%d\t%s\n", r.Case, r.Bullets, r.Goal, 100*r.Rate.Mean, 100*r.Rate.Low, 100*r.Rate.High, r.Median, r.P90, yes(r.Met))
	}
	console.Fprintf(t, "\nrank correlation with the true lift\tn\testimated lift\thelpful - harmful\n")
	for _, r := range order {
		console.Fprintf(t, "%s\t%d\t%.2f\t%.2f\n", r.Case, r.Bullets, r.Lift, r.Counters)
	}
	return t.Flush()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "NO"
}
