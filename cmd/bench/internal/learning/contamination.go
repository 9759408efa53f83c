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

// contamination measures a bullet without effect that is shown and cited with a bullet that helps. Outcomes are drawn directly. The
// playbook, the drafts and the gate are the real ones; no model and no server run.
type contamination struct {
	runs  int
	tasks int // of each run
}

// The bullets of a contaminated playbook. The tasks follow, and their answers cite, every bullet that they are shown.
const (
	helpful = book.BulletID("rule-00001") // raises the success rate by contaminatedLift
	idle    = book.BulletID("rule-00002") // without effect
)

var contaminatedRules = []book.BulletID{helpful, idle}

// The success rate of tasks without a bullet, and what the helpful bullet adds.
const (
	contaminatedBase = 0.3
	contaminatedLift = 0.3
)

// contaminatedRun is one playbook.
type contaminatedRun struct {
	rng       *rand.Rand
	wrong     float64 // share of wrong verdicts
	book      book.Playbook
	unchecked []book.BulletID
	proven    map[book.BulletID]bool
}

// contaminationRow counts the runs in which a bullet was proven.
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
		if !r.Met {
			t.Missed = append(t.Missed, r.Case+": "+r.Goal)
		}
	}
	return t, nil
}

// rows returns the result of each case, with the controls.
func (c *contamination) rows(ctx context.Context) ([]contaminationRow, error) {
	var out []contaminationRow
	for _, setting := range []struct {
		wrong         float64
		idle, helpful string  // names of the cases
		goal          string  // of the helpful bullet
		least         float64 // the share of the goal
	}{
		{0, "no effect, beside a bullet that helps", "the bullet that helps", "(at least 90 % proven)", 0.9},
		{0.2, "no effect, 20 % wrong verdicts", "the bullet that helps, 20 % wrong verdicts", "(at least half proven)", 0.5},
	} {
		runs, err := c.grow(ctx, setting.wrong)
		if err != nil {
			return nil, err
		}
		share := func(id book.BulletID) report.Estimate {
			n := 0
			for _, r := range runs {
				if r.proven[id] {
					n++
				}
			}
			return report.Share(n, c.runs)
		}
		without, with := share(idle), share(helpful)
		out = append(out,
			contaminationRow{Case: setting.idle, Runs: c.runs, Goal: "at most 5 % proven", Rate: without, Met: without.Mean <= 0.05},
			contaminationRow{Case: setting.helpful, Runs: c.runs, Goal: setting.goal, Rate: with, Met: with.Mean >= setting.least})
	}
	return out, nil
}

// grow runs all tasks of all runs on all cores. Each run has a separate random source.
func (c *contamination) grow(ctx context.Context, wrong float64) ([]*contaminatedRun, error) {
	all := make([]*contaminatedRun, c.runs)
	var group sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := w; i < len(all) && ctx.Err() == nil; i += runtime.GOMAXPROCS(0) {
				r := &contaminatedRun{rng: rand.New(rand.NewPCG(uint64(i), 0)), wrong: wrong, proven: make(map[book.BulletID]bool)}
				r.begin()
				for range c.tasks {
					r.task()
				}
				all[i] = r
			}
		})
	}
	group.Wait()
	return all, ctx.Err()
}

// begin adds the bullets as learned ones.
func (r *contaminatedRun) begin() {
	d := book.Delta{Version: 1, Gate: book.GateGuard}
	for _, id := range contaminatedRules {
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

// task draws a task, and reflects on it.
func (r *contaminatedRun) task() {
	e := events.Execution{Manifest: new(events.Manifest)}
	if x, ok := r.experiment(); ok {
		e.Manifest.Exposures = append(e.Manifest.Exposures, x)
	}
	rate := contaminatedBase
	for _, id := range contaminatedRules {
		b := r.book.Bullet(id)
		isWithheld := slices.ContainsFunc(e.Manifest.Exposures, func(x events.Exposure) bool { return x.Bullet == id && x.Arm == book.ArmWithheld })
		if !b.Shown() || isWithheld {
			continue
		}
		e.Shown = append(e.Shown, events.ShownBullet{ID: id, Experiment: b.CurrentExperiment().Number})
		e.Cited = append(e.Cited, id)
		if id == helpful {
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
	r.reflect(&e)
}

// experiment draws the experiment of a task, as the Generator does: at most one bullet, withheld from half of its tasks.
func (r *contaminatedRun) experiment() (x events.Exposure, ok bool) {
	b := r.book.Bullet(contaminatedRules[r.rng.IntN(len(contaminatedRules))])
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

// reflect drafts the reflection on a task, which praises each cited bullet if the task succeeds, and applies the change.
func (r *contaminatedRun) reflect(e *events.Execution) {
	ref := events.Reflection{Execution: events.NewID(), Model: "m", Outcome: e.Outcome, FirstRoundScore: e.Outcome.Score, Exposures: e.Exposures()}
	for _, id := range e.Cited {
		if e.Outcome.Score == 1 {
			ref.Tags = append(ref.Tags, events.BulletTag{ID: id, Tag: events.Helpful})
		}
	}
	none := func(*draft.Item) bool { return false }
	out := draft.Build(r.book.Clone(), draft.Policy{}, none, []*draft.Item{{ID: events.NewID(), Reflection: &ref}}, r.unchecked)
	r.unchecked = out.Unchecked
	for _, d := range out.Deltas {
		d.Version = r.book.Version() + 1
		r.apply(d)
	}
}
