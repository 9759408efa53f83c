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

// spread summarizes a figure over several runs.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// limits has the maximum rates of the machine, in operations per second.
type limits struct {
	OSync         spread `json:"o_sync_writes_per_second"`         // 256 bytes, one file, one writer
	Request       spread `json:"core_request_replies_per_second"`  // in process
	PublishAlways spread `json:"publishes_sync_always_per_second"` // 256 bytes, acknowledged one by one
	PublishLazy   spread `json:"publishes_sync_100ms_per_second"`
}

// measureTime is the duration of one measurement in one run.
const measureTime = 500 * time.Millisecond

// measureLimits measures each rate several times.
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
				return nil, fmt.Errorf("measure the limits of this machine: %w", err)
			}
			rates = append(rates, r)
		}
		slices.Sort(rates)
		*m.out = spread{median(rates), rates[0], rates[len(rates)-1]}
	}
	return l, nil
}

func (l *limits) print() {
	console.Printf("Limits of this machine, per second: median (minimum to maximum)\n")
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

// measureRate repeats an operation for measureTime and returns the rate per second.
func measureRate(ctx context.Context, op func() error) (float64, error) {
	n, began := 0, time.Now()
	for time.Since(began) < measureTime {
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

// osyncRate measures synchronous writes of 256 bytes to one file.
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
	return measureRate(ctx, func() error {
		_, err := f.Write(buf)
		return err
	})
}

// requestRate measures requests of 256 bytes to a responder in the same process.
func requestRate(ctx context.Context) (float64, error) {
	return withServer("100ms", func(nc *nats.Conn) (float64, error) {
		sub, err := nc.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) })
		if err != nil {
			return 0, err
		}
		defer sub.Unsubscribe()
		data := make([]byte, 256)
		return measureRate(ctx, func() error {
			_, err := nc.RequestWithContext(ctx, "echo", data)
			return err
		})
	})
}

// publishRate measures JetStream publishes of 256 bytes, one at a time, with a sync setting of the server.
func publishRate(ctx context.Context, sync string) (float64, error) {
	return withServer(sync, func(nc *nats.Conn) (float64, error) {
		js, err := jetstream.New(nc)
		if err != nil {
			return 0, err
		}
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench"}, Storage: jetstream.FileStorage}); err != nil {
			return 0, err
		}
		data := make([]byte, 256)
		return measureRate(ctx, func() error {
			_, err := js.Publish(ctx, "bench", data)
			return err
		})
	})
}

func withServer(sync string, fn func(*nats.Conn) (float64, error)) (float64, error) {
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
