package request

import (
	"slices"
	"testing"

	"debrief/playbook"
)

// playbookOf folds bullets into a playbook. A gate mode other than "" is set.
func playbookOf(t *testing.T, gate playbook.Gate, bullets ...playbook.Bullet) *playbook.Playbook {
	t.Helper()
	p, d := new(playbook.Playbook), &playbook.Delta{Version: 1, Gate: gate}
	for i := range bullets {
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: bullets[i].ID, PutBullet: &bullets[i]})
	}
	if _, err := p.Apply(d); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestApproval(t *testing.T) {
	t.Parallel()
	held := func(id, replaces playbook.BulletID) playbook.Bullet {
		return playbook.Bullet{ID: id, Section: "misc", Content: "new " + string(id), Status: playbook.Quarantined, Replaces: replaces}
	}
	shown := func(id, replaces playbook.BulletID, pinned bool) playbook.Bullet {
		return playbook.Bullet{ID: id, Section: "misc", Content: "old " + string(id), Replaces: replaces, Pinned: pinned}
	}
	for _, test := range []struct {
		name    string
		gate    playbook.Gate
		bullets []playbook.Bullet
		approve []playbook.BulletID
		retired []playbook.BulletID
		refused bool
	}{
		{name: "no replacement", gate: playbook.GateOff, bullets: []playbook.Bullet{held("a", ""), held("b", "")}, approve: []playbook.BulletID{"a", "b"}},
		{
			name: "replaces a bullet and its other replacement", gate: playbook.GateOff,
			bullets: []playbook.Bullet{held("a", "x"), shown("x", "", false), shown("c", "x", false), shown("d", "", false)},
			approve: []playbook.BulletID{"a"}, retired: []playbook.BulletID{"c", "x"},
		},
		{
			name: "strict gate", gate: playbook.GateStrict, bullets: []playbook.Bullet{held("a", "x"), shown("x", "", false)},
			approve: []playbook.BulletID{"a"}, retired: []playbook.BulletID{"x"},
		},
		{name: "pinned", gate: playbook.GateOff, bullets: []playbook.Bullet{held("a", "x"), shown("x", "", true)}, approve: []playbook.BulletID{"a"}, refused: true},
		{
			name: "two replace one", gate: playbook.GateOff, bullets: []playbook.Bullet{held("a", "x"), held("b", "x"), shown("x", "", false)},
			approve: []playbook.BulletID{"a", "b"}, refused: true,
		},
	} {
		p := playbookOf(t, test.gate, test.bullets...)
		made, err := newApproval(p, test.approve, "checked")
		if (err != nil) != test.refused {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if err != nil {
			continue
		}
		if !slices.Equal(made.Retired, test.retired) || len(made.Ops) != len(test.approve)+len(test.retired) {
			t.Errorf("%s: got %+v, want retired %v", test.name, made, test.retired)
		}
		if _, err := p.Apply(&playbook.Delta{Version: 2, Ops: made.Ops}); err != nil {
			t.Fatal(err)
		}
		for _, id := range test.approve {
			if got := p.Bullet(id).Status; got != playbook.Active {
				t.Errorf("%s: bullet %s is %q, want active", test.name, id, got)
			}
		}
		for _, id := range test.retired {
			if got := p.Bullet(id).Status; got != playbook.Retired {
				t.Errorf("%s: bullet %s is %q, want retired", test.name, id, got)
			}
		}
	}
}

func TestSelectUndecided(t *testing.T) {
	t.Parallel()
	bullet := func(id playbook.BulletID, status playbook.Status, approved bool) playbook.Bullet {
		return playbook.Bullet{ID: id, Section: "misc", Content: "x", Status: status, Approved: approved}
	}
	p := playbookOf(t, "", bullet("a", playbook.Quarantined, false), bullet("b", playbook.Active, true), bullet("d", playbook.Quarantined, false),
		bullet("e", playbook.Active, false), bullet("f", playbook.Probation, false), bullet("g", playbook.Retired, false))
	for _, test := range []struct {
		ids, want   []playbook.BulletID
		approve, ok bool
	}{
		{ids: []playbook.BulletID{"a"}, want: []playbook.BulletID{"a"}, ok: true},
		{ids: []playbook.BulletID{"d", "a", "d"}, want: []playbook.BulletID{"a", "d"}, ok: true},
		{ids: []playbook.BulletID{"a", "b"}},
		{ids: []playbook.BulletID{"c"}},
		{ok: true},
		{ids: []playbook.BulletID{"e"}},
		{ids: []playbook.BulletID{"f", "e", "a"}, want: []playbook.BulletID{"a", "e", "f"}, approve: true, ok: true},
		{ids: []playbook.BulletID{"b"}, approve: true},
		{ids: []playbook.BulletID{"g"}, approve: true},
	} {
		before := slices.Clone(test.ids)
		got, err := selectUndecided(p, test.ids, test.approve)
		if (err == nil) != test.ok || !slices.Equal(got, test.want) || !slices.Equal(test.ids, before) {
			t.Errorf("%v, approve %t: got %v, error %v", before, test.approve, got, err)
		}
	}
}
