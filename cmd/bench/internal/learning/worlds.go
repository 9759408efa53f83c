package learning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/stats"
	"debrief/cmd/internal/worlds"

	book "debrief/playbook"
)

// worldArm is one configuration of feedback, gate and prompt. All arms learn from the same tasks.
type worldArm struct {
	name    string
	gate    book.Gate // empty is the default
	wrong   bool      // a share of the verdicts is wrong
	showAll bool      // the prompt contains all bullets
	isFixed bool      // the playbook does not learn
	// bullets returns bullets to import for a phase; nil imports none.
	bullets func(w worlds.World, phase int) []string
}

// controlBullets is the number of bullets in the arms with useless advice.
const controlBullets = 40

// worldArms lists the arms in the order of the output. The others are compared with the first.
var worldArms = []worldArm{
	{name: "off", gate: book.GateOff},
	{name: "default"},
	{name: "on", gate: book.GateOn},
	{name: "off-wrong", gate: book.GateOff, wrong: true},
	{name: "default-wrong", wrong: true},
	{name: "on-wrong", gate: book.GateOn, wrong: true},
	{name: "all-shown", gate: book.GateOff, showAll: true},
	{name: "by-hand", isFixed: true, bullets: worlds.World.ByHand},
	{name: "ceiling", isFixed: true, showAll: true, bullets: worlds.World.ByHand},
	{name: "platitudes", isFixed: true, bullets: func(w worlds.World, _ int) []string { return w.Platitudes(controlBullets) }},
	{name: "nonsense", isFixed: true, bullets: func(w worlds.World, _ int) []string { return w.Nonsense(controlBullets) }},
	{name: "none", isFixed: true},
}

func worldArmNames() []string {
	names := make([]string, len(worldArms))
	for i := range worldArms {
		names[i] = worldArms[i].name
	}
	return names
}

// worldsBench measures learning in simulated worlds, with the configuration that a user gets.
type worldsBench struct {
	worlds, arms          []string
	seeds, tasks, heldOut int
	wrong                 float64
	embeddings            bool
	parallel              int // runs at the same time
	// remote lists the worlds whose agent uses the HTTP API, and reports the outcome of a task only after it has answered
	// later tasks.
	remote []string
	say    func(format string, args ...any)
}

// checkpoints returns the numbers of training tasks after which the held-out tasks are evaluated.
func (b *worldsBench) checkpoints() []int {
	var out []int
	for _, n := range []int{0, 100, 300, 600, 1000, 1500, 1800, 3000, 6000} {
		if n < b.tasks {
			out = append(out, n)
		}
	}
	return append(out, b.tasks)
}

// worldRun is one arm with one seed in one world.
type worldRun struct {
	world  string
	arm    *worldArm
	seed   uint64
	points []*worldPoint
}

// worldRow is one arm at one checkpoint.
type worldRow struct {
	Part        string         `json:"part"`
	World       string         `json:"world"`
	Arm         string         `json:"arm"`
	Tasks       int            `json:"tasks"`
	Seeds       int            `json:"seeds"`
	Accuracy    stats.Estimate `json:"held_out_accuracy"`
	Against     stats.Estimate `json:"against_first_arm"` // paired by seed
	Bullets     float64        `json:"bullets"`
	Active      float64        `json:"active_bullets"`
	Shown       float64        `json:"bullets_in_prompt"`
	Tokens      float64        `json:"prompt_tokens"`
	Calls       float64        `json:"model_calls_per_task"`  // the agent's call included
	ModelTokens float64        `json:"model_tokens_per_task"` // of the Reflector and the Curator
	Stated      jsonShare      `json:"deciding_rules_stated"`
	Deciding    jsonShare      `json:"stated_deciding_rules_in_prompt"`
	Changed     jsonShare      `json:"accuracy_on_changed_rules"`
	DeadLetters float64        `json:"dead_letters"`
}

