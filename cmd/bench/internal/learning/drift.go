package learning

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/worlds"
	"debrief/cmd/internal/worlds/drift"
)

// afterChange lists the numbers of training tasks after the change of the rules, at which the part drift evaluates.
var afterChange = []int{0, 100, 200, 300, 450, 600}

// driftPart measures how soon the playbook follows rules that change, on the held-out tasks of these rules.
var driftPart = worldPart{
	name: "drift", title: fmt.Sprintf("accuracy on held-out tasks of the rules that change after %d tasks", drift.ChangeAfter),
	worlds: []string{drift.Name}, arms: armNames(func(a *worldArm) bool { return a.learns() && !a.wrong }),
	tasks: drift.ChangeAfter + 600, quick: drift.ChangeAfter + 100,
	columns: []column{
		{accuracyKey, "accuracy", percentInterval},
		{"deciding_rules_stated", "rules stated", percent},
		{decidingKey, "in prompt", percent},
		{"bullets", "bullets", count},
		{"active_bullets", "in use", count},
		{"model_calls_per_task", "calls", number2},
	},
	run: runDrift, withFirst: true, goals: driftGoals,
}

// runDrift evaluates before the change and at several points after it, only on tasks that a changed rule decides.
func runDrift(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) (points []*point, err error) {
	c, err := b.classroom(ctx, r, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	evaluate := func(label string, phase int) error {
		p, err := c.evaluateOn(ctx, c.agent, changedTasks(c.world, phase, b.heldOut))
		if err != nil {
			return err
		}
		p.label = label
		points = append(points, p)
		return nil
	}
	if err := c.learn(ctx, min(drift.ChangeAfter, b.tasks)); err != nil {
		return nil, err
	}
	if err := evaluate(beforeChange, 0); err != nil {
		return nil, err
	}
	for _, n := range afterChange {
		if drift.ChangeAfter+n > b.tasks {
			break
		}
		if err := c.learn(ctx, drift.ChangeAfter+n); err != nil {
			return nil, err
		}
		if err := evaluate(fmt.Sprintf("%d after", n), 1); err != nil {
			return nil, err
		}
	}
	return points, nil
}

// beforeChange is the case before the rules change.
const beforeChange = "before the change"

// changedTasks returns n held-out tasks that a changed rule decides.
func changedTasks(w worlds.World, phase, n int) []worlds.Task {
	for all := 4 * n; ; all *= 2 {
		tasks := slices.DeleteFunc(w.HeldOut(phase, all), func(t worlds.Task) bool { return !isChanged(w, &t) })
		if len(tasks) >= n {
			return tasks[:n]
		}
	}
}

func driftGoals(t *table.Table, rows []worldRow) {
	for i := range rows {
		if r := &rows[i]; r.Arm == string(defaultGate) && r.Case == "300 after" && r.Difference != nil {
			t.Goal(r.Difference.Mean >= -0.05, "300 tasks after the change: within 5 points of before", "%+.1f", 100*r.Difference.Mean)
		}
	}
}
