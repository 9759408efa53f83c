package gate_test

import (
	"strings"
	"testing"

	"debrief/curator/gate"
	"debrief/playbook"
)

// playbookOf folds bullets into a playplaybook. A gate mode other than "" is set.
func playbookOf(t *testing.T, mode playbook.Gate, bullets ...playbook.Bullet) *playbook.Playbook {
	t.Helper()
	p, d := new(playbook.Playbook), &playbook.Delta{Version: 1, Gate: mode}
	for i := range bullets {
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: bullets[i].ID, PutBullet: &bullets[i]})
	}
	if _, err := p.Apply(d); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNextSteps checks the next step of waiting and of new bullets.
func TestNextSteps(t *testing.T) {
	t.Parallel()
	old := playbook.Bullet{ID: "a-1", Section: "misc", Content: "old", Experiment: record("trusted", "---------+++++++++++++++++++++++", 0)}
	good := playbook.Bullet{ID: "a-3", Section: "misc", Content: "good", Experiment: record("trusted", strings.Repeat("+", playbook.MaxRecent), 0)}
	better := good
	better.ID, better.Content = "a-4", "better"
	for name, test := range map[string]struct {
		bullet playbook.Bullet
		want   string
	}{
		"candidate": {playbook.Bullet{Status: playbook.Candidate}, "waits for a request by 1 other execution"},
		"advice against a supported bullet": {
			playbook.Bullet{Status: playbook.Candidate, Contests: "a-1", Experiment: record("new", "", 0)},
			"waits for a request by 2 other executions, or until outcomes of a-1 become worse",
		},
		"correction of a trusted bullet, requested once": {
			playbook.Bullet{Status: playbook.Candidate, Replaces: "a-1", Experiment: record("new", "", 1)},
			"waits for a request by 2 other executions, or until outcomes of a-1 become worse",
		},
		"new bullet before its suspension": {
			playbook.Bullet{Experiment: record("new", "-", 0)},
			"will be suspended: tasks that cite it seem to fail: mean score 0.00 in 1 tasks, 0.90 is typical",
		},
	} {
		test.bullet.ID, test.bullet.Section, test.bullet.Content = "a-2", "misc", "new"
		tested, waiting := gate.Rows(playbookOf(t, "", old, good, better, test.bullet), gate.Config{}, 0)
		for _, r := range append(waiting, tested...) {
			if r.ID == "a-2" && r.Next != test.want {
				t.Errorf("%s: got %q, want %q", name, r.Next, test.want)
			}
		}
	}
}

// TestReportRows checks the rows of the report of package gate for each status, in the modes guard and off.
func TestDescribe(t *testing.T) {
	t.Parallel()
	modes := map[string]playbook.Gate{}
	for _, mode := range []playbook.Gate{playbook.GateGuard, playbook.GateOff, playbook.GateStrict} {
		text := gate.Describe(mode)
		if other, ok := modes[text]; ok || text == "" || strings.HasSuffix(text, ".") {
			t.Errorf("%s: got %q, the same as %q", mode, text, other)
		}
		modes[text] = mode
	}
	if modes[gate.Describe("")] != playbook.GateGuard {
		t.Errorf("no mode: got %q, want the description of guard", gate.Describe(""))
	}
}

func TestReportRows(t *testing.T) {
	t.Parallel()
	scores := func(n int) (s playbook.Scores) {
		s[playbook.MaxScore] = n
		return s
	}
	tested := func(shown, withheld int) *playbook.Experiment {
		return &playbook.Experiment{Number: 1, Standing: playbook.StandingNew, Shown: scores(shown), Withheld: scores(withheld)}
	}
	for _, test := range []struct {
		name    string
		bullet  playbook.Bullet
		waiting bool
		status  playbook.Status
		lift    bool
		shown   gate.ArmScores
	}{
		{"no status", playbook.Bullet{}, false, playbook.Active, false, gate.ArmScores{}},
		{"only shown", playbook.Bullet{Experiment: tested(2, 0)}, false, playbook.Active, false, gate.ArmScores{N: 2, Mean: 1}},
		{"both arms", playbook.Bullet{Experiment: tested(3, 1)}, false, playbook.Active, true, gate.ArmScores{N: 3, Mean: 1}},
		{"on probation", playbook.Bullet{Status: playbook.Probation, Experiment: tested(3, 1)}, false, playbook.Probation, true, gate.ArmScores{N: 3, Mean: 1}},
		{"candidate", playbook.Bullet{Status: playbook.Candidate}, true, playbook.Candidate, false, gate.ArmScores{}},
	} {
		test.bullet.ID, test.bullet.Section, test.bullet.Content = "a", "misc", "x"
		for _, mode := range []playbook.Gate{playbook.GateGuard, playbook.GateOff} {
			list, other := gate.Rows(playbookOf(t, mode, test.bullet), gate.Config{}, 0)
			if test.waiting {
				list, other = other, list
			}
			if len(list) != 1 || len(other) != 0 {
				t.Fatalf("%s, %s: got rows %v and %v", test.name, mode, list, other)
			}
			row := list[0]
			if row.Status != test.status || (row.Lift != nil) != test.lift || row.Shown != test.shown {
				t.Errorf("%s, %s: got %+v", test.name, mode, row)
			}
			if isEffect := row.Next == "waits" || row.Next == "is shown"; isEffect != (mode == playbook.GateOff) {
				t.Errorf("%s, %s: got next step %q", test.name, mode, row.Next)
			}
		}
	}
}

// TestWaits checks what a report says about a bullet that is not shown to every task.
func TestWaits(t *testing.T) {
	t.Parallel()
	row := &gate.Row{Next: "waits for a request by 1 other execution"}
	for status, want := range map[playbook.Status]string{
		playbook.Candidate: row.Next, playbook.Probation: row.Next, playbook.Active: "", playbook.Retired: "",
		playbook.Quarantined: "waits for a person, see 'debrief playbook review'",
	} {
		if got := gate.Waits(status, row); got != want {
			t.Errorf("%s: got %q, want %q", status, got, want)
		}
	}
}
