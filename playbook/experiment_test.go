package playbook_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook"
)

// experimentTest is a playbook with the single bullet a-1.
type experimentTest struct{ p playbook.Playbook }

func newExperimentTest(t rapid.TB) *experimentTest {
	t.Helper()
	x := new(experimentTest)
	x.do(t, playbook.Op{Kind: playbook.Add, Section: "a", Content: "one", Standing: playbook.StandingNew})
	return x
}

func (x *experimentTest) do(t rapid.TB, op playbook.Op) *playbook.Experiment {
	t.Helper()
	op.Bullet = "a-1"
	if op.Kind == playbook.AddExposures {
		op.Support = make([]int, len(op.Exposures))
	}
	d := &playbook.Delta{Version: x.p.Version() + 1, Covers: make([]playbook.Cover, 9), Ops: []playbook.Op{op}}
	if d.Version > 1 {
		d.PrevChain = []byte("chain")
	}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	apply(t, &x.p, d)
	e := x.p.Bullet("a-1").CurrentExperiment()
	return &e
}

// cite adds outcomes in the arm open, one for each character of a record.
func (x *experimentTest) cite(t rapid.TB, record string) *playbook.Experiment {
	t.Helper()
	e := x.p.Bullet("a-1").CurrentExperiment()
	for _, mark := range record {
		score := 0
		if mark == playbook.RecentSuccess {
			score = playbook.MaxScore
		}
		e = *x.do(t, playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: e.Number, Exposures: []playbook.Exposure{{Arm: playbook.ArmOpen, Score: score, Cited: true}}})
	}
	return &e
}

func TestExposuresAreCountedByArm(t *testing.T) {
	t.Parallel()
	x := newExperimentTest(t)
	got := x.do(t, playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: 1, Exposures: []playbook.Exposure{
		{Arm: playbook.ArmShown, Score: 10, Cited: true},
		{Arm: playbook.ArmShown, Score: 4},
		{Arm: playbook.ArmWithheld, Score: 5},
		{Arm: playbook.ArmOpen, Score: 5, Cited: true},
		{Arm: playbook.ArmOpen, Score: 4, Cited: true},
	}})
	want := &playbook.Experiment{
		Number: 1, Standing: playbook.StandingNew, Recent: "++-",
		Shown: playbook.Scores{4: 1, 10: 1}, Withheld: playbook.Scores{5: 1}, Cited: playbook.Scores{4: 1, 5: 1, 10: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := got.Outcomes(); n != 4 {
		t.Errorf("%d tasks, want 4: a task that is shown and cited counts once", n)
	}
	x.do(t, playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: 2, Exposures: []playbook.Exposure{{Arm: playbook.ArmShown, Score: 1}}})
	if diff := cmp.Diff(*want, x.p.Bullet("a-1").CurrentExperiment()); diff != "" {
		t.Errorf("an outcome of another experiment was counted (-want +got):\n%s", diff)
	}
}

// TestUndoRestoresCounts checks that the undo of each outcome, in any order, leaves the record as it was.
func TestUndoRestoresCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := newExperimentTest(t)
		before := *x.cite(t, rapid.StringMatching(`[+-]{0,5}`).Draw(t, "before"))
		seen := rapid.SliceOfN(rapid.Custom(drawExposure), 1, 20).Draw(t, "exposures")
		var undo []playbook.Exposure
		for i := range seen {
			seen[i].Undo = false
			u := seen[i]
			u.Undo = true
			undo = append(undo, u)
		}
		after := *x.do(t, playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: 1, Exposures: seen})
		if after.Shown.Count()+after.Withheld.Count()+after.Cited.Count() <= before.Cited.Count() {
			t.Fatalf("no outcome was counted: %+v", after)
		}
		got := *x.do(t, playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: 1, Exposures: rapid.Permutation(undo).Draw(t, "order")})
		if strings.Count(got.Recent, "+") != strings.Count(before.Recent, "+") || len(got.Recent) != len(before.Recent) {
			t.Fatalf("recent: got %q, want the marks of %q", got.Recent, before.Recent)
		}
		got.Recent = before.Recent
		if diff := cmp.Diff(before, got); diff != "" {
			t.Fatalf("(-before +after undo):\n%s", diff)
		}
	})
}

