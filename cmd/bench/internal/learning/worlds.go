package learning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/proxy"
	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/curator"

	book "debrief/playbook"
)

// worldArm is one configuration of feedback, gate, prompt and model. All arms learn from the same tasks.
type worldArm struct {
	name    string
	gate    book.Gate  // empty is the default
	wrong   bool       // a share of the verdicts is wrong
	judge   bool       // the verdicts are of a judge, a model whose share of errors Debrief knows
	showAll bool       // the prompt contains all bullets
	isFixed bool       // the playbook does not learn
	broken  float64    // share of broken replies of the models, each call independently
	forgets bool       // the lessons of the models leave out the scope of a rule
	late    int        // number of tasks after which an outcome is reported, out of order
	gateway proxy.Mode // of the gateway through which the agent calls its model; empty without a gateway
	// The fields below are only for arms with a gateway.
	inferred bool    // the agent reports only a share of the outcomes, and the gateway infers the others
	reported float64 // this share
	skilled  bool    // the agent's own system prompt states every second rule, so that wrong advice can make it worse
	// bullets returns bullets to import for a phase; nil imports none.
	bullets func(w worlds.World, phase int) []string
}

// gates lists the modes of the gate, from the weakest to the strictest. Arms take their names from it.
var gates = []book.Gate{book.GateOff, book.GateGuard, book.GateStrict}

// defaultGate is the mode that a user gets.
var defaultGate = curator.Config{}.WithDefaults().GateMode

// brokenRates are the shares of broken replies.
var brokenRates = []float64{0.1, 0.3, 0.6}

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
		worldArm{name: "none", isFixed: true},
	)
	for _, rate := range brokenRates {
		all = append(all, worldArm{name: brokenArm(rate), broken: rate})
	}
	all = append(all,
		worldArm{name: "perfect", bullets: worlds.World.ByHand},
		worldArm{name: "perfect-wrong", bullets: worlds.World.ByHand, wrong: true},
		worldArm{name: "forgetful", forgets: true},
		worldArm{name: "late", late: 200},
		worldArm{name: "judge", wrong: true, judge: true},
	)
	return append(all,
		worldArm{name: gatewayArm, gateway: proxy.ModeTail},
		worldArm{name: mixedArm, gateway: proxy.ModeTail, inferred: true, reported: 0.2},
		worldArm{name: skilledArm, gateway: proxy.ModeTail, inferred: true, skilled: true},
		worldArm{name: observeArm, gateway: proxy.ModeObserve, inferred: true, skilled: true},
	)
}

// The arms whose agent is unchanged and makes calls of a model through the gateway.
const (
	gatewayArm = "gateway"                  // reports outcomes by the ids of responses
	mixedArm   = "gateway-mixed"            // reports one task of five
	skilledArm = "gateway-inferred-skilled" // reports nothing, and knows half of the rules
	observeArm = "gateway-observe-skilled"  // the same, and the gateway adds nothing
)

// brokenPrefix begins the names of the arms with broken replies of the models.
const brokenPrefix = "broken-"

func brokenArm(rate float64) string { return fmt.Sprintf("%s%.0f", brokenPrefix, 100*rate) }

// armNames returns the names of the arms for which accept returns true.
func armNames(accept func(*worldArm) bool) []string {
	var names []string
	for i := range worldArms {
		if accept(&worldArms[i]) {
			names = append(names, worldArms[i].name)
		}
	}
	return names
}

func anyArm(*worldArm) bool { return true }

// isUsual reports whether the arm runs also if --arms does not name it.
func (a *worldArm) isUsual() bool {
	isSpecial := a.forgets || a.late > 0 || a.judge
	startsByHand := a.bullets != nil && !a.isFixed
	return a.broken == 0 && a.gateway == "" && !isSpecial && !startsByHand
}

// worldPart is one measurement in simulated worlds.
type worldPart struct {
	name, title string
	arms        []string            // default of --arms
	tasks       int                 // default of --tasks
	quick       int                 // maximum number of training tasks with --quick
	columns     []column            // the first one is compared between arms
	errors      worlds.Imperfection // of the simulated models
	// run measures one arm with one seed in one world.
	run func(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) ([]*point, error)
}

// worldsBench configures the measurements in simulated worlds, with the configuration that a user gets.
type worldsBench struct {
	part                  *worldPart
	worlds, arms          []string
	against               string // arm
	seeds, tasks, heldOut int
	distractors           []int
	wrong                 float64             // share of wrong verdicts in the arms with wrong feedback
	errors                worlds.Imperfection // of the simulated models
	parallel              int                 // runs at the same time
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
			points, err := b.part.run(ctx, b, r, log)
			if err != nil {
				errs[i] = fmt.Errorf("world %s, arm %s, seed %d: %w", r.world, r.arm.name, r.seed, err)
				cancel()
				return
			}
			r.points = points
			b.say("%s: run %d of %d: %s, %s, seed %d (%.0f s)", b.part.name, i+1, len(runs), r.world, r.arm.name, r.seed, time.Since(began).Seconds())
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b.rows(runs), nil
}

