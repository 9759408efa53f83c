package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/sample"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/events/bus"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
	"debrief/generator/prompt/selection"
	"debrief/playbook/recall"

	book "debrief/playbook"
)

// contextBench measures the time and the size of contexts.
type contextBench struct {
	Files   []string `arg:"" optional:"" help:"Recorded runs (tau-bench JSON, SWE-agent .traj): only measure their tokens with and without a window." type:"existingfile"`
	Sizes   []int    `help:"Numbers of bullets in the playbook; the largest one is used to measure history." default:"100,1000,10000"`
	History []int    `help:"Numbers of earlier interactions of a session." default:"10,1000,100000"`
	Items   int      `help:"Number of items to recall from; 0 skips recall." default:"100000"`
	Samples int      `help:"Measurements of each case." default:"200"`
	JSON    bool     `help:"Print JSON lines."`

	app.Limits
}

// Help implements kong.HelpProvider.
func (*contextBench) Help() string {
	return `Measures the assembly as a pure function, by the size of the playbook; a whole context (window, recall, assembly) with the
embedded server, by the history of the session; and recall alone, by the dimension of the vectors. Only the texts are
simulated: turns of 2 KB with two tool calls, and a query after ten calls.

With files of recorded runs it replays them instead: it builds a context for each model call and compares it with the whole
conversation. Each turn of the user is an interaction of one session. Tokens are estimated.

Examples:

  bench context
  bench context --context-tokens 4000 --window 3 runs.json`
}

// Validate implements kong's check.
func (b *contextBench) Validate() error {
	var errs []error
	if b.Samples < 1 {
		errs = append(errs, fmt.Errorf("--samples: must be at least 1, got %d", b.Samples))
	}
	if b.Items < 0 {
		errs = append(errs, fmt.Errorf("--items: must not be negative, got %d", b.Items))
	}
	if len(b.Sizes) == 0 || slices.Min(b.Sizes) < 0 {
		errs = append(errs, errors.New("--sizes: want at least one number, none of them negative"))
	}
	if len(b.History) > 0 && slices.Min(b.History) < 0 {
		errs = append(errs, errors.New("--history: must not be negative"))
	}
	return errors.Join(errs...)
}

// Run implements the command.
func (b *contextBench) Run(ctx context.Context, c *app.Common) error {
	if len(b.Files) > 0 {
		return b.replays(ctx)
	}
	for _, measure := range []func(context.Context, zerolog.Logger) error{b.assembly, b.histories, b.recall} {
		if err := measure(ctx, c.Logger()); err != nil {
			return err
		}
	}
	return nil
}

func (b *contextBench) replays(ctx context.Context) error {
	var all []runCost
	for _, name := range b.Files {
		runs, err := costsOf(ctx, name, b.Settings())
		if err != nil {
			return err
		}
		all = append(all, runs...)
	}
	if b.JSON {
		for i := range all {
			if err := cli.WriteJSON(console.Stdout, &all[i]); err != nil {
				return err
			}
		}
		return nil
	}
	console.Printf("Tokens by estimate, limit %d: at the last time that the agent was asked, and of all times together\n", b.Total)
	return tellRuns(console.Stdout, all)
}

// quantiles summarizes durations.
type quantiles struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// timed calls do a few times to warm up, then measures the given number of calls.
func timed(ctx context.Context, times int, do func(i int) error) (q quantiles, err error) {
	const warm = 5
	var took []time.Duration
	for i := range warm + times {
		start := time.Now()
		if err := errors.Join(do(i), ctx.Err()); err != nil {
			return q, err
		}
		if i >= warm {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return quantiles{ms(took[len(took)/2]), ms(took[len(took)*99/100])}, nil
}

// rowPrinter prints rows one by one, or as JSON lines.
type rowPrinter struct {
	json bool
	w    *tabwriter.Writer
}

func (b *contextBench) table(title, head string) *rowPrinter {
	t := &rowPrinter{b.JSON, tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)}
	if !t.json {
		console.Println(title)
		console.Fprintln(t.w, console.Block(head))
	}
	return t
}

func (t *rowPrinter) row(v any, format string, args ...any) error {
	if t.json {
		return cli.WriteJSON(console.Stdout, v)
	}
	_, err := console.Fprintf(t.w, format, args...)
	return err
}

func (t *rowPrinter) end() error {
	if !t.json {
		console.Fprintln(t.w)
	}
	return t.w.Flush()
}

type assemblyRow struct {
	Bullets  int `json:"assembly_of_bullets"`
	Relevant int `json:"relevant"` // bullets that have a word of the query
	Tokens   int `json:"tokens"`
	quantiles
}

// assembly measures the assembly as a pure function, including the selection of applicable bullets.
func (b *contextBench) assembly(ctx context.Context, _ zerolog.Logger) error {
	t := b.table("Assembly alone: 20 turns of 2 KB, 10 recalled, 10 calls since the query", "bullets\trelevant\ttokens\tp50\tp99\t")
	for _, size := range b.Sizes {
		s := sample.New(1)
		p := s.Playbook(size)
		in := assembly.Input{
			Now: sample.Day.Add(time.Hour), System: generator.Instructions, Query: s.Question(), Running: s.Steps(10), Index: selection.NewIndex(false),
		}
		in.Index.Update(p)
		words := recall.WordIndex{IgnoreCommon: true} // as a Generator does
		for _, bullet := range p.Sorted() {
			words.Put(string(bullet.ID), bullet.Section+" "+bullet.Content)
		}
		row := assemblyRow{Bullets: size}
		in.Rankings = func() []selection.Ranking {
			list := selection.Ranking{}
			for _, m := range words.Top(in.Query, 200) {
				list = append(list, selection.Ranked{Bullet: book.BulletID(m.Key), Score: m.Score})
			}
			return []selection.Ranking{list}
		}
		row.Relevant = len(in.Rankings()[0])
		for i := range bus.WindowHistory {
			in.Window = append(in.Window, s.Interaction(benchBook, 100+i))
		}
		for i := range 10 {
			in.Recalled = append(in.Recalled, s.Interaction(benchBook, 1+i))
		}
		var err error
		row.quantiles, err = timed(ctx, b.Samples, func(int) error {
			c, err := assembly.Assemble(in, b.Settings())
			if err == nil {
				row.Tokens = c.Manifest.Tokens
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := t.row(row, "%d\t%d\t%d\t%.2f ms\t%.2f ms\t\n", row.Bullets, row.Relevant, row.Tokens, row.P50, row.P99); err != nil {
			return err
		}
	}
	return t.end()
}
