package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/console"
	"debrief/events/natsd"
)

// spread is a figure over several runs.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// limits are what the machine can do, each a second.
type limits struct {
	OSync         spread `json:"o_sync_writes_per_second"`         // 256 bytes, one file, one writer
	Request       spread `json:"core_request_replies_per_second"`  // in process
	PublishAlways spread `json:"publishes_sync_always_per_second"` // 256 bytes, acknowledged one by one
	PublishLazy   spread `json:"publishes_sync_100ms_per_second"`
}

// window is how long one figure is measured in one run.
const window = 500 * time.Millisecond

func measureLimits(ctx context.Context, runs int) (*limits, error) {
	l := new(limits)
	for _, m := range []struct {
		out *spread
		run func(context.Context) (float64, error)
	}{
		{&l.OSync, osyncRate},
		{&l.Request, requestRate},
		{&l.PublishAlways, func(ctx context.Context) (float64, error) { return publishRate(ctx, natsd.SyncAlways) }},
		{&l.PublishLazy, func(ctx context.Context) (float64, error) { return publishRate(ctx, "100ms") }},
	} {
		var rates []float64
		for range runs {
			r, err := m.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("measure the machine: %w", err)
			}
			rates = append(rates, r)
		}
		slices.Sort(rates)
		*m.out = spread{median(rates), rates[0], rates[len(rates)-1]}
	}
	return l, nil
}

func (l *limits) print() {
	console.Printf("This machine, a second: median (least to most)\n")
	for _, row := range []struct {
		name string
		s    spread
	}{
		{"O_SYNC writes of 256 bytes", l.OSync},
		{"core request and reply, in process", l.Request},
		{"JetStream publish, sync always", l.PublishAlways},
		{"JetStream publish, sync 100ms", l.PublishLazy},
	} {
		console.Printf("  %-36s %8.0f   (%.0f to %.0f)\n", row.name, row.s.Median, row.s.Least, row.s.Most)
	}
}

// rate repeats an operation for one window and says how often a second it went.
func rate(ctx context.Context, op func() error) (float64, error) {
	n, began := 0, time.Now()
	for time.Since(began) < window {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := op(); err != nil {
			return 0, err
		}
		n++
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

func osyncRate(ctx context.Context) (float64, error) {
	dir, err := os.MkdirTemp("", "debrief-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	f, err := os.OpenFile(filepath.Join(dir, "o_sync"), os.O_CREATE|os.O_WRONLY|syscall.O_SYNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 256)
	return rate(ctx, func() error {
		_, err := f.Write(buf)
		return err
	})
}

func requestRate(ctx context.Context) (float64, error) {
	return onServer("100ms", func(nc *nats.Conn) (float64, error) {
		sub, err := nc.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) })
		if err != nil {
			return 0, err
		}
		defer sub.Unsubscribe()
		data := make([]byte, 256)
		return rate(ctx, func() error {
			_, err := nc.RequestWithContext(ctx, "echo", data)
			return err
		})
	})
}

func publishRate(ctx context.Context, sync string) (float64, error) {
	return onServer(sync, func(nc *nats.Conn) (float64, error) {
		js, err := jetstream.New(nc)
		if err != nil {
			return 0, err
		}
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench"}, Storage: jetstream.FileStorage}); err != nil {
			return 0, err
		}
		data := make([]byte, 256)
		return rate(ctx, func() error {
			_, err := js.Publish(ctx, "bench", data)
			return err
		})
	})
}

func onServer(sync string, fn func(*nats.Conn) (float64, error)) (float64, error) {
	s, err := natsd.Start(natsd.Config{Sync: sync})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	nc, err := s.Connect()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	return fn(nc)
}