// supports reports whether a world has an agent for an arm: arms with a gateway need an agent with tools.
func (b *worldsBench) supports(world string, a *worldArm) bool {
	if a.gateway == "" {
		return true
	}
	w, err := worlds.New(world, 1, b.errors)
	_, hasTools := w.(worlds.Caller)
	return hasTools || err != nil // openClassroom reports the error
}

// runCurve trains one arm and evaluates it at checkpoints.
func runCurve(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) (points []*point, err error) {
	if r.arm.broken > 0 {
		log = log.Level(zerolog.ErrorLevel) // the roles log each broken reply as a warning
	}
	c, err := openClassroom(ctx, r, b, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	tasks := checkpoints(b.tasks, r.world == text.Drifting)
	if r.arm.isFixed {
		tasks = tasks[:1]
	}
	for _, n := range tasks {
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
func checkpoints(tasks int, drifts bool) []int {
	all := []int{0, 100, 300, 600, 1000, 1500, 3000, 6000}
	if drifts {
		for _, n := range []int{100, 200, 300, 600} {
			all = append(all, text.ChangeAfter+n)
		}
	}
	all = slices.DeleteFunc(all, func(n int) bool { return n >= tasks })
	slices.Sort(all)
	return append(all, tasks)
}

// describeErrors describes the error rates of the simulated models.
func describeErrors(e worlds.Imperfection) string {
	return fmt.Sprintf("simulated Reflector and Curator: %.0f %% wrong generalisations, %.0f %% platitudes, %.0f %% idle, %.0f %% wrong tags, "+
		"%.0f %% unknown ids, %.0f %% broken JSON, %.0f %% duplicates, %.0f %% paraphrases",
		100*e.WrongGeneralisation, 100*e.Platitude, 100*e.Idle, 100*e.WrongTag, 100*e.UnknownID, 100*e.BrokenJSON, 100*e.Duplicate, 100*e.Paraphrase)
}

// worldParts lists the measurements in simulated worlds, in the order of the output.
var worldParts = []*worldPart{&curvesPart, &distractorsPart}

// curvesPart measures the accuracy by the number of training tasks.
var curvesPart = worldPart{
	name: "worlds", title: "accuracy on held-out tasks", arms: armNames((*worldArm).isUsual),
	tasks: 6000, quick: 300,
	columns: []column{
		{accuracyKey, "accuracy", percentInterval},
		{"bullets", "bullets", count},
		{"active_bullets", "in use", count},
		{"bullets_in_prompt", "in prompt", number1},
		{"prompt_tokens", "tokens", count},
		{prefixKey, "shared prefix", percent},
		{callsKey, "calls", number2}, // one of the agent, and those of the Reflector and the Curator
		{"reflector_calls_per_task", "of the Reflector", number2},
		{"model_tokens_per_task", "model tokens", count},
		{"deciding_rules_stated", "rules stated", percent},
		{decidingKey, "in prompt", percent},
		{changedKey, "changed", percent},
		{deadKey, "dead", number1},
		{trainedKey, "in training", percent},
		{leastKey, "least gain", lowest},
		{"calls_without_advice", "no advice", percent},
	},
	errors: worlds.Default(), run: runCurve,
}

// runsPerCore is the number of runs at the same time on each core. A run waits most of the time: the Curator collects
// reflections for a quarter of a second, and writes are synchronous.
const runsPerCore = 4

// inWorlds runs one part of the command.
func (b *Bench) inWorlds(ctx context.Context, p *worldPart, log zerolog.Logger) (*Table, error) {
	w := &worldsBench{
		part: p, worlds: b.Worlds, arms: b.Arms, against: b.Against, seeds: b.Seeds, tasks: cmp.Or(b.Tasks, p.tasks),
		heldOut: b.HeldOut, distractors: b.Distractors, wrong: b.Wrong, errors: p.errors,
		parallel: cmp.Or(b.Parallel, runsPerCore*runtime.GOMAXPROCS(0)), say: b.say, remote: []string{"tools"},
	}
	if len(w.worlds) == 0 {
		// Until its rules change, the drifting world equals the world text.
		w.worlds = slices.DeleteFunc(worlds.Names(), func(name string) bool { return name == text.Drifting && w.tasks <= text.ChangeAfter })
	}
	if len(w.arms) == 0 {
		w.arms = p.arms
	}
	if w.against != "" && !slices.Contains(w.arms, w.against) {
		w.arms = append(slices.Clone(w.arms), w.against)
	}
	if b.Quick {
		w.seeds = min(w.seeds, 2)
		w.tasks, w.heldOut = min(w.tasks, p.quick), min(w.heldOut, 100)
	}
	rows, err := w.run(ctx, log)
	if err != nil {
		return nil, err
	}
	return w.table(rows), nil
}
