package learning

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/stats"
	"debrief/cmd/internal/worlds"
	"debrief/cmd/internal/worlds/drift"
	"debrief/cmd/internal/worlds/notes"
	"debrief/events/chat"
)

// measure runs one part in its short form and returns its rows. It checks that they can be printed.
func measure(t *testing.T, b *worldsBench) []worldRow {
	t.Helper()
	b.errors, b.parallel, b.say = b.part.errorRates(), 2, t.Logf
	if len(b.worlds) == 0 {
		b.worlds = []string{notes.Name}
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
	if err := (&table.Table{Title: s.Title, Head: s.Head, Rows: s.Rows, Goals: s.Goals}).Print(t.Output(), false); err != nil {
		t.Error(err)
	}
	return rows
}

// row returns the row of an arm and a case.
func row(t *testing.T, rows []worldRow, arm, label string) worldRow {
	t.Helper()
	i := slices.IndexFunc(rows, func(r worldRow) bool { return r.Arm == arm && r.Case == label })
	if i < 0 {
		t.Fatalf("no row of arm %s, case %q", arm, label)
	}
	return rows[i]
}

// TestWorldsTeach checks that the pipeline learns in a world, that a playbook with all rules is nearly perfect, and that
// useless advice changes nothing.
func TestWorldsTeach(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	b := &worldsBench{part: &curvesPart, arms: []string{"off", "ceiling", "platitudes", "nonsense", "none"}, seeds: 1, tasks: 150, heldOut: 100, against: "none"}
	rows := measure(t, b)
	if len(rows) != 7 {
		t.Fatalf("got %d rows, want 3 checkpoints of off and 1 of each fixed arm", len(rows))
	}
	before, after, ceiling, none := rows[0], rows[2], rows[3], rows[6]
	was, is := before.Values[accuracyKey].Mean, after.Values[accuracyKey].Mean
	if before.Tasks != 0 || was > 0.1 || before.Values["bullets"].Mean != 0 {
		t.Errorf("before learning: %+v, want under 0.1 and no bullets", before)
	}
	if after.Tasks != 150 || is < was+0.2 || after.Values["deciding_rules_stated"].Mean <= 0.3 || after.Values["model_calls_per_task"].Mean < 2 || after.Values["dead_letters"].Mean > 0 {
		t.Errorf("after 150 tasks: %+v, want at least 20 points more", after)
	}
	if ceiling.Values[accuracyKey].Mean < 0.99 || ceiling.Values[decidingKey].Mean != 1 {
		t.Errorf("rules by hand, all shown: %+v, want 1", ceiling)
	}
	for _, control := range rows[4:6] {
		if control.Values[accuracyKey] != none.Values[accuracyKey] || control.Values["bullets_in_prompt"].Mean == 0 {
			t.Errorf("control %s: got %+v, want the accuracy without bullets, %.3f", control.Arm, control, none.Values[accuracyKey].Mean)
		}
	}
	if after.Difference == nil || after.Against != "none" || after.Difference.Mean != is-none.Values[accuracyKey].Mean {
		t.Errorf("difference: got %+v against %q, want %.3f against none", after.Difference, after.Against, is-none.Values[accuracyKey].Mean)
	}
}

// TestWorldsOverHTTP checks that an agent learns from feedback that it reports later over the HTTP API.
func TestWorldsOverHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rows := measure(t, &worldsBench{part: &curvesPart, remote: []string{notes.Name}, arms: []string{"off"}, seeds: 1, tasks: 80, heldOut: 60})
	// The outcomes of the last 20 tasks are not reported yet.
	was, is := rows[0].Values, rows[1].Values
	if is[accuracyKey].Mean < was[accuracyKey].Mean+0.15 || is["dead_letters"].Mean > 0 {
		t.Errorf("before: %+v, after 80 tasks: %+v, want at least 15 points more", was, is)
	}
}

// TestWorldsDistractors checks that the rules are all in the prompt without distractors, that distractors crowd some out of
// 30 places, and that embeddings find more of them than words.
func TestWorldsDistractors(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rows := measure(t, &worldsBench{part: &distractorsPart, seeds: 1, tasks: 0, heldOut: 60, distractors: []int{0, 1000}})
	in := func(label string) float64 { return row(t, rows, "by-hand", label).Values[decidingKey].Mean }
	alone := row(t, rows, "by-hand", "0 distractors, 0 votes, words, after 0 tasks").Values
	if got := in("0 distractors, 0 votes, words, after 0 tasks"); got < 0.99 || alone[completeKey].Mean != got {
		t.Errorf("60 rules alone: got %.3f, want at least 0.99", got)
	}
	words := in("1000 distractors, 0 votes, words, 30 bullets, after 0 tasks")
	if vectors := in("1000 distractors, 0 votes, embeddings, 30 bullets, after 0 tasks"); words > 0.9 || vectors < words+0.2 {
		t.Errorf("1,000 distractors, 30 bullets: got %.3f by words and %.3f by embeddings, want embeddings to find more", words, vectors)
	}
	crowded := row(t, rows, "by-hand", "1000 distractors, 10 votes, words, after 0 tasks").Values
	if crowded["bullets"].Mean != 1060 || crowded["prompt_tokens"].Mean > 4800 {
		t.Errorf("got %+v, want 1,060 bullets and a full prompt", crowded)
	}
}

