package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/train"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/reflector"

	book "debrief/playbook"
)

// pipelineBench measures the throughput and the delay of the pipeline.
type pipelineBench struct {
	Samples int      `help:"Samples in one run." default:"6000"`
	Runs    int      `help:"Runs of each case; medians are shown." default:"3"`
	Sizes   []int    `help:"Numbers of bullets in the playbook at the start." default:"0,1000,10000"`
	Syncs   []string `help:"Sync settings of the server." default:"always,100ms"`
	Limits  bool     `help:"Only measure the limits of the machine."`
	JSON    bool     `help:"Print JSON lines."`
	Profile string   `help:"Write a CPU profile of the pipeline's runs." type:"path" placeholder:"FILE"`
}

// Help implements kong.HelpProvider.
func (*pipelineBench) Help() string {
	return `Sends samples through Generator, Reflector and Curator in this process, with the embedded server and a canned model that
answers without delay: 9 of 10 samples have only votes, 1 of 10 also a new bullet; one playbook. It first measures the
limits of the machine: durable writes, request and reply, synchronous publishes.

Only the text of the model is simulated. Figures are medians of --runs runs.`
}

// Validate implements kong's check.
func (b *pipelineBench) Validate() error {
	if b.Samples < 1 || b.Runs < 1 {
		return fmt.Errorf("--samples, --runs: must be at least 1")
	}
	return nil
}

// benchRow is the result of one case.
type benchRow struct {
	Sync     string  `json:"sync"`
	Bullets  int     `json:"bullets"`
	Samples  int     `json:"samples"`
	Rate     float64 `json:"samples_per_second"`
	Least    float64 `json:"least"`
	Most     float64 `json:"most"`
	Bytes    float64 `json:"bytes_per_sample"`  // stored in all streams, by the server's own count
	Writes   float64 `json:"writes_per_sample"` // messages stored in all streams
	DelayP50 float64 `json:"delay_ms_p50"`      // from an execution stored to its version at a follower, one at a time, last run
	DelayP99 float64 `json:"delay_ms_p99"`
	OfSync   float64 `json:"of_o_sync_per_write,omitempty"` // rate against durable writes of the disk by writes a sample
}

// Run implements the command.
func (b *pipelineBench) Run(ctx context.Context, c *app.Common) error {
	limits, err := measureLimits(ctx, b.Runs)
	if err != nil {
		return err
	}
	if b.JSON {
		if err := cli.WriteJSON(console.Stdout, limits); err != nil {
			return err
		}
	} else {
		limits.print()
	}
	if b.Limits {
		return nil
	}
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
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !b.JSON {
		console.Printf("\nPipeline: %d samples a run, median of %d runs, canned model\n", b.Samples, b.Runs)
		console.Fprintf(w, "sync\tbullets\tsamples/s\tleast\tmost\tbytes/sample\twrites/sample\tdelay p50\tp99\t\n")
	}
	for _, sync := range b.Syncs {
		for _, size := range b.Sizes {
			row, err := b.measure(ctx, sync, size, c.Logger())
			if err != nil {
				return fmt.Errorf("measure %d bullets with sync %s: %w", size, sync, err)
			}
			if sync == "always" {
				row.OfSync = row.Rate / (limits.OSync.Median / row.Writes)
			}
			if b.JSON {
				if err := cli.WriteJSON(console.Stdout, row); err != nil {
					return err
				}
				continue
			}
			console.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.1f ms\t%.1f ms\t\n",
				row.Sync, row.Bullets, row.Rate, row.Least, row.Most, row.Bytes, row.Writes, row.DelayP50, row.DelayP99)
		}
	}
	return w.Flush()
}

