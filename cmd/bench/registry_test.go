package main

import (
	"testing"

	"debrief/cmd/internal/simulated/worlds"
)

// TestWorldsOpen checks that every world of the list opens by its name and recognises its rules.
func TestWorldsOpen(t *testing.T) {
	t.Parallel()
	changers := 0
	for _, name := range worldNames {
		w, err := newWorld(name, 1, worlds.Default())
		if err != nil || w.Name() != name {
			t.Fatalf("open %s: got %v, %v", name, w, err)
		}
		if hand := w.ByHand(0); !w.States(hand[0], 0, 0) || w.States(hand[0], 0, 1) {
			t.Errorf("%s does not recognise its first rule", name)
		}
		if c, ok := w.(worlds.Changer); ok && len(c.Changed()) > 0 {
			changers++
		}
	}
	if changers != 1 {
		t.Errorf("got %d worlds with rules that change, want 1", changers)
	}
	if _, err := newWorld("nowhere", 1, worlds.Default()); err == nil {
		t.Error("open an unknown world: got no error")
	}
}
