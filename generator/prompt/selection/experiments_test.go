package selection_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// under returns an index of bullets in a playbook with a gate.
func under(mode playbook.Gate, bullets ...*playbook.Bullet) *selection.Index {
	p := playbook.Restore(1, 0, slices.Values(bullets))
	p.SetGate(mode)
	return indexOf(p)
}

// standing returns an active bullet with an experiment.
func standing(id playbook.BulletID, s playbook.Standing, number int) *playbook.Bullet {
	b := bullet(id, "s", "advice "+string(id), 1)
	b.Experiment = &playbook.Experiment{Number: number, Standing: s}
	return b
}

func onProbation(b *playbook.Bullet) *playbook.Bullet {
	b.Status = playbook.Probation
	return b
}

// draw returns a draw in which these bullets apply to a task.
func draw(task string, applicable ...playbook.BulletID) *selection.Draw {
	return &selection.Draw{Task: task, Applicable: func() []playbook.BulletID { return applicable }}
}

func choose(x *selection.Index, d *selection.Draw) selection.Selection {
	return x.Select(selection.Options{Now: noon, Tokens: 2500, MaxBullets: 30, Draw: d, Explain: true})
}

func exposures(s selection.Selection) string {
	var all []string
	for _, e := range s.Exposures {
		all = append(all, fmt.Sprintf("%s/%d:%s", e.Bullet, e.Experiment, e.Arm))
	}
	return strings.Join(all, " ")
}

// taskIn returns a task that gets an arm.
func taskIn(t *testing.T, arm playbook.Arm, x *selection.Index, applicable ...playbook.BulletID) string {
	t.Helper()
	for n := range 1000 {
		task := fmt.Sprint("task ", n)
		if s := choose(x, draw(task, applicable...)); len(s.Exposures) > 0 && s.Exposures[0].Arm == arm {
			return task
		}
	}
	t.Fatalf("none of 1000 tasks has the arm %s", arm)
	return ""
}

// TestGuardDraws checks which bullets take part in experiments, and which do not.
func TestGuardDraws(t *testing.T) {
	t.Parallel()
	status := func(id playbook.BulletID, s playbook.Status) *playbook.Bullet {
		b := standing(id, playbook.StandingSuspect, 1)
		b.Status = s
		return b
	}
	x := func(mode playbook.Gate) *selection.Index {
		return under(mode, standing("new", playbook.StandingNew, 3), standing("suspect", playbook.StandingSuspect, 4), standing("kept", playbook.StandingKept, 1),
			pinned(standing("pinned", playbook.StandingSuspect, 1)), status("candidate", playbook.Candidate), status("probation", playbook.Probation),
			status("retired", playbook.Retired), status("quarantined", playbook.Quarantined))
	}
	never := []playbook.BulletID{"kept", "pinned", "candidate", "probation", "retired", "quarantined", "unknown"}
	for name, tt := range map[string]struct {
		mode       playbook.Gate
		applicable []playbook.BulletID
		drawn      map[playbook.BulletID]int // experiment number by bullet
	}{
		"suspect bullets first":               {playbook.GateGuard, append(never, "new", "suspect"), map[playbook.BulletID]int{"suspect": 4}},
		"the empty mode is guard":             {"", append(never, "new", "suspect"), map[playbook.BulletID]int{"suspect": 4}},
		"others if no suspect bullet applies": {playbook.GateGuard, append(never, "new"), map[playbook.BulletID]int{"new": 3}},
		"no bullet applies":                   {playbook.GateGuard, never, nil},
		"off":                                 {playbook.GateOff, append(never, "new", "suspect"), nil},
	} {
		x := x(tt.mode)
		drawn := map[playbook.BulletID]int{}
		for n := range 100 {
			s := choose(x, draw(fmt.Sprint("task ", n), tt.applicable...))
			if len(s.Exposures) > 1 || len(s.Withheld) > len(s.Exposures) {
				t.Fatalf("%s: got %s, withheld %v, want at most one bullet", name, exposures(s), s.Withheld)
			}
			for _, e := range s.Exposures {
				drawn[e.Bullet] = e.Experiment
			}
		}
		if len(drawn) != len(tt.drawn) || !maps.Equal(drawn, tt.drawn) {
			t.Errorf("%s: got experiments with %v, want %v", name, drawn, tt.drawn)
		}
		if s := choose(x, nil); len(s.Exposures)+len(s.Withheld) > 0 || len(s.Bullets) != 4 {
			t.Errorf("%s: without a draw: got %s, withheld %v, shown %s", name, exposures(s), s.Withheld, ids(s.Bullets))
		}
	}
}

