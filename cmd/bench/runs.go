package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/sample"
	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/replay"
	"debrief/cmd/internal/report"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/stats"
	"debrief/curator"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
	"debrief/reflector"
)

// runsBench measures the speed and the accuracy of runs over data sets.
type runsBench struct {
	Seeds   int           `help:"Number of seeds, each with different rules and tasks." default:"5"`
	Train   int           `help:"Training tasks of each seed." default:"400"`
	Epochs  int           `help:"Passes over the training tasks." default:"2"`
	HeldOut int           `help:"Held-out tasks of each seed, never learned from." default:"300"`
	Batches []int         `help:"Tasks answered with one version of the playbook." default:"1,8,32"`
	Workers []int         `help:"Slots of the generator and of the reflector." default:"1,4,16"`
	Latency time.Duration `help:"Response time of the model." default:"200ms"`
	Parts   []string      `help:"Measurements: ${enum}." enum:"grid,speed" default:"grid,speed"`
	JSON    bool          `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*runsBench) Help() string {
	return `Everything runs in this process, with a simulated model that has a fixed response time.

  grid   batch size by workers: duration of learning, model calls, tokens, and accuracy on held-out tasks before and after;
         seeds are paired and run at the same time, each on a temporary server
  speed  samples per second with 64 slots, batches of 256 and a model of 50 ms. A sequential loop with four calls per sample
         reaches at most 5 per second on any machine

Intervals are 95 % over seeds, by Student's t. The grid takes about ten minutes.`
}

// Validate implements kong's check.
func (b *runsBench) Validate() error {
	if b.Seeds < 2 || b.Train < 1 || b.HeldOut < 1 || b.Epochs < 1 {
		return errors.New("--seeds, --train, --held-out, --epochs: want at least 2 seeds and 1 of the others")
	}
	if b.Train > simulated.MaxTrainTasks || b.HeldOut > simulated.MaxHeldOutTasks {
		return fmt.Errorf("--train, --held-out: must be at most %d and %d", simulated.MaxTrainTasks, simulated.MaxHeldOutTasks)
	}
	return nil
}

// Run implements the command.
func (b *runsBench) Run(ctx context.Context, c *app.Common) error {
	if slices.Contains(b.Parts, "grid") {
		s, err := b.grid(ctx, c.Logger())
		if err != nil {
			return fmt.Errorf("measure the grid: %w", err)
		}
		if err := s.Print(console.Stdout, b.JSON); err != nil {
			return err
		}
	}
	if slices.Contains(b.Parts, "speed") {
		s, err := b.speed(ctx, c.Logger())
		if err != nil {
			return fmt.Errorf("measure the speed: %w", err)
		}
		return s.Print(console.Stdout, b.JSON)
	}
	return nil
}

// cell is a batch size and a number of workers.
type cell struct{ batch, workers int }

// gridRow is the result of a cell.
type gridRow struct {
	Part    string         `json:"part"`
	Batch   int            `json:"batch"`
	Workers int            `json:"workers"`
	Seconds stats.Estimate `json:"seconds"` // of learning
	Calls   stats.Estimate `json:"model_calls"`
	Tokens  stats.Estimate `json:"tokens"`
	Before  stats.Estimate `json:"before"`
	After   stats.Estimate `json:"after"`
	Against stats.Estimate `json:"against_sequential"` // accuracy, paired by seed
	Times   float64        `json:"times"`              // as fast as the first cell
}

func (b *runsBench) grid(ctx context.Context, log zerolog.Logger) (*table.Table, error) {
	s := &table.Table{
		Title: fmt.Sprintf("Runs: %d seeds, %d tasks in %d epochs, a model of %s, accuracy on %d held-out tasks", b.Seeds, b.Train, b.Epochs, b.Latency, b.HeldOut),
		Head:  "batch\tworkers\tlearning\ttimes\tcalls\ttokens\tbefore\tafter\t95 %\tagainst sequential\t95 %\t",
	}
	var seq []float64 // accuracy after the first cell
	var slow float64  // its seconds
	for _, batch := range b.Batches {
		results, err := b.column(ctx, batch, log)
		if err != nil {
			return nil, err
		}
		for w, workers := range b.Workers {
			row, after := gridRowOf(cell{batch, workers}, results[w])
			if seq == nil {
				seq, slow = after, row.Seconds.Mean
			}
			row.Against, row.Times = stats.Mean(stats.Differences(after, seq)), slow/row.Seconds.Mean
			s.Row(row, "%d\t%d\t%.1f s\t%.1f\t%.0f\t%.0f\t%.1f %%\t%s\t%s\t", batch, workers, row.Seconds.Mean, row.Times,
				row.Calls.Mean, row.Tokens.Mean, 100*row.Before.Mean, row.After.Percent(), row.Against.Percent())
			if batch == slices.Max(b.Batches) && workers == slices.Max(b.Workers) {
				s.Goal(row.Against.Mean >= -0.02, "the largest batch within 2 points of the sequential loop", "%+.1f", 100*row.Against.Mean)
				s.Goal(row.Times >= 10, "in a tenth of its time", "%.1f times as fast", row.Times)
			}
		}
	}
	return s, nil
}

