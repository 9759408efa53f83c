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

// TestRequeuedReflectionCountsOnce publishes covered reflections and a dead letter again with their ids: first after the
// first copies have expired (simulated by a purge), then after the stream was recreated and its sequence restarts at 1.
// The curators have lost their local state. All events, old and new, must count once.
func TestRequeuedReflectionCountsOnce(t *testing.T) {
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
	h := newExpectedBook(t, ctx, conn, "requeued")
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
	exhaust(t, ctx, conn, 1)
	for _, p := range curators {
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	awaitSettled(t, ctx, conn)
	if a := h.audit(t, ctx, conn); len(a.letters) != 1 || a.covered[lost.ID] != 0 {
		t.Fatalf("got %d dead letters, and the letter's reflection covered %d times; want 1 and 0", len(a.letters), a.covered[lost.ID])
	}
	var letter *events.DeadLetter
	for _, step := range []struct {
		name string
		lose func() error // deletes the first copies
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
			conn = connect(t, url) // creates it again
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
		for _, e := range h.published[1:31] { // the first one created the book
			if err := h.repeat(ctx, conn, e); err != nil {
				t.Fatal(err)
			}
		}
		if letter == nil {
			all := requeueDead(t, ctx, conn)
			if len(all) != 1 {
				t.Fatalf("%s: %d dead letters, want the one", step.name, len(all))
			}
			letter = all[0]
		} else if err := publishAgain(ctx, conn, letter.Subject, letter.Header, letter.Data); err != nil { // it was withdrawn
			t.Fatal(err)
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

// vote publishes n reflections with one vote each.
func (h *expectedBook) vote(t *testing.T, ctx context.Context, conn *bus.Conn, rng *rand.Rand, n int) {
	t.Helper()
	for range n {
		r := h.newReflection()
		r.Tags = []events.BulletTag{{ID: h.seeds[rng.IntN(len(h.seeds))], Tag: events.Helpful}}
		if err := h.publish(ctx, conn, r); err != nil {
			t.Fatal(err)
		}
	}
}

// audit checks all stored messages of the book.
func (h *expectedBook) audit(t *testing.T, ctx context.Context, conn *bus.Conn) *audit {
	t.Helper()
	l, err := h.ledger(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	a := l.check()
	h.check(a)
	return a
}

// where returns the sequences in REFLECTIONS and the floor of the book's last delta.
func (h *expectedBook) where(t *testing.T, ctx context.Context, conn *bus.Conn) []string {
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
