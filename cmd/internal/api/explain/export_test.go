package explain_test

import (
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/api/explain"
	"debrief/playbook"
	"debrief/playbook/formats"
)

func TestExported(t *testing.T) {
	t.Parallel()
	p, d := new(playbook.Playbook), &playbook.Delta{Version: 1}
	for id, status := range map[playbook.BulletID]playbook.Status{"a": playbook.Active, "b": playbook.Retired, "c": playbook.Quarantined} {
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{ID: id, Section: "misc", Content: string(id), Status: status}})
	}
	if _, err := p.Apply(d); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		format formats.Format
		all    bool
		want   string
	}{
		{formats.JSON, false, "abc"},
		{formats.JSONL, false, "abc"},
		{formats.Kayba, false, "ab"},
		{formats.Markdown, false, "a"},
		{formats.Markdown, true, "abc"},
	} {
		got := ""
		for _, b := range explain.Exported(p, test.format, test.all) {
			got += string(b.ID)
		}
		if got != test.want {
			t.Errorf("%s, all %v: got %q, want %q", test.format, test.all, got, test.want)
		}
	}
}

func TestLosses(t *testing.T) {
	t.Parallel()
	loss := func(field string, ids ...playbook.BulletID) (all []formats.Loss) {
		for _, id := range ids {
			all = append(all, formats.Loss{Bullet: id, Field: field, Reason: "none"})
		}
		return all
	}
	for _, test := range []struct {
		losses []formats.Loss
		want   []string // the bullets of each line
	}{
		{nil, nil},
		{loss("pinned", "a", "b", "c"), []string{"(a, b, c)"}},
		{loss("pinned", "a", "b", "c", "d", "e"), []string{"(a, b, c, and 2 more)"}},
		{slices.Concat(loss("pinned", "a"), loss("status", "b"), loss("pinned", "c")), []string{"(a, c)", "(b)"}},
	} {
		var got []string
		for _, line := range explain.Losses(test.losses) {
			got = append(got, line[strings.Index(line, "("):])
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
