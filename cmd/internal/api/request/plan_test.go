package request

import (
	"fmt"
	"slices"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

func TestNewPromotion(t *testing.T) {
	t.Parallel()
	bullet := func(id playbook.BulletID, text string) playbook.Bullet {
		return playbook.Bullet{ID: id, Section: "others", Content: text}
	}
	base := []playbook.Bullet{bullet("misc-00001", "a"), bullet("misc-00002", "b")}
	learned := []playbook.Bullet{bullet("misc-00001", "better"), bullet("misc-00002", "b")}
	for _, test := range []struct {
		name                         string
		learned, target              []playbook.Bullet
		changes, conflicts, moved    int
		isEmpty, needsMerge, renames bool
	}{
		{"nothing learned", base, base, 0, 0, 0, true, false, false},
		{"a changed bullet", learned, base, 1, 0, 0, false, false, false},
		{"the playbook changed another bullet", learned, []playbook.Bullet{base[0], bullet("misc-00002", "other")}, 1, 0, 1, false, true, false},
		{"the playbook changed the same bullet", learned, []playbook.Bullet{bullet("misc-00001", "other"), base[1]}, 0, 1, 1, true, false, false},
		{"the playbook already has the change", learned, learned, 0, 0, 1, true, false, false},
		{
			"both have a new bullet", append(slices.Clone(base), bullet("misc-00003", "new")), append(slices.Clone(base), bullet("misc-00003", "taken")),
			1, 0, 1, false, true, true,
		},
	} {
		p := newPromotion(playbookOf(t, "", base...), playbookOf(t, "", test.learned...), playbookOf(t, "", test.target...))
		if len(p.Changes) != test.changes || len(p.Conflicts) != test.conflicts || len(p.ChangedInTarget) != test.moved || (len(p.Renamed) > 0) != test.renames ||
			p.IsEmpty() != test.isEmpty || p.NeedsMerge != test.needsMerge {
			t.Errorf("%s: got changes %v, conflicts %v, changed in target %v, renamed %v", test.name, p.Changes, p.Conflicts, p.ChangedInTarget, p.Renamed)
		}
		if p.Changes == nil || p.Conflicts == nil || p.ChangedInTarget == nil {
			t.Errorf("%s: an empty list is nil: JSON needs []", test.name)
		}
	}
}

// TestSubmitExpects checks the base version of edits with and without merge.
func TestSubmitExpects(t *testing.T) {
	t.Parallel()
	base := playbookOf(t, "", playbook.Bullet{ID: "misc-00001", Section: "others", Content: "a"})
	learned := playbookOf(t, "", playbook.Bullet{ID: "misc-00001", Section: "others", Content: "better"})
	for _, merge := range []bool{false, true} {
		p := newPromotion(base, learned, base)
		var sent []*events.Edit
		err := p.Submit(merge, func(e *events.Edit) (*events.EditReply, error) {
			sent = append(sent, e)
			return &events.EditReply{Version: 7}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(sent) != 1 || (sent[0].BaseVersion == nil) != merge || len(sent[0].Expect) != 1 || sent[0].Expect[0].Content != "a" {
			t.Errorf("merge %v: got edits %+v", merge, sent)
		}
		if !p.Promoted || p.Version != 7 {
			t.Errorf("merge %v: got version %d", merge, p.Version)
		}
	}
}

func TestChangedInTargetText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		0: "", 2: "0, 1", 10: "0, 1, 2, 3, 4, 5, 6, 7, 8, 9", 12: "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more",
	} {
		p := &Promotion{}
		for i := range n {
			p.ChangedInTarget = append(p.ChangedInTarget, playbook.BulletID(fmt.Sprint(i)))
		}
		if got := p.ChangedInTargetText(); got != want {
			t.Errorf("%d: got %q", n, got)
		}
	}
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	p := playbookOf(t, "", playbook.Bullet{ID: "a", Section: "misc", Content: "x"})
	got := expectations(p, []playbook.Op{{Bullet: "a"}, {Bullet: "b"}, {Bullet: "a"}})
	want := []events.Expectation{{Bullet: "a", Section: "misc", Content: "x"}, {Bullet: "b"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, want string }{{"", "rejected"}, {"not ours", "not ours"}} {
		ops := reject([]playbook.BulletID{"a", "b"}, test.reason)
		for _, op := range ops {
			if op.Kind != playbook.SetStatus || op.Status != playbook.Retired || op.Reason != test.want {
				t.Errorf("reason %q: got %+v", test.reason, op)
			}
		}
		if len(ops) != 2 {
			t.Errorf("reason %q: got %d operations", test.reason, len(ops))
		}
	}
}
