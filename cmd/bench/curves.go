package main

import (
	"context"
	"errors"
	"slices"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/text"
)

// curvesPart measures the accuracy by the number of training tasks.
var curvesPart = part{
	name: "worlds", title: "accuracy on held-out tasks", arms: armNames(func(a *arm) bool { return !a.onRequest }),
	tasks: 6000, quick: 300,
	columns: []column{
		{accuracyKey, "accuracy", percentInterval},
		{bulletsKey, "bullets", count},
		{activeKey, "in use", count},
		{inPromptKey, "shown", number1}, // bullets in a prompt
		{promptTokensKey, "tokens", count},
		{prefixKey, "shared prefix", percent},
		{callsKey, "calls", number2}, // one of the agent, and those of the Reflector and the Curator
		{reflectorCallsKey, "of the Reflector", number2},
		{modelTokensKey, "model tokens", count},
		{statedKey, "rules stated", percent},
		{statedInPromptKey, "in prompt", percent}, // of the stated rules
		{changedKey, "changed", percent},
		{deadKey, "dead", number1},
	},
	imperfection: worlds.Default(), run: runCurve,
}

// runCurve trains one arm and evaluates it at checkpoints.
func runCurve(ctx context.Context, m *measurement, of *run, log zerolog.Logger) (points []*point, err error) {
	r, err := startRunner(ctx, of, m, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	tasks := checkpoints(m.tasks, of.world == text.Drifting)
	if of.arm.isFixed {
		tasks = tasks[:1]
	}
	for _, n := range tasks {
		if err := r.learn(ctx, n); err != nil {
			return nil, err
		}
		p, err := r.evaluate(ctx)
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
