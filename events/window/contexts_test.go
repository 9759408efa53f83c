package window_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/events/window"
)

func TestServedRoundTrip(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	want := &events.ServedContext{
		ID: events.NewID(), Book: "b", Session: "a.b c", Query: "why?", Turn: 3, Version: 17, Created: start, SHA256: []byte{1, 2, 3},
		Shown:    []events.ShownBullet{{ID: "misc-00001", Wording: 7}},
		Manifest: events.Manifest{Assembly: "1", Limit: 8000, Tokens: 12, Parts: []events.Part{{Kind: events.PartQuery, Tokens: 2}}},
	}
	if err := s.PutContext(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := s.PutContext(t.Context(), &events.ServedContext{ID: events.NewID()}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Context(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, id := range []events.ID{"", "*", ">", "a.b", " ", events.NewID(), want.ID + "x", events.ID(strings.Repeat("x", 1<<20))} {
		if c, err := s.Context(t.Context(), id); c != nil || !errors.Is(err, window.ErrContextNotFound) {
			t.Errorf("%.80q: got %v, %v, want %v", id, c, err, window.ErrContextNotFound)
		}
	}
	place(t, nc, events.BucketContexts, string(want.ID), map[string][]string{"KV-Operation": {"DEL"}}, nil)
	if _, err := s.Context(t.Context(), want.ID); !errors.Is(err, window.ErrContextNotFound) {
		t.Errorf("deleted: got %v, want %v", err, window.ErrContextNotFound)
	}
	place(t, nc, events.BucketContexts, string(want.ID), events.SchemaHeader(), []byte("\xc1"))
	if _, err := s.Context(t.Context(), want.ID); err == nil || errors.Is(err, window.ErrContextNotFound) {
		t.Errorf("corrupt: got %v, want a decode error", err)
	}
	place(t, nc, events.BucketContexts, string(want.ID), map[string][]string{events.HeaderSchema: {fmt.Sprint(events.Schema + 1)}}, []byte("\x80"))
	if _, err := s.Context(t.Context(), want.ID); !errors.Is(err, events.ErrNewerSchema) {
		t.Errorf("newer: got %v, want %v", err, events.ErrNewerSchema)
	}
}
