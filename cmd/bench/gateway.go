package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
)

// gatewayBench measures what the gateway adds to calls of models.
type gatewayBench struct {
	Streams []int         `help:"Numbers of open streams, and of clients for the throughput." default:"1,64,512"`
	Modes   []string      `help:"Modes of the gateway; direct calls and a plain reverse proxy are always measured." default:"off,observe,tail"`
	Bullets int           `help:"Number of bullets in the playbook." default:"10000"`
	Samples int           `help:"Calls of each case." default:"300"`
	Sync    string        `help:"When the server flushes to disk." default:"always"`
	Time    time.Duration `help:"Time of each throughput; 0 measures none." default:"5s"`
	JSON    bool          `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*gatewayBench) Help() string {
	return `Calls a fake model provider directly and through the gateway, with a prompt of 20 KB and a stream of 50 events, of which the first
comes 20 ms before the others. The gateway, an embedded NATS server with the playbook, the provider and the clients run in this process and share its processors.

  first byte  time to the first byte of single calls while other streams are open, each with 20 events a second
  last byte   added time to the last byte: the gateway stores a call before it sends the end
  added       difference to the direct connection with as many open streams
  unchanged   calls that passed without advice or capture, because these took 150 ms
  calls/s     calls of as many clients that never pause
  CPU         of one call, of the whole process: client, provider, gateway and NATS server; added: without that of the direct connection
  plain       a reverse proxy of the standard library in place of the gateway

Examples:

  bench gateway
  bench gateway --streams 64 --modes tail --samples 2000
  bench gateway --streams 64 --modes observe,tail --samples 0 --sync 100ms`
}

// Validate implements kong's check.
func (b *gatewayBench) Validate() error {
	if len(b.Streams) == 0 || slices.Min(b.Streams) < 1 || b.Samples < 0 || b.Bullets < 0 || b.Time < 0 {
		return errors.New("--streams: must be at least 1; --samples, --bullets, --time: must not be negative")
	}
	for _, mode := range b.Modes {
		if !slices.Contains([]string{"off", "observe", "tail", "system"}, mode) {
			return fmt.Errorf("--modes: want off, observe, tail or system, got %.20q", mode)
		}
	}
	return nil
}

// quantiles summarizes durations.
type quantiles struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// Modes of a call without the gateway.
const (
	direct = "direct" // to the provider
	plain  = "plain"  // through a reverse proxy of the standard library
)

// modes returns the measured modes, without the gateway and with it.
func (b *gatewayBench) modes() []string { return append([]string{direct, plain}, b.Modes...) }

// Run implements the command.
func (b *gatewayBench) Run(ctx context.Context, c *program.Common) error {
	g, err := b.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer g.close()
	for _, measure := range []func(context.Context, *gatewaySetup) (*table, error){b.firstByte, b.throughput} {
		t, err := measure(ctx, g)
		if err == nil && t != nil {
			err = t.print(term.Stdout, b.JSON)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// firstByteRow is the result of one mode with a number of open streams. Added and Last are differences to the direct connection.
type firstByteRow struct {
	Mode    string `json:"first_byte_in_mode"`
	Streams int    `json:"streams"`
	quantiles
	Added50   float64 `json:"added_p50_ms"`
	Added99   float64 `json:"added_p99_ms"`
	Last50    float64 `json:"last_byte_added_p50_ms"`
	Last99    float64 `json:"last_byte_added_p99_ms"`
	Unchanged int64   `json:"unchanged"`
}

// firstByte measures single calls, one after the other, while other streams are open. Without samples it returns nil.
func (b *gatewayBench) firstByte(ctx context.Context, g *gatewaySetup) (*table, error) {
	if b.Samples == 0 {
		return nil, nil
	}
	t := &table{Title: fmt.Sprintf("first byte: %d calls of each case, %d bullets", b.Samples, b.Bullets), Head: "mode\tstreams\tp50\tp99\tadded p50\tadded p99\tlast byte added p50\tlast byte added p99\tunchanged\t"}
	for _, n := range b.Streams {
		var base, baseLast quantiles // first and last byte of the direct connection
		for _, mode := range b.modes() {
			end, err := g.hold(ctx, mode, n-1)
			if err != nil {
				return nil, err
			}
			g.unchanged.Store(0)
			row := firstByteRow{Mode: mode, Streams: n}
			var last quantiles
			row.quantiles, last, err = b.sampled(ctx, g, mode)
			end()
			if err != nil {
				return nil, err
			}
			if mode == direct {
				base, baseLast = row.quantiles, last
			}
			row.Unchanged = g.unchanged.Load()
			row.Added50, row.Added99 = row.P50-base.P50, row.P99-base.P99
			row.Last50, row.Last99 = last.P50-baseLast.P50, last.P99-baseLast.P99
			t.add(row, "%s\t%d\t%.2f ms\t%.2f ms\t%.2f ms\t%.2f ms\t%.2f ms\t%.2f ms\t%d\t", mode, n, row.P50, row.P99, row.Added50, row.Added99, row.Last50, row.Last99, row.Unchanged)
		}
	}
	return t, nil
}

// sampled makes the calls of a mode, and returns the times to their first and to their last bytes.
func (b *gatewayBench) sampled(ctx context.Context, g *gatewaySetup, mode string) (first, last quantiles, err error) {
	const warm = 20 // calls that are not measured
	var firsts, lasts []time.Duration
	for i := range warm + b.Samples {
		f, l, err := g.timedCall(ctx, mode)
		if err != nil {
			return first, last, err
		}
		if i >= warm {
			firsts, lasts = append(firsts, f), append(lasts, l)
		}
	}
	return quantilesOf(firsts), quantilesOf(lasts), nil
}

// quantilesOf returns the quantiles of times, in milliseconds. It sorts them.
func quantilesOf(took []time.Duration) quantiles {
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return quantiles{ms(took[len(took)/2]), ms(took[len(took)*99/100])}
}

// throughputRow is the result of one mode with a number of clients.
type throughputRow struct {
	Mode      string  `json:"throughput_in_mode"`
	Clients   int     `json:"clients"`
	Calls     float64 `json:"calls_per_second"`
	Direct    float64 `json:"of_direct"` // ratio
	Plain     float64 `json:"of_plain"`  // ratio
	CPU       float64 `json:"cpu_ms"`    // of a call, of the whole process
	Added     float64 `json:"added_cpu_ms"`
	Unchanged int64   `json:"unchanged"`
}

// throughput measures the calls of clients that never pause. Without a time it returns nil.
func (b *gatewayBench) throughput(ctx context.Context, g *gatewaySetup) (*table, error) {
	if b.Time == 0 {
		return nil, nil
	}
	t := &table{Title: fmt.Sprintf("throughput: %s of each case, %d bullets, sync %s", b.Time, b.Bullets, b.Sync), Head: "mode\tclients\tcalls/s\tof direct\tof plain\tCPU\tadded CPU\tunchanged\t"}
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
			t.add(row, "%s\t%d\t%.0f\t%.0f %%\t%.0f %%\t%.2f ms\t%.2f ms\t%d\t", mode, n, row.Calls, 100*row.Direct, 100*row.Plain, row.CPU, row.Added, row.Unchanged)
		}
	}
	return t, nil
}

// saturated measures n clients that never pause, after a second that is not measured.
func (b *gatewayBench) saturated(ctx context.Context, g *gatewaySetup, mode string, n int) (row throughputRow, err error) {
	if _, _, err := b.rate(ctx, g, mode, n, time.Second); err != nil { // opens connections, fills caches
		return row, err
	}
	g.unchanged.Store(0)
	calls, cpu, err := b.rate(ctx, g, mode, n, b.Time)
	if err != nil {
		return row, err
	}
	return throughputRow{Mode: mode, Clients: n, Calls: calls, CPU: cpu, Unchanged: g.unchanged.Load()}, nil
}

// rate makes calls of n clients for a time, at least one of each. It returns the calls per second, and the CPU time of a call in milliseconds.
func (*gatewayBench) rate(ctx context.Context, g *gatewaySetup, mode string, n int, d time.Duration) (calls, cpu float64, err error) {
	var done atomic.Int64
	began, used := time.Now(), cpuTime()
	clients, ctx := errgroup.WithContext(ctx)
	for range n {
		clients.Go(func() error {
			for {
				if _, _, err := g.timedCall(ctx, mode); err != nil {
					return err
				}
				done.Add(1)
				if time.Since(began) >= d {
					return nil
				}
			}
		})
	}
	if err := clients.Wait(); err != nil {
		return 0, 0, err
	}
	all := float64(done.Load())
	return all / time.Since(began).Seconds(), float64((cpuTime() - used).Microseconds()) / 1000 / all, nil
}