// TestApplicableIsComputedOnlyIfNeeded checks that a prompt without experiments costs nothing.
func TestApplicableIsComputedOnlyIfNeeded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		x     *selection.Index
		calls int // for 100 tasks
	}{
		"no experiment is possible": {under(playbook.GateGuard, standing("a", playbook.StandingKept, 1), pinned(standing("b", playbook.StandingSuspect, 1))), 0},
		"gate off":                  {under(playbook.GateOff, standing("a", playbook.StandingSuspect, 1)), 0},
		"suspect":                   {under(playbook.GateGuard, standing("a", playbook.StandingSuspect, 1)), 100},
		"probation":                 {under(playbook.GateStrict, onProbation(standing("a", "", 1)), standing("b", playbook.StandingSuspect, 1)), 100},
	} {
		calls := 0
		for n := range 100 {
			d := draw(fmt.Sprint("task ", n))
			d.Applicable = func() []playbook.BulletID { calls++; return []playbook.BulletID{"a", "b"} }
			choose(tt.x, d)
		}
		if calls != tt.calls {
			t.Errorf("%s: got %d calls for 100 tasks, want %d", name, calls, tt.calls)
		}
	}
}

// TestDrawnBulletBeyondBudgetIsShown checks that a bullet that relevance leaves out is shown for its experiment.
func TestDrawnBulletBeyondBudgetIsShown(t *testing.T) {
	t.Parallel()
	p := library(200)
	for _, b := range p.Sorted() {
		b.Helpful = max(b.Helpful, 1)
	}
	last := p.Sorted()[99]
	last.Helpful, last.Harmful, last.Experiment = 1, 50, &playbook.Experiment{Number: 1, Standing: playbook.StandingSuspect}
	x := indexOf(p)
	if s := choose(x, nil); slices.Contains(s.Bullets, last) {
		t.Fatal("the bullet is shown without an experiment: the test is void")
	}
	for _, arm := range []playbook.Arm{playbook.ArmShown, playbook.ArmWithheld} {
		s := choose(x, draw(taskIn(t, arm, x, last.ID), last.ID))
		if !slices.Contains(s.Bullets, last) || slices.Contains(s.Withheld, last.ID) != (arm == playbook.ArmWithheld) || len(s.Bullets) != 30 {
			t.Errorf("%s: got %d bullets, withheld %v", arm, len(s.Bullets), s.Withheld)
		}
		if arm == playbook.ArmWithheld && !strings.Contains(reasons(s.Left), "withheld by chance: "+string(last.ID)) {
			t.Errorf("withheld: left out %q", reasons(s.Left))
		}
	}
}

// TestSuspectBulletsAreTheLastChoice compares bullets of equal relevance.
func TestSuspectBulletsAreTheLastChoice(t *testing.T) {
	t.Parallel()
	x := under("", standing("a", playbook.StandingSuspect, 1), standing("b", playbook.StandingTrusted, 1))
	list := func(id playbook.BulletID) selection.Ranking { return selection.Ranking{{Bullet: id, Score: 1}} }
	s := x.Select(selection.Options{Tokens: 1000, MaxBullets: 1, Rankings: rank(list("a"), list("b"))})
	if got := ids(s.Bullets); got != "b" {
		t.Errorf("got %q, want the trusted bullet", got)
	}
}

// TestStrictTriesProbationInHalfOfTheTasks checks that a task shows all bullets on probation or none, and that in the tasks that show
// them, one at most has an exposure, with its own arm.
func TestStrictTriesProbationInHalfOfTheTasks(t *testing.T) {
	t.Parallel()
	x := under(
		playbook.GateStrict, standing("active", playbook.StandingSuspect, 1), onProbation(standing("p-1", playbook.StandingSuspect, 5)),
		onProbation(standing("p-2", playbook.StandingNew, 6)), pinned(onProbation(standing("p-3", playbook.StandingNew, 7))),
	)
	tries := 0
	seen := map[string]int{}
	for n := range 200 {
		s := choose(x, draw(fmt.Sprint("task ", n), "p-1", "p-2", "p-3", "unknown"))
		seen[exposures(s)]++
		switch got := ids(s.Bullets); got {
		case "p-3 active":
			if len(s.Exposures) > 0 || !strings.Contains(reasons(s.Left), "on probation: ") {
				t.Fatalf("not for this task: got %q, left out %q", exposures(s), reasons(s.Left))
			}
		default:
			tries++
			if len(s.Bullets) != 4 || len(s.Exposures) != 1 || len(s.Withheld) > 1 {
				t.Fatalf("got %s, %q, withheld %v", got, exposures(s), s.Withheld)
			}
		}
	}
	if tries < 65 || tries > 135 { // five standard deviations
		t.Errorf("shown to %d of 200 tasks, want about 100", tries)
	}
	if want := []string{"", "p-1/5:shown", "p-1/5:withheld"}; !slices.Equal(slices.Sorted(maps.Keys(seen)), want) {
		t.Errorf("got %v, want %q", seen, want)
	}
	if s := choose(x, nil); ids(s.Bullets) != "p-3 active" || len(s.Exposures)+len(s.Withheld) > 0 { // as for an evaluation
		t.Errorf("without a draw: got %s, %q, withheld %v", ids(s.Bullets), exposures(s), s.Withheld)
	}
}

