package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/cmd/internal/simulated/worlds/tools"
)

// learningBench measures the quality of learning.
type learningBench struct {
	Seeds   int      `help:"Number of seeds, each with different rules and tasks." default:"5"`
	HeldOut int      `help:"Held-out tasks of each seed, never learned from." default:"300"`
	Parts   []string `help:"Measurements: ${enum}." enum:"worlds,distractors" default:"worlds,distractors"`
	Worlds  []string `help:"Simulated worlds; default: all." placeholder:"WORLD"`
	Arms    []string `help:"Arms in worlds; default: those of the part, see below." placeholder:"ARM"`
	Against string   `help:"Arm in worlds that the others are compared with; default: the first one." placeholder:"ARM"`
	Tasks   int      `help:"Training tasks of each seed in worlds; 0: 6000 for the part worlds, fewer for the others." default:"0"`

	Distractors []int `help:"Numbers of distractors in the part distractors." default:"0,2000,20000"`
	Parallel    int   `help:"Runs in worlds at the same time; 0: 4 for each core." default:"0"`

	Quick bool `help:"Use few seeds and tasks: a few minutes, wide intervals."`
	JSON  bool `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*learningBench) Help() string {
	return `Everything runs in this process, with the embedded server, simulated models and the default configuration of 'debrief up'.
Rules are hidden. An outside agent answers the tasks of a world.

  worlds       accuracy on held-out tasks by the number of training tasks, also on those of rules that change; what a task costs
  distractors  deciding rules in the prompt, among thousands of other bullets, with and without embeddings and evidence

Arms: ` + strings.Join(armNames(anyArm), ", ") + `.

Some arms run only if --arms names them: perfect (it learns on from rules by hand), votes-only (the same, but the Reflector only
votes), right-or-wrong (without scores between), forgetful (lessons leave out the scope of a rule), silent (70 % of tasks without an
outcome), judge (its share of wrong verdicts is known) and late (outcomes come about 200 tasks later, out of order). off-silent and
off-late are the same with the gate off.

Intervals are 95 % over seeds, by Student's t. All worlds, arms and tasks take hours on two cores, --quick takes a few minutes.`
}

// Validate implements kong's check.
func (b *learningBench) Validate() error {
	var errs []error
	for _, n := range []struct {
		flag             string
		got, least, most int
	}{
		{flag: "seeds", got: b.Seeds, least: 2, most: 1000},
		{flag: "held-out", got: b.HeldOut, least: 1, most: 5000},
		{flag: "tasks", got: cmp.Or(b.Tasks, 1), least: 1, most: 1_000_000},
		{flag: "parallel", got: cmp.Or(b.Parallel, 1), least: 1, most: 1000},
	} {
		if n.got < n.least || n.got > n.most {
			errs = append(errs, fmt.Errorf("--%s: must be %d to %d, got %d", n.flag, n.least, n.most, n.got))
		}
	}
	for _, w := range b.Worlds {
		if !slices.Contains(worldNames, w) {
			errs = append(errs, fmt.Errorf("--worlds: unknown world %q, must be one of %s", w, strings.Join(worldNames, ", ")))
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
	return errors.Join(errs...)
}

// Run implements the command.
func (b *learningBench) Run(ctx context.Context, c *program.Common) error {
	for _, p := range allParts {
		if !slices.Contains(b.Parts, p.name) {
			continue
		}
		began := time.Now()
		t, err := b.measure(ctx, p, c.Logger())
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		b.say("%s: %.1f s", p.name, time.Since(began).Seconds())
		if err := t.print(term.Stdout, b.JSON); err != nil {
			return err
		}
	}
	return nil
}

// say prints a line about the progress on standard error.
func (b *learningBench) say(format string, args ...any) {
	term.Fprintf(term.Stderr, format+"\n", args...)
}

// runsPerCore is the number of runs at the same time on each core. A run waits most of the time: the Curator collects
// reflections for a quarter of a second, and writes are synchronous.
const runsPerCore = 4

// measure runs one part of the command.
func (b *learningBench) measure(ctx context.Context, p *part, log zerolog.Logger) (*table, error) {
	m := b.measurement(p)
	rows, err := m.run(ctx, log)
	if err != nil {
		return nil, err
	}
	return m.table(rows), nil
}

// measurement returns the measurement of a part by the flags.
func (b *learningBench) measurement(p *part) *measurement {
	m := &measurement{
		part: p, worlds: b.Worlds, arms: b.Arms, against: b.Against, seeds: b.Seeds, tasks: cmp.Or(b.Tasks, p.tasks),
		heldOut: b.HeldOut, distractors: b.Distractors,
		parallel: cmp.Or(b.Parallel, runsPerCore*runtime.GOMAXPROCS(0)), say: b.say,
		overHTTP: []string{tools.Name},
	}
	if b.Quick {
		m.seeds = min(m.seeds, 2)
		m.tasks, m.heldOut = min(m.tasks, p.quick), min(m.heldOut, 100)
	}
	if len(m.worlds) == 0 {
		// Until its rules change, the drifting world equals the world text.
		m.worlds = slices.DeleteFunc(slices.Clone(worldNames), func(name string) bool { return name == text.Drifting && m.tasks <= text.ChangeAfter })
	}
	if len(m.arms) == 0 {
		m.arms = p.arms
	}
	if m.against != "" && !slices.Contains(m.arms, m.against) {
		m.arms = append(slices.Clone(m.arms), m.against)
	}
	return m
}
