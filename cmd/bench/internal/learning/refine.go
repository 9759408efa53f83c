package learning

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/curator/draft"
	"debrief/curator/propose"

	book "debrief/playbook"
)

// refinePart measures the effect of 'debrief playbook refine --apply' on a learned playbook.
var refinePart = worldPart{
	name: "refine", title: "accuracy before and after 'playbook refine --apply', then again with --model",
	arms: []string{string(defaultGate), string(defaultGate) + "-wrong"}, tasks: 1500, quick: 300,
	columns: []column{
		{accuracyKey, "accuracy", percentInterval},
		{"active_bullets", "in use", count},
		{"merged", "merged", number1},
		{"retired", "retired", number1},
		{"retired_right", "of these right", number1},
		{"deciding_rules_stated", "rules stated", percent},
		{decidingKey, "in prompt", percent},
	},
	run: runRefine, withFirst: true, goals: refineGoals,
}

// runRefine learns, refines by words, and then refines with the model.
func runRefine(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) (points []*point, err error) {
	c, err := b.classroom(ctx, r, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.learn(ctx, b.tasks); err != nil {
		return nil, err
	}
	for _, label := range []string{"before", "refine", "refine --model"} {
		values := make(map[string]float64)
		if label != "before" {
			if values, err = c.refine(ctx, label == "refine --model"); err != nil {
				return nil, err
			}
		}
		p, err := c.evaluate(ctx)
		if err != nil {
			return nil, err
		}
		p.label = label
		for key, x := range values {
			p.values[key] = x
		}
		points = append(points, p)
	}
	return points, nil
}

// refine applies the plan of the command with its default options. It returns the numbers of merged and retired bullets, and
// the number of retired ones that state a rule.
func (c *classroom) refine(ctx context.Context, withModel bool) (map[string]float64, error) {
	p, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	var options draft.RefineOptions
	if withModel {
		if options.Merges, err = propose.FindParaphrases(ctx, c.model, draft.Refinable(p)); err != nil {
			return nil, err
		}
	}
	plan := draft.Refine(p, options.WithDefaults())
	values := map[string]float64{"merged": 0, "retired": 0, "retired_right": 0}
	rules := len(c.world.ByHand(c.phase(c.done)))
	for _, s := range plan.Steps {
		if s.Op.Kind == book.Merge {
			values["merged"] += float64(len(s.Op.Sources))
			continue
		}
		values["retired"]++
		for rule := range rules {
			if c.isStatement(p.Bullet(s.Op.Bullet).Content, c.phase(c.done), rule) {
				values["retired_right"]++
				break
			}
		}
	}
	if len(plan.Steps) == 0 {
		return values, nil
	}
	return values, c.edit(ctx, plan.Edit())
}

func refineGoals(t *table.Table, rows []worldRow) {
	for i := range rows {
		if r := &rows[i]; r.Case != "before" && r.Difference != nil {
			t.Goal(r.Difference.Mean >= -0.01, r.World+", "+r.Arm+", "+r.Case+": costs at most 1 point", "%+.1f", 100*r.Difference.Mean)
		}
	}
}