// TestProbationTakesThePlaceOfTheReplacedBullet checks that a prompt never has a correction and the bullet that it corrects, unless a
// person keeps that one.
func TestProbationTakesThePlaceOfTheReplacedBullet(t *testing.T) {
	t.Parallel()
	correction := onProbation(standing("p-1", playbook.StandingSuspect, 5))
	correction.Replaces = "old"
	for _, tt := range []struct {
		old  *playbook.Bullet
		want []string // in the prompts of many tasks
	}{
		{standing("old", playbook.StandingTrusted, 1), []string{"old", "p-1"}},
		{standing("old", playbook.StandingKept, 1), []string{"old", "old p-1"}},
		{pinned(standing("old", playbook.StandingTrusted, 1)), []string{"old", "old p-1"}},
	} {
		x := under(playbook.GateStrict, tt.old, correction)
		seen, withheld := map[string]bool{}, 0
		for n := range 100 {
			s := choose(x, draw(fmt.Sprint("task ", n), "p-1"))
			shown := slices.DeleteFunc(slices.Clone(s.Bullets), func(b *playbook.Bullet) bool { return slices.Contains(s.Withheld, b.ID) })
			if len(s.Withheld) > 0 {
				withheld++
			}
			seen[ids(shown)] = true
			if replaced := strings.Contains(reasons(s.Left), "replaced by a bullet on probation: old"); replaced == slices.Contains(s.Bullets, tt.old) {
				t.Fatalf("got %s, left out %q", ids(s.Bullets), reasons(s.Left))
			}
		}
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, tt.want) || withheld == 0 {
			t.Errorf("%s: got %q, %d withheld, want %q", tt.old.Experiment.Standing, got, withheld, tt.want)
		}
	}
}

// TestIndexFollowsGate checks that the index follows changes of the gate and of probation.
func TestIndexFollowsGate(t *testing.T) {
	t.Parallel()
	x := selection.NewIndex(false)
	p := new(playbook.Playbook)
	for _, tt := range []struct {
		name   string
		d      playbook.Delta
		number int // of the experiment; 0 for none
		n      int // number of bullets
	}{
		{"guard", playbook.Delta{Ops: []playbook.Op{
			{Kind: playbook.Add, Bullet: "p-00001", Section: "s", Content: "new", Status: playbook.Probation, Standing: playbook.StandingNew},
			{Kind: playbook.Add, Bullet: "a-00002", Section: "s", Content: "known", Standing: playbook.StandingKept},
		}}, 0, 1},
		{"strict", playbook.Delta{Gate: playbook.GateStrict}, 1, 2},
		{"restart", playbook.Delta{Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "p-00001", Status: playbook.Probation, Restart: true}}}, 2, 2},
		{"off", playbook.Delta{Gate: playbook.GateOff}, 0, 1},
		{"strict again", playbook.Delta{Gate: playbook.GateStrict}, 2, 2},
		{"suspect", playbook.Delta{Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "p-00001", Status: playbook.Active, Standing: playbook.StandingSuspect}}}, 2, 2},
		{"kept", playbook.Delta{Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "p-00001", Status: playbook.Active, Standing: playbook.StandingKept}}}, 0, 2},
		{"on probation again", playbook.Delta{Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "p-00001", Status: playbook.Probation, Standing: playbook.StandingNew}}}, 2, 2},
		{"removed", playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "p-00001"}}}, 0, 1},
	} {
		tt.d.Version, tt.d.Time = p.Version()+1, noon
		if _, err := p.Apply(&tt.d); err != nil {
			t.Fatal(err)
		}
		x.Update(p)
		got := 0
		for n := range 50 {
			for _, e := range choose(x, draw(fmt.Sprint("task ", n), "p-00001")).Exposures {
				got = e.Experiment
			}
		}
		if got != tt.number || x.Len() != tt.n || len(choose(x, nil).Bullets) > x.Len() {
			t.Errorf("%s: got experiment %d and %d bullets, want %d and %d", tt.name, got, x.Len(), tt.number, tt.n)
		}
	}
}

