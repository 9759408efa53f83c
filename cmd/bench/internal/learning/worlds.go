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
	"debrief/cmd/internal/gateway"
	"debrief/cmd/internal/worlds"
	"debrief/cmd/internal/worlds/world"

	book "debrief/playbook"
)

// worldArm is one configuration of feedback, gate, prompt and model. All arms learn from the same tasks.
type worldArm struct {
	name    string
	gate    book.Gate // empty is the default
	wrong   bool      // a share of the verdicts is wrong
	showAll bool      // the prompt contains all bullets
	isFixed bool      // the playbook does not learn
	broken  float64   // share of broken replies of the models
	// gateway is the mode of the gateway that the agent calls its model through; empty without a gateway. With inferred set, it reports
	// no outcomes. With skilled set, its system prompt states every second rule, so it has something to lose.
	gateway  gateway.Mode
	inferred bool
	skilled  bool
	// bullets returns bullets to import for a phase; nil imports none.
	bullets func(w worlds.World, phase int) []string
}

// controlBullets is the number of bullets in the arms with useless advice.
const controlBullets = 40

// brokenRates are the shares of broken replies.
var brokenRates = []float64{0, 0.1, 0.3, 0.6}

// worldArms lists the arms in the order of the output.
var worldArms = makeWorldArms()

func makeWorldArms() []worldArm {
	var all []worldArm
	for _, g := range gates {
		all = append(all, worldArm{name: string(g), gate: g})
	}
	for _, g := range gates {
		all = append(all, worldArm{name: string(g) + "-wrong", gate: g, wrong: true})
	}
	all = append(all,
		worldArm{name: "all-shown", gate: book.GateOff, showAll: true},
		worldArm{name: "by-hand", isFixed: true, bullets: worlds.World.ByHand},
		worldArm{name: "ceiling", isFixed: true, showAll: true, bullets: worlds.World.ByHand},
		worldArm{name: "platitudes", isFixed: true, bullets: func(w worlds.World, _ int) []string { return w.Platitudes(controlBullets) }},
		worldArm{name: "nonsense", isFixed: true, bullets: func(w worlds.World, _ int) []string { return w.Nonsense(controlBullets) }},
		worldArm{name: "none", isFixed: true},
	)
	for _, rate := range brokenRates {
		all = append(all, worldArm{name: brokenArm(rate), broken: rate})
	}
	return append(all,
		worldArm{name: gatewayArm, gateway: gateway.ModeTail},
		worldArm{name: inferredArm, gateway: gateway.ModeTail, inferred: true},
		worldArm{name: skilledArm, gateway: gateway.ModeTail, inferred: true, skilled: true},
		worldArm{name: observeArm, gateway: gateway.ModeObserve, inferred: true, skilled: true},
	)
}

// The arms whose agent is unchanged and makes calls of a model through the gateway.
const (
	gatewayArm  = "gateway"                  // reports outcomes by the ids of responses
	inferredArm = "gateway-inferred"         // reports nothing
	skilledArm  = "gateway-inferred-skilled" // reports nothing, and knows half of the rules
	observeArm  = "gateway-observe-skilled"  // the same, and the gateway adds nothing
)

func brokenArm(rate float64) string { return fmt.Sprintf("broken-%.0f", 100*rate) }

// armNames returns the names of the arms for which is returns true.
func armNames(is func(*worldArm) bool) []string {
	var names []string
	for i := range worldArms {
		if is(&worldArms[i]) {
			names = append(names, worldArms[i].name)
		}
	}
	return names
}

func anyArm(*worldArm) bool { return true }

// learns reports whether an arm differs from the default at most in its gate and its feedback.
func (a *worldArm) learns() bool {
	return !a.isFixed && !a.showAll && a.gateway == "" && !strings.HasPrefix(a.name, "broken-")
}

// worldPart is one measurement in simulated worlds.
type worldPart struct {
	name, title string
	worlds      []string // that it is about; nil for all
	arms        []string // without --arms
	tasks       int      // training tasks without --tasks
	quick       int      // training tasks at most, with --quick
	columns     []column // the first one is compared
	// errors returns the error rates of the simulated models; nil selects the default ones.
	errors func() worlds.Imperfection
	// run measures one arm with one seed in one world.
	run func(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) ([]*point, error)
	// withFirst compares each point with the first one of its run, in place of the point of the arm --against.
	withFirst bool
	goals     func(t *table.Table, rows []worldRow) // nil for none
}

