package learning

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/worlds"
	"debrief/cmd/internal/worlds/effects"
	"debrief/cmd/internal/worlds/prompt"
	"debrief/events"

	book "debrief/playbook"
)

// Keys of the values of a planted bullet.
const (
	retiredKey  = "retired"
	replacedKey = "replaced"
	provenKey   = "proven"
	outcomesKey = "outcomes"
)

// plantedPart measures how soon harmful advice is found. Bullets with a known effect are learned like all others.
var plantedPart = worldPart{
	name: "planted", title: "bullets with a known effect, learned like all others; applicable outcomes until the bullet is retired, replaced or proven, undecided ones at the limit",
	arms: armNames(func(a *worldArm) bool { return a.learns() && !a.wrong }), tasks: 600, quick: 200,
	columns: []column{
		{retiredKey, "retired", percentInterval},
		{replacedKey, "replaced", percent},
		{provenKey, "proven", percentInterval},
		{refusedKey, "refused", percent},
		{outcomesKey, "outcomes", median},
		{"withheld_share", "withheld", percent},
		{"accuracy_shown", "right", percent},
	},
	run: runPlanted, goals: plantedGoals,
}

const refusedKey = "refused"

// plantedCase is one kind of planted bullet. The two kinds without an effect are controls, and so is +50.
type plantedCase struct {
	label string
	effects.Bullet
}

var plantedCases = []plantedCase{
	{"-50 points", effects.Bullet{Base: 0.7, Effect: -0.5}},
	{"-10 points", effects.Bullet{Base: 0.7, Effect: -0.1}},
	{"no effect, never cited", effects.Bullet{Base: 0.7}},
	{"no effect, always cited", effects.Bullet{Base: 0.7, Cited: true}},
	{"+10 points", effects.Bullet{Base: 0.7, Effect: 0.1}},
	{"+50 points", effects.Bullet{Base: 0.4, Effect: 0.5}},
}

// plantedBullet is a bullet under observation.
type plantedBullet struct {
	*plantedCase
	effects.Bullet
	id       book.BulletID
	isKnown  bool // it is or was in the playbook
	outcomes int
	withheld int
	right    int // outcomes with the bullet in the prompt that are right
	state    string
}

// isProven reports whether the product has decided that a bullet helps.
func isProven(b *book.Bullet) bool {
	return b.Shown() && b.CurrentExperiment().Standing == book.StandingProven
}

// runPlanted learns a playbook with the default gate, sets the gate of the arm, plants bullets, and counts the outcomes of the
// tasks that each one applies to. All arms begin with a learned playbook.
func runPlanted(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) (points []*point, err error) {
	inner, err := b.open(r)
	if err != nil {
		return nil, err
	}
	w := effects.New(inner, r.seed)
	arm := *r.arm
	arm.gate = ""
	c, err := openClassroom(ctx, w, &worldRun{world: r.world, arm: &arm, seed: r.seed}, b, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.learn(ctx, b.tasks); err != nil {
		return nil, err
	}
	if err := c.setGate(ctx, r.arm.gate); err != nil {
		return nil, err
	}
	all, err := c.plant(ctx, w)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("plant bullets: the playbook states no rule after %d tasks", b.tasks)
	}
	if err := c.observe(ctx, w, all); err != nil {
		return nil, err
	}
	for _, p := range all {
		v := map[string]float64{retiredKey: 0, replacedKey: 0, provenKey: 0, refusedKey: 0, outcomesKey: float64(p.outcomes)}
		if p.state == "" {
			v[outcomesKey] = float64(b.outcomes)
		} else {
			v[p.state] = 1
		}
		if p.state == refusedKey {
			delete(v, outcomesKey)
		}
		if p.outcomes > 0 {
			v["withheld_share"] = float64(p.withheld) / float64(p.outcomes)
		}
		if shown := p.outcomes - p.withheld; shown > 0 {
			v["accuracy_shown"] = float64(p.right) / float64(shown)
		}
		points = append(points, &point{label: p.label, tasks: c.done, values: v})
	}
	slices.SortStableFunc(points, func(x, y *point) int { return caseIndex(x.label) - caseIndex(y.label) })
	return points, nil
}

func caseIndex(label string) int {
	return slices.IndexFunc(plantedCases, func(c plantedCase) bool { return c.label == label })
}

// maxPlanted is the maximum number of planted bullets of each kind.
const maxPlanted = 4

// plant makes the roles learn the bullets: each one from a failed execution. A bullet alters a rule that the playbook states.
func (c *classroom) plant(ctx context.Context, w *effects.World) ([]*plantedBullet, error) {
	p, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	phase := c.phase(c.done)
	// The tasks after the last one are of the same phase, except in a drifting world.
	tasks := w.Train(c.done + 2000)[c.done:]
	var all []*plantedBullet
	for _, rule := range statedRules(c, p, tasks, phase) {
		if len(all) == maxPlanted*len(plantedCases) {
			break
		}
		at := slices.IndexFunc(tasks, func(t worlds.Task) bool {
			return slices.Contains(t.Deciding, rule) && !c.world.Verdict(t, c.world.Attempt(t, "")).Right
		})
		if at < 0 {
			continue
		}
		k := &plantedCases[len(all)%len(plantedCases)]
		b := &plantedBullet{plantedCase: k, Bullet: k.Bullet}
		b.Rule, b.Text = rule, w.Alter(phase, rule, uint64(c.seed)+uint64(rule))
		t := tasks[at]
		t.ID = fmt.Sprintf("plant-%d", rule)
		w.Plant(b.Bullet, t.Question)
		all = append(all, b)
		// An agent without bullets fails, and the Reflector learns the planted bullet.
		a := w.World.Attempt(t, "")
		v := w.Verdict(t, a)
		if _, err := c.agent.Report(ctx, &events.Report{
			Book: classroomBook, RunID: t.ID, Question: t.Question, Context: t.Context, Reasoning: a.Reasoning, Answer: a.Answer,
			Model: w.Name(), Purpose: events.Learn, Outcome: outcomeOf(v),
		}); err != nil {
			return nil, fmt.Errorf("report task %s: %w", t.ID, err)
		}
	}
	if err := c.runner.WaitIdle(ctx, events.RoleReflector, events.RoleCurator); err != nil {
		return nil, err
	}
	return all, c.update(ctx, all)
}