// TestWorldsPlanted checks that the planted bullets enter the playbook, and that their effect on the outcomes is the true one.
func TestWorldsPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rows := measure(t, &worldsBench{part: &plantedPart, arms: []string{string(gates[0])}, seeds: 1, tasks: 150, heldOut: 1, outcomes: 25})
	right := func(label string) float64 {
		r := row(t, rows, string(gates[0]), label)
		if r.Values[refusedKey].Mean > 0.5 {
			t.Errorf("%s: %.0f %% refused, want most of them in the playbook", label, 100*r.Values[refusedKey].Mean)
		}
		return r.Values["accuracy_shown"].Mean
	}
	if harm, none, help := right("-50 points"), right("no effect, always cited"), right("+50 points"); harm > none-0.2 || help < harm+0.3 {
		t.Errorf("right answers with the bullet: got %.2f with effect -50, %.2f with 0, %.2f with +50, want about 0.2, 0.7 and 0.9", harm, none, help)
	}
}

// TestWorldsBroken checks that each call breaks independently, also with a repeated prompt, and that whole replies leave the
// status green and no dead letters.
func TestWorldsBroken(t *testing.T) {
	w, err := worlds.New(notes.Name, 1, worlds.Imperfection{})
	if err != nil {
		t.Fatal(err)
	}
	m := &worldModel{world: w, seed: 1, broken: 0.3, said: make(map[uint64]int)}
	broken := 0
	for range 1000 {
		r, err := m.Complete(t.Context(), chat.Prompt{Name: "curator", Messages: []chat.Message{{Speaker: chat.User, Text: "# Insights"}}})
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid([]byte(r.Text)) {
			broken++
		}
	}
	if broken < 250 || broken > 350 || m.calls.Load() != 1000 {
		t.Errorf("got %d of %d replies broken, want about 300 of 1,000", broken, m.calls.Load())
	}
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rows := measure(t, &worldsBench{part: &brokenPart, arms: []string{"broken-0", "broken-30"}, seeds: 1, tasks: 60, heldOut: 60})
	whole, most := row(t, rows, "broken-0", "0 % broken").Values, row(t, rows, "broken-30", "30 % broken").Values
	if whole["dead_letters_per_task"].Mean > 0 || whole["status_worst"].Mean > 0 || whole[accuracyKey].Mean < 0.2 {
		t.Errorf("whole replies: got %+v, want green, no dead letters and an accuracy of at least 0.2", whole)
	}
	if most["model_calls_per_task"].Mean <= whole["model_calls_per_task"].Mean {
		t.Errorf("30 %% broken: got %+v, want more calls than %.2f", most, whole["model_calls_per_task"].Mean)
	}
}

// TestWorldsRefine checks that the plan changes the playbook and keeps most of the accuracy.
func TestWorldsRefine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	arm := refinePart.arms[0]
	rows := measure(t, &worldsBench{part: &refinePart, arms: []string{arm}, seeds: 1, tasks: 200, heldOut: 60})
	before, after := row(t, rows, arm, "before"), row(t, rows, arm, "refine --model")
	if after.Values["active_bullets"].Mean > before.Values["active_bullets"].Mean || after.Difference == nil || after.Difference.Mean < -0.2 {
		t.Errorf("before: %+v, after: %+v, want no more bullets and about the same accuracy", before, after)
	}
}

