package learning

import (
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/worlds"
	"debrief/cmd/internal/worlds/notes"
)

// TestWorldsTeach is the short form of the part worlds: the pipeline learns in a world, and a playbook with all rules is
// nearly perfect.
func TestWorldsTeach(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	b := &worldsBench{
		worlds: []string{notes.Name}, arms: []string{"off", "ceiling"}, seeds: 1, tasks: 150, heldOut: 100, parallel: 2, say: t.Logf,
	}
	rows, err := b.run(t.Context(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 {
		t.Fatalf("got %d rows, want 3 checkpoints of off and 1 of ceiling", len(rows))
	}
	before, after, ceiling := rows[0], rows[2], rows[3]
	if before.Tasks != 0 || before.Accuracy.Mean > 0.1 || before.Bullets != 0 {
		t.Errorf("before learning: %+v, want under 0.1 and no bullets", before)
	}
	if after.Tasks != 150 || after.Accuracy.Mean < before.Accuracy.Mean+0.2 || after.Stated <= 0.3 || after.Calls < 2 || after.DeadLetters > 0 {
		t.Errorf("after 150 tasks: %+v, want at least 20 points more", after)
	}
	if ceiling.Accuracy.Mean < 0.99 || ceiling.Stated != 1 || ceiling.Deciding != 1 {
		t.Errorf("rules by hand, all shown: %+v, want 1", ceiling)
	}
	s := b.sheet(rows)
	if len(s.Rows) != len(rows) || len(s.Values) != len(rows) {
		t.Errorf("sheet: got %d rows and %d values, want %d", len(s.Rows), len(s.Values), len(rows))
	}
}

// TestWorldsOverHTTP checks that an agent learns from feedback that it reports later over the HTTP API.
func TestWorldsOverHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	b := &worldsBench{
		worlds: []string{notes.Name}, remote: []string{notes.Name}, arms: []string{"off"}, seeds: 1, tasks: 80, heldOut: 60, parallel: 1, say: t.Logf,
	}
	rows, err := b.run(t.Context(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	// The outcomes of the last 20 tasks are not reported yet.
	if before, after := rows[0], rows[1]; after.Accuracy.Mean < before.Accuracy.Mean+0.15 || after.DeadLetters > 0 {
		t.Errorf("before: %+v, after 80 tasks: %+v, want at least 15 points more", before, after)
	}
}

// TestWorldsCheckpoints checks the evaluations of a run, and the names of worlds and arms.
func TestWorldsCheckpoints(t *testing.T) {
	t.Parallel()
	for tasks, want := range map[int][]int{0: {0}, 150: {0, 100, 150}, 1500: {0, 100, 300, 600, 1000, 1500}} {
		if got := (&worldsBench{tasks: tasks}).checkpoints(); !slices.Equal(got, want) {
			t.Errorf("%d tasks: got %v, want %v", tasks, got, want)
		}
	}
	b := &worldsBench{worlds: []string{"nowhere"}, arms: []string{"off"}, seeds: 1, tasks: 1, heldOut: 1, parallel: 1, say: t.Logf}
	if _, err := b.run(t.Context(), zerolog.Nop()); err == nil {
		t.Errorf("unknown world: got %v, want an error", err)
	}
	bench := &Bench{Seeds: 2, HeldOut: 10, Train: 10, Passes: 1, Step: 10, Tasks: 10, Worlds: []string{"nowhere"}, Arms: []string{"none such"}}
	if err := bench.Validate(); err == nil {
		t.Error("unknown world and arm: got no error")
	}
	bench.Worlds, bench.Arms = worlds.Names(), worldArmNames()
	if err := bench.Validate(); err != nil {
		t.Errorf("all worlds and arms: %v", err)
	}
}