// statedRules returns the rules that decide tasks and that an active bullet states, the most frequent first.
func statedRules(c *classroom, p *book.Playbook, tasks []worlds.Task, phase int) []int {
	frequency := make(map[int]int)
	for i := range tasks {
		for _, rule := range tasks[i].Deciding {
			frequency[rule]++
		}
	}
	var out []int
	for rule := range frequency {
		for b := range p.All() {
			if b.Shown() && c.isStatement(b.Content, phase, rule) {
				out = append(out, rule)
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b int) int {
		if frequency[a] != frequency[b] {
			return frequency[b] - frequency[a]
		}
		return a - b
	})
	return out
}

// count counts the outcome of a task that the bullet applies to.
func (b *plantedBullet) count(a *answered) {
	b.outcomes++
	isShown := slices.ContainsFunc(prompt.Bullets(a.system), func(in prompt.Bullet) bool { return in.Text == b.Text })
	switch {
	case !isShown:
		b.withheld++
	case a.outcome.Label == events.Success:
		b.right++
	}
}

// update reads the states of the planted bullets that are undecided.
func (c *classroom) update(ctx context.Context, all []*plantedBullet) error {
	p, err := c.read(ctx)
	if err != nil {
		return err
	}
	for _, b := range all {
		if b.state != "" {
			continue
		}
		if !b.isKnown {
			found := p.FindByContent(b.Text)
			if found == nil {
				b.state = refusedKey
				continue
			}
			b.id, b.isKnown = found.ID, true
			if found.Status == book.Candidate { // it contradicts a supported bullet, and waits for a confirmation
				b.state = refusedKey
				continue
			}
		}
		switch now := p.Bullet(b.id); {
		case now == nil || now.Content != b.Text:
			b.state = replacedKey
		case !now.Shown() && now.Status != book.Probation: // a suspended bullet waits as a candidate
			b.state = retiredKey
		case isProven(now):
			b.state = provenKey
		}
	}
	return nil
}

// outcomesPerStep is the largest number of outcomes of a bullet between two looks at its state.
const outcomesPerStep = 3

// observe lets the agent answer tasks that an undecided bullet applies to, until all are decided or have their outcomes.
// After the last task it starts again with the first, under another id.
func (c *classroom) observe(ctx context.Context, w *effects.World, all []*plantedBullet) error {
	tasks := w.Train(c.done + 4000)[c.done:]
	phase := tasks[0].Phase
	tasks = slices.DeleteFunc(tasks, func(t worlds.Task) bool { return t.Phase != phase || w.Applicable(t) < 0 })
	isOpen := func(b *plantedBullet) bool { return b.state == "" && b.outcomes < c.bench.outcomes }
	for pass := 0; slices.ContainsFunc(all, isOpen); pass++ {
		progress := false
		for next := 0; next < len(tasks); {
			var step []worlds.Task
			planned := make(map[int]int)
			for ; next < len(tasks); next++ {
				at := w.Applicable(tasks[next])
				if planned[at] == outcomesPerStep {
					break
				}
				if b := all[at]; isOpen(b) && b.outcomes+planned[at] < c.bench.outcomes {
					t := tasks[next]
					t.ID = fmt.Sprintf("pass-%d/%s", pass, t.ID)
					step = append(step, t)
					planned[at]++
				}
			}
			if len(step) == 0 {
				continue
			}
			progress = true
			done, err := c.step(ctx, step)
			if err != nil {
				return err
			}
			for i := range done {
				all[w.Applicable(step[i])].count(&done[i])
			}
			if err := c.update(ctx, all); err != nil {
				return err
			}
		}
		if !progress {
			return nil // no task left for the open ones
		}
	}
	return nil
}

func plantedGoals(t *table.Table, rows []worldRow) {
	for i := range rows {
		r := &rows[i]
		if r.Arm != string(defaultGate) {
			continue
		}
		name, retired, proven := r.World+", "+r.Case+": ", r.Values[retiredKey], r.Values[provenKey]
		gone := retired.Mean + r.Values[replacedKey].Mean
		switch r.Case {
		case "-50 points":
			t.Goal(gone > 0.5 && r.Values[outcomesKey].Mean <= 40, name+"retired within 40 outcomes (median)", "%.0f", r.Values[outcomesKey].Mean)
		case "-10 points":
			t.Goal(gone >= 0.95, name+"at least 95 % retired", "%.1f %%", 100*gone)
		case "+10 points", "+50 points":
			t.Goal(retired.Mean <= 0.02, name+"at most 2 % retired", "%.1f %%", 100*retired.Mean)
		default:
			t.Goal(proven.Mean <= 0.05, name+"at most 5 % proven", "%.1f %%", 100*proven.Mean)
		}
	}
}
