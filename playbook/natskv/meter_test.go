package natskv_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"debrief/playbook"
)

// told is a meter that writes down what it is told.
type told struct {
	mu   sync.Mutex
	said []string
}

func (t *told) say(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said = append(t.said, what)
}

func (t *told) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.said
	t.said = nil
	return said
}

func (t *told) Committed(took time.Duration) {
	if took <= 0 {
		t.say("committed in no time")
	}
	t.say("committed")
}
func (t *told) Raced()                  { t.say("raced") }
func (t *told) Behind(b playbook.Book)  { t.say(string(b) + " behind") }
func (t *told) Current(b playbook.Book) { t.say(string(b) + " current") }

func TestAMeterIsToldWhatWritersDo(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	meter := new(told)
	s.Meter = meter
	one, two := writer(t, s, "b"), writer(t, s, "b")
	steps := func(what string, want ...string) {
		t.Helper()
		if got := meter.take(); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	commit(t, one, add("r1", 1))
	steps("a commit", "b behind", "committed")
	commit(t, two, add("r2", 2))
	steps("one that another writer was before", "raced", "b behind", "committed")
	if err := two.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps("a flush", "b behind", "b current")
	if err := one.CheckView(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := one.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps("a flush that another writer was before", "b current")
	commit(t, one, add("r1", 1))
	steps("nothing to commit")
}

func TestAFollowerTellsHowOldWhatItTakesIs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, _ := open(t)
	ages := make(chan time.Duration, 10)
	s.Followed = func(ago time.Duration) { ages <- ago }
	w := writer(t, s, "b")
	f, wait, err := s.Follow(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer wait()
	for i, id := range []string{"r1", "r2"} { // the first head is where it begins
		commit(t, w, add(id, uint64(i+1)))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Wait(t.Context(), uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if ago := <-ages; ago < 0 || ago > time.Minute {
		t.Errorf("got %s, want a little", ago)
	}
	if len(ages) > 0 {
		t.Errorf("got %d more, want one for the second version alone", len(ages))
	}
}

func TestHowFarWhatIsKnownOfBooksIsBehind(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for _, b := range []playbook.Book{"a", "b"} {
		w := writer(t, s, b)
		for i, id := range []string{"r1", "r2", "r3"} {
			commit(t, w, add(id, uint64(i+1)))
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		known map[playbook.Book]uint64
		want  uint64
	}{
		{"no book", nil, 0},
		{"all is known", map[playbook.Book]uint64{"a": 3, "b": 3}, 0},
		{"two of one book are not", map[playbook.Book]uint64{"a": 1, "b": 3}, 2},
		{"the one that is furthest behind counts", map[playbook.Book]uint64{"a": 2, "b": 0}, 3},
		{"a view that lost its end", map[playbook.Book]uint64{"a": 9}, 0},
		{"a book without a view", map[playbook.Book]uint64{"c": 0}, 0},
	} {
		got, err := s.Behind(t.Context(), tt.known)
		if err != nil || got != tt.want {
			t.Errorf("%s: got %d, %v, want %d", tt.name, got, err, tt.want)
		}
	}
}
