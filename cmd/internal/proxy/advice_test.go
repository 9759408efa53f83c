package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/proxy/capture"
	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// contexts builds advice by a function, and records the requests.
type contexts struct {
	requests []*events.ContextRequest
	build    func(ctx context.Context, n int) (*events.ContextReply, error)
}

func (c *contexts) Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	c.requests = append(c.requests, r)
	return c.build(ctx, len(c.requests))
}

// numbered returns other advice, and other bullets, for each request, as experiments do.
func numbered(_ context.Context, n int) (*events.ContextReply, error) {
	text, id := fmt.Sprint("Advice ", n, "."), playbook.BulletID(fmt.Sprint("b-", n))
	return &events.ContextReply{
		ID: events.ID(fmt.Sprint("ctx-", n)), Version: uint64(n),
		Messages: []chat.Message{{Speaker: chat.User, Text: text}},
		Shown:    []events.ShownBullet{{ID: id}},
		Lines:    []events.AdviceLine{{End: len(text), Bullet: id, Wording: events.WordingOf(text)}},
	}, nil
}

// commit commits a delta to the playbook.
func commit(t *testing.T, store *deltalog.Store, d playbook.Delta) {
	t.Helper()
	w, err := store.Writer(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{&d}, nil })
	if err == nil {
		err = w.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// agent makes calls of the chat API.
type agent struct {
	*testing.T
	advisor  *advisor
	contexts *contexts
	mode     Mode
	header   http.Header
	fields   map[string]any
	messages []map[string]any
}

func newAgent(t *testing.T, build func(context.Context, int) (*events.ContextReply, error)) *agent {
	conn, nc := bustest.Open(t, bus.Policy{})
	c := &contexts{build: build}
	runs := capture.New(nc, conn.JetStream(), nil, capture.Config{Log: zerolog.Nop()})
	store := deltalog.New(conn.JetStream())
	commit(t, store, playbook.Delta{Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: "b-1", Section: "others", Content: "Advice 1."}, {Kind: playbook.Add, Bullet: "b-2", Section: "others", Content: "Advice 2."},
	}})
	advisor := newAdvisor(c, runs, conn, func(string) {}, zerolog.Nop())
	t.Cleanup(advisor.Close)
	return &agent{T: t, advisor: advisor, contexts: c, mode: ModeTail, header: http.Header{}, fields: map[string]any{"model": "m"}}
}

func (a *agent) say(role, text string) {
	a.messages = append(a.messages, map[string]any{"role": role, "content": text})
}

// begin sends the conversation, and returns the edit and the body for the provider.
func (a *agent) begin(timeout time.Duration) (*Edit, string) {
	a.Helper()
	a.fields["messages"] = a.messages
	body, err := json.Marshal(a.fields)
	if err != nil {
		a.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(a.Context(), timeout)
	defer cancel()
	edit, err := a.advisor.Begin(ctx, &Call{API: modelapi.Chat, Mode: a.mode, Book: "b", Caller: events.Caller{Owner: "ann"}, Header: a.header, Body: body, At: time.Now()})
	if err != nil {
		a.Fatal(err)
	}
	if edit != nil && edit.Body != nil {
		body = edit.Body
	}
	return edit, string(body)
}

// end sends a reply that calls a tool, or one with a text if id is empty.
func (a *agent) end(edit *Edit, id, text string) {
	a.Helper()
	reply, finish := map[string]any{"role": "assistant", "content": text}, "stop"
	if id != "" {
		finish = "tool_calls"
		reply["tool_calls"] = []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "look", "arguments": "{}"}}}
	}
	data, err := json.Marshal(map[string]any{"id": "r-" + id, "choices": []any{map[string]any{"message": reply, "finish_reason": finish}}})
	if err != nil {
		a.Fatal(err)
	}
	received := edit.Recorder.Start(a.Context(), 200, http.Header{"Content-Type": {"application/json"}})
	if reason := edit.Recorder.Degraded(); reason != "" {
		a.Errorf("got the reason %q", reason)
	}
	if _, err := received.Write(data); err != nil {
		a.Fatal(err)
	}
	edit.Recorder.End(a.Context(), nil)
	a.messages = append(a.messages, reply)
}

const adviceQuestion = "Which shelf is the highest one?"

