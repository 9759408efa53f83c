package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// TestRequeuedAppliedLetterCountsOnce requeues dead letters of reflections that were applied, as if their worker had died
// between commit and ack. It requeues all of them twice, as if the first requeue had stopped before it deleted the letters.
// No reflection may count twice, and no letter may remain.
func TestRequeuedAppliedLetterCountsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, url := startServer(t)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	curator := startWorker(t, "curator", events.RoleCurator, "--nats", url, "--ack-wait", ackWait.String())
	h := newExpectedBook(t, ctx, conn, "letters")
	h.vote(t, ctx, conn, rand.New(rand.NewPCG(2, 2)), 40)
	awaitSettled(t, ctx, conn)
	curator.kill() // the requeued messages wait for its next start
	stored, err := readAll(ctx, conn.JetStream(), events.StreamReflections, events.KindReflection.Subject(h.book))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range stored {
		err := conn.DeadLetters.Store(ctx, &events.DeadLetter{
			Role: events.RoleCurator, Reason: "no worker finished it in 5 deliveries", Attempts: 5, Code: events.DeadAttempts,
			Stream: events.StreamReflections, Seq: m.seq, Subject: m.subject, Header: m.header, Data: m.data, Time: time.Now().UTC(),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var letters []*bus.Letter
	err = conn.DeadLetters.List(ctx, bus.LetterFilter{Role: events.RoleCurator, Book: h.book}, func(l *bus.Letter) error {
		letters = append(letters, l)
		return nil
	})
	if err != nil || len(letters) != len(stored) {
		t.Fatalf("got %d dead letters (%v), want %d", len(letters), err, len(stored))
	}
	out, err := exec.CommandContext(ctx, program(t, "debrief"), "dead", "requeue", "--all", "--nats", url).CombinedOutput()
	if want := fmt.Sprintf("Requeued %d dead letters.", len(stored)); err != nil || !strings.Contains(string(out), want) {
		t.Fatalf("got %q (%v), want %q", out, err, want)
	}
	for _, l := range letters {
		if r, err := conn.DeadLetters.Requeue(ctx, l); err != nil || !r.Duplicate {
			t.Fatalf("requeue %s again: got %+v (%v), want a duplicate", l.Handle(), r, err)
		}
	}
	if err := curator.start(); err != nil {
		t.Fatal(err)
	}
	h.vote(t, ctx, conn, rand.New(rand.NewPCG(3, 3)), 10)
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, h.book)
	a := h.audit(t, ctx, conn)
	for _, p := range a.problems {
		t.Error(p)
	}
	if len(a.letters) != 0 {
		t.Errorf("got %d dead letters, want none", len(a.letters))
	}
	again, err := readAll(ctx, conn.JetStream(), events.StreamReflections, events.KindReflection.Subject(h.book))
	if err != nil || len(again) != 2*len(stored)+10 {
		t.Errorf("the stream holds %d reflections (%v), want all %d requeued", len(again), err, len(stored))
	}
}
