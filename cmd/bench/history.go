package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/sample"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	windows "debrief/events/window"
	"debrief/generator"
	"debrief/playbook/recall"
)

type historyRow struct {
	History int        `json:"context_after_interactions"`
	Bullets int        `json:"bullets"`
	Tokens  int        `json:"tokens"`
	Window  quantiles  `json:"window_and_assembly"`
	Recall  *quantiles `json:"with_recall"`
	Filled  float64    `json:"filled_seconds"`
	Loaded  float64    `json:"loaded_seconds"`
}

const benchSession = "bench"

// histories measures whole contexts on a temporary server. Each execution is in the stream, and the last ones are in
// the window of the session, as after the reports of an agent.
func (b *contextBench) histories(ctx context.Context, log zerolog.Logger) error {
	if len(b.History) == 0 {
		return nil
	}
	p := cli.ServerFlags{}
	p.Replicas = 1
	conn, err := p.StartTemporary(ctx, "100ms", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	bullets, s := slices.Max(b.Sizes), sample.New(2)
	if err := fillBook(ctx, deltalog.New(conn.JetStream()), bullets, func(int) string { return s.Advice() }); err != nil {
		return err
	}
	t := b.table(fmt.Sprintf("Whole contexts: window read from the server, %d bullets, and recall in one session", bullets),
		"interactions\ttokens\twithout recall p50\tp99\twith recall p50\tp99\tstored in\tread in\t")
	sizes, stored := slices.Sorted(slices.Values(b.History)), 0
	for _, size := range slices.Compact(sizes) {
		row := historyRow{History: size, Bullets: bullets}
		start := time.Now()
		if err := fillSession(ctx, conn.Conn, windows.New(conn.NATS(), conn.JetStream()), stored, size); err != nil {
			return err
		}
		stored, row.Filled = size, time.Since(start).Seconds()
		if err := b.contexts(ctx, conn.Conn, &row); err != nil {
			return err
		}
		err := t.row(row, "%d\t%d\t%.2f ms\t%.2f ms\t%.2f ms\t%.2f ms\t%.1f s\t%.1f s\t\n", row.History, row.Tokens,
			row.Window.P50, row.Window.P99, row.Recall.P50, row.Recall.P99, row.Filled, row.Loaded)
		if err != nil {
			return err
		}
	}
	return t.end()
}

// contexts measures contexts of the session, without recall and with it.
func (b *contextBench) contexts(ctx context.Context, conn *bus.Conn, row *historyRow) error {
	s := sample.New(3)
	r := &events.ContextRequest{Book: benchBook, Session: benchSession, Steps: s.Steps(10), DryRun: true}
	reading := progress("history", "executions read", row.History)
	measure := func(scope generator.Recall) (quantiles, error) {
		start := time.Now()
		desk := generator.NewContextBuilder(conn, nil, generator.Config{Limits: b.Settings(), Recall: scope, RecallMemory: 8 << 30})
		defer desk.Close()
		reading(0)
		desk.WaitLoaded(ctx, benchBook, time.Hour)
		reading(row.History)
		row.Loaded = time.Since(start).Seconds()
		return timed(ctx, b.Samples, func(int) error {
			r.Query = s.Question()
			reply, err := desk.Context(ctx, r)
			if err != nil {
				return err
			}
			if len(reply.Manifest.Warnings) > 0 {
				return fmt.Errorf("a context is not whole: %s", reply.Manifest.Warnings[0])
			}
			row.Tokens = reply.Manifest.Tokens
			return nil
		})
	}
	var err error
	if row.Window, err = measure(generator.RecallNone); err != nil {
		return err
	}
	q, err := measure(generator.RecallSession)
	row.Recall = &q
	return err
}

// fillSession stores the interactions from first to until of a session.
func fillSession(ctx context.Context, conn *bus.Conn, w *windows.Store, first, until int) error {
	const publishers = 16
	storing := progress("history", "executions stored", until)
	var last [bus.WindowHistory]*events.Interaction
	errs := make(chan error, publishers)
	for p := range publishers {
		go func() {
			s := sample.New(uint64(100 + p))
			for turn := first + 1 + p; turn <= until; turn += publishers {
				e := s.Execution(benchBook, turn, benchSession)
				r, err := conn.Publish(ctx, e, bus.PublishOptions{})
				if err != nil {
					errs <- err
					return
				}
				if until-turn < len(last) {
					last[until-turn] = events.NewInteraction(r.Handle, e)
				}
				if turn%1024 == 0 {
					storing(turn)
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
	storing(until)
	for _, i := range slices.Backward(last[:]) {
		if i == nil { // an older one, which is there
			continue
		}
		if err := w.Add(ctx, benchBook, "", benchSession, i); err != nil {
			return err
		}
	}
	return nil
}

// progress returns a function that shows the progress on standard error, if that is a terminal.
func progress(label, what string, total int) func(int) {
	if !console.Stderr.IsTerminal() {
		return func(int) {}
	}
	return cli.ProgressLine(console.Stderr, label, what, total)
}

type recallRow struct {
	Items     int     `json:"recall_of_items"`
	Dimension int     `json:"dimension"`
	Bytes     float64 `json:"bytes_per_item"`
	quantiles
}

// recall measures the search in an index, by words and by vectors of an embedder's usual sizes.
func (b *contextBench) recall(ctx context.Context, _ zerolog.Logger) error {
	if b.Items == 0 {
		return nil
	}
	t := b.table("Recall alone: the best 10 of all items, by words and by vector", "items\tdimension\tp50\tp99\tbytes/item\t")
	for _, dimension := range []int{384, 1536} {
		s := sample.New(5)
		vector := func() []float32 { // cheap to make and as good as a real one
			v := make([]float32, dimension)
			for i := range v {
				v[i] = float32(int32(s.Uint32()))
			}
			return v
		}
		putting := progress("recall", "items put", b.Items)
		x := recall.New(recall.Options{})
		for i := range b.Items {
			err := x.Put(recall.Item{Key: fmt.Sprint(i), Text: s.Question() + " " + s.Prose(200), Vector: vector(), Model: "sample"})
			if err != nil {
				return err
			}
			if i%1000 == 0 {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				putting(i)
			}
		}
		putting(b.Items)
		row := recallRow{Items: b.Items, Dimension: dimension, Bytes: float64(x.Stats().Bytes) / float64(b.Items)}
		var err error
		row.quantiles, err = timed(ctx, b.Samples, func(int) error {
			_, err := x.Search(recall.Query{Text: s.Question(), Vector: vector(), Model: "sample", Limit: 10})
			return err
		})
		if err != nil {
			return err
		}
		if err := t.row(row, "%d\t%d\t%.2f ms\t%.2f ms\t%.0f\t\n", row.Items, row.Dimension, row.P50, row.P99, row.Bytes); err != nil {
			return err
		}
	}
	return t.end()
}