// drawDraw draws an experiment in which any bullets of drawBook apply.
func drawDraw(t *rapid.T) *selection.Draw {
	ids := make([]playbook.BulletID, 40)
	for i := range ids {
		ids[i] = playbook.BulletID(fmt.Sprintf("b-%d", i))
	}
	ids = rapid.Permutation(ids).Draw(t, "applicable")
	return draw(rapid.StringN(0, 4, -1).Draw(t, "task"), ids[:rapid.IntRange(0, 40).Draw(t, "applicable bullets")]...)
}

// TestArmsChangeOnlyDrawnBullets compares the two arms of an experiment. The rest of the prompt must be the same. The arm changes
// with the number of the experiment.
func TestArmsChangeOnlyDrawnBullets(t *testing.T) {
	t.Parallel()
	compared := map[playbook.Gate]int{}
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]playbook.Gate{playbook.GateGuard, playbook.GateStrict}).Draw(t, "gate")
		p, o := drawBook(t), drawOptions(t)
		p.SetGate(mode)
		o.Draw = drawDraw(t)
		if rapid.Bool().Draw(t, "wide") {
			o.Tokens, o.MaxBullets = 1<<20, 0
		}
		status := map[playbook.Gate]playbook.Status{playbook.GateGuard: playbook.Active, playbook.GateStrict: playbook.Probation}[mode]
		for _, b := range p.Sorted() {
			if rapid.Bool().Draw(t, "in experiment") {
				b.Status, b.Pinned, b.Experiment = status, false, &playbook.Experiment{Number: 1, Standing: playbook.StandingSuspect}
			}
		}
		selections := map[playbook.Arm]selection.Selection{}
		first := indexOf(p).Select(o)
		if len(first.Exposures) == 0 {
			return
		}
		selections[first.Exposures[0].Arm] = first
		for n := 1; len(selections) < 2; n++ {
			if n == 200 {
				t.Fatal("200 draws have the same arm")
			}
			b := p.Bullet(first.Exposures[0].Bullet)
			if b.Experiment == nil {
				b.Experiment = new(playbook.Experiment)
			}
			b.Experiment.Number++
			number := b.Experiment.Number
			s := indexOf(p).Select(o)
			if len(s.Exposures) != len(first.Exposures) || s.Exposures[0].Bullet != first.Exposures[0].Bullet || s.Exposures[0].Experiment != number {
				t.Fatalf("got %s, then %s", exposures(first), exposures(s))
			}
			selections[s.Exposures[0].Arm] = s
		}
		compared[mode]++
		shown, withheld := selections[playbook.ArmShown], selections[playbook.ArmWithheld]
		if ids(shown.Bullets) != ids(withheld.Bullets) || !slices.Equal(shown.Priority, withheld.Priority) || shown.Tokens != withheld.Tokens {
			t.Fatalf("shown: %s, %v, %d tokens; withheld: %s, %v, %d tokens",
				ids(shown.Bullets), shown.Priority, shown.Tokens, ids(withheld.Bullets), withheld.Priority, withheld.Tokens)
		}
		if len(shown.Withheld) > 0 || len(withheld.Withheld) == 0 {
			t.Fatalf("the arm shown withholds %v, the other %v", shown.Withheld, withheld.Withheld)
		}
		for _, e := range withheld.Exposures {
			if e.Arm != playbook.ArmWithheld || !slices.Contains(withheld.Withheld, e.Bullet) {
				t.Fatalf("got %s, withheld %v", exposures(withheld), withheld.Withheld)
			}
		}
		for _, id := range withheld.Withheld {
			if p.Bullet(id).Pinned {
				t.Fatalf("%s is withheld", id)
			}
		}
		if len(withheld.Withheld) > 1 {
			t.Fatalf("%v are withheld, want one", withheld.Withheld)
		}
	})
	// The short tier draws few cases.
	if !testing.Short() && (compared[playbook.GateGuard] == 0 || compared[playbook.GateStrict] == 0) {
		t.Errorf("compared %v: the test is void", compared)
	}
}