// TestCountsDoNotDependOnOrder checks everything but Recent, which has the order of the log.
func TestCountsDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seen := rapid.SliceOfN(rapid.Custom(drawExposure), 1, 30).Draw(t, "exposures")
		for i := range seen {
			seen[i].Undo = false
		}
		add := func(seen []playbook.Exposure) playbook.Experiment {
			e := *newExperimentTest(t).do(t, playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: 1, Exposures: seen})
			e.Recent = ""
			return e
		}
		if a, b := add(seen), add(rapid.Permutation(seen).Draw(t, "order")); a != b {
			t.Fatalf("another order: got %+v, want %+v", b, a)
		}
	})
}

func TestRecentHasNewestOutcomes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		record := rapid.StringMatching(`[+-]{0,40}`).Draw(t, "record")
		e := newExperimentTest(t).cite(t, record)
		if want := record[max(0, len(record)-playbook.MaxRecent):]; e.Recent != want {
			t.Fatalf("recent: got %q, want %q", e.Recent, want)
		}
		run := 0
		for run < len(e.Recent) && e.Recent[len(e.Recent)-1-run] == playbook.RecentFailure {
			run++
		}
		if e.FailuresInARow() != run || e.Cited.Count() != len(record) {
			t.Fatalf("got %d failures in a row and %d outcomes, want %d and %d", e.FailuresInARow(), e.Cited.Count(), run, len(record))
		}
	})
}

func TestUndoInRecentRemovesNewestWithSameResult(t *testing.T) {
	t.Parallel()
	x := newExperimentTest(t)
	x.cite(t, "+-+-")
	undo := []playbook.Exposure{{Arm: playbook.ArmOpen, Score: 10, Cited: true, Undo: true}}
	if e := x.do(t, playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: 1, Exposures: undo}); e.Recent != "+--" {
		t.Errorf("recent: got %q, want %q", e.Recent, "+--")
	}
}

