package request

import (
	"fmt"
	"testing"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestForkContinuesAfterACrash checks that a repeated fork completes the copy once, and that it keeps the later changes of
// the new playbook.
func TestForkContinuesAfterACrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	ctx := t.Context()
	conn := serve(t)
	store := deltalog.New(conn.JetStream())
	ask := func(b playbook.Book, e *events.Edit) {
		t.Helper()
		e.Book, e.ID, e.Author = b, events.NewID(), "ann"
		if _, err := SubmitEdit(ctx, conn, e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(b playbook.Book, version uint64) *playbook.Playbook {
		t.Helper()
		p, err := store.PlaybookAt(ctx, b, version)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	newest := func(b playbook.Book) explain.Version {
		t.Helper()
		m, err := explain.FindVersion(b, "newest", store.Log(ctx, b))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}

	if whole, err := Fork(ctx, conn, "nothing", explain.Version{}, "run-0"); err != nil || whole != 0 {
		t.Errorf("fork of an empty playbook: got version %d, %v", whole, err)
	}

	e := &events.Edit{Gate: playbook.GateStrict}
	for n := range uint64(PerEdit + 1) {
		id := playbook.MintID("others", n+1)
		e.Ops = append(e.Ops, playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{ID: id, Section: "others", Content: fmt.Sprint("bullet ", n), Helpful: int(n % 3)}})
	}
	ask("default", e)
	source := newest("default")
	ask("default", &events.Edit{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "misc-00001"}}})

	// The first call died after one of two edits, and the edit is in the stream.
	edits := forkEdits(playbook.Fork{Of: "default", At: source.Label()}, at("default", source.Number), at("default", source.Number), "run-1")
	if len(edits) != 2 {
		t.Fatalf("got %d edits, want 2", len(edits))
	}
	if _, err := conn.Publish(ctx, edits[0], bus.PublishOptions{Repeat: true}); err != nil {
		t.Fatal(err)
	}
	whole, err := Fork(ctx, conn, "default", source, "run-1")
	if err != nil {
		t.Fatal(err)
	}
	copied := at("run-1", whole)
	if mode, _ := copied.Gate(); copied.StateHash() != at("default", source.Number).StateHash() || mode != playbook.GateStrict || newest("run-1").Number != whole {
		t.Errorf("got %d bullets at version %d of %d, gate %s", copied.Len(), whole, newest("run-1").Number, mode)
	}

	ask("run-1", &events.Edit{Ops: []playbook.Op{{Kind: playbook.Update, Bullet: "misc-00002", Content: "learned"}}})
	learned := newest("run-1")
	if again, err := Fork(ctx, conn, "default", source, "run-1"); err != nil || again != whole || newest("run-1").Number != learned.Number {
		t.Errorf("repeated fork: got version %d, %v, and the playbook is at %d; want %d and %d", again, err, newest("run-1").Number, whole, learned.Number)
	}

	// A playbook that is not a copy is refused and does not change.
	ask("other", &events.Edit{Ops: []playbook.Op{{Kind: playbook.Add, Section: "checks", Content: "mine"}}})
	mine := newest("other")
	if _, err := Fork(ctx, conn, "default", source, "other"); program.ExitCode(err) != program.ExitRefused || newest("other").Number != mine.Number {
		t.Errorf("got %v and version %d, want a refusal", err, newest("other").Number)
	}
}

// TestForkAfterForget checks that a bullet that is forgotten between an interrupted fork and its continuation leaves the other bullets in
// their edits, because the log may cover some of these.
func TestForkAfterForget(t *testing.T) {
	t.Parallel()
	source := new(playbook.Playbook)
	put := &playbook.Delta{Version: 1}
	for n := range uint64(PerEdit + 1) {
		id := playbook.MintID("others", n+1)
		put.Ops = append(put.Ops, playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{ID: id, Section: "others", Content: fmt.Sprint("bullet ", n)}})
	}
	if _, err := source.Apply(put); err != nil {
		t.Fatal(err)
	}
	copied := source.Clone()
	if _, err := copied.Apply(&playbook.Delta{Version: 2, Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: put.Ops[0].Bullet}}}); err != nil {
		t.Fatal(err)
	}
	edits := func(copied *playbook.Playbook) map[playbook.BulletID]events.ID {
		of := map[playbook.BulletID]events.ID{}
		for _, e := range forkEdits(playbook.Fork{Of: "default", At: "1@ab12cd"}, source, copied, "run-1") {
			for _, op := range e.Ops {
				of[op.Bullet] = e.ID
			}
		}
		return of
	}
	first, second := edits(source), edits(copied)
	for id, e := range second {
		if e != first[id] {
			t.Errorf("bullet %s is in edit %s, want %s as before", id, e, first[id])
		}
	}
	if len(second) != PerEdit {
		t.Errorf("got %d bullets, want %d", len(second), PerEdit)
	}
}
