package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events/bus"
	"debrief/generator"
	"debrief/generator/assembly"
	"debrief/generator/selection"
	"debrief/playbook/recall"

	book "debrief/playbook"
)

// contextBench measures what contexts cost.
type contextBench struct {
	Files   []string `arg:"" optional:"" help:"Recorded runs (tau-bench JSON, SWE-agent .traj): their tokens with and without a window, and nothing else." type:"existingfile"`
	Sizes   []int    `help:"Bullets in the playbook; where history is measured, the most of them." default:"100,1000,10000"`
	History []int    `help:"Interactions that a session had before." default:"10,1000,100000"`
	Items   int      `help:"Items to recall from; 0 leaves that out." default:"100000"`
	Samples int      `help:"Times that each case is measured." default:"200"`
	JSON    bool     `help:"Print JSON lines."`

	assembly.Limits `embed:""`
}

// Help implements kong.HelpProvider.
func (*contextBench) Help() string {
	return `Measures the assembly as a pure function, by the bullets of the playbook; the whole of a context (window read, recall,
assembly) over the embedded server, by the history of its session; and recall alone, by the dimension of vectors. Nothing
is simulated but the texts: turns of 2 KB with two calls of tools, and a query after ten calls.

Given files of recorded runs, it replays them instead: a context for every time that the agent was asked, each turn of the
user an interaction of one session, against all that had been said before. Tokens are by estimate.

  debrief bench context
  debrief bench context --context-tokens 4000 --window 3 runs.json`
}

// Validate implements kong's check.
func (b *contextBench) Validate() error {
	errs := []error{b.Limits.WithDefaults().Validate()}
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
	b.Limits = b.Limits.WithDefaults()
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
		runs, err := costsOf(ctx, name, b.Limits)
		if err != nil {
			return err
		}
		all = append(all, runs...)
	}
	if b.JSON {
		for i := range all {
			if err := writeJSON(console.Stdout, &all[i]); err != nil {
				return err
			}
		}
		return nil
	}
	console.Printf("Tokens by estimate, limit %d: at the last time that the agent was asked, and of all times together\n", b.Total)
	return tellRuns(console.Stdout, all)
}

// quantiles are of the times that one thing took.
type quantiles struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// timed does a thing a few times to warm up, and then so many times.
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

// table prints rows as they come, with JSON as lines.
type table struct {
	json bool
	w    *tabwriter.Writer
}

func (b *contextBench) table(title, head string) *table {
	t := &table{b.JSON, tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)}
	if !t.json {
		console.Println(title)
		console.Fprintln(t.w, console.Block(head))
	}
	return t
}

func (t *table) row(v any, format string, args ...any) error {
	if t.json {
		return writeJSON(console.Stdout, v)
	}
	_, err := console.Fprintf(t.w, format, args...)
	return err
}

func (t *table) end() error {
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

// assembly measures the pure function. Which bullets bear on the query is part of it.
func (b *contextBench) assembly(ctx context.Context, _ zerolog.Logger) error {
	t := b.table("Assembly alone: 20 turns of 2 KB, 10 recalled, 10 calls since the query", "bullets\trelevant\ttokens\tp50\tp99\t")
	for _, size := range b.Sizes {
		s := newSampleDesk(1)
		p := s.playbook(size)
		in := assembly.Input{
			Now: sampleDay.Add(time.Hour), System: generator.Instructions, Query: s.question(), Running: s.steps(10), Book: selection.NewIndex(),
		}
		in.Book.Update(p)
		var words recall.Words
		for _, bullet := range p.Sorted() {
			words.Put(string(bullet.ID), bullet.Section+" "+bullet.Content)
		}
		row := assemblyRow{Bullets: size}
		in.Relevance = func(yield func(book.BulletID, float64) bool) {
			for m := range words.Each(in.Query) {
				if !yield(book.BulletID(m.Key), m.Score) {
					return
				}
			}
		}
		for range in.Relevance {
			row.Relevant++
		}
		for i := range bus.WindowHistory {
			in.Window = append(in.Window, s.interaction(100+i))
		}
		for i := range 10 {
			in.Recalled = append(in.Recalled, s.interaction(1+i))
		}
		var err error
		row.quantiles, err = timed(ctx, b.Samples, func(int) error {
			c, err := assembly.Assemble(in, b.Limits)
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
