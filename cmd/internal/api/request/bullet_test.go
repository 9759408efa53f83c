package request

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/program"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/formats"
	"debrief/playbook/history"
)

// TestSectionHasNoSecret checks that a section loses its secrets before its characters change.
func TestSectionHasNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "AKIAIOSFODNN7EXAMPLE"
	if got := StoredSection(secret); strings.Contains(got, strings.ToLower(secret)) {
		t.Errorf("got section %q", got)
	}
}

func TestNewImport(t *testing.T) {
	t.Parallel()
	bullet := func(id playbook.BulletID, content string) playbook.Bullet {
		return playbook.Bullet{ID: id, Section: "misc", Content: content}
	}
	now := playbookOf(t, "", bullet("misc-00001", "same"), bullet("misc-00002", "taken"))
	for _, test := range []struct {
		name, file string
		added      []playbook.BulletID
		notes      int
		fails      bool
	}{
		{name: "same", file: `[misc-00001] helpful=0 harmful=0 :: same`},
		{name: "new", file: `[misc-00001] helpful=0 harmful=0 :: same` + "\n" + `[misc-00009] helpful=0 harmful=0 :: new`, added: []playbook.BulletID{"misc-00009"}},
		{name: "taken id", file: `[misc-00002] helpful=0 harmful=0 :: new`, added: []playbook.BulletID{"misc-00002-2"}, notes: 1},
		{name: "no playbook", file: "nothing", fails: true},
	} {
		made, err := NewImport([]byte("## MISC\n"+test.file+"\n"), formats.ACE, now)
		if (err != nil) != test.fails {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if err != nil {
			continue
		}
		var added []playbook.BulletID
		for _, op := range made.Ops {
			if op.Kind != playbook.Put || op.PutBullet.ID != op.Bullet {
				t.Errorf("%s: got operation %+v", test.name, op)
			}
			added = append(added, op.Bullet)
		}
		if !slices.Equal(added, test.added) || len(made.Notes) != test.notes {
			t.Errorf("%s: got bullets %v and notes %v, want %v", test.name, added, made.Notes, test.added)
		}
	}
}

func TestImportParts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ops  int
		want []int
	}{{0, nil}, {1, []int{1}}, {PerEdit, []int{PerEdit}}, {2*PerEdit + 1, []int{PerEdit, PerEdit, 1}}} {
		var got []int
		for part := range (&Import{Ops: make([]playbook.Op, test.ops)}).Parts() {
			got = append(got, len(part))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%d operations: got parts %v, want %v", test.ops, got, test.want)
		}
	}
}

func TestPlanForget(t *testing.T) {
	t.Parallel()
	cover := func(id, source string) playbook.Cover {
		return playbook.Cover{ID: id, Seq: 1, Evidence: &playbook.Evidence{Execution: id, Sample: id, Source: source, Outcome: "success", Score: 1}}
	}
	deltas := []*playbook.Delta{
		{Version: 1, Covers: []playbook.Cover{cover("a", "forum")}, Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "misc-00001", Section: "misc", Content: "from the forum", Support: []int{0}}}},
		{Version: 2, Covers: []playbook.Cover{cover("b", "desk")}, Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "misc-00002", Section: "misc", Content: "from the desk", Support: []int{0}}}},
	}
	now := new(playbook.Playbook)
	for _, d := range deltas {
		if _, err := now.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	broken := fmt.Errorf("read: %w", deltalog.ErrBrokenLog)
	for _, test := range []struct {
		name, source string
		logErr       error
		removed      []playbook.BulletID
		code         int
	}{
		{name: "one source", source: "forum", removed: []playbook.BulletID{"misc-00001"}},
		{name: "unknown source", source: "nowhere"},
		{name: "broken log", source: "forum", logErr: broken, code: program.ExitRefused},
		{name: "outage", source: "forum", logErr: errors.New("no reply"), code: program.ExitFailed},
	} {
		log := func(fn func(*playbook.Delta) error) error {
			for _, d := range deltas {
				if err := fn(d); err != nil {
					return err
				}
			}
			return test.logErr
		}
		then, err := PlanForget(t.Context(), nil, log, playbook.Selector{Source: test.source})
		if program.ExitCode(err) != test.code {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if err != nil {
			continue
		}
		var removed []playbook.BulletID
		changes := history.Diff(now, then.Playbook)
		for _, d := range changes {
			if d.After == nil {
				removed = append(removed, d.Before.ID)
			}
		}
		if !slices.Equal(removed, test.removed) || len(changes) != len(test.removed) || then.Matched != len(test.removed) {
			t.Errorf("%s: got %+v", test.name, changes)
		}
	}
}
