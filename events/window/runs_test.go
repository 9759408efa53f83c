package window_test

import (
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/streams"
	"debrief/events/window"
)

func TestLastRunOfEachLabel(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	task, other := events.Hash("task"), events.Hash("other")
	last := func(task events.ID, l events.Label) *window.Run {
		t.Helper()
		r, err := s.LastRun(t.Context(), "b", "", task, l)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	put := func(l events.Label, r *window.Run) {
		t.Helper()
		if err := s.PutRun(t.Context(), "b", "", task, l, r); err != nil {
			t.Fatal(err)
		}
	}
	if r := last(task, events.Success); r != nil {
		t.Errorf("before any: got %+v", r)
	}
	for i := range streams.WindowHistory + 3 {
		put(events.Failure, &window.Run{Execution: events.Hash("run"), Calls: slices.Repeat([]string{"call"}, i)})
	}
	if r := last(task, events.Failure); r == nil || r.Execution != events.Hash("run") || len(r.Calls) != streams.WindowHistory+2 {
		t.Errorf("got %+v, want the last one", r)
	}
	if r := last(task, events.Success); r != nil {
		t.Errorf("the other end: got %+v", r)
	}
	if r := last(other, events.Failure); r != nil {
		t.Errorf("another task: got %+v", r)
	}
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := js.StreamInfo("KV_" + events.BucketState); err != nil || info.State.Msgs != 1 {
		t.Errorf("got %+v (%v), want no history", info.State, err)
	}
	put(events.Failure, nil)
	if r := last(task, events.Failure); r != nil {
		t.Errorf("none is known: got %+v", r)
	}
}

func TestPutRunRejectsInvalidRuns(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for want, try := range map[string]func() error{
		"label: ": func() error {
			return s.PutRun(t.Context(), "b", "", events.Hash("t"), events.Unknown, &window.Run{})
		},
		"calls: ": func() error {
			return s.PutRun(t.Context(), "b", "", events.Hash("t"), events.Success, &window.Run{Calls: make([]string, window.MaxRunCalls+1)})
		},
		"book ": func() error {
			_, err := s.LastRun(t.Context(), "no book", "", events.Hash("t"), events.Success)
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
