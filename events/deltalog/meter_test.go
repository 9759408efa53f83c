package deltalog_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"debrief/playbook"
)

// recordingMeter is a meter that records its calls.
type recordingMeter struct {
	mu   sync.Mutex
	said []string
}

func (t *recordingMeter) say(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said = append(t.said, what)
}

func (t *recordingMeter) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.said
	t.said = nil
	return said
}

func (t *recordingMeter) Committed(took time.Duration) {
	if took <= 0 {
		t.say("committed in no time")
	}
	t.say("committed")
}
func (t *recordingMeter) Conflict()                   { t.say("raced") }
func (t *recordingMeter) ViewBehind(b playbook.Book)  { t.say(string(b) + " behind") }
func (t *recordingMeter) ViewCurrent(b playbook.Book) { t.say(string(b) + " current") }

func TestMeterReceivesCommitsAndFlushes(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	meter := new(recordingMeter)
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
	steps("a commit after another writer's", "raced", "b behind", "committed")
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
	steps("a flush after another writer's", "b current")
	commit(t, one, add("r1", 1))
	steps("nothing to commit")
}

func TestFollowerReportsTheAgeOfVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, _ := open(t)
	ages := make(chan time.Duration, 10)
	s.OnFollowerDelay = func(ago time.Duration) { ages <- ago }
	w := writer(t, s, "b")
	f, wait, err := s.Follow(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer wait()
	for i, id := range []string{"r1", "r2"} { // the first head is not reported
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
		t.Errorf("got %d more, want only one for the second version", len(ages))
	}
}

func TestBehind(t *testing.T) {
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
		{"all current", map[playbook.Book]uint64{"a": 3, "b": 3}, 0},
		{"one book two versions behind", map[playbook.Book]uint64{"a": 1, "b": 3}, 2},
		{"the largest lag counts", map[playbook.Book]uint64{"a": 2, "b": 0}, 3},
		{"a view that lost its end", map[playbook.Book]uint64{"a": 9}, 0},
		{"a book without a view", map[playbook.Book]uint64{"c": 0}, 0},
	} {
		got, err := s.MaxViewLag(t.Context(), tt.known)
		if err != nil || got != tt.want {
			t.Errorf("%s: got %d, %v, want %d", tt.name, got, err, tt.want)
		}
	}
}
