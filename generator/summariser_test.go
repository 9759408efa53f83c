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

// summaryModel answers tasks and writes summaries.
type summaryModel struct {
	requests atomic.Int32
	bad      bool
}

func (m *summaryModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	if p.Name != "summary" {
		return chat.Reply{Text: `{"reasoning": "r", "bullet_ids": [], "final_answer": "42"}`, Model: "summariser", Finish: "stop"}, nil
	}
	n := m.requests.Add(1)
	if m.bad {
		return chat.Reply{Text: "no idea", Model: "summariser", Finish: "stop"}, nil
	}
	so := "nothing before"
	if strings.Contains(p.Messages[1].Text, "[[begin summary so far") {
		so = "after what came before"
	}
	return chat.Reply{Text: fmt.Sprintf(`{"summary": "Summary %d, %s."}`, n, so), Model: "summariser", Finish: "stop"}, nil
}

// answerTurn submits a task of a session and waits for the answer.
func (f *fixture) answerTurn(session string, n int) *events.Execution {
	f.Helper()
	q := task("b", fmt.Sprintf("question number %d, please answer it well", n))
	q.Session = session
	e, refused := f.answer(q)
	if refused != "" {
		f.Fatal(refused)
	}
	return e
}

// waitSummary waits until the summary of a session covers the turn.
func (f *fixture) waitSummary(cb *ContextBuilder, session string, through int) *events.Summary {
	f.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s, err := cb.windows.Summary(f.Context(), "b", "", session)
		f.ok(err)
		if s.Through >= through {
			return s
		}
		if time.Now().After(end) {
			f.Fatalf("got %+v, want a summary through turn %d", s, through)
		}
	}
}

func TestModelSummarisesOlderTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := new(summaryModel)
	f.start(m)
	cb := NewContextBuilder(f.conn, nil, Config{})
	defer cb.Close()
	for n := range 9 {
		f.answerTurn("s", n+1)
	}
	if got := m.requests.Load(); got != 0 {
		t.Errorf("a model was asked %d times for a summary of less than a window", got)
	}
	f.answerTurn("s", 10)
	if s := f.waitSummary(cb, "s", 5); s.Text != "Summary 1, nothing before." || s.Through != 5 || s.Model != "summariser" {
		t.Errorf("got %+v, want the summary of the first five turns", s)
	}
	r, err := cb.Context(t.Context(), &events.ContextRequest{Book: "b", Session: "s", Query: "and what was that about again, please?", DryRun: true})
	f.ok(err)
	if last := r.Messages[len(r.Messages)-1].Text; !strings.Contains(last, "Summary 1") {
		t.Errorf("got %q, want the summary in the context", last)
	}
	for n := range 5 {
		f.answerTurn("s", n+11)
	}
	if s := f.waitSummary(cb, "s", 10); s.Text != "Summary 2, after what came before." {
		t.Errorf("got %+v, want an extended summary with five more turns", s)
	}
}

func TestExcerptsWithoutSummary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := &summaryModel{bad: true}
	f.start(m)
	cb := NewContextBuilder(f.conn, nil, Config{Recall: RecallNone}) // a recalled turn has no excerpt
	defer cb.Close()
	for n := range 10 {
		f.answerTurn("s", n+1)
	}
	for end := time.Now().Add(10 * time.Second); m.requests.Load() < 2 && time.Now().Before(end); { // one call and one retry
		time.Sleep(5 * time.Millisecond)
	}
	r, err := cb.Context(t.Context(), &events.ContextRequest{Book: "b", Session: "s", Query: "and what was that about again, please?", DryRun: true})
	f.ok(err)
	if last := r.Messages[len(r.Messages)-1].Text; !strings.Contains(last, "summary of earlier turns") || !strings.Contains(last, "question number 3") {
		t.Errorf("got %q, want excerpts of the older turns", last)
	}
}
