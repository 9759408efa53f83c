package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/history"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// TestForkGoesOnWhereItWas: a copy of several edits is whole once, whoever died in the middle and how often it is asked
// for, and what the new book learned since stays.
func TestForkGoesOnWhereItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	ctx := t.Context()
	s, err := place{NATS: app.NATS{Replicas: 1}}.scratch(ctx, "100ms", zerolog.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	store := natskv.New(s.JetStream())
	err = s.curated(ctx, func() error {
		ask := func(b book.Book, e *events.Edit) {
			t.Helper()
			e.Book, e.ID, e.Author = b, events.NewID(), "ann"
			if d, err := request(ctx, s.Conn, e, bus.Marks{}); err != nil || len(d.Refused) > 0 {
				t.Fatal(err, d)
			}
		}
		at := func(b book.Book, version uint64) *book.Playbook {
			t.Helper()
			p, err := store.At(ctx, b, version)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		newest := func(b book.Book) moment {
			t.Helper()
			m, err := (&openBook{s, store, b}).moment(ctx, "newest")
			if err != nil {
				t.Fatal(err)
			}
			return m
		}

		if whole, err := fork(ctx, s, "nothing", moment{}, "run-0"); err != nil || whole != 0 {
			t.Errorf("a fork of nothing: got version %d, %v", whole, err)
		}

		e := &events.Edit{Gate: book.GateOn}
		for n := range uint64(perEdit + 1) {
			id := book.MintID("others", n+1)
			e.Ops = append(e.Ops, book.Op{Kind: book.Put, Bullet: id, Whole: &book.Bullet{ID: id, Section: "others", Content: fmt.Sprint("bullet ", n), Helpful: int(n % 3)}})
		}
		ask("default", e)
		source := newest("default")
		ask("default", &events.Edit{Ops: []book.Op{{Kind: book.Remove, Bullet: "misc-00001"}}})

		// Who asked first died after one of two edits; nobody knows whether it was done.
		edits := forkEdits(history.Fork{Of: "default", At: source.label()}, at("default", source.version), "run-1")
		if len(edits) != 2 {
			t.Fatalf("got %d edits, want 2", len(edits))
		}
		if _, err := s.Publish(ctx, edits[0], bus.Marks{Repeat: true}); err != nil {
			t.Fatal(err)
		}
		whole, err := fork(ctx, s, "default", source, "run-1")
		if err != nil {
			t.Fatal(err)
		}
		copied := at("run-1", whole)
		if mode, _ := copied.Gate(); copied.StateHash() != at("default", source.version).StateHash() || mode != book.GateOn || newest("run-1").version != whole {
			t.Errorf("got %d bullets at version %d of %d, gate %s", copied.Len(), whole, newest("run-1").version, mode)
		}

		ask("run-1", &events.Edit{Ops: []book.Op{{Kind: book.Update, Bullet: "misc-00002", Content: "learned"}}})
		learned := newest("run-1")
		if again, err := fork(ctx, s, "default", source, "run-1"); err != nil || again != whole || newest("run-1").version != learned.version {
			t.Errorf("asked for again: got version %d, %v, and the book is at %d; want %d and %d", again, err, newest("run-1").version, whole, learned.version)
		}

		// A book that began otherwise is no copy, and stays as it is.
		ask("other", &events.Edit{Ops: []book.Op{{Kind: book.Add, Section: "checks", Content: "mine"}}})
		mine := newest("other")
		if _, err := fork(ctx, s, "default", source, "other"); app.ExitCode(err) != app.ExitRefused || newest("other").version != mine.version {
			t.Errorf("got %v and version %d, want a refusal", err, newest("other").version)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
