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
// both. It only asserts that two are not slower, because the machine may be busy.
func TestMoreWorkersAreFaster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	model := startModel(t, 50*time.Millisecond)
	for _, role := range []string{events.RoleGenerator, events.RoleReflector} {
		one, two := throughput(t, model, role, 1), throughput(t, model, role, 2)
		t.Logf("%-9s with 4 slots and a model of 50 ms (80/s at best): one %.0f/s, two %.0f/s: %.2f times", role, one, two, two/one)
		if two < one {
			t.Errorf("two of %s do %.0f/s, one alone does %.0f/s", role, two, one)
		}
	}
}

// throughput returns the messages per second that a number of processes stores, with all work waiting at the start. It uses
// the server's timestamps of the stored messages, so that start and stop do not count.
func throughput(t *testing.T, model, role string, processes int) float64 {
	t.Helper()
	const n = 150
	_, url := startServer(t)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := func(role string, processes, slots int) []*process {
		var all []*process
		for i := range processes {
			all = append(all, startWorker(t, fmt.Sprint(role, i+1), role, "--nats", url, "--model", "simulated-invoice-desk",
				"--base-url", model, fmt.Sprintf("--%s-slots=%d", role, slots)))
		}
		return all
	}
	tasks := func() {
		for _, task := range invoices(rand.New(rand.NewPCG(1, 1)), n) {
			if _, err := conn.Publish(ctx, task, bus.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, subject := events.StreamExecutions, events.KindExecution.Subject(desk)
	var workers []*process
	if role == events.RoleGenerator {
		tasks()
		workers = begin(role, processes, 4)
	} else {
		generators := begin(events.RoleGenerator, 1, 16)
		tasks()
		stored(t, ctx, conn, out, subject, n)
		generators[0].kill()
		out, subject = events.StreamReflections, events.KindReflection.Subject(desk)
		workers = begin(role, processes, 4)
	}
	times := stored(t, ctx, conn, out, subject, n)
	for _, p := range workers {
		p.kill()
	}
	// Skip the first tenth, while the second process may still start.
	first := n / 10
	return float64(n-1-first) / times[n-1].Sub(times[first]).Seconds()
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
