package learning

import (
	"context"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/cmd/internal/simulated/worlds/world"
	"debrief/events"
	"debrief/events/service"
)

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
	w, err := worlds.New(text.Name, 1, world.Imperfection{})
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
