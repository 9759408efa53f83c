package explain_test

import (
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/explain"
	"debrief/events/deltalog"

	book "debrief/playbook"
)

func TestLog(t *testing.T) {
	t.Parallel()
	name := func(version uint64, names ...book.Name) *deltalog.Record {
		return &deltalog.Record{Delta: book.Delta{Version: version, Names: names}}
	}
	records := []*deltalog.Record{
		name(1),
		name(2, book.Name{Name: "good", Version: 1}),
		name(3),
		name(4, book.Name{Name: "good", Version: 3}, book.Name{Name: "best", Version: 3}),
		name(5, book.Name{Name: "first", Version: 1}),
	}
	for _, test := range []struct {
		name string
		log  explain.Log
		want []string // version number and names
	}{
		{"all", explain.Log{}, []string{"5", "4", "3 good best", "2", "1 first"}},
		{"limit", explain.Log{Limit: 3}, []string{"5", "4", "3 good best"}},
		{"names", explain.Log{NamesOnly: true}, []string{"5", "4", "2"}},
		{"names and limit", explain.Log{NamesOnly: true, Limit: 1}, []string{"5"}},
	} {
		for _, r := range records {
			if err := test.log.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, c := range test.log.Changes() {
			label, names, _ := strings.Cut(c.Title(), " ")
			number, _, _ := strings.Cut(label, "@")
			got = append(got, strings.TrimSpace(number+" "+names))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
