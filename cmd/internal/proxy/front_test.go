package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/generator"
	"debrief/playbook"
)

// house is a gateway with a generator, a fake provider and a server with streams.
type house struct {
	*testing.T
	front *Front
	conn  *bus.Conn
	fake  *httptest.Server

	backend service.Backend

	mu   sync.Mutex
	seen []simulated.Request
}

// open starts a house. The bullets are in the playbook "default".
func openFront(t *testing.T, mode string, script simulated.Script, bullets ...string) *house {
	t.Helper()
	return openTokens(t, mode, "", script, bullets...)
}

// openTokens starts a house with a tokens file.
func openTokens(t *testing.T, mode, tokens string, script simulated.Script, bullets ...string) *house {
	t.Helper()
	h := &house{T: t}
	upstream := simulated.NewProvider(func(r *simulated.Request) simulated.Answer {
		h.mu.Lock()
		h.seen = append(h.seen, *r)
		h.mu.Unlock()
		return script(r)
	}, "fake")
	h.fake = httptest.NewServer(withEmbeddings(upstream))
	t.Cleanup(h.fake.Close)
	h.conn, _ = bustest.Open(t, bus.Policy{})
	h.commit(bullets)
	h.serve(mode, tokens)
	return h
}

// serve starts a gateway and a Generator, beside those that run already. The calls go to the new gateway.
func (h *house) serve(mode, tokens string) {
	h.Helper()
	var err error
	h.front, err = Listen(Options{
		Gateway: program.Gateway{HTTP: "127.0.0.1:0", Tokens: tokens, GatewayMode: mode, AdviceTimeout: patience, RunIdle: time.Hour, UpstreamOpenAI: h.fake.URL, UpstreamAnthropic: h.fake.URL},
		Metrics: program.MetricsWithoutFigures("test"), Log: zerolog.Nop(),
	})
	if err != nil {
		h.Fatal(err)
	}
	front := h.front
	h.Cleanup(func() {
		if err := front.Close(); err != nil {
			h.Error(err)
		}
	})
	builder := generator.NewContextBuilder(h.conn, nil, generator.Config{})
	h.Cleanup(builder.Close)
	builder.WaitLoaded(h.Context(), events.DefaultBook, patience)
	h.backend = builder
	h.Cleanup(h.front.Connect(h.Context(), h.conn, builder))
}

// commit adds bullets to the playbook. Its gate is off, so that no experiment withholds one.
func (h *house) commit(bullets []string) {
	h.Helper()
	store := deltalog.New(h.conn.JetStream())
	w, err := store.Writer(h.Context(), events.DefaultBook)
	if err != nil {
		h.Fatal(err)
	}
	var ops []playbook.Op
	for i, text := range bullets {
		ops = append(ops, playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(i+1)), Section: "others", Content: text})
	}
	if len(ops) == 0 {
		return
	}
	if _, err = w.Commit(h.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{{Gate: playbook.GateOff, Ops: ops}}, nil
	}); err != nil {
		h.Fatal(err)
	}
	if err := w.Flush(h.Context()); err != nil {
		h.Fatal(err)
	}
}

type message map[string]any

func user(text string) message { return message{"role": "user", "content": text} }

// chat sends a conversation, and returns the response with the assistant's message.
func (h *house) chat(messages []message, headers ...string) (http.Header, string, message) {
	h.Helper()
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	if err != nil {
		h.Fatal(err)
	}
	header, status, data := h.post("/v1/chat/completions", body, headers...)
	var reply struct {
		ID      string
		Choices []struct{ Message message }
	}
	if err := json.Unmarshal(data, &reply); err != nil || status != http.StatusOK || len(reply.Choices) == 0 {
		h.Fatalf("got status %d: %s (%v)", status, data, err)
	}
	return header, reply.ID, reply.Choices[0].Message
}

func (h *house) post(path string, body []byte, headers ...string) (http.Header, int, []byte) {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.front.URL()+path, bytes.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer key-of-the-agent")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		h.Fatal(err)
	}
	return resp.Header, resp.StatusCode, data
}

// received returns the requests that the provider got.
func (h *house) received() []simulated.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// executions waits for n stored executions.
func (h *house) executions(n int) (all []*events.Execution) {
	h.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		all = nil
		err := h.conn.Events.Scan(h.Context(), events.StreamExecutions, events.KindExecution.Subject(""), 1, func(s bus.Stored) error {
			if e, ok := s.Event.(*events.Execution); ok {
				all = append(all, e)
			}
			return nil
		})
		if err != nil {
			h.Fatal(err)
		}
		if len(all) >= n || time.Now().After(end) {
			break
		}
	}
	if len(all) != n {
		h.Fatalf("got %d executions, want %d", len(all), n)
	}
	return all
}

