package ops

import (
	"slices"
	"testing"

	"debrief/cmd/internal/app"
	"debrief/events"
)

func TestTailFilter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		flags Tail
		kinds []events.Kind // nil if the flags are invalid
	}{
		{"role", Tail{Role: events.RoleCurator}, []events.Kind{events.KindDelta, events.KindDead}},
		{"kinds", Tail{Kind: []string{"task", "edit"}}, []events.Kind{events.KindTask, events.KindEdit}},
		{"unknown role", Tail{Role: "writer"}, nil},
		{"unknown kind", Tail{Kind: []string{"bullet"}}, nil},
		{"role and kind", Tail{Role: events.RoleCurator, Kind: []string{"task"}}, nil},
		{"negative lines", Tail{Role: events.RoleCurator, Lines: -1}, nil},
	} {
		f, err := test.flags.filter()
		if (app.ExitCode(err) == app.ExitUsage) != (test.kinds == nil) || err == nil && !slices.Equal(f.Kinds, test.kinds) {
			t.Errorf("%s: got kinds %v, error %v", test.name, f.Kinds, err)
		}
	}
}

func TestLetterFilter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		flags letterFlags
		ok    bool
	}{
		{"none", letterFlags{}, true},
		{"all", letterFlags{Role: events.RoleReflector, Book: "b", Since: "2h"}, true},
		{"unknown role", letterFlags{Role: "writer"}, false},
		{"invalid book", letterFlags{Book: "a b"}, false},
		{"invalid time", letterFlags{Since: "later"}, false},
	} {
		f, err := test.flags.filter()
		if (err == nil) != test.ok {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if err == nil && (f.Role != test.flags.Role || string(f.Book) != test.flags.Book || f.Since.IsZero() != (test.flags.Since == "")) {
			t.Errorf("%s: got %+v", test.name, f)
		}
	}
}

func TestLetterSelection(t *testing.T) {
	t.Parallel()
	one := []events.Handle{"17-ab12cd34"}
	for _, test := range []struct {
		name string
		how  letterSelection
		ok   bool
	}{
		{"one letter", letterSelection{IDs: one}, true},
		{"all", letterSelection{All: true}, true},
		{"all of a role", letterSelection{All: true, letterFlags: letterFlags{Role: events.RoleCurator}}, true},
		{"nothing", letterSelection{}, false},
		{"all and one", letterSelection{All: true, IDs: one}, false},
		{"one of a role", letterSelection{IDs: one, letterFlags: letterFlags{Role: events.RoleCurator}}, false},
		{"no handle", letterSelection{IDs: []events.Handle{"17"}}, false},
		{"all of an unknown role", letterSelection{All: true, letterFlags: letterFlags{Role: "writer"}}, false},
	} {
		if err := test.how.check(); (err == nil) != test.ok || err != nil && app.ExitCode(err) != app.ExitUsage {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}