func (b *pipelineBench) measure(ctx context.Context, sync string, size int, log zerolog.Logger) (*benchRow, error) {
	row := &benchRow{Sync: sync, Bullets: size, Samples: b.Samples}
	var rates []float64
	for i := range b.Runs {
		one, err := b.once(ctx, sync, size, i == b.Runs-1, log)
		if err != nil {
			return nil, err
		}
		rates = append(rates, one.Rate)
		row.Bytes, row.Writes, row.DelayP50, row.DelayP99 = one.Bytes, one.Writes, one.DelayP50, one.DelayP99
	}
	slices.Sort(rates)
	row.Rate, row.Least, row.Most = median(rates), rates[0], rates[len(rates)-1]
	return row, nil
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

const benchBook = book.Book("bench")

// once runs one case on a temporary server. The delay is measured only on request, because it takes ten seconds.
func (b *pipelineBench) once(ctx context.Context, sync string, size int, delay bool, log zerolog.Logger) (*benchRow, error) {
	p := cli.ServerFlags{}
	p.Replicas = 1
	s, err := p.StartTemporary(ctx, sync, log)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	store := deltalog.New(s.JetStream())
	err = fillBook(ctx, store, size, func(i int) string {
		return fmt.Sprintf("Rule %d: when a sample of kind %d turns up, look at its totals before its parts, write down both, and compare them with the sheet of day %d.", i, i%97, i%31)
	})
	if err != nil {
		return nil, err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	f, followed, err := store.Follow(work, benchBook)
	if err != nil {
		return nil, err
	}
	defer followed()
	defer stop()
	working := make(chan error, 1)
	go func() {
		working <- app.Run(work, s.Conn, generator.New(canned{}, nil, generator.Config{Slots: 64}),
			reflector.New(canned{}, reflector.Config{Slots: 64}), curator.New(canned{}, curator.Config{}))
	}()
	if err := b.send(ctx, s.Conn, "warm", 200); err != nil {
		return nil, err
	}
	before, err := stored(ctx, s.Conn)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.send(ctx, s.Conn, "run", b.Samples); err != nil {
		return nil, err
	}
	w, err := store.Writer(ctx, benchBook)
	if err != nil {
		return nil, err
	}
	if err := f.Wait(ctx, w.State().Playbook().Version()); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	after, err := stored(ctx, s.Conn)
	if err != nil {
		return nil, err
	}
	row := &benchRow{
		Rate: float64(b.Samples) / took, Bytes: float64(after.bytes-before.bytes) / float64(b.Samples),
		Writes: float64(after.writes-before.writes) / float64(b.Samples),
	}
	if delay {
		if row.DelayP50, row.DelayP99, err = delays(ctx, s.Conn, f); err != nil {
			return nil, err
		}
	}
	stop()
	return row, <-working
}

// send publishes samples and waits until all three roles are done with them.
func (b *pipelineBench) send(ctx context.Context, conn *bus.Conn, name string, n int) error {
	const publishers = 16
	errs := make(chan error, publishers)
	for p := range publishers {
		go func() {
			for i := p; i < n; i += publishers {
				t := &events.Task{
					ID: fmt.Sprintf("%s-%d", name, i), Question: fmt.Sprintf("Sample %d: what is six times seven?", i),
					Target: "42", Evaluator: scoring.ByNumber, Created: time.Now().UTC(),
				}
				t.Book = benchBook
				if _, err := conn.Publish(ctx, t, bus.PublishOptions{}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range publishers {
		if err := <-errs; err != nil {
			return err
		}
	}
	return train.WaitIdle(ctx, conn, events.RoleGenerator, events.RoleReflector, events.RoleCurator)
}

// delays sends samples one at a time. It returns the delay from the stored execution to the new version at a follower.
func delays(ctx context.Context, conn *bus.Conn, f *deltalog.Follower) (p50, p99 float64, err error) {
	const samples = 41
	var ms []float64
	for i := range samples {
		at := f.Version()
		e := &events.Execution{
			RunID: fmt.Sprintf("delay-%d", i), Question: "Sample 1", Answer: "42",
			Outcome: events.Outcome{Label: events.Success, Score: 1}, Started: time.Now().UTC(),
		}
		e.Book = benchBook
		e.ID = events.ExecutionID(benchBook, "", e.RunID, 0)
		f.Read(func(p *book.Playbook, _ []byte) {
			for _, b := range p.Top(1) {
				e.Shown = append(e.Shown, events.ShownBullet{ID: b.ID, Content: b.Content, Experiment: b.CurrentExperiment().Number})
			}
		})
		if _, err := conn.Publish(ctx, e, bus.PublishOptions{}); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		if err := f.Wait(ctx, at+1); err != nil {
			return 0, 0, err
		}
		if i > 0 { // the first may find the Curator in the linger after the run
			ms = append(ms, float64(time.Since(began).Microseconds())/1000)
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(260 * time.Millisecond): // past the linger: each sample finds an idle Curator
		}
	}
	slices.Sort(ms)
	return median(ms), ms[len(ms)*99/100], nil
}

type footprint struct{ bytes, writes uint64 }

// stored returns the bytes and the number of writes of all streams. The last sequence of a stream also counts deleted
// messages.
func stored(ctx context.Context, conn *bus.Conn) (footprint, error) {
	all, err := conn.Streams(ctx)
	var sum footprint
	for _, s := range all {
		sum.bytes += s.Bytes
		sum.writes += s.Last
	}
	return sum, err
}

// fillBook creates a playbook with size bullets, in deltas of 500.
func fillBook(ctx context.Context, store *deltalog.Store, size int, content func(i int) string) error {
	w, err := store.Writer(ctx, benchBook)
	if err != nil {
		return err
	}
	for from := 0; from < size; from += 500 {
		_, err := w.Commit(ctx, func(s deltalog.State) ([]*book.Delta, error) {
			d := &book.Delta{Author: "bench", Time: time.Now().UTC()}
			for i := from; i < min(from+500, size); i++ {
				d.Ops = append(d.Ops, book.Op{
					Kind: book.Add, Bullet: book.MintID("strategies_and_hard_rules", uint64(i+1)), Section: "strategies_and_hard_rules",
					Content: content(i),
				})
			}
			return []*book.Delta{d}, nil
		})
		if err != nil {
			return err
		}
		if err := w.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}
