package books

import (
	"testing"

	"debrief/curator/gate"

	book "debrief/playbook"
)

// playbookOf folds bullets into a playbook. A gate mode other than "" is set.
func playbookOf(t *testing.T, gate book.Gate, bullets ...book.Bullet) *book.Playbook {
	t.Helper()
	p, d := new(book.Playbook), &book.Delta{Version: 1, Gate: gate}
	for i := range bullets {
		d.Ops = append(d.Ops, book.Op{Kind: book.Put, Bullet: bullets[i].ID, PutBullet: &bullets[i]})
	}
	if _, err := p.Apply(d); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGateRows checks the rows of the report of package gate for each status, in the modes guard and off.
func TestGateRows(t *testing.T) {
	t.Parallel()
	scores := func(n int) (s book.Scores) {
		s[book.MaxScore] = n
		return s
	}
	tested := func(shown, withheld int) *book.Experiment {
		return &book.Experiment{Number: 1, Standing: book.StandingNew, Shown: scores(shown), Withheld: scores(withheld)}
	}
	for _, test := range []struct {
		name    string
		bullet  book.Bullet
		waiting bool
		status  book.Status
		lift    bool
		shown   gate.ArmScores
	}{
		{"no status", book.Bullet{}, false, book.Active, false, gate.ArmScores{}},
		{"only shown", book.Bullet{Experiment: tested(2, 0)}, false, book.Active, false, gate.ArmScores{N: 2, Mean: 1}},
		{"both arms", book.Bullet{Experiment: tested(3, 1)}, false, book.Active, true, gate.ArmScores{N: 3, Mean: 1}},
		{"on probation", book.Bullet{Status: book.Probation, Experiment: tested(3, 1)}, false, book.Probation, true, gate.ArmScores{N: 3, Mean: 1}},
		{"candidate", book.Bullet{Status: book.Candidate}, true, book.Candidate, false, gate.ArmScores{}},
	} {
		test.bullet.ID, test.bullet.Section, test.bullet.Content = "a", "misc", "x"
		report := gate.NewReport(playbookOf(t, "", test.bullet), gate.Config{})
		for _, mode := range []book.Gate{book.GateGuard, book.GateOff} {
			list, other := report.Rows(mode)
			from := report.Tested
			if test.waiting {
				list, other, from = other, list, report.Waiting
			}
			if len(list) != 1 || len(other) != 0 || len(from) != 1 {
				t.Fatalf("%s, %s: got rows %v and %v", test.name, mode, list, other)
			}
			row := list[0]
			if row.Status != test.status || (row.Lift != nil) != test.lift || row.Shown != test.shown {
				t.Errorf("%s, %s: got %+v", test.name, mode, row)
			}
			if decided := row.Next == from[0].NextStep; decided != (mode != book.GateOff) {
				t.Errorf("%s, %s: got next step %q, the report has %q", test.name, mode, row.Next, from[0].NextStep)
			}
		}
	}
}