// title is a prompt of a chat front end.
const (
	title      = "Write a title of three words for this chat, as JSON." + transcript
	transcript = "\n<chat>\nUSER: Which shelf?\nASSISTANT: Seven.\n</chat>"
)

// TestAdvice makes the first call of a run in each situation.
func TestAdvice(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _ int) (*events.ContextReply, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("read the playbook: %w", ctx.Err())
	}
	fails := func(context.Context, int) (*events.ContextReply, error) { return nil, errors.New("no playbook") }
	withheld := func(context.Context, int) (*events.ContextReply, error) {
		return &events.ContextReply{ID: "ctx-1", Version: 1}, nil
	}
	for _, test := range []struct {
		name     string
		build    func(context.Context, int) (*events.ContextReply, error)
		mode     Mode
		system   string
		query    string
		limit    int // of output tokens; 0 is none
		timeout  time.Duration
		requests int
		passes   bool // without an edit
		degraded string
		context  string
		want     string // in the body: the text before the advice
	}{
		{name: "advice", query: adviceQuestion, requests: 1, context: "ctx-1", want: adviceQuestion},
		{name: "in the system prompt", mode: ModeSystem, system: "Be brief.", query: adviceQuestion, requests: 1, context: "ctx-1", want: "Be brief."},
		{name: "observed", mode: ModeObserve, query: adviceQuestion},
		{name: "all bullets withheld", build: withheld, query: adviceQuestion, requests: 1, context: "ctx-1"},
		{name: "deadline", build: hangs, query: adviceQuestion, timeout: 300 * time.Millisecond, requests: 1, degraded: "advice-timeout"},
		{name: "no playbook", build: fails, query: adviceQuestion, requests: 1, degraded: "no-advice"},
		{name: "a short text", query: "refund?", requests: 1, context: "ctx-1", want: "refund?"},
		{name: "a short text without spaces", query: "取消我的订单", requests: 1, context: "ctx-1", want: "取消我的订单"},
		{name: "nothing but go on, at the beginning", query: "Go on.", requests: 1, context: "ctx-1", want: "Go on."},
		{name: "a classifier", query: adviceQuestion, limit: 1, requests: 1, context: "ctx-1", want: adviceQuestion},
		{name: "a title", query: title, passes: true, degraded: helperCall},
		{name: "tags", query: "Generate 1-3 broad tags for the themes of the chat history." + transcript, passes: true, degraded: helperCall},
		{name: "questions", query: "Suggest 3-5 relevant follow-up questions that the user might ask." + transcript, passes: true, degraded: helperCall},
		{name: "a title of one message", query: "Summarize this conversation into a title of at most 50 characters:\n\nUser: Which shelf?", passes: true, degraded: helperCall},
		{name: "an answer to one message", query: "Answer in one sentence. User: Which shelf?", requests: 1, context: "ctx-1", want: "Answer in one sentence. User: Which shelf?"},
		{name: "no text", query: "  ", passes: true, degraded: noText},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			build, timeout := test.build, test.timeout
			if build == nil {
				build = numbered
			}
			if timeout == 0 {
				timeout = time.Minute
			}
			a := newAgent(t, build)
			if test.mode != "" {
				a.mode = test.mode
			}
			if test.limit > 0 {
				a.fields["max_tokens"] = test.limit
			}
			if test.system != "" {
				a.say("system", test.system)
			}
			a.say("user", test.query)
			edit, body := a.begin(timeout)
			if got := len(a.contexts.requests); got != test.requests {
				t.Errorf("got %d requests for advice, want %d", got, test.requests)
			}
			if test.passes {
				if edit.Degraded != test.degraded || edit.Recorder != nil || edit.Body != nil {
					t.Errorf("got edit %+v", edit)
				}
				return
			}
			if edit.Degraded != test.degraded || edit.Header.Get(headerContext) != test.context || edit.Header.Get(headerRun) == "" {
				t.Errorf("got reason %q, headers %v", edit.Degraded, edit.Header)
			}
			before, _, advised := strings.Cut(body, "Advice 1.")
			inSystem := advised && !strings.Contains(before, test.query)
			if advised != (test.want != "") || !strings.Contains(before, test.want) || inSystem != (test.mode == ModeSystem) {
				t.Errorf("got body %s", body)
			}
			a.end(edit, "", "Seven.")
		})
	}
}

