package learning

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"debrief/cmd/internal/train/report"
	"debrief/curator/gate"

	book "debrief/playbook"
)

// planting configures the measurement of the gate alone. The lift of each bullet is known, and its outcomes are drawn
// directly. The playbook, the experiments and the decisions are the real ones; no model and no server run.
type planting struct {
	seeds    int
	bullets  int // of each seed
	outcomes int // of each bullet, at most
}

// gateAlone measures the gate with bullets of a known effect: how many retire, how many are proven, and how fast.
func gateAlone(ctx context.Context, seeds int, quick bool) (*Table, error) {
	p := planting{seeds: seeds, bullets: 100, outcomes: 10_000}
	if quick {
		p.bullets, p.outcomes = 20, 1000
	}
	decided, err := p.decisions(ctx)
	if err != nil {
		return nil, err
	}
	t := &Table{
		Title: fmt.Sprintf("Gate: bullets of a known effect, at most %d outcomes each", p.outcomes),
		Head:  "bullet\tn\tgoal\trate\t95 %\toutcomes p50\tp90\t",
	}
	for _, d := range decided {
		t.Row(d, "%s\t%d\t%s\t%s\t%d\t%d\t", d.Case, d.Bullets, d.Goal, d.Rate.Percent(), d.Median, d.P90)
		if !d.Met {
			t.Missed = append(t.Missed, d.Case+": "+d.Goal)
		}
	}
	return t, nil
}

// decision is the result for one kind of bullet.
type decision struct {
	Case    string          `json:"case"`
	Bullets int             `json:"bullets"`
	Goal    string          `json:"goal"`
	Rate    report.Estimate `json:"rate"`             // share of the bullets that the goal counts
	Harm    float64         `json:"retired_for_harm"` // share of all bullets
	// Outcomes until a bullet retired, of the bullets that did.
	Median int  `json:"median_outcomes"`
	P90    int  `json:"p90_outcomes"`
	Met    bool `json:"met"`
}

// decisions plants bullets and counts how many retire or are proven.
func (p *planting) decisions(ctx context.Context) ([]decision, error) {
	rows := []struct {
		name, goal string // a goal in parentheses is none
		lift       float64
		counts     func(*planted) bool // the bullets of the rate
		met        func(decision) bool // the goal
	}{
		{"-50 points", "retired, median at most 40", -0.5, (*planted).retired, func(r decision) bool { return r.Rate.Mean >= 0.95 && r.Median <= 40 }},
		{"-10 points", "at least 95 % retired", -0.1, (*planted).retired, func(r decision) bool { return r.Rate.Mean >= 0.95 }},
		{"no effect", "at most 5 % proven", 0, (*planted).proven, func(r decision) bool { return r.Rate.Mean <= 0.05 }},
		{"+10 points", "at most 2 % retired", 0.1, (*planted).retired, func(r decision) bool { return r.Rate.Mean <= 0.02 }},
		{"+10 points", "(proven, no goal)", 0.1, (*planted).proven, func(decision) bool { return true }},
	}
	var out []decision
	for _, base := range []float64{0.3, 0.7, 0.9} { // mean scores without a bullet
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
			row := decision{Case: fmt.Sprintf("%s, %.0f %% without it", r.name, 100*base), Goal: r.goal, Bullets: len(all)}
			hits, harmed := 0, 0
			var took []int
			for _, t := range all {
				if r.counts(t) {
					hits++
				}
				if t.harmed {
					harmed++
				}
				if t.decided > 0 {
					took = append(took, t.decided)
				}
			}
			row.Rate = report.Share(hits, len(all))
			row.Harm = float64(harmed) / float64(max(1, len(all)))
			slices.Sort(took)
			if len(took) > 0 {
				row.Median, row.P90 = took[len(took)/2], took[len(took)*9/10]
			}
			row.Met = r.met(row)
			out = append(out, row)
		}
	}
	return out, nil
}

// growAll plants bullets of one effect on all cores and runs each until its decision. Each bullet has a separate random source.
func (p *planting) growAll(ctx context.Context, base, lift float64) ([]*planted, error) {
	all := make([]*planted, p.seeds*p.bullets)
	var group sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := w; i < len(all) && ctx.Err() == nil; i += runtime.GOMAXPROCS(0) {
				all[i] = plant(rand.New(rand.NewPCG(uint64(1+i/p.bullets), uint64(i%p.bullets))), base, lift)
				all[i].run(p.outcomes)
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
	outcomes   int  // since it was planted
	decided    int  // number of outcomes when it retired; 0 before
	harmed     bool // it retired for harm
	wasProven  bool
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

// run draws outcomes, and lets the gate decide after each one, until the bullet retires or is suspended, or after the limit of
// outcomes. The other bullets of the playbook are cited with the success rate without the bullet.
func (t *planted) run(limit int) {
	others := func(book.BulletID) book.Typical { return book.Typical{Rate: t.base, Outcomes: 1000} }
	set := func(ops []book.Op) bool {
		for _, op := range ops {
			t.wasProven = t.wasProven || op.Standing == book.StandingProven
			if op.Status != book.Active {
				t.decided = t.outcomes
				t.harmed = op.Code == book.ReasonHarms
			}
			t.apply(op)
		}
		return true
	}
	for t.outcomes < limit && !t.retired() {
		t.outcomes++
		t.see(t.draw())
		gate.NewDecider(gate.Config{}, book.GateGuard, &t.book, others, set).Decide(map[book.BulletID]struct{}{plantedID: {}})
	}
}
