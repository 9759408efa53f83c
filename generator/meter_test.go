package generator

import (
	"sync"
	"testing"

	"debrief/events"
	"debrief/generator/prompt/assembly"
)

// windowMeter records the sizes of windows.
type windowMeter struct {
	noMeter
	mu    sync.Mutex
	sizes []WindowSize
}

func (m *windowMeter) WindowBuilt(s WindowSize) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sizes = append(m.sizes, s)
}

func TestMeterReceivesWindowSize(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	meter := new(windowMeter)
	cb := f.newBuilder(nil, Config{Meter: meter, Limits: assembly.Limits{Window: 2}}, testTimeouts)
	for _, question := range []string{"first?", "second?", "third?", "fourth?"} {
		e, r := f.storeExecution("s", question, "an answer")
		f.putWindow(e, r)
	}
	f.context(cb, &events.ContextRequest{Query: "and now?", Session: "s"})
	f.context(cb, &events.ContextRequest{Query: "and now?", Session: "other"}) // has no earlier turns
	meter.mu.Lock()
	defer meter.mu.Unlock()
	if len(meter.sizes) != 1 {
		t.Fatalf("got %d windows, want one of the session with turns", len(meter.sizes))
	}
	// Two of four turns are kept, each with a question and an answer.
	s := meter.sizes[0]
	if s.Messages != 4 || s.OmittedMessages != 4 || s.Tokens == 0 || s.OmittedTokens == 0 {
		t.Errorf("got %+v, want 4 messages kept and 4 omitted, with their tokens", s)
	}
	if share := s.Share(); share < 0.3 || share > 0.7 {
		t.Errorf("got a share of %v, want about a half", share)
	}
	if share := (WindowSize{}).Share(); share != 1 {
		t.Errorf("empty window: got a share of %v, want 1", share)
	}
}
