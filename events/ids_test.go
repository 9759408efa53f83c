package events

import (
	"strings"
	"testing"

	"debrief/playbook"
)

func TestHashSeparatesParts(t *testing.T) {
	t.Parallel()
	seen := map[ID][]string{}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"a", "b", ""}, {"", "ab"}, {"ab", ""}} {
		id := Hash(parts...)
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have one id", parts, other)
		}
		seen[id] = parts
		if err := id.validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestNewIDsDiffer(t *testing.T) {
	t.Parallel()
	if a, b := NewID(), NewID(); a == b || a.validate() != nil || len(a) != 22 {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestIDValidate(t *testing.T) {
	t.Parallel()
	for _, id := range []ID{"", "short", "AAAAAAAAAAAAAAAAAAAAAA==", ID(strings.Repeat("A", 23)), "AAAAAAAAAAAAAAAAAAAA+/", Hash("a") + "\r\n", Hash("a") + ID(strings.Repeat("\n", 42)) + "more"} {
		if err := id.validate(); err == nil || !strings.HasPrefix(err.Error(), "id: ") {
			t.Errorf("%q: got %v, want a refusal", id, err)
		}
	}
}

func TestHandleParse(t *testing.T) {
	t.Parallel()
	id := Hash("a")
	seq, is, err := NewHandle(18446744073709551615, id).Parse()
	if err != nil || seq != 18446744073709551615 || !is(id) || is(Hash("b")) || is("") {
		t.Errorf("got %d, %v", seq, err)
	}
}

func TestHandleParseRejectsInvalid(t *testing.T) {
	t.Parallel()
	for _, h := range []Handle{"", "17", "-ab12cd34", "17-ab12", "17-ab12cd34e", "x-ab12cd34", "-1-ab12cd34", "18446744073709551616-ab12cd34", "0-ab12cd34", "00-ab12cd34", "17-zzzzzzzz", "17-AB12CD34"} {
		if _, _, err := h.Parse(); err == nil || !strings.Contains(err.Error(), "<sequence>-<8 hex digits>") {
			t.Errorf("%q: got %v, want a refusal that shows the form", h, err)
		}
	}
}

func FuzzHandle(f *testing.F) {
	f.Add(uint64(17), "a", "17-ab12cd34")
	f.Fuzz(func(t *testing.T, seq uint64, part, text string) {
		id := Hash(part)
		got, is, err := NewHandle(seq, id).Parse()
		if seq == 0 {
			if err == nil {
				t.Error("sequence 0 is a handle")
			}
		} else if err != nil || got != seq || !is(id) {
			t.Errorf("%d %s: got %d, %v", seq, id, got, err)
		}
		if _, is, err := Handle(text).Parse(); err == nil {
			is(id)
		}
	})
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		KindTask.Subject("main"):              "debrief.task.main",
		KindDelta.Subject(""):                 "debrief.delta.*",
		DeadSubject(RoleCurator, "main"):      "debrief.dead.curator.*.main.*",
		DeadSubject("", ""):                   "debrief.dead.*.*.*.*",
		HeadKey("main"):                       "main.head",
		BulletKey("main", "calc-00001"):       "main.bullet.calc-00001",
		BulletKey("main", "an id with blank"): "main.bullet." + playbook.BulletID("an id with blank").Key(),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestParseSubject(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		subject string
		kind    Kind
		book    playbook.Book // "" is refused
	}{
		{"debrief.task.main", KindTask, "main"},
		{"debrief.task.main.Vg8mnzK13ZARoCkIqK7pWA", KindTask, "main"},
		{"debrief.task.main.", "", ""},
		{"debrief.task.main.*", "", ""},
		{"debrief.round.main._", KindTask, "main"},
		{"debrief.round.main.Vg8mnzK13ZARoCkIqK7pWA", KindTask, "main"},
		{"debrief.round.main", "", ""},
		{"debrief.round.main.", "", ""},
		{"debrief.round.main.*", "", ""},
		{"debrief.task.main._", "", ""},
		{"debrief.task.main.Vg8mnzK13ZARoCkIqK7pWA.x", "", ""},
		{"debrief.execution.main.Vg8mnzK13ZARoCkIqK7pWA", "", ""},
		{"debrief.dead.curator.error.main.x", KindDead, "main"},
		{"debrief.task.dead", KindTask, "dead"},
		{"debrief.delta." + strings.Repeat("b", 64), KindDelta, playbook.Book(strings.Repeat("b", 64))},
		{"debrief.delta." + strings.Repeat("b", 65), "", ""},
		{"debrief.task.a.b", "", ""},
		{"debrief.dead.main", "", ""},
		{"debrief.dead.a.b.c", "", ""},
		{"debrief.dead.a.b.c.d.e", "", ""},
		{"debrief.task", "", ""},
		{"debrief.task.", "", ""},
		{"debrief.task.>", "", ""},
		{"debrief", "", ""},
		{"", "", ""},
		{"other.task.main", "", ""},
		{"task.main", "", ""},
	} {
		k, b, err := ParseSubject(test.subject)
		if k != test.kind || b != test.book || (err == nil) != (test.book != "") {
			t.Errorf("%q: got %q, %q, %v, want %q, %q", test.subject, k, b, err, test.kind, test.book)
		}
	}
}

func FuzzParseSubject(f *testing.F) {
	f.Add("debrief.task.main")
	f.Add("debrief.dead.curator.error.main.x")
	f.Fuzz(func(t *testing.T, subject string) {
		k, b, err := ParseSubject(subject)
		if err != nil {
			return
		}
		if err := b.Validate(); err != nil {
			t.Errorf("%q: %v", subject, err)
		}
		if k != KindDead && k.Subject(b) != subject {
			t.Errorf("%q reads as %q", subject, k.Subject(b))
		}
	})
}
