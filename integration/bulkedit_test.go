package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestBulkEditCountsOnce has curators race on edits that apply held reflections, each published twice, and kills them at
// every crash point of the commit. The resulting playbook must equal that of a run without kills.
func TestBulkEditCountsOnce(t *testing.T) {
	t.Parallel()
	_, url := startServer(t)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	curators := startCurators(t, 2, url, startCurator)

	for batch, p := range crashPoints {
		calm, raced := heldBatch(t, ctx, conn, "calm", batch), heldBatch(t, ctx, conn, "raced", batch)
		awaitSettled(t, ctx, conn)
		if _, err := conn.Request(ctx, calm, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitSettled(t, ctx, conn)
		traps := []*trap{curators[0].newCrashProxy.arm(p, 0), curators[1].newCrashProxy.arm(p, 0)}
		if _, err := conn.Publish(ctx, raced, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		killed := 0
		select {
		case <-traps[0].struck:
		case <-traps[1].struck:
			killed = 1
		case <-ctx.Done():
			t.Fatalf("%s: no curator reached it", p.name)
		}
		curators[1-killed].newCrashProxy.disarm(traps[1-killed])
		if err := curators[killed].start(); err != nil {
			t.Fatal(err)
		}
		subject, header, data, err := events.Encode(raced)
		if err == nil {
			err = publishAgain(ctx, conn, subject, header, data)
		}
		if err != nil {
			t.Fatal(err)
		}
		awaitSettled(t, ctx, conn)
	}

	store := deltalog.New(conn.JetStream())
	state := map[playbook.Book]*playbook.Playbook{}
	for _, book := range []playbook.Book{"calm", "raced"} {
		awaitView(t, ctx, conn, book)
		w, err := store.Writer(ctx, book)
		if err != nil {
			t.Fatal(err)
		}
		state[book] = w.State().Playbook()
	}
	calm, raced := state["calm"], state["raced"]
	if calm.StateHash() != raced.StateHash() {
		t.Errorf("got %d bullets, without kills %d; got %d votes on the first, without kills %d", raced.Len(), calm.Len(),
			raced.Bullet("desk-00001").Helpful, calm.Bullet("desk-00001").Helpful)
	}
	// A few bullets are similar enough to be merged.
	if n := batchSize * len(crashPoints); calm.Len() < n*9/10 || calm.Bullet("desk-00001").Helpful != n-batchSize {
		t.Errorf("without kills: got %d bullets and %d votes, want about %d and %d", calm.Len(), calm.Bullet("desk-00001").Helpful, n, n-batchSize)
	}
	if n := len(requeueDead(t, ctx, conn)); n != 0 {
		t.Errorf("got %d dead letters", n)
	}
}

const batchSize = 100

// heldBatch stores held reflections and returns the edit that applies them. For the crash point between deltas the edit
// needs several deltas.
func heldBatch(t *testing.T, ctx context.Context, conn *bus.Conn, book playbook.Book, batch int) *events.Edit {
	t.Helper()
	words := "it is stamped"
	if name := crashPoints[batch].name; name == midChange.name || name == midBatch.name {
		words = strings.Repeat("and then stamped, ", 200)
	}
	e := &events.Edit{Book: book, ID: events.Hash(string(book), fmt.Sprint("edit ", batch)), Author: "run", Reason: "batch"}
	for i := range batchSize {
		name := fmt.Sprint(batch, "-", i)
		r := &events.Reflection{
			ID: events.Hash(string(book), name), Execution: events.ExecutionID(book, "", name, 0), Reflector: "test", Model: "m", Origin: events.Origin{Held: true},
			Lessons: []events.Lesson{{Section: "desk", Content: fmt.Sprintf("Send back file number %x when %s.", events.Hash(name), words)}},
		}
		r.Book, r.Handle = book, events.NewHandle(1, r.Execution)
		if batch > 0 {
			r.Tags = []events.BulletTag{{ID: "desk-00001", Tag: events.Helpful}}
		}
		stored, err := conn.Publish(ctx, r, bus.PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e.Gather = append(e.Gather, stored.Handle)
	}
	return e
}
