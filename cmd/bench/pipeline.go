package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/reflector"
)

// pipelineBench measures the samples per second of the three roles.
type pipelineBench struct {
	Samples int      `help:"Samples in one run." default:"6000"`
	Runs    int      `help:"Runs of each case; medians are shown." default:"5"`
	Bullets []int    `help:"Numbers of bullets in the playbook at the start." default:"0,1000,10000,100000"`
	Syncs   []string `help:"When the server flushes to disk." default:"100ms,always"`
	Text    int      `help:"Bytes of text that each task has in addition." default:"0"`
	JSON    bool     `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*pipelineBench) Help() string {
	return `Sends tasks through Generator, Reflector and Curator in this process, with an embedded server and a canned model that answers at once.
Each reflection votes on three bullets, one in ten has a lesson. All tasks are of one playbook.

  limit       the same number of messages of 4 KB through JetStream alone, in the same run: three stored messages a sample, each
              pulled and acknowledged, and one message for each batch of the last stage
  share       samples per second as a share of the limit in the same run; the median over the runs
  bytes       stored by the server for a sample, in all streams and buckets, in the last run
  CPU         processor time of this process for a sample, in milliseconds: roles, server and the sender of the tasks, in the last run

Examples:

  bench pipeline
  bench pipeline --bullets 10000 --syncs 100ms --runs 1`
}

// Validate implements kong's check.
func (b *pipelineBench) Validate() error {
	if b.Text < 0 {
		return errors.New("--text: must not be negative")
	}
	if b.Samples < 1 || b.Runs < 1 || len(b.Bullets) == 0 || slices.Min(b.Bullets) < 0 {
		return errors.New("--samples, --runs: must be at least 1; --bullets: must not be negative")
	}
	return nil
}

// pipelineRow is the result of one case. Rates are in samples per second.
type pipelineRow struct {
	Sync    string  `json:"sync"`
	Bullets int     `json:"bullets"`
	Rate    float64 `json:"samples_per_second"`
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
	Limit   float64 `json:"limit"`
	Share   float64 `json:"share_of_limit"`
	Bytes   float64 `json:"bytes_per_sample"`
	Writes  float64 `json:"writes_per_sample"`
	CPU     float64 `json:"cpu_ms_per_sample"`
}

// Run implements the command.
func (b *pipelineBench) Run(ctx context.Context, c *program.Common) error {
	t := table{
		Title: fmt.Sprintf("Pipeline: samples per second, %d samples a run, medians of %d runs, load average %s", b.Samples, b.Runs, loadAverage()),
		Head:  "sync\tbullets\tsamples/s\tleast to most\tlimit\tshare\tbytes\twrites\tCPU ms\t",
	}
	for _, sync := range b.Syncs {
		rows, err := b.measure(ctx, sync, c.Logger())
		if err != nil {
			return err
		}
		for _, r := range rows {
			t.add(r, "%s\t%d\t%.0f\t%.0f to %.0f\t%.0f\t%.1f %%\t%.0f\t%.1f\t%.2f\t",
				r.Sync, r.Bullets, r.Rate, r.Least, r.Most, r.Limit, 100*r.Share, r.Bytes, r.Writes, r.CPU)
		}
	}
	return t.print(term.Stdout, b.JSON)
}

// measure runs all cases of a sync setting. Each run measures the limit and then every size, so that a change of the
// machine's speed is in both.
func (b *pipelineBench) measure(ctx context.Context, sync string, log zerolog.Logger) ([]pipelineRow, error) {
	rates := make([][]float64, len(b.Bullets))
	ratios := make([][]float64, len(b.Bullets))
	rows := make([]pipelineRow, len(b.Bullets))
	var limits []float64
	for range b.Runs {
		limit, err := rawRate(ctx, sync, b.Samples, log)
		if err != nil {
			return nil, fmt.Errorf("measure JetStream alone with sync %s: %w", sync, err)
		}
		limits = append(limits, limit)
		for i, size := range b.Bullets {
			one, err := b.once(ctx, sync, size, log)
			if err != nil {
				return nil, fmt.Errorf("measure %d bullets with sync %s: %w", size, sync, err)
			}
			rates[i] = append(rates[i], one.Rate)
			ratios[i] = append(ratios[i], one.Rate/limit)
			rows[i] = one
		}
	}
	for i := range rows {
		rows[i].Rate = median(rates[i])
		rows[i].Least, rows[i].Most = slices.Min(rates[i]), slices.Max(rates[i])
		rows[i].Limit, rows[i].Share = median(limits), median(ratios[i])
	}
	return rows, nil
}

// once runs one case on a temporary server. The row has the rate and what was stored.
func (b *pipelineBench) once(ctx context.Context, sync string, size int, log zerolog.Logger) (pipelineRow, error) {
	row := pipelineRow{Sync: sync, Bullets: size}
	server, err := cli.ServerFlags{NATS: program.NATS{Replicas: 1}}.StartTemporary(ctx, sync, log)
	if err != nil {
		return row, err
	}
	defer server.Close()
	if err := fillBook(ctx, deltalog.New(server.JetStream()), benchBook, size, newTexts(2)); err != nil {
		return row, err
	}
	stop, err := startRoles(ctx, server.Conn)
	if err != nil {
		return row, err
	}
	row, err = b.timed(ctx, server.Conn, row)
	return row, errors.Join(err, stop())
}

// startRoles runs the three roles with a canned model until stop is called.
func startRoles(ctx context.Context, conn *bus.Conn) (stop func() error, err error) {
	gen, err := generator.New(cannedModel{}, nil, generator.Config{Slots: 64})
	if err != nil {
		return nil, err
	}
	reflect, err := reflector.New(cannedModel{}, reflector.Config{Slots: 64})
	if err != nil {
		return nil, err
	}
	curate, err := curator.New(nil, curator.Config{MaxBurst: -1})
	if err != nil {
		return nil, err
	}
	work, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- program.Run(work, conn, gen, reflect, curate) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// timed measures the samples of a case, after some others that fill the caches.
func (b *pipelineBench) timed(ctx context.Context, conn *bus.Conn, row pipelineRow) (pipelineRow, error) {
	if err := b.sendTasks(ctx, conn, "warm", 200); err != nil {
		return row, err
	}
	before, err := storedBy(ctx, conn.JetStream())
	if err != nil {
		return row, err
	}
	began, cpu := time.Now(), cpuTime()
	if err := b.sendTasks(ctx, conn, "run", b.Samples); err != nil {
		return row, err
	}
	row.CPU = float64((cpuTime() - cpu).Microseconds()) / 1000 / float64(b.Samples)
	row.Rate = float64(b.Samples) / time.Since(began).Seconds()
	after, err := storedBy(ctx, conn.JetStream())
	row.Bytes = float64(after.bytes-before.bytes) / float64(b.Samples)
	row.Writes = float64(after.writes-before.writes) / float64(b.Samples)
	return row, err
}

// sendTasks publishes n tasks and waits until all roles are done with them.
func (b *pipelineBench) sendTasks(ctx context.Context, conn *bus.Conn, name string, n int) error {
	text := strings.Repeat("A line of a task. ", b.Text/18+1)[:b.Text] // the line has 18 bytes
	err := train.Each(n, publishers, func(i int) error {
		task := &events.Task{
			Book: benchBook, ID: fmt.Sprintf("%s-%d", name, i), Context: text, Question: fmt.Sprintf("Sample %d: what is six times seven?", i),
			Target: "42", Evaluator: scoring.ByNumber, Created: time.Now().UTC(),
		}
		_, err := conn.Publish(ctx, task, bus.PublishOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return train.WaitIdle(ctx, conn, nil, events.RoleGenerator, events.RoleReflector, events.RoleCurator)
}

// footprint is what the server has stored in all streams. Writes includes messages that were removed later.
type footprint struct{ bytes, writes uint64 }

func storedBy(ctx context.Context, js jetstream.JetStream) (footprint, error) {
	var sum footprint
	all := js.ListStreams(ctx)
	for s := range all.Info() {
		sum.bytes += s.State.Bytes
		sum.writes += s.State.LastSeq
	}
	return sum, all.Err()
}
