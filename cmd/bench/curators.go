package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
)

// curatorsBench measures how the Curator scales over its workers.
type curatorsBench struct {
	Workers     []int         `help:"Numbers of workers." default:"1,2,4"`
	Books       int           `help:"Number of playbooks." default:"100"`
	Reflections int           `help:"Reflections in one run." default:"20000"`
	Runs        int           `help:"Runs of each case; medians are shown." default:"5"`
	Syncs       []string      `help:"When the server flushes to disk." default:"100ms,always"`
	Think       time.Duration `help:"Response time of the model. With 0, reflections have no lesson and no model is asked." default:"0s"`
	Slots       int           `help:"Playbooks that a worker handles at the same time." default:"8"`
	JSON        bool          `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*curatorsBench) Help() string {
	return `Publishes reflections on different executions, each with three votes, over many playbooks, and then starts Curators in this process, each
with a separate connection to the embedded server. The time is from the first delivery, when all of them run, until all reflections are acknowledged.

  speed-up  reflections per second in relation to the first number of workers, in the same run
  deltas    stored deltas in all playbooks

Examples:

  bench curators
  bench curators --think 50ms --reflections 2000 --runs 1`
}

// Validate implements kong's check.
func (b *curatorsBench) Validate() error {
	if len(b.Workers) == 0 || slices.Min(b.Workers) < 1 || b.Books < 1 || b.Reflections < 1 || b.Runs < 1 {
		return errors.New("--workers, --books, --reflections, --runs: must be at least 1")
	}
	return nil
}

// curatorsRow is the result of one case. Rates are in reflections per second.
type curatorsRow struct {
	Sync    string  `json:"sync"`
	Workers int     `json:"workers"`
	Rate    float64 `json:"reflections_per_second"`
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
	SpeedUp float64 `json:"speed_up"`
	Deltas  uint64  `json:"deltas"` // of the last run
}

// Run implements the command.
func (b *curatorsBench) Run(ctx context.Context, c *program.Common) error {
	t := table{
		Title: fmt.Sprintf("Curators: %d reflections over %d playbooks, medians of %d runs, load average %s", b.Reflections, b.Books, b.Runs, loadAverage()),
		Head:  "sync\tworkers\treflections/s\tleast to most\tspeed-up\tdeltas\t",
	}
	for _, sync := range b.Syncs {
		rows, err := b.measure(ctx, sync, c.Logger())
		if err != nil {
			return err
		}
		for _, r := range rows {
			t.add(r, "%s\t%d\t%.0f\t%.0f to %.0f\t%.2f\t%d\t", r.Sync, r.Workers, r.Rate, r.Least, r.Most, r.SpeedUp, r.Deltas)
		}
	}
	return t.print(term.Stdout, b.JSON)
}

// measure runs all numbers of workers, one after the other in each run.
func (b *curatorsBench) measure(ctx context.Context, sync string, log zerolog.Logger) ([]curatorsRow, error) {
	rows := make([]curatorsRow, len(b.Workers))
	rates := make([][]float64, len(b.Workers))
	ratios := make([][]float64, len(b.Workers))
	for range b.Runs {
		for i, workers := range b.Workers {
			rate, deltas, err := b.once(ctx, sync, workers, log)
			if err != nil {
				return nil, fmt.Errorf("measure %d workers with sync %s: %w", workers, sync, err)
			}
			rows[i] = curatorsRow{Sync: sync, Workers: workers, Deltas: deltas}
			rates[i] = append(rates[i], rate)
			ratios[i] = append(ratios[i], rate/rates[0][len(rates[0])-1])
		}
	}
	for i := range rows {
		rows[i].Rate = median(rates[i])
		rows[i].Least, rows[i].Most = slices.Min(rates[i]), slices.Max(rates[i])
		rows[i].SpeedUp = median(ratios[i])
	}
	return rows, nil
}

// once runs one case on a temporary server.
func (b *curatorsBench) once(ctx context.Context, flush string, workers int, log zerolog.Logger) (rate float64, deltas uint64, err error) {
	server, err := cli.ServerFlags{NATS: program.NATS{Replicas: 1}}.StartTemporary(ctx, flush, log)
	if err != nil {
		return 0, 0, err
	}
	defer server.Close()
	if err := b.publish(ctx, server.Conn); err != nil {
		return 0, 0, err
	}
	if err := server.Consumers.Create(ctx); err != nil {
		return 0, 0, err
	}
	// The workers start during a pause of the consumer, one second for each, and the time counts from its end.
	pauseEnd := time.Now().Add(time.Duration(workers) * time.Second)
	if _, err := server.JetStream().PauseConsumer(ctx, events.StreamReflections, events.RoleCurator, pauseEnd); err != nil {
		return 0, 0, err
	}
	work, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil) // runs before running.Wait
	for range workers {
		role, err := curator.New(b.model(), curator.Config{Slots: b.Slots})
		if err != nil {
			return 0, 0, err
		}
		conn, err := server.NewConn(ctx, log)
		if err != nil {
			return 0, 0, err
		}
		running.Go(func() {
			defer conn.NATS().Close()
			stop(role.Run(work, conn))
		})
	}
	if err := train.WaitIdle(work, server.Conn, nil, events.RoleCurator); err != nil {
		return 0, 0, cmp.Or(context.Cause(work), err)
	}
	rate = float64(b.Reflections) / time.Since(pauseEnd).Seconds()
	stream, err := server.JetStream().Stream(ctx, events.StreamDeltas)
	if err != nil {
		return 0, 0, err
	}
	return rate, stream.CachedInfo().State.Msgs, nil
}

// model returns the model of the Curators: nil without a response time, else one that proposes nothing after this time.
func (b *curatorsBench) model() chat.Model {
	if b.Think == 0 {
		return nil
	}
	return chat.ModelFunc(func(ctx context.Context, _ chat.Prompt) (chat.Reply, error) {
		select {
		case <-ctx.Done():
			return chat.Reply{}, ctx.Err()
		case <-time.After(b.Think):
		}
		return chat.Reply{Model: "canned", Finish: "stop", Text: `{"reasoning":"Nothing new.","operations":[]}`, Usage: chat.Usage{Calls: 1}}, nil
	})
}

// publish fills the playbooks with ten bullets each, and publishes the reflections.
func (b *curatorsBench) publish(ctx context.Context, conn *bus.Conn) error {
	const bullets = 10
	store := deltalog.New(conn.JetStream())
	texts := newTexts(2) // the seed
	for i := range b.Books {
		if err := fillBook(ctx, store, nthBook(i), bullets, texts); err != nil {
			return err
		}
	}
	return train.Each(b.Reflections, publishers, func(i int) error {
		book := nthBook(i % b.Books)
		execution := events.ExecutionID(book, "", fmt.Sprint("run-", i), 0)
		r := &events.Reflection{
			Book: book, ID: events.ReflectionID(execution, "", "bench"), Execution: execution, Handle: events.NewHandle(uint64(i+1), execution),
			Reflector: "bench", Model: "canned", Question: "What is six times seven?", Outcome: events.Outcome{Label: events.Success, Score: 1},
			Reasoning: "The answer is right.", Created: time.Now().UTC(),
		}
		for n := range 3 {
			r.Tags = append(r.Tags, events.BulletTag{ID: nthBullet((i/b.Books + n) % bullets), Tag: events.Helpful})
		}
		if b.Think > 0 {
			r.KeyInsight = newTexts(uint64(i)).advice()
			r.Lessons = []events.Lesson{{Section: "others", Content: r.KeyInsight}}
		}
		_, err := conn.Publish(ctx, r, bus.PublishOptions{})
		return err
	})
}
