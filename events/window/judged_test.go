package window_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"debrief/events"
)

// TestOneFeedbackIsFirst, whoever asks at the same time, and it stays the first when it comes again.
func TestOneFeedbackIsFirst(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := events.Hash("execution")
	var all sync.WaitGroup
	var first atomic.Uint64
	for at := range uint64(8) {
		all.Go(func() {
			ok, err := s.FirstJudged(t.Context(), "b", id, at+10)
			if err != nil {
				t.Error(err)
			}
			if ok && !first.CompareAndSwap(0, at+10) {
				t.Errorf("the feedback at %d and that at %d are both first", at+10, first.Load())
			}
		})
	}
	all.Wait()
	for at := range uint64(8) {
		if ok, err := s.FirstJudged(t.Context(), "b", id, at+10); err != nil || ok != (at+10 == first.Load()) {
			t.Errorf("the feedback at %d once more: got %t, %v; the first was that at %d", at+10, ok, err, first.Load())
		}
	}
	if _, err := s.FirstJudged(t.Context(), "b", "a.b", 1); err == nil {
		t.Error("an id that is no key: got no error")
	}
}
