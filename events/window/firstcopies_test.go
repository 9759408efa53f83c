package window_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"debrief/events"
	"debrief/events/window"
)

// TestOneFeedbackIsFirst: of concurrent copies exactly one is the first, and repeated calls agree.
func TestOneFeedbackIsFirst(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := events.Hash("execution")
	var all sync.WaitGroup
	var first atomic.Uint64
	for at := range uint64(8) {
		all.Go(func() {
			ok, err := s.ClaimFirstCopy(t.Context(), "b", window.EffectFeedback, id, at+10)
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
		if ok, err := s.ClaimFirstCopy(t.Context(), "b", window.EffectFeedback, id, at+10); err != nil || ok != (at+10 == first.Load()) {
			t.Errorf("the feedback at %d once more: got %t, %v; the first was that at %d", at+10, ok, err, first.Load())
		}
	}
	for name, ok := range map[string]func() (bool, error){
		"another occasion": func() (bool, error) { return s.ClaimFirstCopy(t.Context(), "b", window.EffectNote, id, 99) },
		"another book":     func() (bool, error) { return s.ClaimFirstCopy(t.Context(), "c", window.EffectFeedback, id, 99) },
		"another id": func() (bool, error) {
			return s.ClaimFirstCopy(t.Context(), "b", window.EffectFeedback, "any id.> at all", 99)
		},
	} {
		if first, err := ok(); err != nil || !first {
			t.Errorf("%s: got %t, %v; want it first", name, first, err)
		}
	}
}

// TestNewerFirstCopiesAreKept: a list by a newer program is not overwritten, because the effects of its ids would happen again.
func TestNewerFirstCopiesAreKept(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	id := events.Hash("execution")
	sum := sha256.Sum256([]byte(string(window.EffectFeedback) + "\x00" + string(id)))
	key := events.FirstCopiesKey("b", binary.BigEndian.Uint16(sum[:]))
	place(t, nc, events.BucketState, key, map[string][]string{events.HeaderSchema: {fmt.Sprint(events.Schema + 1)}}, []byte("\xc1"))
	if ok, err := s.ClaimFirstCopy(t.Context(), "b", window.EffectFeedback, id, 1); !errors.Is(err, events.ErrNewerSchema) {
		t.Errorf("got %t, %v, want %v", ok, err, events.ErrNewerSchema)
	}
}