// column runs one batch size with all numbers of workers and all seeds at the same time. Runs that wait for a model do
// not slow down the others.
func (b *runsBench) column(ctx context.Context, batch int, log zerolog.Logger) ([][]*report.Report, error) {
	results := make([][]*report.Report, len(b.Workers))
	errs := make([]error, len(b.Workers)*b.Seeds)
	var all sync.WaitGroup
	for w, workers := range b.Workers {
		results[w] = make([]*report.Report, b.Seeds)
		for seed := range b.Seeds {
			all.Go(func() {
				results[w][seed], errs[w*b.Seeds+seed] = b.one(ctx, uint64(seed+1), cell{batch, workers}, b.Latency, log)
			})
		}
	}
	all.Wait()
	return results, errors.Join(errs...)
}

func gridRowOf(c cell, reports []*report.Report) (row gridRow, after []float64) {
	var seconds, calls, tokens, before []float64
	for _, r := range reports {
		n, t := 0, 0
		for _, u := range []report.Usage{r.Cost.Generator, r.Cost.Reflector, r.Cost.Curator} {
			n, t = n+u.Calls, t+u.InputTokens+u.OutputTokens
		}
		seconds, calls, tokens = append(seconds, r.Timing.Learning), append(calls, float64(n)), append(tokens, float64(t))
		before, after = append(before, r.Before.Accuracy), append(after, r.After.Accuracy)
	}
	return gridRow{
		Part: "grid", Batch: c.batch, Workers: c.workers, Seconds: stats.Mean(seconds), Calls: stats.Mean(calls), Tokens: stats.Mean(tokens),
		Before: stats.Mean(before), After: stats.Mean(after),
	}, after
}

// speed measures the samples per second with many slots.
func (b *runsBench) speed(ctx context.Context, log zerolog.Logger) (*table.Table, error) {
	const latency, slots, batch = 50 * time.Millisecond, 64, 256
	fast := *b
	fast.Train, fast.Epochs, fast.HeldOut = 4096, 1, 1
	var rates []float64
	for seed := range 3 {
		r, err := fast.one(ctx, uint64(seed+1), cell{batch, slots}, latency, log)
		if err != nil {
			return nil, err
		}
		rates = append(rates, float64(fast.Train)/r.Timing.Learning)
	}
	slices.Sort(rates)
	s := &table.Table{
		Title: fmt.Sprintf("Speed: %d tasks, a model of %s, %d slots, batches of %d", fast.Train, latency, slots, batch),
		Head:  "samples/s\tleast\tmost\ttimes the loop\t",
	}
	// The loop's own figure was measured on the ACE authors' code: 4.86 samples a second, four calls a sample.
	const loop = 4.86
	s.Row(map[string]any{"part": "speed", "samples_per_second": rates[1], "least": rates[0], "most": rates[2], "times_the_loop": rates[1] / loop},
		"%.0f\t%.0f\t%.0f\t%.0f\t", rates[1], rates[0], rates[2], rates[1]/loop)
	s.Goal(rates[1] >= 60*loop, "at least 60 times the loop", "%.0f times", rates[1]/loop)
	return s, nil
}

// one runs one seed on a temporary server.
func (b *runsBench) one(ctx context.Context, seed uint64, c cell, latency time.Duration, log zerolog.Logger) (*report.Report, error) {
	p := cli.ServerFlags{}
	p.Replicas = 1
	s, err := p.StartTemporary(ctx, "100ms", log)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	think := func(ctx context.Context, _ chat.Prompt) error {
		select {
		case <-time.After(latency):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m := &sample.Model{Direct: simulated.NewDirect(simulated.Options{Seed: seed}), Before: think}
	work, stop := context.WithCancel(ctx)
	working := make(chan error, 1)
	go func() {
		working <- app.Run(work, s.Conn,
			generator.New(m, nil, generator.Config{Slots: c.workers, Recall: generator.RecallNone, Limits: assembly.Limits{Reflections: -1}}),
			reflector.New(m, reflector.Config{Slots: c.workers}), curator.New(m, curator.Config{}))
	}()
	train, heldOut := simulated.GenerateTasks(seed, b.Train, b.HeldOut)
	set := func(name string, tasks []events.Task) *replay.Set {
		return &replay.Set{Data: report.Data{Set: name, File: "the simulated desk", Samples: len(tasks)}, Tasks: tasks}
	}
	out, err := replay.Run(ctx, s.Conn, replay.Config{Epochs: b.Epochs, Batch: c.batch},
		replay.Sets{Train: set(replay.Train, train), Test: set(replay.Test, heldOut)}, replay.Options{Name: "bench"})
	stop()
	if werr := <-working; err == nil {
		err = werr
	}
	if err != nil {
		return nil, err
	}
	if n := len(out.Report.Losses); n > 0 {
		return nil, fmt.Errorf("batch %d, %d workers, seed %d: %d losses: %s", c.batch, c.workers, seed, n, out.Report.Losses[0].Reason)
	}
	return out.Report, nil
}
