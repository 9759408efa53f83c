package replay

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// garbled is a model that returns prose for this percentage of the Curator's prompts, at random.
type garbled struct {
	*model
	percent atomic.Int64
}

func (g *garbled) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	r, err := g.model.Complete(ctx, p)
	if p.Name == "curator" && rand.Int64N(100) < g.percent.Load() {
		r.Text = "Let me think about these insights step by step."
	}
	return r, err
}

func openGarbled(t testing.TB, percent int64) (*house, *garbled) {
	g := &garbled{model: &model{invoices: invoice.NewModel(1, worlds.Imperfection{})}}
	g.percent.Store(percent)
	return openWith(t, 8, g), g
}

// countUncovered returns the number of the run's reflections that the log does not cover, and of all its reflections.
func (h *house) countUncovered(b playbook.Book) (open, all int) {
	h.Helper()
	l := newBookLog(deltalog.New(h.conn.JetStream()), b)
	if err := l.follow(h.Context()); err != nil {
		h.Fatal(err)
	}
	err := h.conn.Events.Scan(h.Context(), events.StreamReflections, events.KindReflection.Subject(b), 1, func(s bus.Stored) error {
		if all++; !l.coversReflection(events.NewHandle(s.Seq, s.Event.EventID())) {
			open++
		}
		return s.Err
	})
	if err != nil {
		h.Fatal(err)
	}
	return open, all
}

func TestRunContinuesDespiteInvalidReplies(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs over 96 samples")
	}
	h, _ := openGarbled(t, 60)
	skipped := 0
	out := h.run(Config{Batch: 4}, sets(96, 20), Options{Name: "r", OnEvent: func(e Event) { skipped += min(e.Reflections, 1) }})
	open, all := h.countUncovered("r")
	if all == 0 || open != out.Report.Unlearned {
		t.Errorf("got %d of %d reflections not covered, and a report of %d", open, all, out.Report.Unlearned)
	}
	if out.Report.After.Accuracy < out.Report.Before.Accuracy+0.2 {
		t.Errorf("before %+v, after %+v, want what succeeded to be learned", out.Report.Before, out.Report.After)
	}
	t.Logf("60 of 100 replies broken: %d gatherings skipped some, %d of %d reflections left at the end", skipped, open, all)
}

func TestRunWithoutUsableRepliesFailsAndResumes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs over 96 samples")
	}
	h, g := openGarbled(t, 100)
	s := sets(96, 20)
	_, err := h.try(Config{Batch: 8}, s, Options{Name: "r"})
	unlearned := (*noUsableReplyError)(nil)
	if !errors.As(err, &unlearned) {
		t.Fatalf("got error %v, want a *noUsableReplyError", err)
	}
	if open, all := h.countUncovered("r"); open == 0 || open != unlearned.Reflections {
		t.Errorf("got %d of %d reflections not covered, and an error about %d", open, all, unlearned.Reflections)
	}
	g.percent.Store(0)
	out := h.run(Config{Batch: 8}, s, Options{Name: "r"})
	if open, all := h.countUncovered("r"); open > 0 || out.Report.Unlearned > 0 || all == 0 {
		t.Errorf("after the repair: got %d of %d reflections not covered, %d in the report, want none", open, all, out.Report.Unlearned)
	}
	if out.Report.Run.Resumed != 1 || out.Report.After.Accuracy < out.Report.Before.Accuracy+0.2 {
		t.Errorf("after the repair: resumed %d times, before %+v, after %+v", out.Report.Run.Resumed, out.Report.Before, out.Report.After)
	}
}
