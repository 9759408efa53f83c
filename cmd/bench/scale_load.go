package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/natsd"

	book "debrief/playbook"
)

// load is the source of events for all cases.
type load struct {
	tasks       []events.Task
	executions  []*events.Execution  // of the first tasks, as a generator process stored them
	reflections []*events.Reflection // on those
}

// patterns is the number of tasks that workers really process. The load repeats them with new ids.
const patterns = 200

// prepare creates executions and reflections with real workers.
func prepare(ctx context.Context, f *fleet, log zerolog.Logger) (*load, error) {
	l := new(load)
	l.tasks, _ = simulated.GenerateTasks(1, patterns, 1)
	s, model, stop, err := scaleServer(ctx, "100ms", 0, log)
	if err != nil {
		return nil, err
	}
	defer stop()
	defer f.stop()
	if err := l.send(ctx, s, events.RoleGenerator, len(l.tasks), 1); err != nil {
		return nil, err
	}
	if err := f.start(ctx, s, []string{events.RoleGenerator, events.RoleReflector}, 1, 16, model); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, role := range []string{events.RoleGenerator, events.RoleReflector} {
		if err := settle(ctx, s, role); err != nil {
			return nil, err
		}
	}
	err = s.ReadStored(ctx, events.StreamExecutions, events.KindExecution.Subject(""), func(e bus.Stored) error {
		if e.Err == nil {
			l.executions = append(l.executions, e.Event.(*events.Execution))
		}
		return e.Err
	})
	if err != nil {
		return nil, err
	}
	// An execution that was right and shown no bullet is not reflected on. Those that are left teach as much each.
	err = s.ReadStored(ctx, events.StreamReflections, events.KindReflection.Subject(""), func(e bus.Stored) error {
		if e.Err == nil {
			l.reflections = append(l.reflections, e.Event.(*events.Reflection))
		}
		return e.Err
	})
	if len(l.reflections) > 0 {
		l.executions = slices.DeleteFunc(l.executions, func(x *events.Execution) bool {
			return !slices.ContainsFunc(l.reflections, func(r *events.Reflection) bool { return r.Execution == x.ID })
		})
		return l, err
	}
	return nil, errors.Join(err, errors.New("no execution was reflected on"))
}