func TestOperationsStartNewExperiment(t *testing.T) {
	t.Parallel()
	const record = "+++--"
	old := playbook.Experiment{Number: 1, Standing: playbook.StandingNew, Cited: playbook.Scores{0: 2, 10: 3}, Recent: record, Confirmations: 2}
	with := func(change func(*playbook.Experiment)) playbook.Experiment {
		e := old
		change(&e)
		return e
	}
	for name, test := range map[string]struct {
		op   playbook.Op
		want playbook.Experiment
	}{
		"UPDATE of the content": {
			playbook.Op{Kind: playbook.Update, Content: "two", Standing: playbook.StandingNew},
			playbook.Experiment{Number: 2, Standing: playbook.StandingNew},
		},
		"UPDATE of the section": {playbook.Op{Kind: playbook.Update, Content: "one", Section: "b", Standing: playbook.StandingKept}, old},
		"MERGE with another content": {
			playbook.Op{Kind: playbook.Merge, Content: "two", Standing: playbook.StandingNew},
			playbook.Experiment{Number: 2, Standing: playbook.StandingNew},
		},
		"MERGE with the same content": {playbook.Op{Kind: playbook.Merge, Content: "one"}, old},
		"STATUS without a standing":   {playbook.Op{Kind: playbook.SetStatus, Status: playbook.Active}, old},
		"STATUS with a standing": {
			playbook.Op{Kind: playbook.SetStatus, Standing: playbook.StandingTrusted},
			with(func(e *playbook.Experiment) { e.Standing = playbook.StandingTrusted }),
		},
		"STATUS retired": { // earlier requests no longer count
			playbook.Op{Kind: playbook.SetStatus, Status: playbook.Retired, Standing: playbook.StandingSuspect},
			with(func(e *playbook.Experiment) { e.Standing, e.Confirmations = playbook.StandingSuspect, 0 }),
		},
		"STATUS with a restart": { // requests belong to the wording, outcomes to the experiment
			playbook.Op{Kind: playbook.SetStatus, Status: playbook.Active, Standing: playbook.StandingSuspect, Restart: true},
			playbook.Experiment{Number: 2, Standing: playbook.StandingSuspect, Confirmations: 2},
		},
		"STATUS retired with a restart": {
			playbook.Op{Kind: playbook.SetStatus, Status: playbook.Retired, Standing: playbook.StandingSuspect, Restart: true},
			playbook.Experiment{Number: 2, Standing: playbook.StandingSuspect},
		},
		"CONFIRM": {
			playbook.Op{Kind: playbook.Confirm, Support: []int{0, 1}},
			with(func(e *playbook.Experiment) { e.Confirmations = 4 }),
		},
	} {
		x := newExperimentTest(t)
		x.cite(t, record)
		x.do(t, playbook.Op{Kind: playbook.Confirm, Support: []int{0, 1}})
		if diff := cmp.Diff(test.want, *x.do(t, test.op)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTallyCountsShownBullets(t *testing.T) {
	t.Parallel()
	x := newExperimentTest(t)
	check := func(name string, want playbook.Tally) {
		t.Helper()
		if diff := cmp.Diff(want, x.p.Tally()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	counted := playbook.Tally{Cited: 3, Sum: 20, Few: 3, FewSum: 3 * 667}
	x.cite(t, "++-")
	check("shown", counted)
	x.do(t, playbook.Op{Kind: playbook.SetStatus, Status: playbook.Retired})
	check("retired", playbook.Tally{})
	x.do(t, playbook.Op{Kind: playbook.SetStatus, Status: playbook.Active})
	check("returned", counted)
	x.do(t, playbook.Op{Kind: playbook.Update, Content: "two"})
	check("another wording", playbook.Tally{})
}

// TestTallyWithout checks what tasks reach apart from a bullet: the record of the bullet itself does not count, and tasks without a citation
// count for at most ten outcomes.
func TestTallyWithout(t *testing.T) {
	t.Parallel()
	own := &playbook.Bullet{Status: playbook.Active, Experiment: &playbook.Experiment{Cited: playbook.Scores{0: 5}}}
	for name, test := range map[string]struct {
		tally playbook.Tally
		want  playbook.Typical
	}{
		"empty":                           {playbook.Tally{Cited: 5, Few: 4}, playbook.Typical{Rate: 0.5}},
		"others succeed":                  {playbook.Tally{Cited: 13, Sum: 80, Few: 8, FewSum: 4000}, playbook.Typical{Rate: 0.9, Outcomes: 8}},
		"others fail":                     {playbook.Tally{Cited: 13, Few: 12}, playbook.Typical{Rate: 0.1, Outcomes: 8}},
		"one of many bullets fails often": {playbook.Tally{Cited: 98, Sum: 380, Few: 54, FewSum: 39_000}, playbook.Typical{Rate: 40. / 52, Outcomes: 50}},
		"one of few bullets fails often":  {playbook.Tally{Cited: 53, Sum: 80, Few: 12, FewSum: 6000}, playbook.Typical{Rate: 9. / 50, Outcomes: 48}},
		"ten plain tasks":                 {playbook.Tally{Cited: 5, Few: 4, Plain: playbook.Plain{Count: 10, Sum: 10}}, playbook.Typical{Rate: 11. / 12, Outcomes: 10}},
		"many plain tasks":                {playbook.Tally{Cited: 5, Few: 4, Plain: playbook.Plain{Count: 998, Sum: 799}}, playbook.Typical{Rate: 0.8, Outcomes: 10}},
		"most fail":                       {playbook.Tally{Cited: 5, Few: 4, Plain: playbook.Plain{Count: 998, Sum: 99}}, playbook.Typical{Rate: 0.5}},
	} {
		if got := playbook.TypicalOf(test.tally, own); math.Abs(got.Rate-test.want.Rate) > 1e-9 || got.Outcomes != test.want.Outcomes {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
