package main

import (
	"context"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/events"
	"debrief/events/service"
)

// lateBackend stores each context at the second request only, as a server on a busy machine may.
type lateBackend struct {
	service.Backend
	requests map[string]int // by query
}

func (b *lateBackend) Context(_ context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	b.requests[r.Query]++
	if b.requests[r.Query] < 2 {
		return &events.ContextReply{}, nil
	}
	return &events.ContextReply{ID: "c"}, nil
}

func (*lateBackend) Report(_ context.Context, r *events.Report) (*events.StoredReply, error) {
	if r.ContextID == "" {
		return &events.StoredReply{Warnings: []string{"context_id: empty"}}, nil
	}
	return &events.StoredReply{}, nil
}

// TestContextsThatAreNotStored: the agent requests a context again that was not stored in time, so that the report of its run has a context.
func TestContextsThatAreNotStored(t *testing.T) {
	t.Parallel()
	w, err := newWorld(text.Name, 1, worlds.Imperfection{})
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{world: w, arm: &arm{}, agent: &lateBackend{requests: map[string]int{}}, done: 1}
	if err := r.step(t.Context(), w.Train(1)); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// warningBackend stores nothing. It answers the first reports with a warning.
type warningBackend struct {
	service.Backend
	warnings int
}

func (*warningBackend) Context(context.Context, *events.ContextRequest) (*events.ContextReply, error) {
	return &events.ContextReply{}, nil
}

func (b *warningBackend) Report(context.Context, *events.Report) (*events.StoredReply, error) {
	if b.warnings == 0 {
		return &events.StoredReply{}, nil
	}
	b.warnings--
	return &events.StoredReply{Warnings: []string{"unknown context"}}, nil
}

// TestShareOfWarnedReports answers the last 20 of 140 tasks: at most 2 % of the 140 reports may have a warning.
func TestShareOfWarnedReports(t *testing.T) {
	t.Parallel()
	w, err := newWorld(text.Name, 1, worlds.Imperfection{})
	if err != nil {
		t.Fatal(err)
	}
	for warnings, fails := range map[int]bool{2: false, 3: true} {
		r := &runner{world: w, arm: &arm{}, agent: &warningBackend{warnings: warnings}, done: 140}
		if err := r.step(t.Context(), w.Train(140)[120:]); (err != nil) != fails {
			t.Errorf("%d warnings: got error %v, want one: %t", warnings, err, fails)
		}
	}
}