// settle waits until a role is idle.
func settle(ctx context.Context, s *cli.Session, role string) error {
	for {
		idle, err := s.Idle(ctx, role)
		if err != nil || idle {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// scaleServer starts a temporary server that accepts connections, and a simulated model with a response time.
func scaleServer(ctx context.Context, sync string, think time.Duration, log zerolog.Logger) (s *cli.Session, model string, stop func(), err error) {
	p := cli.ServerFlags{NATS: app.NATS{Replicas: 1}}
	if s, err = p.StartConfigured(ctx, natsd.Config{Sync: sync, Listen: "127.0.0.1:0"}, log); err != nil {
		return nil, "", nil, err
	}
	serving, end := context.WithCancel(ctx)
	model, wait, err := simulated.Serve(serving, "", simulated.Options{Seed: 1, Latency: think})
	if err != nil {
		end()
		s.Close()
		return nil, "", nil, err
	}
	return s, model, func() {
		end()
		_ = wait() // the model is not used any more
		s.Close()
	}, nil
}

// send publishes n events for a role, spread over several playbooks.
func (l *load) send(ctx context.Context, s *cli.Session, role string, n, books int) error {
	return train.Each(n, 64, func(i int) error {
		b := book.Book(fmt.Sprintf("scale-%d", i%books))
		var e events.Event
		switch role {
		case events.RoleGenerator:
			t := l.tasks[i%len(l.tasks)]
			t.Book, t.ID = b, fmt.Sprint("task-", i)
			e = &t
		case events.RoleReflector:
			x := *l.executions[i%len(l.executions)]
			x.Book, x.RunID = b, fmt.Sprint("task-", i)
			x.ID = events.ExecutionID(b, "", x.RunID, 0)
			e = &x
		default:
			r := *l.reflections[i%len(l.reflections)]
			r.Book, r.Execution = b, events.ExecutionID(b, "", fmt.Sprint("task-", i), 0)
			r.ID = events.ReflectionID(r.Execution, "", r.Reflector)
			r.Handle = events.NewHandle(uint64(i+1), r.Execution)
			e = &r
		}
		_, err := s.Publish(ctx, e, bus.PublishOptions{})
		return err
	})
}

// measure measures one case: n processes of each role of a part.
func (b *scaleBench) measure(ctx context.Context, f *fleet, l *load, part string, think time.Duration, n int, log zerolog.Logger) (*scaleRow, error) {
	roles, counted := rolesOf(part)
	row := &scaleRow{Part: part, Model: think.Seconds(), Processes: n, Most: float64(n*b.Slots) / think.Seconds()}
	s, model, stop, err := scaleServer(ctx, b.Sync, think, log)
	if err != nil {
		return nil, err
	}
	defer stop()
	defer f.stop()
	// Enough for the time that is measured and that before it. No two processors do more a second than the second number.
	enough := int(math.Min(row.Most, 1500) * (b.Measure.Seconds() + 5))
	if err := l.send(ctx, s, roles[0], enough, 1); err != nil {
		return nil, err
	}
	if len(roles) > 1 {
		if err := f.start(ctx, s, []string{events.RoleCurator}, 1, 0, ""); err != nil {
			return nil, err
		}
	}
	if err := f.start(ctx, s, roles, n, b.Slots, model); err != nil {
		return nil, err
	}
	time.Sleep(2 * think) // until the first of them are through, and all slots are in work
	busy, all := machine()
	before, err := lastOf(ctx, s, counted)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(b.Measure):
	}
	after, err := lastOf(ctx, s, counted)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	busyThen, allThen := machine()
	row.Rate, row.Busy, row.Memory = float64(after-before)/took.Seconds(), busyShare(busy, all, busyThen, allThen), f.memory()
	if lag, err := s.Lag(ctx, roles[0]); err != nil || lag.Pending == 0 {
		return nil, errors.Join(err, errors.New("the load ran out before the time was over: choose a shorter --measure"))
	}
	if after == before {
		return nil, errors.New("nothing was stored while it was measured")
	}
	return row, nil
}

// lastOf returns the last sequence of a stream.
func lastOf(ctx context.Context, s *cli.Session, stream string) (uint64, error) {
	in, err := s.JetStream().Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return in.CachedInfo().State.LastSeq, nil
}

// curators measures the rate at which existing reflections are applied.
func (b *scaleBench) curators(ctx context.Context, f *fleet, l *load, log zerolog.Logger) (*table.Table, error) {
	const reflections = 30_000
	s := &table.Table{
		Title: fmt.Sprintf("curator: %d reflections, sync %s, no model", reflections, b.Sync),
		Head:  "books\tprocesses\treflections/s\tdeltas/s\tbusy\tMB a process\t",
	}
	for _, books := range b.Books {
		for _, n := range b.Curators {
			if err := b.curating(ctx, f, l, s, reflections, books, n, log); err != nil {
				return nil, fmt.Errorf("%d curators on %d books: %w", n, books, err)
			}
		}
	}
	return s, nil
}

func (b *scaleBench) curating(ctx context.Context, f *fleet, l *load, t *table.Table, reflections, books, n int, log zerolog.Logger) error {
	s, _, stop, err := scaleServer(ctx, b.Sync, 0, log)
	if err != nil {
		return err
	}
	defer stop()
	defer f.stop()
	if err := l.send(ctx, s, events.RoleCurator, reflections, books); err != nil {
		return err
	}
	if err := f.start(ctx, s, []string{events.RoleCurator}, n, 0, ""); err != nil {
		return err
	}
	busy, all := machine()
	deltas, err := lastOf(ctx, s, events.StreamDeltas)
	if err != nil {
		return err
	}
	first, err := s.Lag(ctx, events.RoleCurator) // those that were at work first have begun
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := settle(ctx, s, events.RoleCurator); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	busyThen, allThen := machine()
	written, err := lastOf(ctx, s, events.StreamDeltas)
	if err != nil {
		return err
	}
	row := map[string]any{
		"part": "curator", "books": books, "processes": n, "reflections_per_second": float64(uint64(reflections)-first.Floor) / took,
		"deltas_per_second": float64(written-deltas) / took,
		"busy":              busyShare(busy, all, busyThen, allThen), "megabytes": f.memory(),
	}
	t.Row(row, "%d\t%d\t%.0f\t%.0f\t%.0f %%\t%.1f\t", books, n, row["reflections_per_second"], row["deltas_per_second"],
		100*row["busy"].(float64), row["megabytes"])
	return nil
}

// idle measures the memory and the processor time of a worker without work.
func (b *scaleBench) idle(ctx context.Context, f *fleet, log zerolog.Logger) (*table.Table, error) {
	s := &table.Table{Title: fmt.Sprintf("idle: one process of a role and nothing to do, for %s", b.Measure), Head: "role\tMB\tof a processor\t"}
	server, model, stop, err := scaleServer(ctx, b.Sync, 0, log)
	if err != nil {
		return nil, err
	}
	defer stop()
	for _, role := range cli.Roles {
		if err := f.start(ctx, server, []string{role}, 1, 16, model); err != nil {
			f.stop()
			return nil, err
		}
		time.Sleep(2 * time.Second) // starting is over
		before, began := f.ticks(), time.Now()
		time.Sleep(b.Measure)
		used := (f.ticks() - before) / 100 / time.Since(began).Seconds()
		megabytes := f.memory()
		f.stop()
		s.Row(map[string]any{"part": "idle", "role": role, "megabytes": megabytes, "of_a_processor": used}, "%s\t%.1f\t%.2f %%\t", role, megabytes, 100*used)
		if megabytes > 0 {
			s.Goal(megabytes < 40 && used < 0.01, role+" under 40 MB and 1 % of a processor", "%.1f MB, %.2f %%", megabytes, 100*used)
		}
	}
	return s, nil
}
