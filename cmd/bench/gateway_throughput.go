package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/bench/internal/learning"
)

// throughputRow is the result of one mode with a number of clients.
type throughputRow struct {
	Mode    string  `json:"throughput_in_mode"`
	Clients int     `json:"clients"`
	Calls   float64 `json:"calls_per_second"`
	Direct  float64 `json:"of_direct"` // ratio
	Plain   float64 `json:"of_plain"`  // ratio
	CPU     float64 `json:"cpu_ms"`    // of a call, of the whole process
	Added   float64 `json:"added_cpu_ms"`
	Passed  int64   `json:"passed_without_advice"`
}

// throughput measures the calls of clients that never pause. Without a time it returns nil.
func (b *gatewayBench) throughput(ctx context.Context, g *gatewaySetup) (*learning.Table, error) {
	if b.Time == 0 {
		return nil, nil
	}
	t := &learning.Table{Title: fmt.Sprintf("throughput: %s of each case, %d bullets, sync %s", b.Time, b.Bullets, b.Sync), Head: "mode\tclients\tcalls/s\tof direct\tof plain\tCPU\tadded CPU\tunchanged\t"}
	for _, n := range b.Streams {
		measured := map[string]throughputRow{} // by mode
		for _, mode := range b.modes() {
			row, err := b.saturated(ctx, g, mode, n)
			if err != nil {
				return nil, err
			}
			measured[mode] = row
			row.Added = row.CPU - measured[direct].CPU
			row.Direct = row.Calls / measured[direct].Calls
			if p := measured[plain].Calls; p > 0 {
				row.Plain = row.Calls / p
			}
			t.Row(row, "%s\t%d\t%.0f\t%.0f %%\t%.0f %%\t%.2f ms\t%.2f ms\t%d\t", mode, n, row.Calls, 100*row.Direct, 100*row.Plain, row.CPU, row.Added, row.Passed)
		}
	}
	return t, nil
}

// saturated measures n clients that never pause, after a second that is not measured.
func (b *gatewayBench) saturated(ctx context.Context, g *gatewaySetup, mode string, n int) (row throughputRow, err error) {
	if _, _, err := b.rate(ctx, g, mode, n, time.Second); err != nil { // opens connections, fills caches
		return row, err
	}
	g.degraded.Store(0)
	calls, cpu, err := b.rate(ctx, g, mode, n, b.Time)
	if err != nil {
		return row, err
	}
	return throughputRow{Mode: mode, Clients: n, Calls: calls, CPU: cpu, Passed: g.degraded.Load()}, nil
}

// rate makes calls of n clients for a time. It returns the calls per second, and the CPU time of a call in milliseconds.
func (*gatewayBench) rate(ctx context.Context, g *gatewaySetup, mode string, n int, d time.Duration) (calls, cpu float64, err error) {
	var done atomic.Int64
	began, used := time.Now(), cpuTime()
	clients, ctx := errgroup.WithContext(ctx)
	for range n {
		clients.Go(func() error {
			for time.Since(began) < d {
				if _, _, err := g.timedCall(ctx, mode); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = clients.Wait()
	calls = float64(done.Load())
	return calls / time.Since(began).Seconds(), float64((cpuTime() - used).Microseconds()) / 1000 / calls, err
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
