package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/cmd/internal/train/report"
)

// measure runs one part in its short form and returns its rows. It checks that they can be printed.
func measure(t *testing.T, b *measurement) []resultRow {
	t.Helper()
	b.parallel, b.say = 2, t.Logf
	if len(b.worlds) == 0 {
		b.worlds = []string{text.Name}
	}
	if len(b.arms) == 0 {
		b.arms = b.part.arms
	}
	rows, err := b.run(t.Context(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	s := b.table(rows)
	columns := strings.Count(s.Head, "\t")
	for i, cells := range s.Rows {
		if strings.Count(cells, "\t") != columns {
			t.Errorf("row %d has %d cells, want %d: %q", i, strings.Count(cells, "\t"), columns, cells)
		}
		if _, err := json.Marshal(s.Values[i]); err != nil {
			t.Errorf("row %d: %v", i, err)
		}
	}
	if err := (&table{Title: s.Title, Head: s.Head, Rows: s.Rows}).print(t.Output(), false); err != nil {
		t.Error(err)
	}
	return rows
}

// row returns the row of an arm and a case.
func row(t *testing.T, rows []resultRow, arm, label string) resultRow {
	t.Helper()
	i := slices.IndexFunc(rows, func(r resultRow) bool { return r.Arm == arm && r.Case == label })
	if i < 0 {
		t.Fatalf("no row of arm %s, case %q", arm, label)
	}
	return rows[i]
}

// TestQuickWithoutDrift checks that the drifting world is left out if its rules do not change in the measurement.
func TestQuickWithoutDrift(t *testing.T) {
	t.Parallel()
	for quick, want := range map[bool]bool{false: true, true: false} {
		m := (&learningBench{Quick: quick}).measurement(&curvesPart)
		if got := slices.Contains(m.worlds, text.Drifting); got != want {
			t.Errorf("quick %t: got %d tasks in %v, want the drifting world: %t", quick, m.tasks, m.worlds, want)
		}
	}
}

// TestWorldsTeach checks that the pipeline learns in a world, and that a playbook with all rules is nearly perfect.
func TestWorldsTeach(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	b := &measurement{part: &curvesPart, arms: []string{"off", "ceiling", "none"}, seeds: 1, tasks: 150, heldOut: 100, against: "none"}
	rows := measure(t, b)
	if len(rows) != 5 {
		t.Fatalf("got %d rows, want 3 checkpoints of off and 1 of each fixed arm", len(rows))
	}
	before, after, ceiling, none := rows[0], rows[2], rows[3], rows[4]
	was, is := before.Values[accuracyKey].Mean, after.Values[accuracyKey].Mean
	if before.Tasks != 0 || was > 0.1 || before.Values["bullets"].Mean != 0 {
		t.Errorf("before learning: %+v, want under 0.1 and no bullets", before)
	}
	if shared := after.Values[prefixKey].Mean; shared < 0.3 || shared > 1 {
		t.Errorf("got a shared prefix of %.2f, want most of the prompt", shared)
	}
	if after.Tasks != 150 || is < was+0.2 || after.Values["deciding_rules_stated"].Mean <= 0.3 || after.Values["model_calls_per_task"].Mean < 2 || after.Values["dead_letters"].Mean > 0 {
		t.Errorf("after 150 tasks: %+v, want at least 20 points more", after)
	}
	if ceiling.Values[accuracyKey].Mean < 0.99 || ceiling.Values[statedInPromptKey].Mean != 1 {
		t.Errorf("rules by hand, all shown: %+v, want 1", ceiling)
	}
	if after.Difference == nil || after.Against != "none" || after.Difference.Mean != is-none.Values[accuracyKey].Mean {
		t.Errorf("difference: got %+v against %q, want %.3f against none", after.Difference, after.Against, is-none.Values[accuracyKey].Mean)
	}
}

// TestWorldsOverHTTP checks that an agent learns from feedback that it reports later over the HTTP API. The outcomes of the last step are not
// reported yet, so an agent that has done only one step has learned nothing. One seed depends on the order of events on a busy machine: the
// mean of several does not.
func TestWorldsOverHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const seeds = 6
	over := func(tasks int) (gain, dead float64) {
		rows := measure(t, &measurement{part: &curvesPart, overHTTP: []string{text.Name}, arms: []string{"off"}, seeds: seeds, tasks: tasks, heldOut: 60})
		was, is := rows[0].Values, rows[1].Values
		return is[accuracyKey].Mean - was[accuracyKey].Mean, is[deadKey].Mean
	}
	if gain, dead := over(80); gain < 0.15 || dead > 0 {
		t.Errorf("after 80 tasks: got %.1f points more and %.1f dead letters, want at least 15 points and none", 100*gain, dead)
	}
	if gain, _ := over(stepTasks); gain >= 0.05 {
		t.Errorf("after %d tasks, of which no outcome is reported: got %.1f points more, want less than 5", stepTasks, 100*gain)
	}
}

// TestWorldsDistractors checks that the rules are all in the prompt without distractors, that distractors crowd some out, and that
// embeddings find more of them than words.
func TestWorldsDistractors(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rows := measure(t, &measurement{part: &distractorsPart, seeds: 1, tasks: 0, heldOut: 60, distractors: []int{0, 1000}})
	of := func(label string) map[string]report.Estimate { return row(t, rows, "votes-only", label).Values }
	alone := of("0 distractors, words, after 0 tasks")
	if got := alone[statedInPromptKey].Mean; got < 0.99 || alone[completeKey].Mean != got {
		t.Errorf("40 rules alone: got %.3f, want at least 0.99", got)
	}
	crowded := of("1000 distractors, words, after 0 tasks")
	words, vectors := crowded[statedInPromptKey].Mean, of("1000 distractors, embeddings, after 0 tasks")[statedInPromptKey].Mean
	if words > 0.97 || vectors < words+0.02 {
		t.Errorf("1,000 distractors: got %.3f by words and %.3f by embeddings, want embeddings to find more", words, vectors)
	}
	// Without the ranking by conditions it is 0.31.
	if got := of("1000 distractors from the start, words, after 0 tasks")[statedInPromptKey].Mean; got < 0.6 {
		t.Errorf("1,000 distractors from the start: got %.3f, want at least 0.6", got)
	}
	if crowded["bullets"].Mean != 1040 || crowded["prompt_tokens"].Mean > 4800 {
		t.Errorf("got %+v, want 1,040 bullets and a full prompt", crowded)
	}
}

// TestWorldsDrift checks that changed rules cost their tasks, with a few tasks before and after the change.
func TestWorldsDrift(t *testing.T) {
	t.Parallel()
	w, err := newWorld(text.Drifting, 1, worlds.Default())
	if err != nil {
		t.Fatal(err)
	}
	changed := func(phase int) []worlds.Task {
		return slices.DeleteFunc(w.HeldOut(phase, 300), func(t worlds.Task) bool { return !isChanged(w, &t) })
	}
	before, after := changed(0), changed(1)
	if len(before) < 30 || len(after) != len(before) || before[0].Phase != 0 || after[0].Phase != 1 {
		t.Fatalf("got %d and %d tasks, want some of each phase", len(before), len(after))
	}
	old := "- [a-1] " + strings.Join(w.ByHand(0), "\n- [a-1] ")
	for i := range before {
		if !isChanged(w, &before[i]) || !w.Verdict(before[i], w.Attempt(before[i], old)).Right() {
			t.Errorf("task %s is not right by the rules before the change", before[i].ID)
		}
		if !isChanged(w, &after[i]) || w.Verdict(after[i], w.Attempt(after[i], old)).Right() {
			t.Errorf("task %s is right by the rules before the change, in the phase after it", after[i].ID)
		}
	}
}

// TestSharedPrefix checks the share of a prompt that the previous one begins with.
func TestSharedPrefix(t *testing.T) {
	t.Parallel()
	if got := sharedPrefix("abc", "abde"); got != 0.5 {
		t.Errorf("abc, abde: got %v, want 0.5", got)
	}
	if got := sharedPrefix("abcdef", "ab"); got != 1 {
		t.Errorf("abcdef, ab: got %v, want 1", got)
	}
}

// TestWorldsCheckpoints checks the evaluations of a run, and the names of worlds and arms.
func TestWorldsCheckpoints(t *testing.T) {
	t.Parallel()
	for tasks, want := range map[int][]int{0: {0}, 150: {0, 100, 150}, 1500: {0, 100, 300, 600, 1000, 1500}} {
		if got := checkpoints(tasks, false); !slices.Equal(got, want) {
			t.Errorf("%d tasks: got %v, want %v", tasks, got, want)
		}
	}
	if got, want := checkpoints(2100, true), []int{0, 100, 300, 600, 1000, 1500, 1600, 1700, 1800, 2100}; !slices.Equal(got, want) {
		t.Errorf("2,100 tasks with a change: got %v, want %v", got, want)
	}
	b := &measurement{part: &curvesPart, worlds: []string{"nowhere"}, arms: []string{"off"}, seeds: 1, tasks: 1, heldOut: 1, parallel: 1, say: t.Logf}
	if _, err := b.run(t.Context(), zerolog.Nop()); err == nil {
		t.Errorf("unknown world: got %v, want an error", err)
	}
	bench := &learningBench{Seeds: 2, HeldOut: 10, Tasks: 10, Worlds: []string{"nowhere"}}
	if err := bench.Validate(); err == nil {
		t.Error("unknown world: got no error")
	}
	bench.Worlds, bench.Arms, bench.Against = worldNames, armNames(anyArm), "none such"
	if err := bench.Validate(); err == nil {
		t.Error("unknown arm: got no error")
	}
	bench.Against = "ceiling"
	if err := bench.Validate(); err != nil {
		t.Errorf("all worlds and arms: %v", err)
	}
}

// TestPairedDifferences checks that differences are paired by seed.
func TestPairedDifferences(t *testing.T) {
	t.Parallel()
	b := &measurement{part: &curvesPart, worlds: []string{"w"}, arms: []string{"none", "ceiling"}, against: "none"}
	var runs []*run
	for seed, base := range []float64{0.1, 0.5, 0.9} {
		for i := range allArms {
			a := &allArms[i]
			x, ok := map[string]float64{"none": base, "ceiling": base + 0.05}[a.name]
			if ok {
				runs = append(runs, &run{world: "w", arm: a, seed: uint64(seed), points: []*point{{values: map[string]float64{accuracyKey: x}}}})
			}
		}
	}
	r := row(t, b.rows(runs), "ceiling", "")
	if r.Difference == nil || r.Difference.N != 3 || r.Difference.Low < 0.0499 || r.Difference.High > 0.0501 || r.Values[accuracyKey].Low > 0 {
		t.Errorf("got %+v, difference %+v, want 5 points exactly and a wide interval of the accuracy", r, r.Difference)
	}
}