// thinking is the time of a reply. A call is stored meanwhile.
const thinking = 3 * time.Millisecond

// loop answers with n tool calls after each message of the user, then with a text.
func loop(n int) simulated.Script {
	return func(r *simulated.Request) simulated.Answer {
		results := 0
		for i := len(r.Items) - 1; i >= 0 && r.Items[i].Role != "user"; i-- {
			if r.Items[i].Role == "tool" {
				results++
			}
		}
		if results < n {
			return simulated.Answer{Delay: thinking, Calls: []simulated.Call{{Name: "look", Arguments: fmt.Sprintf(`{"shelf": %d}`, results)}}}
		}
		return simulated.Answer{Delay: thinking, Text: fmt.Sprintf("Shelf %d.", len(r.Items))}
	}
}

// run sends a user's message, and calls the tools that the model asks for. It returns the conversation after it.
func (h *house) run(messages []message, text string) ([]message, http.Header, string) {
	h.Helper()
	messages = append(slices.Clone(messages), user(text))
	for n := 0; ; n++ {
		header, id, reply := h.chat(messages)
		messages = append(messages, reply)
		calls, _ := reply["tool_calls"].([]any)
		if len(calls) == 0 {
			return messages, header, id
		}
		for _, c := range calls {
			call := c.(map[string]any)
			output := fmt.Sprintf("the shelf number %d is full of other books, %s", n, strings.Repeat("and more books ", 20))
			messages = append(messages, message{"role": "tool", "tool_call_id": call["id"], "content": output})
		}
	}
}

const question = "Where is the globe, and on which shelf?"

func TestRunWithAdviceAndFeedback(t *testing.T) {
	t.Parallel()
	h := openFront(t, "tail", loop(3), "Globes stand in the map room.")
	_, header, id := h.run([]message{{"role": "system", "content": "You are a librarian."}}, question)
	if header.Get("X-Debrief-Context") == "" || header.Get("X-Debrief-Bullets") != "misc-00001" || header.Get("X-Debrief-Degraded") != "" {
		t.Errorf("got headers %v", header)
	}
	var block string
	for i, r := range h.received() {
		if got := r.Key; got != "Bearer key-of-the-agent" {
			t.Errorf("call %d: the provider got the key %q", i, got)
		}
		text := r.Items[1].Text // of the user
		inserted, ok := strings.CutPrefix(text, question)
		if !ok || !strings.Contains(inserted, "[misc-00001] Globes stand in the map room.") {
			t.Fatalf("call %d: the provider got %q", i, text)
		}
		if block == "" {
			block = inserted
		}
		if inserted != block || r.Items[0].Text != "You are a librarian." {
			t.Errorf("call %d: the provider got another text: %q", i, text)
		}
	}
	_, status, data := h.post("/api/v1/feedback", fmt.Appendf(nil, `{"execution": %q, "outcome": true}`, id))
	if status/100 != 2 {
		t.Fatalf("feedback: got %d %s", status, data)
	}
	e := h.executions(1)[0]
	if e.Question != question || !strings.HasPrefix(e.Answer, "Shelf ") || e.Outcome.Label != events.Success || len(e.Steps) != 3 || len(e.Shown) != 1 ||
		e.Steps[0].Calls[0].Tool != "look" || !strings.HasPrefix(e.Steps[2].Calls[0].Output, "the shelf number 2") || e.Usage.Calls != 4 || e.Version != 1 {
		t.Errorf("got execution %+v", e)
	}
	// Feedback again, now on a closed run.
	if _, status, data := h.post("/api/v1/feedback", fmt.Appendf(nil, `{"execution": %q, "outcome": false}`, id)); status/100 != 2 {
		t.Errorf("second feedback: got %d %s", status, data)
	}
	h.executions(1)
}

func TestObserveChangesNothing(t *testing.T) {
	t.Parallel()
	h := openFront(t, "observe", loop(1), "Globes stand in the map room.")
	h.run(nil, question)
	h.run(nil, question) // an equal conversation is another run
	for _, r := range h.received() {
		if strings.Contains(string(r.Body), "playbook") {
			t.Errorf("the provider got %s", r.Body)
		}
	}
	messages, _, _ := h.run(nil, question)
	h.run(messages, "Thanks! And where is the atlas of the moon?")
	all := h.executions(1) // the first turn is closed by the second
	if len(all[0].Shown) != 0 || !all[0].Outcome.Inferred || all[0].Outcome.Label != events.Success {
		t.Errorf("got %+v", all[0])
	}
}

