// Package learning measures the quality of learning in simulated worlds, with controls, and of the parts that learn: the
// gate, the Curator and the trust in sources.
package learning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/gatebench"
	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/worlds"
)

// Bench measures the quality of learning.
type Bench struct {
	Seeds   int      `help:"Number of seeds, each with different rules and tasks. 0 means 5 in worlds and 20 in the other parts." default:"0"`
	HeldOut int      `help:"Held-out tasks of each seed, never learned from; 0: 300 in worlds, 500 for the other parts." default:"0"`
	Train   int      `help:"Training tasks of each seed. With 1 wrong outcome in 5, a gate needs thousands for 21 rules." default:"16000"`
	Passes  int      `help:"Passes over the training tasks." default:"1"`
	Step    int      `help:"Tasks answered with one version of the playbook." default:"200"`
	Wrong   float64  `help:"Share of wrong outcomes in the arms with wrong feedback." default:"0.2"`
	Parts   []string `help:"Measurements: ${enum}." enum:"worlds,distractors,planted,broken,refine,drift,cache,feedback,gate,retention,growth,cost,trust" default:"worlds,distractors,planted,broken,refine,drift,cache,feedback,gate,retention,growth,cost,trust"`
	Worlds  []string `help:"Simulated worlds; default: all." placeholder:"WORLD"`
	Arms    []string `help:"Arms in worlds; default: those of the part, see below." placeholder:"ARM"`
	Against string   `help:"Arm in worlds that the others are compared with; default: the first one." placeholder:"ARM"`
	Tasks   int      `help:"Training tasks of each seed in worlds; 0: 6000 for the part worlds, fewer for the others." default:"0"`

	Distractors []int `help:"Numbers of distractors in the part distractors." default:"0,2000,20000"`
	Parallel    int   `help:"Runs in worlds at the same time; 0: 4 for each core." default:"0"`
	Outcomes    int   `help:"Outcomes of a planted bullet at most." default:"1000"`

	Embeddings bool   `help:"Find bullets by the embeddings of the world. The default is words; the part distractors measures both."`
	Profile    string `help:"Write a CPU profile of all parts." type:"path" placeholder:"FILE"`
	Quick      bool   `help:"Use few seeds and tasks: one minute, wide intervals, the same goals."`
	Check      bool   `help:"Fail if a goal is missed."`
	JSON       bool   `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*Bench) Help() string {
	return `Everything runs in this process, with the embedded server and simulated models. Rules are hidden. An external agent answers
the training tasks. Its evaluator is wrong at a given rate.

In simulated worlds, with the default configuration of 'debrief up':

  worlds       accuracy on held-out tasks by the number of training tasks
  distractors  deciding rules in the prompt, among thousands of other bullets, with and without embeddings and evidence
  planted      outcomes until a bullet with a known effect is retired or proven
  broken       learning, dead letters, stalls and status with broken replies of the models
  refine       accuracy before and after 'debrief playbook refine --apply'
  drift        accuracy on the tasks of changed rules by the number of tasks after the change
  cache        share of each prompt that the previous prompt begins with; tokens and model calls

With the simulated invoice desk:

  feedback     accuracy on held-out tasks after clean and after wrong feedback, by the mode of the gate; seeds are paired
  gate         the gate alone: bullets with a known effect, outcomes drawn directly
  retention    distinct lessons kept of 100 reflections, by batch size, with a model that uses 24 of them in one call
  growth       size of the playbook and of the prompt with more tasks of one family
  cost         model calls and tokens per sample, compared with a sequential loop of generating, reflecting and curating
  trust        operations from transcripts that give orders or repeat the playbook; the model is gullible

Arms in worlds: ` + strings.Join(armNames(anyArm), ", ") + `.

The arms named gateway run in the world tools only, and if --arms names them: the agent knows just a base URL, and makes calls of a
model through the gateway.

Intervals are 95 % over seeds, by Student's t. The parts in worlds take hours with all worlds, arms and tasks, the others about ten
minutes for every five seeds, on two cores. --quick takes a few minutes. It trains too briefly for the gate, so that goal is missed.`
}

// part is one of the measurements.
type part struct {
	name string
	run  func(*Bench, context.Context, zerolog.Logger) (*table.Table, error)
}

// deskParts lists the measurements with the invoice desk, in the order of the output. They follow worldParts.
var deskParts = []part{
	{"feedback", (*Bench).feedback},
	{"gate", (*Bench).gate},
	{"retention", (*Bench).retention},
	{"growth", (*Bench).growth},
	{"cost", (*Bench).cost},
	{"trust", (*Bench).trust},
}

// Validate implements kong's check.
func (b *Bench) Validate() error {
	var errs []error
	for _, n := range []struct {
		flag             string
		got, least, most int
	}{
		{"seeds", cmp.Or(b.Seeds, 20), 2, 1000},
		{"held-out", cmp.Or(b.HeldOut, 500), 1, simulated.MaxHeldOutTasks},
		{"tasks", cmp.Or(b.Tasks, 1), 1, 1_000_000},
		{"parallel", cmp.Or(b.Parallel, 1), 1, 1000},
		{"outcomes", b.Outcomes, 1, 1_000_000},
		{"train", b.Train, 1, simulated.MaxTrainTasks},
		{"passes", b.Passes, 1, 1000},
		{"step", b.Step, 1, simulated.MaxTrainTasks},
	} {
		if n.got < n.least || n.got > n.most {
			errs = append(errs, fmt.Errorf("--%s: must be %d to %d, got %d", n.flag, n.least, n.most, n.got))
		}
	}
	for _, w := range b.Worlds {
		if !slices.Contains(worlds.Names(), w) {
			errs = append(errs, fmt.Errorf("--worlds: unknown world %q, must be one of %s", w, strings.Join(worlds.Names(), ", ")))
		}
	}
	arms := armNames(anyArm)
	for _, a := range b.Arms {
		if !slices.Contains(arms, a) {
			errs = append(errs, fmt.Errorf("--arms: unknown arm %q, must be one of %s", a, strings.Join(arms, ", ")))
		}
	}
	if b.Against != "" && !slices.Contains(arms, b.Against) {
		errs = append(errs, fmt.Errorf("--against: unknown arm %q, must be one of %s", b.Against, strings.Join(arms, ", ")))
	}
	for _, n := range b.Distractors {
		if n < 0 || n > 100_000 {
			errs = append(errs, fmt.Errorf("--distractors: must be 0 to 100000, got %d", n))
		}
	}
	if !(b.Wrong >= 0 && b.Wrong <= 1) {
		errs = append(errs, fmt.Errorf("--wrong: must be between 0 and 1, got %v", b.Wrong))
	}
	return errors.Join(errs...)
}

// Run implements the command.
func (b *Bench) Run(ctx context.Context, c *app.Common) error {
	if b.Profile != "" {
		out, err := os.Create(b.Profile)
		if err != nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--profile: %w", err))
		}
		defer out.Close()
		if err := pprof.StartCPUProfile(out); err != nil {
			return fmt.Errorf("--profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	var missed []string
	measure := func(name string, run func() (*table.Table, error)) error {
		if !slices.Contains(b.Parts, name) {
			return nil
		}
		began := time.Now()
		s, err := run()
		if err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
		b.say("%s: %.1f s", name, time.Since(began).Seconds())
		for _, g := range s.Goals {
			if !g.Met {
				missed = append(missed, g.Goal)
			}
		}
		return s.Print(console.Stdout, b.JSON)
	}
	for _, p := range worldParts {
		if err := measure(p.name, func() (*table.Table, error) { return b.inWorlds(ctx, p, c.Logger()) }); err != nil {
			return err
		}
	}
	b.Seeds, b.HeldOut = cmp.Or(b.Seeds, 20), cmp.Or(b.HeldOut, 500)
	if b.Quick {
		b.Seeds, b.HeldOut, b.Train, b.Passes = min(b.Seeds, 3), min(b.HeldOut, 100), min(b.Train, 600), 1
	}
	for _, p := range deskParts {
		if err := measure(p.name, func() (*table.Table, error) { return p.run(b, ctx, c.Logger()) }); err != nil {
			return err
		}
	}
	if b.Check && len(missed) > 0 {
		return app.Exit(app.ExitFailed, fmt.Errorf("missed: %s", strings.Join(missed, "; ")))
	}
	return nil
}

// gate measures the gate alone.
func (b *Bench) gate(ctx context.Context, _ zerolog.Logger) (*table.Table, error) {
	bullets := 100
	if b.Quick {
		bullets = 50
	}
	rows, err := gatebench.Decisions(ctx, b.Seeds, bullets, 10_000)
	if err != nil {
		return nil, err
	}
	order, err := gatebench.Ranks(ctx, b.Seeds, bullets)
	if err != nil {
		return nil, err
	}
	s := &table.Table{Text: func(w io.Writer) error { return gatebench.Print(w, rows, order) }}
	for i := range rows {
		s.Values = append(s.Values, rows[i])
		if strings.HasPrefix(rows[i].Goal, "(") {
			continue // printed with the others
		}
		s.Goals = append(s.Goals, table.Goal{
			Part: "gate", Goal: rows[i].Case + ": " + rows[i].Goal, Got: fmt.Sprintf("%.1f %%", 100*rows[i].Rate.Mean), Met: rows[i].Met,
		})
	}
	for i := range order {
		s.Values = append(s.Values, order[i])
	}
	return s, nil
}

// say prints the progress on standard error.
func (b *Bench) say(format string, args ...any) {
	console.Fprintf(console.Stderr, format+"\n", args...)
}