// TestEstablishedBulletsAreAPrefix checks that prompts begin alike if only records, the standings new and suspect, or the
// bullets behind the established ones change.
func TestEstablishedBulletsAreAPrefix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawBook(t)
		established := slices.DeleteFunc(candidates(p), func(b *playbook.Bullet) bool { return !b.Established() })
		slices.SortFunc(established, func(a, b *playbook.Bullet) int {
			return strings.Compare(a.Section+"\x00"+string(a.ID), b.Section+"\x00"+string(b.ID))
		})
		prompt := func() string {
			s := indexOf(p).Select(selection.Options{Tokens: math.MaxInt})
			if len(s.Bullets) != len(candidates(p)) {
				t.Fatalf("%d of %d bullets are shown", len(s.Bullets), len(candidates(p)))
			}
			return playbook.RenderPrompt(s.Bullets, false)
		}
		want := playbook.Render(established)
		if got := prompt(); !strings.HasPrefix(got, want) {
			t.Fatalf("got %q, want prefix %q", got, want)
		}
		p = playbook.Restore(8, 0, func(yield func(*playbook.Bullet) bool) {
			for _, old := range p.Sorted() {
				b := *old
				if e := b.CurrentExperiment(); b.Established() {
					e.Shown[rapid.IntRange(0, 10).Draw(t, "score")]++
					e.Recent += "+"
					b.Experiment = &e
					b.Helpful, b.LastUsed = drawVotes.Draw(t, "helpful"), drawTime.Draw(t, "used")
				} else if rapid.Bool().Draw(t, "dropped") {
					continue
				} else {
					e.Standing = rapid.SampledFrom([]playbook.Standing{playbook.StandingNew, playbook.StandingSuspect}).Draw(t, "standing")
					b.Experiment = &e
					b.Content = drawContent.Draw(t, "content")
				}
				if !yield(&b) {
					return
				}
			}
			added := drawBullet(t, "added")
			added.Experiment = &playbook.Experiment{Number: 1, Standing: playbook.StandingNew}
			yield(added)
		})
		if got := prompt(); !strings.HasPrefix(got, want) {
			t.Fatalf("at the next version: got %q, want prefix %q", got, want)
		}
	})
}

// TestSharesAndArmsAreFair checks that each standing takes part in its share of the tasks, half of them in each arm, and that
// the draws of tasks and experiments are independent. A fair draw exceeds the bounds once in a million times.
func TestSharesAndArmsAreFair(t *testing.T) {
	t.Parallel()
	const tasks = 4000
	// drawn returns the arm of a bullet in each task, 0 for none, 1 for shown, 2 for withheld.
	drawn := func(s playbook.Standing, id playbook.BulletID, number int) []int {
		x := under("", standing(id, s, number))
		all := make([]int, tasks)
		for n := range tasks {
			d := draw(fmt.Sprint("task ", n), id)
			for _, e := range x.Select(selection.Options{Tokens: 2500, Draw: d}).Exposures {
				all[n] = map[playbook.Arm]int{playbook.ArmShown: 1, playbook.ArmWithheld: 2}[e.Arm]
			}
		}
		return all
	}
	isNear := func(name string, count, of int, share float64) {
		t.Helper()
		if sd := math.Sqrt(float64(of) * share * (1 - share)); math.Abs(float64(count)-float64(of)*share) > 4.9*sd {
			t.Errorf("%s: got %d of %d, want about %.0f %%", name, count, of, 100*share)
		}
	}
	for _, s := range []playbook.Standing{"", playbook.StandingNew, playbook.StandingTrusted, playbook.StandingProven, playbook.StandingSuspect} {
		var counts [3]int
		for _, arm := range drawn(s, "a", 1) {
			counts[arm]++
		}
		isNear(fmt.Sprintf("tasks for standing %q", s), counts[1]+counts[2], tasks, float64(s.ExperimentShare())/100)
		isNear(fmt.Sprintf("arm shown of standing %q", s), counts[1], counts[1]+counts[2], 0.5)
	}
	one := drawn(playbook.StandingSuspect, "a", 1)
	if again := drawn(playbook.StandingSuspect, "a", 1); !cmp.Equal(one, again) {
		t.Error("the same tasks have other arms the second time")
	}
	for name, other := range map[string][]int{
		"experiments":         drawn(playbook.StandingSuspect, "a", 2),
		"bullets":             drawn(playbook.StandingSuspect, "c", 1),
		"a task and the next": append(slices.Clone(one[1:]), one[0]),
	} {
		same := 0
		for n := range one {
			if one[n] == other[n] {
				same++
			}
		}
		isNear(name+": equal arms", same, tasks, 0.5)
	}
}
