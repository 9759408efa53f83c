package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
)

// TestMoreWorkersAreFaster measures the throughput of one and two processes of a role with a model latency of 50 ms. It logs
// both. It only asserts that two are not slower, because the machine may be busy. Both are measured at the same time on
// separate servers, so that other load slows down both.
func TestMoreWorkersAreFaster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	model := startModel(t, 50*time.Millisecond)
	for _, role := range []string{events.RoleGenerator, events.RoleReflector} {
		single, pair := newBacklog(t, ctx, model, role), newBacklog(t, ctx, model, role)
		single.begin(t, role, 1, 4)
		pair.begin(t, role, 2, 4)
		one, two := single.throughput(t, ctx), pair.throughput(t, ctx)
		t.Logf("%-9s with 4 slots and a model of 50 ms (80/s at best): one %.0f/s, two %.0f/s: %.2f times", role, one, two, two/one)
		if two < one {
			t.Errorf("two of %s do %.0f/s, one alone does %.0f/s", role, two, one)
		}
	}
}

// backlog is a server with waiting messages for one role.
type backlog struct {
	url, model     string
	conn           *bus.Conn
	stream, output string // stream and subject of the results
	workers        []*process
}

// backlogSize is the number of messages in a backlog.
const backlogSize = 150

// newBacklog starts a server and stores a backlog for a role.
func newBacklog(t *testing.T, ctx context.Context, model, role string) *backlog {
	t.Helper()
	_, url := startServer(t)
	b := &backlog{url: url, model: model, conn: connect(t, url), stream: events.StreamExecutions, output: events.KindExecution.Subject(desk)}
	for _, task := range invoices(rand.New(rand.NewPCG(1, 1)), backlogSize) {
		if _, err := b.conn.Publish(ctx, task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if role == events.RoleReflector {
		b.begin(t, events.RoleGenerator, 1, 16)
		stored(t, ctx, b.conn, b.stream, b.output, backlogSize)
		b.kill()
		b.stream, b.output = events.StreamReflections, events.KindReflection.Subject(desk)
	}
	return b
}

// begin starts processes of a role.
func (b *backlog) begin(t *testing.T, role string, processes, slots int) {
	t.Helper()
	for i := range processes {
		b.workers = append(b.workers, startWorker(t, fmt.Sprint(role, i+1), role, "--nats", b.url, "--model", "simulated-invoice-desk",
			"--base-url", b.model, fmt.Sprintf("--%s-slots=%d", role, slots)))
	}
}

// kill kills all processes.
func (b *backlog) kill() {
	for _, p := range b.workers {
		p.kill()
	}
	b.workers = nil
}

// throughput waits until the backlog is done, kills the processes, and returns the messages per second. It uses the server's
// timestamps of the stored messages, so that start and stop do not count.
func (b *backlog) throughput(t *testing.T, ctx context.Context) float64 {
	t.Helper()
	times := stored(t, ctx, b.conn, b.stream, b.output, backlogSize)
	b.kill()
	// Skip the first tenth, while the second process may still start.
	first := backlogSize / 10
	return float64(backlogSize-1-first) / times[backlogSize-1].Sub(times[first]).Seconds()
}

// stored waits until n messages are stored with a subject, and returns their times.
func stored(t *testing.T, ctx context.Context, conn *bus.Conn, stream, subject string, n int) []time.Time {
	t.Helper()
	cons, err := conn.JetStream().OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		t.Fatal(err)
	}
	it, err := cons.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	var times []time.Time
	for len(times) < n {
		m, err := it.Next()
		if err != nil {
			t.Fatalf("read %s: %v after %d of %d", subject, err, len(times), n)
		}
		md, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, md.Timestamp)
	}
	return times
}
