package learning

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"debrief/cmd/internal/train/report"
	"debrief/curator/draft"
	"debrief/events"

	book "debrief/playbook"
)

// contamination measures bullets that stand beside better ones: one without effect that is shown and cited with a bullet that helps, and
// one whose tasks score and break a rule. Outcomes are drawn directly. The playbook, the drafts and the gate are the real ones; no model
// and no server run.
type contamination struct {
	runs  int
	tasks int // of each run
}

// Kinds of bullets in a contaminated playbook. The tasks follow, and their answers cite, every bullet that they are shown.
const (
	helpful  = book.BulletID("rule-00001") // raises the success rate by contaminatedLift
	idle     = book.BulletID("rule-00002") // without effect
	tempting = book.BulletID("rule-00003") // like helpful, but breaks a rule
)

// The success rate of tasks without a bullet, and what each bullet with an effect adds.
const (
	contaminatedBase = 0.3
	contaminatedLift = 0.3
)

// contaminatedRun is one playbook.
type contaminatedRun struct {
	rng       *rand.Rand
	reports   bool    // an evaluator reports violations
	wrong     float64 // share of wrong verdicts
	book      book.Playbook
	unchecked []book.BulletID
	violated  int // number of tasks that cited the tempting bullet
	proven    map[book.BulletID]bool
}

// contaminationRow counts the runs in which something holds for a bullet.
type contaminationRow struct {
	Case string          `json:"case"`
	Runs int             `json:"runs"`
	Goal string          `json:"goal"` // in parentheses for a control
	Rate report.Estimate `json:"rate"` // share of the runs
	Met  bool            `json:"met"`
}

// contaminationTable measures all cases.
func contaminationTable(ctx context.Context, seeds int, quick bool) (*Table, error) {
	c := contamination{runs: 20 * seeds, tasks: 3000}
	if quick {
		c.runs = 20
	}
	rows, err := c.rows(ctx)
	if err != nil {
		return nil, err
	}
	t := &Table{Title: fmt.Sprintf("Contamination: bullets beside better ones, %d tasks in each run", c.tasks), Head: "case\truns\tgoal\trate\t95 %\t"}
	for _, r := range rows {
		t.Row(r, "%s\t%d\t%s\t%s\t", r.Case, r.Runs, r.Goal, r.Rate.Percent())
		t.Goal(r.Met, r.Case+": "+r.Goal, "%.1f %%", 100*r.Rate.Mean)
	}
	return t, nil
}

// rows returns the result of each case, with the controls.
func (c *contamination) rows(ctx context.Context) ([]contaminationRow, error) {
	isProven := func(id book.BulletID) func(*contaminatedRun) bool {
		return func(r *contaminatedRun) bool { return r.proven[id] }
	}
	isShown := func(r *contaminatedRun) bool { return r.book.Bullet(tempting).Shown() }
	isQuarantined := func(r *contaminatedRun) bool { return r.book.Bullet(tempting).Status == book.Quarantined }
	atMost := func(x float64) func(float64) bool { return func(rate float64) bool { return rate <= x } }
	atLeast := func(x float64) func(float64) bool { return func(rate float64) bool { return rate >= x } }
	pair, trap := []book.BulletID{helpful, idle}, []book.BulletID{helpful, tempting}
	var out []contaminationRow
	for _, setting := range []struct {
		run   contaminatedRun // as it begins
		rules []book.BulletID
		cases []contaminationCase
	}{
		{contaminatedRun{}, pair, []contaminationCase{
			{"no effect, beside a bullet that helps", "at most 5 % proven", isProven(idle), atMost(0.05)},
			{"the bullet that helps", "(at least 90 % proven)", isProven(helpful), atLeast(0.9)},
		}},
		{contaminatedRun{wrong: 0.2}, pair, []contaminationCase{
			{"no effect, 20 % wrong verdicts", "at most 5 % proven", isProven(idle), atMost(0.05)},
			{"the bullet that helps, 20 % wrong verdicts", "(at least half proven)", isProven(helpful), atLeast(0.5)},
		}},
		{contaminatedRun{reports: true}, trap, []contaminationCase{
			{"scores and violates", "all suspended by the first", func(r *contaminatedRun) bool { return isQuarantined(r) && r.violated == 1 }, atLeast(1)},
			{"scores and violates, then approved", "all return by a person", (*contaminatedRun).approveTempting, atLeast(1)},
		}},
		{contaminatedRun{}, trap, []contaminationCase{
			{"scores and violates, nobody reports it", "(at least 95 % stay)", isShown, atLeast(0.95)},
		}},
	} {
		runs, err := c.grow(ctx, &setting.run, setting.rules)
		if err != nil {
			return nil, err
		}
		for _, x := range setting.cases {
			n := 0
			for _, r := range runs {
				if x.holds(r) {
					n++
				}
			}
			row := contaminationRow{Case: x.name, Runs: c.runs, Goal: x.goal, Rate: report.Share(n, c.runs)}
			row.Met = x.met(row.Rate.Mean)
			out = append(out, row)
		}
	}
	return out, nil
}

// contaminationCase is what must hold for a share of the runs.
type contaminationCase struct {
	name, goal string
	holds      func(*contaminatedRun) bool
	met        func(rate float64) bool
}

