package window_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/events/natsd"
	"debrief/events/window"
)

const mostMarks = 20

func pin(n int) events.MarkedInteraction {
	return events.MarkedInteraction{Mark: events.Pin, By: "ada", At: start, Interaction: *turn("s", n)}
}

func marked(t testing.TB, s *window.Store) []events.MarkedInteraction {
	t.Helper()
	list, err := s.Marks(t.Context(), "b", "", "s")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestMarkAndUnmark(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	for i := 1; i <= 3; i++ {
		if err := s.Mark(t.Context(), "b", "", "s", pin(i)); err != nil {
			t.Fatal(err)
		}
	}
	star := pin(2)
	star.Mark = events.Star
	if err := s.Mark(t.Context(), "b", "", "s", star); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]events.MarkedInteraction{pin(1), star, pin(3)}, marked(t, s)); diff != "" {
		t.Error(diff)
	}
	for _, test := range []struct {
		h    events.Handle
		want bool
	}{
		{pin(1).Interaction.Execution, true},
		{pin(1).Interaction.Execution, false},
		{pin(4).Interaction.Execution, false},
		{"nonsense", false},
	} {
		if had, err := s.Unmark(t.Context(), "b", "", "s", test.h); had != test.want || err != nil {
			t.Errorf("unmark %s: got %v, %v, want %v", test.h, had, err, test.want)
		}
	}
	if diff := cmp.Diff([]events.MarkedInteraction{star, pin(3)}, marked(t, s)); diff != "" {
		t.Error(diff)
	}
	if had, err := s.Unmark(t.Context(), "b", "", "nobody", star.Interaction.Execution); had || err != nil {
		t.Errorf("unmark in an unknown session: got %v, %v", had, err)
	}
	if n := subjectsOf(t, nc, events.BucketState)["$KV.state."+events.MarksKey("b", "", "s")]; n != 1 {
		t.Errorf("the server keeps %d lists of marks, want the last", n)
	}
	place(t, nc, events.BucketState, events.MarksKey("b", "", "s"), map[string][]string{"KV-Operation": {"DEL"}}, nil)
	if list := marked(t, s); len(list) != 0 {
		t.Errorf("deleted, got %v", list)
	}
	if err := s.Mark(t.Context(), "b", "", "s", pin(1)); err != nil || len(marked(t, s)) != 1 {
		t.Errorf("mark after delete: %v", err)
	}
}

func TestConcurrentMarksUpToTheLimit(t *testing.T) {
	t.Parallel()
	stores, _ := connections(t, 8, natsd.Config{Sync: "1m"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the default timeout of 5 s is too short for a busy machine
	defer cancel()
	var all sync.WaitGroup
	var landed atomic.Int32
	for c, s := range stores {
		all.Go(func() {
			for i := range 4 { // 32 in all
				switch err := s.Mark(ctx, "b", "", "s", pin(10*c+i+1)); {
				case err == nil:
					landed.Add(1)
				case !errors.Is(err, window.ErrFull) || errors.Is(err, window.ErrTooLarge) || !strings.Contains(err.Error(), fmt.Sprint(mostMarks)):
					t.Errorf("got %v, want an error that names the limit", err)
				}
			}
		})
	}
	all.Wait()
	list := marked(t, stores[0])
	seen := map[events.Handle]bool{}
	for _, m := range list {
		seen[m.Interaction.Execution] = true
	}
	if landed.Load() != mostMarks || len(list) != mostMarks || len(seen) != mostMarks {
		t.Errorf("%d calls succeeded, %d marks are stored, %d different; want %d", landed.Load(), len(list), len(seen), mostMarks)
	}
	change := list[3]
	change.Mark = events.Star
	if err := stores[1].Mark(t.Context(), "b", "", "s", change); err != nil {
		t.Errorf("change one of a full list: %v", err)
	}
	for _, m := range list { // two concurrent calls for each: one of them removes it
		var had atomic.Int32
		for _, s := range stores[:2] {
			all.Go(func() {
				ok, err := s.Unmark(ctx, "b", "", "s", m.Interaction.Execution)
				if err != nil {
					t.Error(err)
				}
				if ok {
					had.Add(1)
				}
			})
		}
		all.Wait()
		if had.Load() != 1 {
			t.Errorf("%s was removed %d times", m.Interaction.Execution, had.Load())
		}
	}
	if list := marked(t, stores[0]); len(list) != 0 {
		t.Errorf("%d marks are left", len(list))
	}
}

func TestMarksSizeLimit(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for i := 1; i <= 4; i++ {
		m := pin(i)
		m.Interaction.Answer = strings.Repeat("x", 300<<10)
		err := s.Mark(t.Context(), "b", "", "s", m)
		if i < 3 && err != nil {
			t.Fatal(err)
		}
		if i >= 3 && (!errors.Is(err, window.ErrFull) || !errors.Is(err, window.ErrTooLarge)) {
			t.Errorf("mark %d: got %v, want the limit", i, err)
		}
	}
	if n := len(marked(t, s)); n != 2 {
		t.Errorf("got %d marks, want 2", n)
	}
}

// TestUnreadableMarksAreKept: a list by a newer program, or a damaged list, is not overwritten.
func TestUnreadableMarksAreKept(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	for name, header := range map[string]map[string][]string{
		"newer":   {events.HeaderSchema: {fmt.Sprint(events.Schema + 1)}},
		"corrupt": events.SchemaHeader(),
	} {
		key := events.MarksKey("b", "", name)
		place(t, nc, events.BucketState, key, header, []byte("\xc1"))
		_, err := s.Marks(t.Context(), "b", "", name)
		if err == nil || errors.Is(err, events.ErrNewerSchema) != (name == "newer") {
			t.Errorf("%s: read: got %v", name, err)
		}
		if err := s.Mark(t.Context(), "b", "", name, pin(1)); err == nil {
			t.Errorf("%s: mark: got no error", name)
		}
		if _, err := s.Unmark(t.Context(), "b", "", name, pin(1).Interaction.Execution); err == nil {
			t.Errorf("%s: unmark: got no error", name)
		}
	}
}
