// Package gatebench measures the gate alone, with bullets of a known effect.
package gatebench

import (
	"cmp"
	"context"
	"fmt"
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

// Decision is the result for one kind of bullet.
type Decision struct {
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

// Rank compares two ways to rank bullets with their true effect.
type Rank struct {
	Case     string  `json:"case"`
	Bullets  int     `json:"bullets"`
	Lift     float64 `json:"rank_correlation_lift"`
	Counters float64 `json:"rank_correlation_counters"`
}

const plantedBase = 0.7 // mean score without a bullet

// Decisions measures the gate alone with bullets of a known effect: how many retire, how many are proven, and how fast.
// Each bullet has at most the given number of outcomes.
func Decisions(ctx context.Context, seeds, bullets, most int) ([]Decision, error) {
	p := planting{seeds: seeds, bullets: bullets, most: most}
	rows := []struct {
		name, goal string
		lift       float64
		is         func(*planted) bool
		met        func(Decision) bool
	}{
		{"-50 points", "retired, median at most 40", -0.5, (*planted).retired, func(r Decision) bool { return r.Rate.Mean >= 0.95 && r.Median <= 40 }},
		{"-10 points", "at least 95 % retired", -0.1, (*planted).retired, func(r Decision) bool { return r.Rate.Mean >= 0.95 }},
		{"no effect", "at most 5 % proven", 0, (*planted).proven, func(r Decision) bool { return r.Rate.Mean <= 0.05 }},
		{"+10 points", "at most 2 % retired", 0.1, (*planted).retired, func(r Decision) bool { return r.Rate.Mean <= 0.02 }},
		{"+10 points", "(proven, no goal)", 0.1, (*planted).proven, func(Decision) bool { return true }},
	}
	var out []Decision
	for _, base := range []float64{0.3, plantedBase, 0.9} {
		grown := map[float64][]*planted{} // by lift: two rows can measure the same bullets
		for _, r := range rows {
			if base+r.lift < 0 {
				continue
			}
			all, ok := grown[r.lift]
			if !ok {
				var err error
				if all, err = p.growAll(ctx, base, r.lift); err != nil {
					return nil, err
				}
				grown[r.lift] = all
			}
			row := Decision{Case: fmt.Sprintf("%s, %.0f %% without it", r.name, 100*base), Goal: r.goal, Bullets: len(all)}
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
			row.Met = r.met(row)
			out = append(out, row)
		}
	}
	return out, nil
}

// growAll plants bullets of one effect and runs each until its decision.
func (p *planting) growAll(ctx context.Context, base, lift float64) ([]*planted, error) {
	return p.grow(ctx, func(rng *rand.Rand) *planted {
		t := plant(rng, base, lift)
		t.run(p.most)
		return t
	})
}

// Ranks compares two rankings after the same number of outcomes: by estimated lift, where half of the tasks show
// each bullet, and by helpful minus harmful, where every task shows each bullet.
func Ranks(ctx context.Context, seeds, bullets int) ([]Rank, error) {
	p := planting{seeds: seeds, bullets: bullets, most: 2000}
	var out []Rank
	for _, r := range []struct {
		name   string
		spread float64 // of the bases around the planted one
	}{{"all tasks equally hard", 0}, {"tasks from 50 to 90 % right without it", 0.2}} {
		truth, lifts, counters := []float64{}, []float64{}, []float64{}
		all, err := p.grow(ctx, func(rng *rand.Rand) *planted {
			base := plantedBase + r.spread*(2*rng.Float64()-1)
			t := plant(rng, base, 0.2*(rng.Float64()-0.5))
			for range p.most {
				arm := book.ArmShown
				if t.rng.IntN(2) == 0 {
					arm = book.ArmWithheld
				}
				t.see(arm)
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
		out = append(out, Rank{r.name, len(all), spearman(truth, lifts), spearman(truth, counters)})
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
	book       book.Playbook
	outcomes   int // since it was planted
	decided    int // number of outcomes when it retired
	harmed     bool
	wasProven  bool

	helpful, harmful int
}

const plantedID = book.BulletID("rule-00001")

func plant(rng *rand.Rand, base, lift float64) *planted {
	t := &planted{rng: rng, base: base, lift: lift}
	t.apply(book.Op{Kind: book.Add, Bullet: plantedID, Section: "rules", Content: "a rule", Status: book.Active, Standing: book.StandingNew})
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
func (t *planted) proven() bool         { return t.wasProven }

// retired reports whether prompts no longer show the bullet. A suspended bullet counts as retired: no other execution requests it.
func (t *planted) retired() bool { return !t.bullet().Shown() }

// draw draws the arm of the next task, as the Generator does.
func (t *planted) draw() book.Arm {
	switch e := t.bullet().CurrentExperiment(); {
	case t.rng.IntN(100) >= e.Standing.ExperimentShare():
		return book.ArmOpen
	case t.rng.IntN(2) == 0:
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

// see records the outcome of a task. An answer cites the bullet whenever it is shown.
func (t *planted) see(arm book.Arm) {
	x := book.Exposure{Arm: arm, Score: t.score(arm), Cited: arm != book.ArmWithheld}
	t.apply(book.Op{Kind: book.AddExposures, Bullet: plantedID, ExperimentNumber: t.bullet().CurrentExperiment().Number, Exposures: []book.Exposure{x}})
}

// run draws outcomes, and lets the gate decide after each one, until the bullet retires or is suspended, or after most
// outcomes. The other bullets of the playbook are cited with the success rate without the bullet.
func (t *planted) run(most int) {
	others := book.Tally{Cited: 1000, Sum: int(1000 * book.MaxScore * t.base)}
	set := func(ops []book.Op) bool {
		for _, op := range ops {
			if t.wasProven = t.wasProven || op.Standing == book.StandingProven; op.Status != book.Active {
				t.decided, t.harmed = t.outcomes, op.Code == book.ReasonHarms
			}
			t.apply(op)
		}
		return true
	}
	for t.outcomes < most && !t.retired() {
		t.outcomes++
		t.see(t.draw())
		gate.NewDecider(gate.Config{}, book.GateGuard, &t.book, others, set).Decide(map[book.BulletID]struct{}{plantedID: {}})
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

// Print prints the results.
func Print(w io.Writer, rows []Decision, order []Rank) error {
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