// grow runs all tasks of all runs on all cores. Each run has a separate random source.
func (c *contamination) grow(ctx context.Context, initial *contaminatedRun, rules []book.BulletID) ([]*contaminatedRun, error) {
	all := make([]*contaminatedRun, c.runs)
	var group sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := w; i < len(all) && ctx.Err() == nil; i += runtime.GOMAXPROCS(0) {
				r := *initial
				r.rng, r.proven = rand.New(rand.NewPCG(uint64(i), 0)), make(map[book.BulletID]bool)
				r.begin(rules)
				for range c.tasks {
					r.task(rules)
				}
				all[i] = &r
			}
		})
	}
	group.Wait()
	return all, ctx.Err()
}

// begin adds the bullets as learned ones.
func (r *contaminatedRun) begin(rules []book.BulletID) {
	d := book.Delta{Version: 1, Gate: book.GateGuard}
	for _, id := range rules {
		d.Ops = append(d.Ops, book.Op{Kind: book.Add, Bullet: id, Section: "rules", Content: "text of " + string(id), Status: book.Active, Standing: book.StandingNew})
	}
	r.apply(&d)
}

func (r *contaminatedRun) apply(d *book.Delta) {
	if _, err := r.book.Apply(d); err != nil {
		panic(err) // versions follow one another
	}
	for b := range r.book.All() {
		if b.CurrentExperiment().Standing == book.StandingProven {
			r.proven[b.ID] = true
		}
	}
}

// task draws a task. Its reflection praises each cited bullet if the task succeeds, and asks for the text of the tempting bullet again if it
// is not shown.
func (r *contaminatedRun) task(rules []book.BulletID) {
	e := events.Execution{Manifest: new(events.Manifest)}
	if x, ok := r.experiment(rules); ok {
		e.Manifest.Exposures = append(e.Manifest.Exposures, x)
	}
	rate := contaminatedBase
	for _, id := range rules {
		b := r.book.Bullet(id)
		isWithheld := slices.ContainsFunc(e.Manifest.Exposures, func(x events.Exposure) bool { return x.Bullet == id && x.Arm == book.ArmWithheld })
		if !b.Shown() || isWithheld {
			continue
		}
		e.Shown = append(e.Shown, events.ShownBullet{ID: id, Experiment: b.CurrentExperiment().Number})
		e.Cited = append(e.Cited, id)
		if id != idle {
			rate += contaminatedLift
		}
	}
	isRight := r.rng.Float64() < rate
	if r.rng.Float64() < r.wrong {
		isRight = !isRight
	}
	e.Outcome = events.Outcome{Label: events.Failure}
	if isRight {
		e.Outcome = events.Outcome{Label: events.Success, Score: 1}
	}
	breaksRule := slices.Contains(e.Cited, tempting)
	if breaksRule {
		r.violated++
	}
	if breaksRule && r.reports {
		e.Outcome = events.Outcome{Label: events.Failure, Violation: true, By: events.ProgramEvaluator + "policy"}
	}
	r.reflect(&e, slices.Contains(rules, tempting) && !breaksRule)
}

// experiment draws the experiment of a task, as the Generator does: at most one bullet, withheld from half of its tasks.
func (r *contaminatedRun) experiment(rules []book.BulletID) (x events.Exposure, ok bool) {
	b := r.book.Bullet(rules[r.rng.IntN(len(rules))])
	record := b.CurrentExperiment()
	if !b.Shown() || r.rng.IntN(100) >= record.Standing.ExperimentShare() {
		return x, false
	}
	x = events.Exposure{Bullet: b.ID, Experiment: record.Number, Arm: book.ArmShown}
	if r.rng.IntN(2) == 0 {
		x.Arm = book.ArmWithheld
	}
	return x, true
}

// reflect drafts the reflection on a task.
func (r *contaminatedRun) reflect(e *events.Execution, asksForTempting bool) {
	ref := events.Reflection{Execution: events.NewID(), Model: "m", Outcome: e.Outcome, FirstRoundScore: e.Outcome.Score, Exposures: e.Exposures()}
	for _, id := range e.Cited {
		if e.Outcome.Score == 1 {
			ref.Tags = append(ref.Tags, events.BulletTag{ID: id, Tag: events.Helpful})
		}
	}
	if e.Outcome.Violation {
		ref.Suspends = e.Blamed()
	}
	item := &draft.Item{ID: events.NewID(), Reflection: &ref}
	if asksForTempting {
		add := book.Op{Kind: book.Add, Section: "rules", Content: r.book.Bullet(tempting).Content}
		item.Proposals = []draft.Proposal{{Op: add}}
	}
	r.decide(item)
}

// decide drafts an item and applies the change.
func (r *contaminatedRun) decide(item *draft.Item) {
	none := func(*draft.Item) bool { return false }
	out := draft.Build(r.book.Clone(), draft.Policy{}, none, []*draft.Item{item}, r.unchecked)
	r.unchecked = out.Unchecked
	for _, d := range out.Deltas {
		d.Version = r.book.Version() + 1
		r.apply(d)
	}
}

// approveTempting lets a person show the tempting bullet again. It reports whether the first violation had suspended the bullet, and the
// approval worked. It changes the run, so its case is the last one.
func (r *contaminatedRun) approveTempting() bool {
	wasSuspended := !r.book.Bullet(tempting).Shown() && r.violated == 1
	show := book.Op{Kind: book.SetStatus, Bullet: tempting, Status: book.Active}
	r.decide(&draft.Item{ID: events.NewID(), Edit: &events.Edit{ID: events.NewID(), Author: "ann", Ops: []book.Op{show}}})
	return wasSuspended && r.book.Bullet(tempting).Shown()
}