// TestWorldsDrift checks that changed rules cost their tasks, with a few tasks before and after the change.
func TestWorldsDrift(t *testing.T) {
	t.Parallel()
	b := &worldsBench{errors: worlds.Default()}
	w, err := b.open(&worldRun{world: drift.Name, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	before, after := changedTasks(w, 0, 50), changedTasks(w, 1, 50)
	if len(before) != 50 || len(after) != 50 || before[0].Phase != 0 || after[0].Phase != 1 {
		t.Fatalf("got %d and %d tasks, want 50 of each phase", len(before), len(after))
	}
	old := "- [a-1] " + strings.Join(w.ByHand(0), "\n- [a-1] ")
	for i := range before {
		if !isChanged(w, &before[i]) || !w.Verdict(before[i], w.Attempt(before[i], old)).Right {
			t.Errorf("task %s is not right by the rules before the change", before[i].ID)
		}
		if !isChanged(w, &after[i]) || w.Verdict(after[i], w.Attempt(after[i], old)).Right {
			t.Errorf("task %s is right by the rules before the change, in the phase after it", after[i].ID)
		}
	}
}

// TestWorldsCache checks the shared prefix of prompts, and that training prompts of one version share most of it.
func TestWorldsCache(t *testing.T) {
	if got := sharedPrefix("abc", "abde"); got != 0.5 {
		t.Errorf("abc, abde: got %v, want 0.5", got)
	}
	if got := sharedPrefix("abcdef", "ab"); got != 1 {
		t.Errorf("abcdef, ab: got %v, want 1", got)
	}
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rows := measure(t, &worldsBench{part: &cachePart, seeds: 1, tasks: 100, heldOut: 20})
	if got := rows[0].Values[prefixKey]; got.Mean < 0.3 || got.Mean > 1 {
		t.Errorf("got a shared prefix of %+v, want most of the prompt", got)
	}
}

// TestWorldsCheckpoints checks the evaluations of a run, and the names of worlds and arms.
func TestWorldsCheckpoints(t *testing.T) {
	t.Parallel()
	for tasks, want := range map[int][]int{0: {0}, 150: {0, 100, 150}, 1500: {0, 100, 300, 600, 1000, 1500}} {
		if got := checkpoints(tasks); !slices.Equal(got, want) {
			t.Errorf("%d tasks: got %v, want %v", tasks, got, want)
		}
	}
	b := &worldsBench{part: &curvesPart, worlds: []string{"nowhere"}, arms: []string{"off"}, seeds: 1, tasks: 1, heldOut: 1, parallel: 1, say: t.Logf}
	if _, err := b.run(t.Context(), zerolog.Nop()); err == nil {
		t.Errorf("unknown world: got %v, want an error", err)
	}
	bench := &Bench{Seeds: 2, HeldOut: 10, Train: 10, Passes: 1, Step: 10, Tasks: 10, Outcomes: 1, Worlds: []string{"nowhere"}}
	if err := bench.Validate(); err == nil {
		t.Error("unknown world: got no error")
	}
	bench.Worlds, bench.Arms, bench.Against = worlds.Names(), armNames(anyArm), "none such"
	if err := bench.Validate(); err == nil {
		t.Error("unknown arm: got no error")
	}
	bench.Against = "ceiling"
	if err := bench.Validate(); err != nil {
		t.Errorf("all worlds and arms: %v", err)
	}
}

// TestCurveGoals checks that the goals are met by a perfect default and missed by one that loses to all bullets shown and to
// wrong verdicts, and that a control above the baseline is found.
func TestCurveGoals(t *testing.T) {
	t.Parallel()
	missed := func(accuracies map[string]float64) (names []string) {
		var rows []worldRow
		for arm, x := range accuracies {
			r := worldRow{World: notes.Name, Arm: arm, Tasks: 6000, Values: map[string]stats.Estimate{accuracyKey: {Mean: x}}}
			rows = append(rows, r)
			r.Tasks = 1500
			rows = append(rows, r)
		}
		s := &table.Table{Title: "Worlds: goals"}
		curveGoals(s, rows)
		if len(s.Goals) != 6 {
			t.Fatalf("got %d goals, want 6: %+v", len(s.Goals), s.Goals)
		}
		for _, g := range s.Goals {
			if !g.Met {
				names = append(names, g.Goal)
			}
		}
		return names
	}
	all := map[string]float64{
		"none": 0.03, "platitudes": 0.03, "nonsense": 0.03, "ceiling": 1, "all-shown": 0.97, "off": 0.97, "off-wrong": 0.6,
		string(defaultGate): 0.97, string(defaultGate) + "-wrong": 0.8, string(strictest) + "-wrong": 0.9,
	}
	if got := missed(all); len(got) > 0 {
		t.Errorf("got missed goals %q, want none", got)
	}
	all["nonsense"], all[string(defaultGate)], all[string(defaultGate)+"-wrong"], all[string(strictest)+"-wrong"] = 0.05, 0.9, 0.7, 0.8
	if got := missed(all); len(got) != 5 {
		t.Errorf("got missed goals %q, want all but the one of the platitudes", got)
	}
}

// TestPairedDifferences checks that differences are paired by seed.
func TestPairedDifferences(t *testing.T) {
	t.Parallel()
	b := &worldsBench{part: &curvesPart, worlds: []string{"w"}, arms: []string{"none", "ceiling"}, against: "none"}
	var runs []*worldRun
	for seed, base := range []float64{0.1, 0.5, 0.9} {
		for i := range worldArms {
			a := &worldArms[i]
			x, ok := map[string]float64{"none": base, "ceiling": base + 0.05}[a.name]
			if ok {
				runs = append(runs, &worldRun{world: "w", arm: a, seed: uint64(seed), points: []*point{{values: map[string]float64{accuracyKey: x}}}})
			}
		}
	}
	r := row(t, b.rows(runs), "ceiling", "")
	if r.Difference == nil || r.Difference.N != 3 || r.Difference.Low < 0.0499 || r.Difference.High > 0.0501 || r.Values[accuracyKey].Low > 0 {
		t.Errorf("got %+v, difference %+v, want 5 points exactly and a wide interval of the accuracy", r, r.Difference)
	}
}