// TestRequest checks the request for advice: the playbook, the session, and the beginning of a long text.
func TestRequest(t *testing.T) {
	t.Parallel()
	a := newAgent(t, numbered)
	a.header.Set(headerSession, "s-1")
	a.say("user", adviceQuestion+strings.Repeat("é", maxQuery)) // the limit is within a letter
	edit, _ := a.begin(time.Minute)
	a.end(edit, "", "Seven.")
	r := a.contexts.requests[0]
	if r.Book != "b" || r.Session != "s-1" || !r.Advice || len(r.Query) > maxQuery || len(r.Query) < maxQuery-2 || !strings.HasPrefix(r.Query, adviceQuestion) || !utf8.ValidString(r.Query) {
		t.Errorf("got %+v", r)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

// TestAdviceOfRun plays two turns with loops of tools. All calls of a turn have the same advice and the same bullets, the arms of
// an experiment, and the second turn keeps the advice of the first one.
func TestAdviceOfRun(t *testing.T) {
	t.Parallel()
	a := newAgent(t, numbered)
	prefix := ""
	for turn := 1; turn <= 2; turn++ {
		a.say("user", fmt.Sprint(adviceQuestion, turn))
		for call := range 3 {
			edit, body := a.begin(time.Minute)
			if !strings.HasPrefix(strings.ReplaceAll(body, "]", ","), prefix) {
				t.Errorf("turn %d, call %d: the prefix of the last call changed: %s", turn, call, body)
			}
			for n := 1; n <= turn; n++ {
				if got := strings.Count(body, fmt.Sprint("Advice ", n, ".")); got != 1 {
					t.Errorf("turn %d, call %d: advice %d is %d times in %s", turn, call, n, got, body)
				}
			}
			if h := edit.Header; h.Get(headerContext) != fmt.Sprint("ctx-", turn) || h.Get(headerBullets) != fmt.Sprint("b-", turn) || h.Get(headerVersion) != fmt.Sprint(turn) {
				t.Errorf("turn %d, call %d: got headers %v", turn, call, h)
			}
			messages, _, _ := strings.Cut(body, `],"model"`)
			prefix = strings.ReplaceAll(messages, "]", ",")
			if call == 2 {
				a.end(edit, "", "Seven.")
				continue
			}
			id := fmt.Sprint("call-", turn, "-", call)
			a.end(edit, id, "")
			a.messages = append(a.messages, map[string]any{"role": "tool", "tool_call_id": id, "content": "shelf 7"})
		}
	}
	if got := len(a.contexts.requests); got != 2 {
		t.Errorf("got %d requests for advice, want one for each turn", got)
	}
}

// TestAdviceWithoutPlace: advice that no prompt got is not recorded as shown.
func TestAdviceWithoutPlace(t *testing.T) {
	t.Parallel()
	a := newAgent(t, numbered)
	body := fmt.Sprintf(`{"model":"m","system":{"kind":"unknown"},"messages":[{"role":"user","content":%q}]}`, adviceQuestion)
	edit, err := a.advisor.Begin(t.Context(), &Call{
		API: modelapi.Messages, Mode: ModeSystem, Book: "b", Caller: events.Caller{Owner: "ann"}, Header: a.header, Body: []byte(body), At: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if edit.Degraded != noPlace || edit.Body != nil || edit.Header.Get(headerContext) != "" || edit.Header.Get(headerBullets) != "" {
		t.Errorf("got %q, body %q, headers %v", edit.Degraded, edit.Body, edit.Header)
	}
	edit.Recorder.End(t.Context(), nil)
}

// TestShortQueryIsKept: a long message before it does not displace a short message.
func TestShortQueryIsKept(t *testing.T) {
	t.Parallel()
	request := &modelapi.Request{Items: []modelapi.Item{
		{Role: modelapi.RoleUser, Text: strings.Repeat("long ", maxQuery)}, {Role: modelapi.RoleAssistant, Text: "Yes?"}, {Role: modelapi.RoleUser, Text: "And the shelves?"},
	}}
	if got := queryOf(request, 2, 2); len(got) > maxQuery || !strings.HasSuffix(got, "\nAnd the shelves?") {
		t.Errorf("got %d bytes that end with %q", len(got), got[len(got)-30:])
	}
}
