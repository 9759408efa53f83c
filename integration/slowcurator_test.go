package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"debrief/events"
)

// TestMemoryWithSlowCurator blocks the curator's model under a load of large reflections and tasks. The messages must wait in
// the stream, without growth of any process. In the end each must count once.
func TestMemoryWithSlowCurator(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const marker = "a lesson that takes long"
	const half, size, most = 800, 64 << 10, 30 << 20 // 50 MB in each half
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	slow := openAI(t, func(ctx context.Context, request string) string {
		if strings.Contains(request, marker) {
			asked <- struct{}{}
		}
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return noOperations
	})
	_, url := startServer(t)
	model := startModel(t, 0)
	workers := []*process{
		startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model),
		startWorker(t, "reflector", events.RoleReflector, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model),
		startWorker(t, "curator", events.RoleCurator, "--nats", url, "--model", "scripted", "--base-url", slow, "--timeout", "2m"),
	}
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	rng := rand.New(rand.NewPCG(1, 1))
	h := newExpectedBook(t, ctx, conn, "slow")
	teach(t, ctx, conn, h, marker)
	<-asked
	delete(h.contents, marker) // the model returns no operations for it

	f := &fault{name: "curator's model does not answer, 100 MB of reflections wait", promise: "no process grows; each is applied once"}
	f.hit()
	tasks := invoices(rng, 400)
	pour := func(part int) {
		for i := range half {
			r := h.newReflection()
			r.Reasoning = strings.Repeat("It was as it was. ", size/18)
			r.Tags = []events.BulletTag{{ID: h.seeds[rng.IntN(len(h.seeds))], Tag: events.Helpful}}
			if err := h.publish(ctx, conn, r); err != nil {
				t.Fatal(err)
			}
			if i%4 == 0 {
				if err := submit(ctx, conn, tasks[part*half/4+i/4]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, role := range []string{events.RoleGenerator, events.RoleReflector} {
			eventually(t, 30*time.Second, role+" is done", func() error {
				idle, err := conn.Consumers.Idle(ctx, role)
				if err == nil && !idle {
					err = fmt.Errorf("messages are waiting")
				}
				return err
			})
		}
	}
	pour(0)
	before := peakMemory(t, workers)
	pour(1)
	after := peakMemory(t, workers)
	for i, p := range workers {
		t.Logf("%s: peak memory %.1f MB, after twice the load %.1f MB", p.name, float64(before[i])/1e6, float64(after[i])/1e6)
		if grown := after[i] - before[i]; grown > most {
			t.Errorf("%s grew by %d bytes with the waiting messages, want at most %d", p.name, grown, most)
		}
	}
	close(answer)
	began := time.Now()
	awaitMore(t, ctx, conn, events.RoleCurator, f.name)
	f.recovered(time.Since(began))
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, h.book)
	a := h.audit(t, ctx, conn)
	for _, p := range append(a.problems, a.letters...) {
		t.Error(p)
	}
	f.lost = a.lost()
	f.report(t)
}

// peakMemory returns the maximum resident memory of each process in bytes.
func peakMemory(t *testing.T, workers []*process) (all []int) {
	t.Helper()
	for _, p := range workers {
		n, err := peakBytes(p.pid())
		if err != nil {
			t.Skip(err)
		}
		all = append(all, n)
	}
	return all
}
