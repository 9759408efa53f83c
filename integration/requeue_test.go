package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// TestARequeuedReflectionCountsOnce: what the log covers already, and what became a dead letter before it was covered,
// is published again under its id after the stream's age has taken the first copy (a purge stands in for that), and
// once more after the stream was made anew and counts from one again. All of it counts once, with curators that begin
// with nothing but what is stored, and so does what is new.
func TestARequeuedReflectionCountsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const lesson = "Pallets are counted twice."
	model := openAI(t, func(context.Context, string) string {
		add, err := json.Marshal(map[string]any{"type": "ADD", "section": "desk", "content": lesson, "reflections": []int{1}})
		if err != nil {
			panic(err) // strings encode
		}
		return `{"reasoning": "new", "operations": [` + string(add) + `]}`
	})
	_, url := startServer(t)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var curators []*process
	for i := range 2 {
		curators = append(curators, startWorker(t, fmt.Sprint("curator", i+1), events.RoleCurator,
			"--nats", url, "--ack-wait", ackWait.String(), "--model", "scripted", "--base-url", model))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	h := newTruth(t, ctx, conn, "requeued")
	h.vote(t, ctx, conn, rng, 60)
	lost := h.newReflection()
	lost.Lessons = []events.Lesson{{Section: "desk", Content: lesson}}
	lost.Tags = []events.BulletTag{{ID: h.seeds[0], Tag: events.Harmful}}
	awaitSettled(t, ctx, conn)
	for _, p := range curators {
		p.kill()
	}
	if err := h.publish(ctx, conn, lost); err != nil {
		t.Fatal(err)
	}
	useUp(t, ctx, conn, 1)
	for _, p := range curators {
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	awaitSettled(t, ctx, conn)
	if a := h.audit(t, ctx, conn); len(a.letters) != 1 || a.covered[lost.ID] != 0 {
		t.Fatalf("got %d dead letters, and one of a reflection that is covered %d times; want one that is not", len(a.letters), a.covered[lost.ID])
	}
	for _, step := range []struct {
		name string
		lose func() error // the first copies
	}{
		{"after their age", func() error {
			s, err := conn.JetStream().Stream(ctx, events.StreamReflections)
			if err != nil {
				return err
			}
			return s.Purge(ctx)
		}},
		{"to a new stream", func() error {
			if err := conn.JetStream().DeleteStream(ctx, events.StreamReflections); err != nil {
				return err
			}
			conn = connect(t, url) // makes it anew
			return nil
		}},
	} {
		for _, p := range curators {
			p.kill()
		}
		if err := step.lose(); err != nil {
			t.Fatal(err)
		}
		for _, p := range curators {
			if err := p.start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range h.published[1:31] { // 0 made the book
			if err := h.repeat(ctx, conn, e); err != nil {
				t.Fatal(err)
			}
		}
		if n := requeueDead(t, ctx, conn, 0); n != 1 {
			t.Fatalf("%s: %d dead letters, want the one", step.name, n)
		}
		h.vote(t, ctx, conn, rng, 40)
		awaitSettled(t, ctx, conn)
		awaitView(t, ctx, conn, h.book)
		a := h.audit(t, ctx, conn)
		for _, p := range a.problems {
			t.Errorf("%s: %s", step.name, p)
		}
		t.Logf("requeued %s: %d events, %d published once more and the dead letter; %d covered, each once: %s",
			step.name, len(h.published), h.again, len(a.covered), strings.Join(h.where(t, ctx, conn), ", "))
	}
}

// vote publishes so many reflections with a vote each.
func (h *truth) vote(t *testing.T, ctx context.Context, conn *bus.Conn, rng *rand.Rand, n int) {
	t.Helper()
	for range n {
		r := h.newReflection()
		r.Tags = []events.BulletTag{{ID: h.seeds[rng.IntN(len(h.seeds))], Tag: events.Helpful}}
		if err := h.publish(ctx, conn, r); err != nil {
			t.Fatal(err)
		}
	}
}

// audit goes through all that is stored of the book.
func (h *truth) audit(t *testing.T, ctx context.Context, conn *bus.Conn) *audit {
	t.Helper()
	l, err := h.ledger(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	a := l.check()
	h.check(a)
	return a
}

// where says which sequences the stream of reflections has, and the floor of the book's last delta.
func (h *truth) where(t *testing.T, ctx context.Context, conn *bus.Conn) []string {
	t.Helper()
	s, err := conn.JetStream().Stream(ctx, events.StreamReflections)
	if err != nil {
		t.Fatal(err)
	}
	log, err := readAll(ctx, conn.JetStream(), events.StreamDeltas, events.KindDelta.Subject(h.book))
	if err != nil {
		t.Fatal(err)
	}
	d, err := events.DecodeDelta(log[len(log)-1].data)
	if err != nil {
		t.Fatal(err)
	}
	state := s.CachedInfo().State
	return []string{fmt.Sprintf("the stream holds %d to %d", state.FirstSeq, state.LastSeq), fmt.Sprintf("the log's floor is %d", d.Floor)}
}