// cachedShare returns the share of input tokens that the provider had in its cache, in all calls of a session.
func cachedShare(t *testing.T, mode string, turns, calls int) float64 {
	t.Helper()
	h := openFront(t, mode, loop(calls), "Globes stand in the map room.", "Maps of the moon stand beside the globes, in the same room.")
	messages := []message{{"role": "system", "content": "You are a librarian. " + strings.Repeat("Answer with the shelf. ", 50)}}
	for n := range turns {
		messages, _, _ = h.run(messages, fmt.Sprintf("Where is the globe number %d, and on which shelf?", n))
	}
	_, _, last := h.chat(append(messages, user("Thank you for the globes, that is all for today."))) // closes the last turn
	if last["content"] == "" && last["tool_calls"] == nil {
		t.Errorf("got %v", last)
	}
	input, cached := 0, 0
	for _, e := range h.executions(turns) {
		input += e.Usage.InputTokens
		cached += e.Usage.CachedTokens
	}
	return float64(cached) / float64(input)
}

// Advice keeps the provider's cached prefixes: within a run, and over the turns of a session.
func TestAdviceKeepsCachedPrefixes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, test := range []struct{ turns, calls int }{{1, 20}, {10, 3}} {
		observe, tail, system := cachedShare(t, "observe", test.turns, test.calls), cachedShare(t, "tail", test.turns, test.calls), cachedShare(t, "system", test.turns, test.calls)
		t.Logf("%d turns of %d calls: cached share %.1f %% observed, %.1f %% with advice in the tail, %.1f %% in the system prompt",
			test.turns, test.calls, 100*observe, 100*tail, 100*system)
		if tail < observe-0.02 || system < observe-0.02 || observe < 0.5 {
			t.Errorf("%d turns of %d calls: the cached share fell from %.3f to %.3f (tail), %.3f (system)", test.turns, test.calls, observe, tail, system)
		}
	}
}

func TestCallsPassWithoutServer(t *testing.T) {
	t.Parallel()
	h := openFront(t, "tail", loop(0), "Globes stand in the map room.")
	h.conn.NATS().Close()
	for range 3 {
		began := time.Now()
		header, _, reply := h.chat([]message{user(question)})
		if header.Get("X-Debrief-Degraded") == "" || reply["content"] == "" {
			t.Errorf("got %v, headers %v after %s", reply, header, time.Since(began))
		}
	}
	for _, r := range h.received() {
		if r.Items[0].Text != question {
			t.Errorf("the provider got %q", r.Items[0].Text)
		}
	}
}

func TestUnconnected(t *testing.T) {
	t.Parallel()
	fake := httptest.NewServer(simulated.NewProvider(nil))
	defer fake.Close()
	f, err := Listen(Options{
		Gateway: program.Gateway{HTTP: "127.0.0.1:0", GatewayMode: "tail", RunIdle: time.Hour, UpstreamOpenAI: fake.URL}, Metrics: program.MetricsWithoutFigures("test"), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := &house{T: t, front: f}
	if header, _, _ := h.chat([]message{user(question)}); header.Get("X-Debrief-Degraded") == "" {
		t.Errorf("got headers %v", header)
	}
	if _, status, data := h.post("/api/v1/contexts", []byte(`{"query": "x"}`)); status != http.StatusServiceUnavailable || !strings.Contains(string(data), `"code":"unavailable"`) {
		t.Errorf("the API: got %d %s", status, data)
	}
	for path, want := range map[string]int{"/readyz": 200, "/livez": 200, "/clients/debrief.py": 200, "/clients/debrief.mjs": 200, "/clients/../front.go": 404, "/elsewhere": 404} {
		resp, err := http.Get(f.URL() + path) //nolint:noctx // a test of a local server
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// TestHealthOfMetrics: the metrics get the health of a playbook while the gateway is connected, and none without a connection.
func TestHealthOfMetrics(t *testing.T) {
	t.Parallel()
	h := openFront(t, "tail", loop(0), "Globes stand in the map room.", "Atlases are on shelf 7.")
	for book, want := range map[playbook.Book]int{events.DefaultBook: 2, "unknown": 0} {
		if got := h.front.health(t.Context(), book); got == nil || got.Active != want {
			t.Errorf("%s: got %+v, want %d bullets", book, got, want)
		}
	}
	if got := new(Front).health(t.Context(), events.DefaultBook); got != nil {
		t.Errorf("without a connection: got %+v", got)
	}
}
