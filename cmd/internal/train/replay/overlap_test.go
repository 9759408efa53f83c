package replay

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/events"
	"debrief/events/chat"
)

// lateModel does not answer the last task of a batch before a reflector asks.
type lateModel struct {
	model
	batch     int64
	asked     atomic.Int64
	reflected chan struct{}
	once      sync.Once
}

func (m *lateModel) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	switch {
	case p.Name == events.RoleReflector:
		m.once.Do(func() { close(m.reflected) })
	case p.Name == events.RoleGenerator && m.asked.Add(1) == m.batch:
		select {
		case <-m.reflected:
		case <-ctx.Done():
			return chat.Reply{}, ctx.Err()
		}
	}
	return m.model.Complete(ctx, p)
}

// TestReflectionsOverlap checks that the reflections of a batch begin before its last answer, and that all of its answers have one version.
func TestReflectionsOverlap(t *testing.T) {
	t.Parallel()
	m := &lateModel{model: model{invoices: invoice.NewModel(1, worlds.Imperfection{})}, batch: 8, reflected: make(chan struct{})}
	out := openWith(t, 2, m).run(Config{Batch: 8}, Sets{Train: sets(16, 0).Train}, Options{Name: "r"})
	for i, sample := range out.Samples {
		if want := out.Samples[i/8*8].Version; sample.Version != want {
			t.Errorf("sample %d has version %d, the first one of its batch %d", i, sample.Version, want)
		}
	}
}