// errorRates returns the error rates of the simulated models.
func (p *worldPart) errorRates() worlds.Imperfection {
	if p.errors != nil {
		return p.errors()
	}
	return worlds.Default()
}

// worldsBench configures the measurements in simulated worlds, with the configuration that a user gets.
type worldsBench struct {
	part                  *worldPart
	worlds, arms          []string
	against               string // arm
	seeds, tasks, heldOut int
	outcomes              int // of a planted bullet at most
	distractors           []int
	wrong                 float64
	errors                worlds.Imperfection
	embeddings            bool
	quick                 bool
	parallel              int // runs at the same time
	// remote lists the worlds whose agent uses the HTTP API, and reports the outcome of a task only after it has answered
	// later tasks.
	remote []string
	say    func(format string, args ...any)
}

// worldRun is one arm with one seed in one world. The runs share nothing.
type worldRun struct {
	world  string
	arm    *worldArm
	seed   uint64
	points []*point
}

// point is one evaluation: its values by the keys of columns. A value that is unknown is missing.
type point struct {
	label  string // of the case; empty if the number of tasks identifies it
	tasks  int
	values map[string]float64
}

// run measures all worlds, arms and seeds, and returns the averages over the seeds.
func (b *worldsBench) run(ctx context.Context, log zerolog.Logger) ([]worldRow, error) {
	var runs []*worldRun
	for _, w := range b.worlds {
		for seed := range b.seeds {
			for i := range worldArms {
				if slices.Contains(b.arms, worldArms[i].name) && b.supports(w, &worldArms[i]) {
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
			began := time.Now()
			if r.points, errs[i] = b.part.run(ctx, b, r, log); errs[i] != nil {
				errs[i] = fmt.Errorf("world %s, arm %s, seed %d: %w", r.world, r.arm.name, r.seed, errs[i])
				cancel()
				return
			}
			b.say("%s: run %d of %d: %s, %s, seed %d:%s (%.0f s)", b.part.name, i+1, len(runs), r.world, r.arm.name, r.seed, b.progress(r), time.Since(began).Seconds())
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b.rows(runs), nil
}

// supports reports whether a world has an agent for an arm. An agent without tools has nothing that a gateway could see.
func (b *worldsBench) supports(world string, a *worldArm) bool {
	w, err := worlds.New(world, 1, b.errors)
	_, calls := w.(worlds.Caller)
	return a.gateway == "" || calls || err != nil // openClassroom reports the error
}

// progress returns the first column of all points of a run. Points with one label are averaged.
func (b *worldsBench) progress(r *worldRun) string {
	var text strings.Builder
	for _, label := range labelsOf([]*worldRun{r}) {
		xs := valuesOf([]*worldRun{r}, label, b.part.columns[0].key)
		if len(xs) == 0 || len(text.String()) > 150 {
			continue
		}
		fmt.Fprintf(&text, " %s %s;", label, b.part.columns[0].text(xs))
	}
	return strings.TrimSuffix(text.String(), ";")
}

// open returns the world of a run.
func (b *worldsBench) open(r *worldRun) (worlds.World, error) {
	return worlds.New(r.world, r.seed, b.errors)
}

// classroom opens the classroom of a run in its world.
func (b *worldsBench) classroom(ctx context.Context, r *worldRun, log zerolog.Logger) (*classroom, error) {
	w, err := b.open(r)
	if err != nil {
		return nil, err
	}
	return openClassroom(ctx, w, r, b, log)
}

// curve trains one arm and evaluates it at checkpoints.
func (b *worldsBench) curve(ctx context.Context, r *worldRun, checkpoints []int, log zerolog.Logger) (points []*point, err error) {
	c, err := b.classroom(ctx, r, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if r.arm.isFixed {
		checkpoints = checkpoints[:1]
	}
	for _, n := range checkpoints {
		if err := c.learn(ctx, n); err != nil {
			return nil, err
		}
		p, err := c.evaluate(ctx)
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, nil
}

// checkpoints returns the numbers of training tasks after which the held-out tasks are evaluated.
func checkpoints(tasks int) []int {
	var out []int
	for _, n := range []int{0, 100, 300, 600, 1000, 1500, 1800, 3000, 6000} {
		if n < tasks {
			out = append(out, n)
		}
	}
	return append(out, tasks)
}

// describeErrors describes the error rates of the simulated models.
func describeErrors(e world.Imperfection) string {
	return fmt.Sprintf("simulated Reflector and Curator: %.0f %% wrong generalisations, %.0f %% platitudes, %.0f %% idle, %.0f %% wrong tags, "+
		"%.0f %% unknown ids, %.0f %% broken JSON, %.0f %% duplicates, %.0f %% paraphrases",
		100*e.WrongGeneralisation, 100*e.Platitude, 100*e.Idle, 100*e.WrongTag, 100*e.UnknownID, 100*e.BrokenJSON, 100*e.Duplicate, 100*e.Paraphrase)
}

// worldParts lists the measurements in simulated worlds, in the order of the output.
var worldParts = []*worldPart{&curvesPart, &distractorsPart, &plantedPart, &brokenPart, &refinePart, &driftPart, &cachePart}

// curvesPart measures the accuracy by the number of training tasks.
var curvesPart = worldPart{
	name: "worlds", title: "accuracy on held-out tasks", arms: armNames(func(a *worldArm) bool { return !strings.HasPrefix(a.name, "broken-") && a.gateway == "" }),
	tasks: 6000, quick: 300,
	columns: []column{
		{accuracyKey, "accuracy", percentInterval},
		{"bullets", "bullets", count},
		{"active_bullets", "in use", count},
		{"bullets_in_prompt", "in prompt", number1},
		{"prompt_tokens", "tokens", count},
		{"model_calls_per_task", "calls", number2},
		{"model_tokens_per_task", "model tokens", count},
		{"deciding_rules_stated", "rules stated", percent},
		{decidingKey, "in prompt", percent},
		{changedKey, "changed", percent},
		{"dead_letters", "dead", number1},
		{trainedKey, "in training", percent},
		{leastKey, "least gain", lowest},
		{"calls_without_advice", "no advice", percent},
	},
	run: func(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) ([]*point, error) {
		return b.curve(ctx, r, checkpoints(b.tasks), log)
	},
	goals: curveGoals,
}

// runsPerCore is the number of runs at the same time on each core. A run waits most of the time: the Curator collects
// reflections for a quarter of a second, and writes are synchronous.
const runsPerCore = 4

// inWorlds runs one part of the command.
func (b *Bench) inWorlds(ctx context.Context, p *worldPart, log zerolog.Logger) (*table.Table, error) {
	w := &worldsBench{
		part: p, worlds: b.Worlds, arms: b.Arms, against: b.Against, seeds: cmp.Or(b.Seeds, 5), tasks: cmp.Or(b.Tasks, p.tasks),
		heldOut: cmp.Or(b.HeldOut, 300), outcomes: b.Outcomes, distractors: b.Distractors, wrong: b.Wrong, errors: p.errorRates(),
		embeddings: b.Embeddings, quick: b.Quick, parallel: cmp.Or(b.Parallel, runsPerCore*runtime.GOMAXPROCS(0)), say: b.say, remote: []string{"tools"},
	}
	if len(w.worlds) == 0 {
		w.worlds = worlds.Names()
	}
	if p.worlds != nil {
		w.worlds = slices.DeleteFunc(slices.Clone(w.worlds), func(name string) bool { return !slices.Contains(p.worlds, name) })
	}
	if len(w.arms) == 0 {
		w.arms = p.arms
	}
	if w.against != "" && !slices.Contains(w.arms, w.against) {
		w.arms = append(slices.Clone(w.arms), w.against)
	}
	if b.Quick {
		w.seeds = min(w.seeds, 2)
		w.tasks, w.heldOut, w.outcomes = min(w.tasks, p.quick), min(w.heldOut, 100), min(w.outcomes, 60)
	}
	rows, err := w.run(ctx, log)
	if err != nil {
		return nil, err
	}
	return w.table(rows), nil
}
