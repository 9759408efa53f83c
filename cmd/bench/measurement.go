package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/simulated/worlds"
)

// allParts lists the kinds of measurements in simulated worlds, in the order of the output.
var allParts = []*part{&curvesPart, &distractorsPart}

// part is a kind of measurement in simulated worlds.
type part struct {
	name, title  string
	arms         []string            // default of --arms
	tasks        int                 // default of --tasks
	quick        int                 // maximum number of training tasks with --quick
	columns      []column            // the first one is compared between arms
	imperfection worlds.Imperfection // of the simulated models
	// run measures one arm with one seed in one world.
	run func(ctx context.Context, m *measurement, r *run, log zerolog.Logger) ([]*point, error)
}

// measurement is a part with its settings, for all worlds, arms and seeds. The roles run with their defaults, but for the change of the arm.
type measurement struct {
	part                  *part
	worlds, arms          []string
	against               string // arm
	seeds, tasks, heldOut int
	distractors           []int
	parallel              int // runs at the same time
	// overHTTP has the names of the worlds whose agent uses the HTTP API. It reports the outcome of a task only after it has answered
	// later tasks.
	overHTTP []string
	say      func(format string, args ...any)
}

// run is one arm with one seed in one world. The runs share nothing.
type run struct {
	world  string
	arm    *arm
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
func (m *measurement) run(ctx context.Context, log zerolog.Logger) ([]resultRow, error) {
	var runs []*run
	for _, w := range m.worlds {
		for seed := range m.seeds {
			for i := range allArms {
				if slices.Contains(m.arms, allArms[i].name) {
					runs = append(runs, &run{world: w, arm: &allArms[i], seed: uint64(seed + 1)})
				}
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.parallel)
	for i, r := range runs {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			began := time.Now()
			points, err := m.part.run(ctx, m, r, log)
			if err != nil {
				return fmt.Errorf("world %s, arm %s, seed %d: %w", r.world, r.arm.name, r.seed, err)
			}
			r.points = points
			m.say("%s: run %d of %d: %s, %s, seed %d (%.0f s)", m.part.name, i+1, len(runs), r.world, r.arm.name, r.seed, time.Since(began).Seconds())
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return m.rows(runs), nil
}
