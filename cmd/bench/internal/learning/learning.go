// Package learning measures the quality of learning in simulated worlds, with controls, and of the parts that learn: the
// gate, the Curator and the trust in sources.
package learning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/worlds"
)

// Bench measures the quality of learning.
type Bench struct {
	Seeds   int      `help:"Number of seeds, each with different rules and tasks; 0: 5 for worlds, 20 for the other parts." default:"0"`
	HeldOut int      `help:"Held-out tasks of each seed, never learned from; 0: 300 for worlds, 500 for the other parts." default:"0"`
	Train   int      `help:"Training tasks of each seed. With 1 wrong outcome in 5, a gate needs thousands for 21 rules." default:"16000"`
	Passes  int      `help:"Passes over the training tasks." default:"1"`
	Step    int      `help:"Tasks answered with one version of the playbook." default:"200"`
	Wrong   float64  `help:"Share of wrong outcomes in the arms with wrong feedback." default:"0.2"`
	Parts   []string `help:"Measurements: ${enum}." enum:"worlds,feedback,gate,retention,growth,cost,trust" default:"worlds,feedback,gate,retention,growth,cost,trust"`
	Worlds  []string `help:"Simulated worlds of the part worlds; default: all." placeholder:"WORLD"`
	Arms    []string `help:"Arms of the part worlds: off, default, on, off-wrong, default-wrong, on-wrong, all-shown, by-hand, ceiling, platitudes, nonsense, none; default: all." placeholder:"ARM"`
	Tasks   int      `help:"Training tasks of each seed in the part worlds." default:"6000"`

	Embeddings bool `help:"Find bullets by the embeddings of the world in the part worlds. The default is words."`
	Quick      bool `help:"Use few seeds and tasks: one minute, wide intervals, the same goals."`
	Check      bool `help:"Fail if a goal is missed."`
	JSON       bool `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*Bench) Help() string {
	return `Everything runs in this process, with the embedded server and the simulated model of an invoice desk with hidden rules. An
external agent answers the training tasks. Its evaluator is wrong at a given rate.

  worlds     accuracy on held-out tasks of several simulated worlds, with the default configuration of 'debrief up'
  feedback   accuracy on held-out tasks after clean and after wrong feedback, by the mode of the gate; seeds are paired
  gate       the gate alone: bullets with a known effect, outcomes drawn directly
  retention  distinct lessons kept of 100 reflections, by batch size, with a model that uses 24 of them in one call
  growth     size of the playbook and of the prompt with more tasks of one family
  cost       model calls and tokens per sample, compared with a sequential loop of generating, reflecting and curating
  trust      operations from transcripts that give orders or repeat the playbook; the model is gullible

Intervals are 95 % over seeds, by Student's t. The part worlds takes hours with all worlds, arms and tasks, the others about ten
minutes for every five seeds, on two cores. --quick takes a few minutes. It trains too briefly for the gate, so that goal is missed.`
}

// part is one of the measurements.
type part struct {
	name string
	run  func(*Bench, context.Context, zerolog.Logger) (*table.Table, error)
}

// learningParts lists the measurements in the order of the output.
var learningParts = []part{
	{"worlds", (*Bench).worlds},
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
		{"tasks", b.Tasks, 1, 1_000_000},
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
	for _, a := range b.Arms {
		if !slices.Contains(worldArmNames(), a) {
			errs = append(errs, fmt.Errorf("--arms: unknown arm %q, must be one of %s", a, strings.Join(worldArmNames(), ", ")))
		}
	}
	if !(b.Wrong >= 0 && b.Wrong <= 1) {
		errs = append(errs, fmt.Errorf("--wrong: must be between 0 and 1, got %v", b.Wrong))
	}
	return errors.Join(errs...)
}

// Run implements the command.
func (b *Bench) Run(ctx context.Context, c *app.Common) error {
	inWorlds := *b // has other defaults
	b.Seeds, b.HeldOut = cmp.Or(b.Seeds, 20), cmp.Or(b.HeldOut, 500)
	if b.Quick {
		b.Seeds, b.HeldOut, b.Train, b.Passes = min(b.Seeds, 3), min(b.HeldOut, 100), min(b.Train, 600), 1
	}
	var missed []string
	for _, p := range learningParts {
		if !slices.Contains(b.Parts, p.name) {
			continue
		}
		began := time.Now()
		of := b
		if p.name == "worlds" {
			of = &inWorlds
		}
		s, err := p.run(of, ctx, c.Logger())
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		b.say("%s: %.1f s", p.name, time.Since(began).Seconds())
		if err := s.Print(console.Stdout, b.JSON); err != nil {
			return err
		}
		for _, g := range s.Goals {
			if !g.Met {
				missed = append(missed, g.Goal)
			}
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
	rows, err := gateRows(ctx, b.Seeds, bullets)
	if err != nil {
		return nil, err
	}
	order, err := rankRows(ctx, b.Seeds, bullets)
	if err != nil {
		return nil, err
	}
	s := &table.Table{Text: func(w io.Writer) error { return tellGate(w, rows, order) }}
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
