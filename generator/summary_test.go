package generator

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// minutes is a model that answers, and keeps the minutes.
type minutes struct {
	asked atomic.Int32
	bad   bool
}

func (m *minutes) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	if p.Name != "summary" {
		return chat.Reply{Text: `{"reasoning": "r", "bullet_ids": [], "final_answer": "42"}`, Model: "minutes", Finish: "stop"}, nil
	}
	n := m.asked.Add(1)
	if m.bad {
		return chat.Reply{Text: "no idea", Model: "minutes", Finish: "stop"}, nil
	}
	so := "nothing before"
	if strings.Contains(p.Messages[1].Text, "[[begin summary so far") {
		so = "after what came before"
	}
	return chat.Reply{Text: fmt.Sprintf(`{"summary": "Minutes %d, %s."}`, n, so), Model: "minutes", Finish: "stop"}, nil
}

// turn has one task of a session answered.
func (h *house) turn(session string, n int) *events.Execution {
	h.Helper()
	q := task("b", fmt.Sprintf("question number %d, please answer it well", n))
	q.Session = session
	e, refused := h.answer(q)
	if refused != "" {
		h.Fatal(refused)
	}
	return e
}

// summary waits until the summary of a session has come so far.
func (h *house) summary(d *Desk, session string, through int) *events.Summary {
	h.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s, err := d.windows.Summary(h.Context(), "b", session)
		h.ok(err)
		if s.Through >= through {
			return s
		}
		if time.Now().After(end) {
			h.Fatalf("got %+v, want a summary through turn %d", s, through)
		}
	}
}

func TestAModelSummarisesTheTurnsThatLeaveTheWindow(t *testing.T) {
	t.Parallel()
	h := build(t)
	m := new(minutes)
	h.work(m)
	d := NewDesk(h.conn, nil, Config{})
	defer d.Close()
	for n := range 9 {
		h.turn("s", n+1)
	}
	if got := m.asked.Load(); got != 0 {
		t.Errorf("a model was asked %d times for a summary of less than a window", got)
	}
	h.turn("s", 10)
	if s := h.summary(d, "s", 5); s.Text != "Minutes 1, nothing before." || s.Through != 5 || s.Model != "minutes" {
		t.Errorf("got %+v, want the minutes of the first five turns", s)
	}
	r, err := d.Context(t.Context(), &events.ContextRequest{Book: "b", Session: "s", Query: "and what was that about again, please?", DryRun: true})
	h.ok(err)
	if last := r.Messages[len(r.Messages)-1].Text; !strings.Contains(last, "Minutes 1") {
		t.Errorf("got %q, want the summary in the context", last)
	}
	for n := range 5 {
		h.turn("s", n+11)
	}
	if s := h.summary(d, "s", 10); s.Text != "Minutes 2, after what came before." {
		t.Errorf("got %+v, want the minutes of five turns more, from the ones before", s)
	}
}

func TestWithoutASummaryThereAreExcerpts(t *testing.T) {
	t.Parallel()
	h := build(t)
	m := &minutes{bad: true}
	h.work(m)
	d := NewDesk(h.conn, nil, Config{})
	defer d.Close()
	for n := range 10 {
		h.turn("s", n+1)
	}
	for end := time.Now().Add(10 * time.Second); m.asked.Load() < 2 && time.Now().Before(end); { // once, and once more as it cannot be read
		time.Sleep(5 * time.Millisecond)
	}
	r, err := d.Context(t.Context(), &events.ContextRequest{Book: "b", Session: "s", Query: "and what was that about again, please?", DryRun: true})
	h.ok(err)
	if last := r.Messages[len(r.Messages)-1].Text; !strings.Contains(last, "summary of earlier turns") || !strings.Contains(last, "question number 3") {
		t.Errorf("got %q, want excerpts of the older turns", last)
	}
}
