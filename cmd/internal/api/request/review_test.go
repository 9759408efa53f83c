package request

import (
	"slices"
	"testing"

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

func TestApproval(t *testing.T) {
	t.Parallel()
	held := func(id, replaces book.BulletID) book.Bullet {
		return book.Bullet{ID: id, Section: "misc", Content: "new " + string(id), Status: book.Quarantined, Replaces: replaces}
	}
	shown := func(id, replaces book.BulletID, pinned bool) book.Bullet {
		return book.Bullet{ID: id, Section: "misc", Content: "old " + string(id), Replaces: replaces, Pinned: pinned}
	}
	for _, test := range []struct {
		name    string
		gate    book.Gate
		bullets []book.Bullet
		approve []book.BulletID
		retired []book.BulletID
		refused bool
	}{
		{name: "no replacement", gate: book.GateOff, bullets: []book.Bullet{held("a", ""), held("b", "")}, approve: []book.BulletID{"a", "b"}},
		{
			name: "replaces a bullet and its other replacement", gate: book.GateOff,
			bullets: []book.Bullet{held("a", "x"), shown("x", "", false), shown("c", "x", false), shown("d", "", false)},
			approve: []book.BulletID{"a"}, retired: []book.BulletID{"c", "x"},
		},
		{
			name: "strict gate", gate: book.GateStrict, bullets: []book.Bullet{held("a", "x"), shown("x", "", false)},
			approve: []book.BulletID{"a"}, retired: []book.BulletID{"x"},
		},
		{name: "pinned", gate: book.GateOff, bullets: []book.Bullet{held("a", "x"), shown("x", "", true)}, approve: []book.BulletID{"a"}, refused: true},
		{
			name: "two replace one", gate: book.GateOff, bullets: []book.Bullet{held("a", "x"), held("b", "x"), shown("x", "", false)},
			approve: []book.BulletID{"a", "b"}, refused: true,
		},
	} {
		p := playbookOf(t, test.gate, test.bullets...)
		made, err := NewApproval(p, test.approve, "checked")
		if (err != nil) != test.refused {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if err != nil {
			continue
		}
		if !slices.Equal(made.Retired, test.retired) || len(made.Ops) != len(test.approve)+len(test.retired) {
			t.Errorf("%s: got %+v, want retired %v", test.name, made, test.retired)
		}
		if _, err := p.Apply(&book.Delta{Version: 2, Ops: made.Ops}); err != nil {
			t.Fatal(err)
		}
		for _, id := range test.approve {
			if got := p.Bullet(id).Status; got != book.Active {
				t.Errorf("%s: bullet %s is %q, want active", test.name, id, got)
			}
		}
		for _, id := range test.retired {
			if got := p.Bullet(id).Status; got != book.Retired {
				t.Errorf("%s: bullet %s is %q, want retired", test.name, id, got)
			}
		}
	}
}

func TestSelectQuarantined(t *testing.T) {
	t.Parallel()
	bullet := func(id book.BulletID, status book.Status) book.Bullet {
		return book.Bullet{ID: id, Section: "misc", Content: "x", Status: status}
	}
	p := playbookOf(t, "", bullet("a", book.Quarantined), bullet("b", book.Active), bullet("d", book.Quarantined))
	for _, test := range []struct {
		ids, want []book.BulletID
		ok        bool
	}{
		{[]book.BulletID{"a"}, []book.BulletID{"a"}, true},
		{[]book.BulletID{"d", "a", "d"}, []book.BulletID{"a", "d"}, true},
		{[]book.BulletID{"a", "b"}, nil, false},
		{[]book.BulletID{"c"}, nil, false},
		{nil, nil, true},
	} {
		before := slices.Clone(test.ids)
		got, err := SelectQuarantined(p, test.ids)
		if (err == nil) != test.ok || !slices.Equal(got, test.want) || !slices.Equal(test.ids, before) {
			t.Errorf("%v: got %v, error %v", before, got, err)
		}
	}
}
