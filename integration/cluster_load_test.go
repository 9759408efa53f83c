package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/bus"
)

// load submits tasks at an even pace with several clients, and records the acknowledgements.
type load struct {
	tasks []*events.Task
	next  atomic.Int64
	all   sync.WaitGroup
	done  chan struct{}
}

// submitter submits tasks one at a time over one connection.
type submitter struct {
	conn *bus.Conn

	mu   sync.Mutex
	acks []attempt // that were acknowledged
}

// attempt holds the times of a publish and its acknowledgement.
type attempt struct{ began, acked time.Time }

// connect connects the test with the ping settings of the programs, so that it detects a lost server as fast.
func (c *cluster) connect(ctx context.Context, urls string) *bus.Conn {
	c.t.Helper()
	nc, err := nats.Connect(urls, nats.PingInterval(bus.PingInterval), nats.MaxPingsOutstanding(bus.MaxPings),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	var conn *bus.Conn
	eventually(c.t, time.Minute, "open the streams", func() (err error) {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		conn, err = bus.Open(try, nc, bus.Options{Replicas: len(c.nodes), Log: zerolog.New(zerolog.NewTestWriter(c.t))})
		return err
	})
	return conn
}

// submit submits tasks until the load is stopped, each until the server confirms it.
func (l *load) submit(t *testing.T, ctx context.Context, conn *bus.Conn, every time.Duration) *submitter {
	s := &submitter{conn: conn}
	l.all.Go(func() {
		pace := time.NewTicker(every)
		defer pace.Stop()
		for {
			select {
			case <-l.done:
				return
			case <-pace.C:
			}
			i := int(l.next.Add(1)) - 1
			if i >= len(l.tasks) {
				t.Errorf("the load needs more than %d tasks", len(l.tasks))
				return
			}
			if s.submitAll(ctx, l.tasks[i]) != nil {
				return // the test is over
			}
		}
	})
	return s
}

func (s *submitter) submitAll(ctx context.Context, task *events.Task) error {
	for {
		a := attempt{began: time.Now()}
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := s.conn.Publish(try, task, bus.PublishOptions{})
		cancel()
		if err == nil {
			a.acked = time.Now()
			s.mu.Lock()
			s.acks = append(s.acks, a)
			s.mu.Unlock()
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// stop ends the load and returns the ids of the submitted tasks, which are all acknowledged.
func (l *load) stop() (ids []string) {
	close(l.done)
	l.all.Wait()
	for _, task := range l.tasks[:min(int(l.next.Load()), len(l.tasks))] {
		ids = append(ids, task.ID)
	}
	return ids
}

// since reports whether a publish that started after the time was acknowledged.
func (s *submitter) since(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acks) > 0 && s.acks[len(s.acks)-1].began.After(began)
}

// outage returns the longest interval without an acknowledgement between two times.
func (s *submitter) outage(from, to time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := from
	for _, a := range s.acks {
		if a.acked.Before(from) {
			continue
		}
		if a.acked.After(to) {
			break
		}
		longest, last = max(longest, a.acked.Sub(last)), a.acked
	}
	return max(longest, to.Sub(last))
}

// awaitCaughtUp waits until all messages stored before the call are answered, reflected on and applied.
func awaitCaughtUp(t *testing.T, ctx context.Context, conn *bus.Conn) {
	t.Helper()
	for _, step := range []struct{ role, stream string }{
		{events.RoleGenerator, events.StreamTasks}, {events.RoleReflector, events.StreamExecutions}, {events.RoleCurator, events.StreamReflections},
	} {
		end := uint64(0)
		eventually(t, 2*time.Minute, "the "+step.role+" has settled what was stored", func() error {
			try, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if end == 0 {
				s, err := conn.JetStream().Stream(try, step.stream)
				if err != nil {
					return err
				}
				end = s.CachedInfo().State.LastSeq
			}
			lag, err := conn.Consumers.Lag(try, step.role)
			if err == nil && lag.Floor < end && !lag.Idle() {
				err = fmt.Errorf("acknowledged up to %d of %d", lag.Floor, end)
			}
			return err
		})
	}
}

// awaitLearning waits for the first delta.
func awaitLearning(t *testing.T, ctx context.Context, conn *bus.Conn) {
	t.Helper()
	eventually(t, time.Minute, "the first delta", func() error {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		s, err := conn.JetStream().Stream(try, events.StreamDeltas)
		if err == nil && s.CachedInfo().State.Msgs == 0 {
			err = errors.New("stream is empty")
		}
		return err
	})
}

// awaitReplicas waits until all replicas of all streams are current.
func awaitReplicas(t *testing.T, ctx context.Context, conn *bus.Conn) {
	t.Helper()
	eventually(t, time.Minute, "all replicas are current", func() error {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		streams := conn.JetStream().ListStreams(try)
		n := 0
		for s := range streams.Info() {
			n++
			if err := current(s); err != nil {
				return err
			}
		}
		if n == 0 {
			return errors.Join(errors.New("no streams"), streams.Err())
		}
		return streams.Err()
	})
}

func current(s *jetstream.StreamInfo) error {
	if s.Cluster == nil || s.Cluster.Leader == "" || s.Config.Replicas != 3 || len(s.Cluster.Replicas) != 2 {
		return fmt.Errorf("stream %s: %d replicas, led by %+v", s.Config.Name, s.Config.Replicas, s.Cluster)
	}
	for _, p := range s.Cluster.Replicas {
		if !p.Current || p.Offline || p.Lag > 0 {
			return fmt.Errorf("stream %s: the replica of %s is behind: %+v", s.Config.Name, p.Name, *p)
		}
	}
	return nil
}
