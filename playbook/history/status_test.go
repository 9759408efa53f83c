package history_test

import (
	"slices"
	"testing"
	"time"

	"debrief/playbook"
	"debrief/playbook/history"
)

func logOf(deltas ...*playbook.Delta) history.Log {
	return func(fn func(*playbook.Delta) error) error {
		for _, d := range deltas {
			if err := fn(d); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	p := playbook.Restore(2, 0, slices.Values([]*playbook.Bullet{
		{ID: "a", Status: playbook.Quarantined}, {ID: "b", Status: playbook.Quarantined}, {ID: "c"},
	}))
	at := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	statuses, err := statusesOf(logOf(
		&playbook.Delta{
			Version: 1, Time: at, Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "b", Status: playbook.Quarantined, Reason: "burst", Support: []int{0, 1}}},
			Covers: []playbook.Cover{{ID: "1", Evidence: &playbook.Evidence{Execution: "7-0123abcd", Source: "desk"}}, {ID: "2"}},
		},
		&playbook.Delta{Version: 2, Time: at.Add(time.Hour), Reason: "suspicious", Ops: []playbook.Op{
			{Kind: playbook.Put, Bullet: "a", PutBullet: &playbook.Bullet{ID: "a", Status: playbook.Quarantined}},
			{Kind: playbook.Pin, Bullet: "a"},
			{Kind: playbook.SetStatus, Bullet: "c", Status: playbook.Active},
		}},
	))
	list := statuses.Quarantine(p)
	if err != nil || len(list) != 2 {
		t.Fatalf("got %d bullets, %v; want 2", len(list), err)
	}
	if b := list[0]; b.ID != "b" || b.Version != 1 || b.Reason != "burst" || !slices.Equal(b.From, []string{"7-0123abcd desk"}) {
		t.Errorf("first: got %+v", b)
	}
	if b := list[1]; b.ID != "a" || b.Version != 2 || b.Reason != "suspicious" || !b.Time.Equal(at.Add(time.Hour)) || len(b.From) != 0 {
		t.Errorf("second: got %+v", b)
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	status := func(id playbook.BulletID, s playbook.Status) playbook.Op {
		return playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: s}
	}
	add := func(id playbook.BulletID, s playbook.Status) playbook.Op {
		return playbook.Op{Kind: playbook.Add, Bullet: id, Status: s}
	}
	curator, person := history.Curator, "ann"
	for name, test := range map[string]struct {
		authors []string // of the deltas
		ops     []playbook.Op
		want    playbook.Status // of the decision on "a-00001"; empty for none
	}{
		"retired":                      {[]string{curator, curator}, []playbook.Op{add("a-00001", ""), status("a-00001", playbook.Retired)}, playbook.Retired},
		"retired by a person":          {[]string{curator, person}, []playbook.Op{add("a-00001", ""), status("a-00001", playbook.Retired)}, ""},
		"retired, then approved":       {[]string{curator, curator, person}, []playbook.Op{add("a-00001", ""), status("a-00001", playbook.Retired), status("a-00001", playbook.Active)}, ""},
		"the first probation":          {[]string{curator, curator}, []playbook.Op{add("a-00001", playbook.Candidate), status("a-00001", playbook.Probation)}, ""},
		"probation after it was shown": {[]string{curator, curator}, []playbook.Op{add("a-00001", ""), status("a-00001", playbook.Probation)}, playbook.Probation},
		"a vote changes no status":     {[]string{curator, curator, curator}, []playbook.Op{add("a-00001", ""), status("a-00001", playbook.Retired), {Kind: playbook.Tag, Bullet: "a-00001", Helpful: 1}}, playbook.Retired},
	} {
		var deltas []*playbook.Delta
		for i, op := range test.ops {
			deltas = append(deltas, &playbook.Delta{Version: uint64(i + 1), Author: test.authors[i], Ops: []playbook.Op{op}})
		}
		statuses, err := statusesOf(logOf(deltas...))
		list := statuses.Decisions()
		got := playbook.Status("")
		if len(list) > 0 {
			got = list[0].Status
		}
		if err != nil || got != test.want || len(list) > 1 {
			t.Errorf("%s: got %+v, %v; want %q", name, list, err, test.want)
		}
	}
	statuses, err := statusesOf(logOf(&playbook.Delta{Version: 1, Author: curator, Ops: []playbook.Op{status("b-00002", playbook.Retired), status("a-00001", playbook.Retired)}},
		&playbook.Delta{Version: 2, Author: curator, Ops: []playbook.Op{status("c-00003", playbook.Retired)}}))
	var ids []playbook.BulletID
	for _, d := range statuses.Decisions() {
		ids = append(ids, d.ID)
	}
	if want := []playbook.BulletID{"c-00003", "a-00001", "b-00002"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("got %q, %v; want %q: the newest first", ids, err, want)
	}
}

// statusesOf reads a whole log.
func statusesOf(log history.Log) (*history.Statuses, error) {
	s := new(history.Statuses)
	return s, log(func(d *playbook.Delta) error {
		s.Add(d)
		return nil
	})
}
