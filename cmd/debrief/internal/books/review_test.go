package books

import (
	"slices"
	"testing"
	"time"

	"debrief/events/deltalog"

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
		status  book.Status
		retired []book.BulletID
		refused bool
	}{
		{name: "no replacement", gate: book.GateOff, bullets: []book.Bullet{held("a", ""), held("b", "")}, approve: []book.BulletID{"a", "b"}, status: book.Active},
		{
			name: "replaces a bullet and its other replacement", gate: book.GateOff,
			bullets: []book.Bullet{held("a", "x"), shown("x", "", false), shown("c", "x", false), shown("d", "", false)},
			approve: []book.BulletID{"a"}, status: book.Active, retired: []book.BulletID{"c", "x"},
		},
		{
			name: "the gate is on", gate: book.GateOn, bullets: []book.Bullet{held("a", "x"), shown("x", "", true)},
			approve: []book.BulletID{"a"}, status: book.Candidate,
		},
		{name: "pinned", gate: book.GateOff, bullets: []book.Bullet{held("a", "x"), shown("x", "", true)}, approve: []book.BulletID{"a"}, refused: true},
		{
			name: "two replace one", gate: book.GateOff, bullets: []book.Bullet{held("a", "x"), held("b", "x"), shown("x", "", false)},
			approve: []book.BulletID{"a", "b"}, refused: true,
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
		if made.status != test.status || !slices.Equal(made.retired, test.retired) || len(made.ops) != len(test.approve)+len(test.retired) {
			t.Errorf("%s: got %+v, want status %s and retired %v", test.name, made, test.status, test.retired)
		}
		if _, err := p.Apply(&book.Delta{Version: 2, Ops: made.ops}); err != nil {
			t.Fatal(err)
		}
		for _, id := range test.approve {
			if got := p.Bullet(id).Status; got != test.status && (got != "" || test.status != book.Active) {
				t.Errorf("%s: bullet %s is %q, want %q", test.name, id, got, test.status)
			}
		}
		for _, id := range test.retired {
			if got := p.Bullet(id).Status; got != book.Retired {
				t.Errorf("%s: bullet %s is %q, want retired", test.name, id, got)
			}
		}
	}
}

func TestCheckQuarantined(t *testing.T) {
	t.Parallel()
	p := playbookOf(t, "", book.Bullet{ID: "a", Section: "misc", Content: "x", Status: book.Quarantined}, book.Bullet{ID: "b", Section: "misc", Content: "y"})
	for _, test := range []struct {
		list []book.BulletID
		ok   bool
	}{{[]book.BulletID{"a"}, true}, {[]book.BulletID{"a", "b"}, false}, {[]book.BulletID{"c"}, false}, {nil, true}} {
		if err := checkQuarantined(p, test.list); (err == nil) != test.ok {
			t.Errorf("%v: got %v", test.list, err)
		}
	}
}

func TestReadQuarantine(t *testing.T) {
	t.Parallel()
	held := func(id book.BulletID) book.Bullet {
		return book.Bullet{ID: id, Section: "misc", Content: "text " + string(id), Status: book.Quarantined}
	}
	p := playbookOf(t, "", held("a"), held("b"), book.Bullet{ID: "c", Section: "misc", Content: "shown"})
	at := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	records := []*deltalog.Record{
		{Delta: book.Delta{Version: 1, Time: at, Ops: []book.Op{{Kind: book.Add, Bullet: "b", Status: book.Quarantined, Reason: "burst", Support: []int{0, 1}}}, Covers: []book.Cover{
			{ID: "1", Evidence: &book.Evidence{Execution: "7-0123abcd", Source: "desk"}}, {ID: "2"},
		}}},
		{Delta: book.Delta{Version: 2, Time: at.Add(time.Hour), Reason: "suspicious", Ops: []book.Op{
			{Kind: book.SetStatus, Bullet: "a", Status: book.Quarantined}, {Kind: book.Pin, Bullet: "a"}, {Kind: book.SetStatus, Bullet: "c", Status: book.Active},
		}}},
	}
	list, err := readQuarantine(p, func(fn func(*deltalog.Record) error) error {
		for _, r := range records {
			if err := fn(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(list) != 2 {
		t.Fatalf("got %d bullets, %v", len(list), err)
	}
	first, second := list[0], list[1]
	if first.ID != "b" || first.Version != 1 || first.Reason != "burst" || !slices.Equal(first.From, []string{"7-0123abcd desk"}) {
		t.Errorf("first: got %+v", first)
	}
	if second.ID != "a" || second.Version != 2 || second.Reason != "suspicious" || !second.Time.Equal(at.Add(time.Hour)) || len(second.From) != 0 {
		t.Errorf("second: got %+v", second)
	}
}
