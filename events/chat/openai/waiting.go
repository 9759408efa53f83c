package openai

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/events/chat"
)

// slowAfter is the duration of a call, with its waits, after which the model counts as slow.
const slowAfter = 30 * time.Second

// phase is the reason why a call is not finished.
type phase int

const (
	queued  phase = iota // other requests are in flight, or its last attempt failed
	sent                 // the server has not answered yet
	limited              // the server was busy at its last attempt
)

// activeCalls are the calls in progress of a caller.
type activeCalls struct {
	mu    sync.Mutex
	calls map[*activeCall]bool
}

// activeCall is the state of one of them.
type activeCall struct {
	all   *activeCalls
	began time.Time
	phase phase // guarded by all.mu

	requests int        // sent so far; only the goroutine of the call uses this field and the next one
	usage    chat.Usage // of the last request
}

func (a *activeCall) set(p phase) {
	a.all.mu.Lock()
	a.phase = p
	a.all.mu.Unlock()
}

// track records a call until done is called. The first call of the model that takes long is logged.
func (s *caller) track(ctx context.Context) (a *activeCall, done func()) {
	a = &activeCall{all: &s.active, began: time.Now()}
	s.active.mu.Lock()
	if s.active.calls == nil {
		s.active.calls = make(map[*activeCall]bool)
	}
	s.active.calls[a] = true
	s.active.mu.Unlock()
	timer := time.AfterFunc(slowAfter, func() {
		if reason := s.Waiting(); reason != "" && !s.warnedSlow.Swap(true) {
			zerolog.Ctx(ctx).Warn().Str("model", s.cfg.Model).Msg(reason)
		}
	})
	return a, func() {
		timer.Stop()
		s.active.mu.Lock()
		delete(s.active.calls, a)
		s.active.mu.Unlock()
	}
}

// Waiting returns why calls of this client wait now, for people: "rate limited: …" or "the model is slow: …". It returns "" if they do not.
// The text has the number of all calls in progress: the reason for one of them delays the others too.
func (s *caller) Waiting() string {
	s.active.mu.Lock()
	defer s.active.mu.Unlock()
	isLimited := false
	oldest := time.Duration(0)
	for a := range s.active.calls {
		isLimited = isLimited || a.phase == limited
		oldest = max(oldest, time.Since(a.began))
	}
	n := len(s.active.calls)
	switch {
	case isLimited:
		return fmt.Sprintf("rate limited: the server is busy, %s, the oldest for %s", callsWait(n), oldest.Round(time.Second))
	case oldest < slowAfter:
		return ""
	}
	limit, inFlight := s.concurrency.current()
	atMost := fmt.Sprintf("at most %d requests", limit)
	if limit < s.cfg.MaxConcurrent {
		atMost += fmt.Sprintf(" (adapted to the server, up to %d)", s.cfg.MaxConcurrent)
	}
	return fmt.Sprintf("the model is slow: %s, the oldest for %s; %d of %s are at the server, which has %v for each: see %s and %s",
		callsWait(n), oldest.Round(time.Second), inFlight, atMost, s.cfg.Timeout, s.cfg.name("MaxConcurrent"), s.cfg.name("Timeout"))
}

func callsWait(n int) string {
	if n == 1 {
		return "1 call waits"
	}
	return fmt.Sprintf("%d calls wait", n)
}
