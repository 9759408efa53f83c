package replay

import (
	"context"
	"strings"
	"sync"
	"testing"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/chat"
)

// secondTimeRight answers every question wrongly, and rightly when it is asked the same again. It keeps the prompts of the Reflector.
type secondTimeRight struct {
	mu        sync.Mutex
	asked     map[string]int
	reflected []string
}

func (m *secondTimeRight) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := p.Messages[len(p.Messages)-1].Text
	reply := chat.Reply{Model: "scripted", Usage: chat.Usage{Calls: 1}, Text: `{"reasoning": "", "operations": []}`}
	switch p.Name {
	case events.RoleGenerator:
		m.asked[text]++
		reply.Text = `{"reasoning": "forgot the fee", "bullet_ids": [], "final_answer": "10"}`
		if m.asked[text] > 1 {
			reply.Text = `{"reasoning": "added the fee", "bullet_ids": [], "final_answer": "12"}`
		}
	case events.RoleReflector:
		m.reflected = append(m.reflected, text)
		reply.Text = `{"reasoning": "r", "key_insight": "Add the fee of 2 to each order.", "section": "others"}`
	}
	return reply, nil
}

func TestOneReflectionComparesTheTries(t *testing.T) {
	t.Parallel()
	m := &secondTimeRight{asked: make(map[string]int)}
	h := openWith(t, 2, m)
	s := Sets{Train: &Set{Data: report.Data{Set: Train, Samples: 2}, Tasks: []events.Task{
		{ID: "a", Question: "What does order A cost?", Target: "12", Evaluator: "exact"},
		{ID: "b", Question: "What does order B cost?", Target: "12", Evaluator: "exact"},
	}}}
	out := h.run(Config{Tries: 3}, s, Options{Name: "r"})
	if len(m.reflected) != 2 {
		t.Fatalf("got %d reflections, want one for each task", len(m.reflected))
	}
	for _, prompt := range m.reflected {
		if !strings.Contains(prompt, "outcome: success\nreasoning: added the fee\nanswer: 12") || !strings.Contains(prompt, "forgot the fee") {
			t.Errorf("the prompt does not have both tries: %s", prompt)
		}
	}
	for question, n := range m.asked {
		if n != 2 {
			t.Errorf("%d answers to %q, want 2: the third try would compare nothing", n, question)
		}
	}
	for _, sample := range out.Samples {
		if sample.Label != events.Failure {
			t.Errorf("sample %+v: want the outcome of the first try", sample)
		}
	}
}