// run measures all worlds, arms and seeds. It returns one row for each world, arm and checkpoint.
func (b *worldsBench) run(ctx context.Context, log zerolog.Logger) ([]worldRow, error) {
	var runs []*worldRun
	for _, w := range b.worlds {
		for seed := range b.seeds {
			for i := range worldArms {
				if slices.Contains(b.arms, worldArms[i].name) {
					runs = append(runs, &worldRun{world: w, arm: &worldArms[i], seed: uint64(seed + 1)})
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, len(runs))
	free := make(chan struct{}, b.parallel)
	for i, r := range runs {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if ctx.Err() != nil {
				return
			}
			if errs[i] = b.runOne(ctx, r, log); errs[i] != nil {
				errs[i] = fmt.Errorf("world %s, arm %s, seed %d: %w", r.world, r.arm.name, r.seed, errs[i])
				cancel()
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b.rows(runs), nil
}

// runOne trains and evaluates one arm.
func (b *worldsBench) runOne(ctx context.Context, r *worldRun, log zerolog.Logger) (err error) {
	began := time.Now()
	w, err := worlds.New(r.world, r.seed, worlds.Default())
	if err != nil {
		return err
	}
	c, err := openClassroom(ctx, w, r.arm, r.seed, b, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	points := b.checkpoints()
	if r.arm.isFixed {
		points = points[:1]
	}
	line := ""
	for _, n := range points {
		if err := c.learn(ctx, n); err != nil {
			return err
		}
		p, err := c.evaluate(ctx, b)
		if err != nil {
			return err
		}
		r.points = append(r.points, p)
		line += fmt.Sprintf(" %d: %.3f", n, p.accuracy)
	}
	b.say("worlds: %s, %s, seed %d: %s (%.0f s)", r.world, r.arm.name, r.seed, strings.TrimSpace(line), time.Since(began).Seconds())
	return nil
}

// rows averages the runs over the seeds.
func (b *worldsBench) rows(runs []*worldRun) []worldRow {
	var out []worldRow
	for _, w := range b.worlds {
		var first []*worldRun
		for i := range worldArms {
			var mine []*worldRun
			for _, r := range runs {
				if r.world == w && r.arm == &worldArms[i] {
					mine = append(mine, r)
				}
			}
			if len(mine) == 0 {
				continue
			}
			if first == nil {
				first = mine
			}
			for at := range mine[0].points {
				out = append(out, b.row(mine, first, at))
			}
		}
	}
	return out
}

// row averages one checkpoint over the seeds. A fixed arm is compared with the last checkpoint of the first arm.
func (b *worldsBench) row(mine, first []*worldRun, at int) worldRow {
	mean := func(field func(*worldPoint) float64) float64 {
		return stats.Mean(valuesOf(mine, at, field)).Mean
	}
	accuracy := func(p *worldPoint) float64 { return p.accuracy }
	against := at
	if mine[0].arm.isFixed {
		against = len(first[0].points) - 1
	}
	scores := valuesOf(mine, at, accuracy)
	return worldRow{
		Part: "worlds", World: mine[0].world, Arm: mine[0].arm.name, Tasks: mine[0].points[at].tasks, Seeds: len(mine),
		Accuracy: stats.Mean(scores), Against: stats.Mean(stats.Differences(scores, valuesOf(first, min(against, len(first[0].points)-1), accuracy))),
		Bullets: mean(func(p *worldPoint) float64 { return p.bullets }), Active: mean(func(p *worldPoint) float64 { return p.active }),
		Shown: mean(func(p *worldPoint) float64 { return p.shown }), Tokens: mean(func(p *worldPoint) float64 { return p.tokens }),
		Calls: mean(func(p *worldPoint) float64 { return p.calls }), ModelTokens: mean(func(p *worldPoint) float64 { return p.modelTokens }),
		Stated: jsonShare(mean(func(p *worldPoint) float64 { return p.stated })), Deciding: jsonShare(mean(func(p *worldPoint) float64 { return p.deciding })),
		Changed:     jsonShare(mean(func(p *worldPoint) float64 { return p.changed })),
		DeadLetters: mean(func(p *worldPoint) float64 { return p.deadLetters }),
	}
}

func valuesOf(runs []*worldRun, at int, field func(*worldPoint) float64) []float64 {
	out := make([]float64, len(runs))
	for i, r := range runs {
		out[i] = field(r.points[at])
	}
	return out
}

// sheet returns the tables: the learning curves, and the state after the last task.
func (b *worldsBench) sheet(rows []worldRow) *table.Table {
	s := &table.Table{
		Title: fmt.Sprintf("Worlds: accuracy on %d held-out tasks, default configuration, %d seeds; %.0f %% of verdicts wrong in the arms -wrong",
			b.heldOut, b.seeds, 100*b.wrong),
		Head: "world\tarm\ttasks\taccuracy\t95 %\tagainst " + cmp.Or(b.firstArm(), "first") + "\t95 %\tbullets\tin use\tin prompt\ttokens\tcalls\tstated\tin prompt\tchanged\tdead\t",
	}
	for i := range rows {
		r := &rows[i]
		s.Row(*r, "%s\t%s\t%d\t%s\t%s\t%.0f\t%.0f\t%.1f\t%.0f\t%.2f\t%s\t%s\t%s\t%.1f\t", r.World, r.Arm, r.Tasks, estimate(r.Accuracy), estimate(r.Against),
			r.Bullets, r.Active, r.Shown, r.Tokens, r.Calls, shareText(r.Stated), shareText(r.Deciding), shareText(r.Changed), r.DeadLetters)
	}
	return s
}

func (b *worldsBench) firstArm() string {
	for i := range worldArms {
		if slices.Contains(b.arms, worldArms[i].name) {
			return worldArms[i].name
		}
	}
	return ""
}

// estimate formats a share with its interval. One seed has no interval.
func estimate(e stats.Estimate) string {
	if e.N < 2 {
		return fmt.Sprintf("%.1f %%\t", 100*e.Mean)
	}
	return e.Percent()
}

func shareText(s jsonShare) string {
	if s < 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*s)
}

// worlds runs the part of the command.
func (b *Bench) worlds(ctx context.Context, log zerolog.Logger) (*table.Table, error) {
	w := &worldsBench{
		worlds: b.Worlds, arms: b.Arms, seeds: cmp.Or(b.Seeds, 5), tasks: b.Tasks, heldOut: cmp.Or(b.HeldOut, 300), wrong: b.Wrong,
		embeddings: b.Embeddings, parallel: runtime.GOMAXPROCS(0), say: b.say,
		remote: []string{"tools"},
	}
	if len(w.worlds) == 0 {
		w.worlds = worlds.Names()
	}
	if len(w.arms) == 0 {
		w.arms = worldArmNames()
	}
	if b.Quick {
		w.seeds = min(w.seeds, 2)
		w.tasks, w.heldOut = min(w.tasks, 300), min(w.heldOut, 100)
	}
	rows, err := w.run(ctx, log)
	if err != nil {
		return nil, err
	}
	return w.sheet(rows), nil
}
