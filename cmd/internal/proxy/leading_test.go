package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/playbook"
)

// TestLeadingScores sends the same named scores to two playbooks with different leading scores: as a report and as feedback of the
// API, as a report over NATS, and in the headers of a model call. The stored outcomes differ. Without a leading score the scores
// are refused, because neither measures success.
func TestLeadingScores(t *testing.T) {
	t.Parallel()
	const scores = `{"scores": {"tone": 1, "brevity": 0.25}}`
	books := map[playbook.Book]float64{"tones": 1, "briefs": 0.25, "none": -1}
	h := openFront(t, "observe", func(*simulated.Request) simulated.Answer { return simulated.Answer{Text: "done"} })
	store := deltalog.New(h.conn.JetStream())
	for b, name := range map[playbook.Book]string{"tones": "tone", "briefs": "Brevity"} {
		w, err := store.Writer(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{LeadingScore: &name}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop, err := service.Serve(h.conn.NATS(), h.backend, zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	want := map[string]float64{} // by question
	for b, score := range books {
		refused := score < 0
		expect := func(door string, status, ok int) {
			t.Helper()
			if refused && status != http.StatusBadRequest || !refused && status != ok {
				t.Errorf("%s, playbook %s: got status %d", door, b, status)
			}
		}
		_, status, _ := h.post("/api/v1/executions", fmt.Appendf(nil, `{"book": %q, "question": "api %s", "answer": "a", "outcome": %s}`, b, b, scores))
		expect("report", status, http.StatusCreated)
		_, _, stored := h.post("/api/v1/executions", fmt.Appendf(nil, `{"book": %q, "question": "unrated %s", "answer": "a"}`, b, b))
		var run events.StoredReply
		if err := json.Unmarshal(stored, &run); err != nil {
			t.Fatal(err)
		}
		_, status, _ = h.post("/api/v1/feedback", fmt.Appendf(nil, `{"execution": %q, "outcome": %s}`, run.Handle, scores)) // its playbook is that of the run
		expect("feedback", status, http.StatusCreated)
		reply, err := h.conn.NATS().RequestWithContext(t.Context(), "debrief.api.execution."+string(b), fmt.Appendf(nil, `{"question": "nats %s", "answer": "a", "outcome": %s}`, b, scores))
		if err != nil {
			t.Fatal(err)
		}
		if code := reply.Header.Get("Nats-Service-Error-Code"); refused != (code == "400") {
			t.Errorf("report over NATS, playbook %s: got code %q", b, code)
		}
		body := fmt.Appendf(nil, `{"model": "m", "messages": [{"role": "user", "content": "model call of %s"}]}`, b)
		_, status, _ = h.post("/v1/chat/completions", body, "X-Debrief-Book", string(b), "X-Debrief-Score", scores)
		expect("headers", status, http.StatusOK)
		if !refused {
			for _, door := range []string{"api ", "nats ", "model call of "} {
				want[door+string(b)] = score
			}
		}
	}
	for b, score := range books {
		var scored []float64
		if err := h.conn.Events.Scan(t.Context(), events.StreamExecutions, events.KindFeedback.Subject(b), 1, func(s bus.Stored) error {
			scored = append(scored, s.Event.(*events.Feedback).Outcome.Score)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if refused := score < 0; refused && len(scored) > 0 || !refused && !slices.Equal(scored, []float64{score}) {
			t.Errorf("feedback in playbook %s: got the scores %v, want %v", b, scored, score)
		}
	}
	got := map[string]float64{}
	for _, e := range h.executions(len(want) + len(books)) {
		got[e.Question] = e.Outcome.Score
	}
	for question, score := range want {
		if got[question] != score {
			t.Errorf("%s: got score %v, want %v", question, got[question], score)
		}
	}
}
