package curator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"debrief/events"
	"debrief/events/chat"
)

// literal is a model that adds each insight unchanged. It answers a request with prose if broken returns true for it.
func literal(broken func(request string) bool) model {
	return func(_ context.Context, p chat.Prompt) (string, error) {
		request := p.Messages[1].Text
		if broken(request) {
			return "Certainly! I have looked at the insights and they are interesting.", nil
		}
		if p.Name == "reducer" {
			return `{"reasoning": "all differ", "decisions": []}`, nil
		}
		var ops []map[string]any
		for line := range strings.Lines(request) {
			var r struct {
				Number  int
				Insight string
			}
			if json.Unmarshal([]byte(line), &r) == nil && r.Number > 0 {
				ops = append(ops, map[string]any{"type": "ADD", "section": "others", "content": r.Insight, "reflections": []int{r.Number}})
			}
		}
		return said(ops), nil
	}
}

// teach publishes n held reflections with different insights.
func (h *harness) teach(n int) (handles []events.Handle) {
	for i := range n {
		handles = append(handles, h.hold(held("b", fmt.Sprint("r", i), fmt.Sprintf("For customers of kind %d%d the discount is %d percent.", i, i*i, i))))
	}
	return handles
}

func TestGatheringSkipsReflectionsWithoutUsableReply(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, 7, 36} {
		t.Run(fmt.Sprint(n, " reflections"), func(t *testing.T) {
			t.Parallel()
			h := build(t)
			var repaired atomic.Bool
			h.work(literal(func(request string) bool {
				return !repaired.Load() && strings.Contains(request, "customers of kind 00 ")
			}))
			h.edit("b", add("the first"))
			handles := h.teach(n)
			d := h.gather("b", handles...)
			if len(d.Refused) > 0 || d.Asked != n || d.Skipped < 1 || d.SkippedReason == "" || d.Skipped+len(d.Added) != n {
				t.Fatalf("got %d added, %d skipped (%s), refused %v, want every reflection learned or skipped", len(d.Added), d.Skipped, d.SkippedReason, d.Refused)
			}
			if n == 36 && d.Skipped > 6 {
				t.Errorf("got %d of 36 skipped, want those alone of which both groups failed", d.Skipped)
			}
			repaired.Store(true)
			if again := h.gather("b", handles...); again.Skipped > 0 || len(again.Added) != d.Skipped {
				t.Errorf("after the repair: got %d added, %d skipped, want the %d skipped ones added", len(again.Added), again.Skipped, d.Skipped)
			}
			if p := h.whole("b"); p.Len() != n+2 { // with the first one, and the one that ends it
				t.Errorf("got %d bullets, want %d: each reflection learned once", p.Len(), n+2)
			}
		})
	}
}

func TestSecondRequestDescribesTheProblem(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(literal(func(request string) bool { return !strings.Contains(request, "# Reply format") }))
	h.edit("b", add("the first"))
	if d := h.gather("b", h.teach(9)...); d.Skipped > 0 || len(d.Added) != 9 || d.Asked != 9 {
		t.Errorf("got %+v, want all 9 learned at the second request of each group", d)
	}
}
