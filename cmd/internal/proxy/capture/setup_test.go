package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// TestMain fails the package when a server, a connection or a write outlives its test.
func TestMain(m *testing.M) {
	bustest.Prepare()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// fakeReporter stores one execution for each task.
type fakeReporter struct {
	mu       sync.Mutex
	tasks    []string
	reports  map[string]*events.Report // by task
	copies   int
	feedback []*events.FeedbackRequest
	err      error
	reported chan *events.Report // receives new executions, if not nil
	trace    string              // trace context of the last report
}

func (f *fakeReporter) Report(ctx context.Context, r *events.Report) (*events.StoredReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	if _, err := json.Marshal(r); err != nil {
		return nil, err
	}
	f.trace = bus.Traceparent(ctx)
	_, known := f.reports[r.RunID]
	if known {
		f.copies++
	} else {
		f.tasks = append(f.tasks, r.RunID)
		f.reports[r.RunID] = r
		if f.reported != nil {
			f.reported <- r
		}
	}
	seq := uint64(slices.Index(f.tasks, r.RunID) + 1)
	return &events.StoredReply{Handle: events.NewHandle(seq, events.ExecutionID(r.Book, "", r.RunID, 0)), Duplicate: known}, nil
}

func (f *fakeReporter) Feedback(_ context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feedback = append(f.feedback, r)
	return &events.StoredReply{Handle: r.Execution}, f.err
}

func (f *fakeReporter) setError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// list returns the executions in the order of their questions.
func (f *fakeReporter) list() []*events.Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*events.Report
	for _, task := range f.tasks {
		all = append(all, f.reports[task])
	}
	slices.SortStableFunc(all, func(a, b *events.Report) int { return strings.Compare(a.Question+a.Answer, b.Question+b.Answer) })
	return all
}

// desk is two gateways with one bucket.
type desk struct {
	t        testing.TB
	nc       *nats.Conn
	conn     *bus.Conn
	stores   []*Store
	reporter *fakeReporter

	mu      sync.Mutex
	results map[Result]int
}

func open(t testing.TB) *desk {
	t.Helper()
	conn, nc := bustest.Open(t, bus.Policy{})
	d := &desk{t: t, nc: nc, conn: conn, reporter: &fakeReporter{reports: map[string]*events.Report{}}, results: map[Result]int{}}
	for range 2 {
		d.stores = append(d.stores, d.store())
	}
	return d
}

// store returns a gateway that has just started.
func (d *desk) store() *Store {
	return New(d.nc, d.conn.JetStream(), d.reporter, Config{Count: d.count, Log: zerolog.Nop()})
}

func (d *desk) count(r Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.results[r]++
}

// counted returns the number of a result.
func (d *desk) counted(r Result) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.results[r]
}

// reset forgets the executions. The next test uses the same bucket.
func (d *desk) reset(t testing.TB) {
	d.t = t
	d.reporter.mu.Lock()
	defer d.reporter.mu.Unlock()
	d.reporter.tasks, d.reporter.reports, d.reporter.copies = nil, map[string]*events.Report{}, 0
}

// settle reports the runs of ended turns.
func (d *desk) settle() {
	d.t.Helper()
	for _, s := range d.stores {
		for len(s.wake) > 0 {
			if _, err := s.reportRun(d.t.Context(), <-s.wake, closeWait); err != nil && !errors.Is(err, errClosed) {
				d.t.Fatal(err)
			}
		}
	}
}

// closeAll closes all runs as after a long time, and returns the executions.
func (d *desk) closeAll() []*events.Report {
	d.t.Helper()
	d.settle()
	if err := d.stores[0].sweep(d.t.Context(), time.Now().Add(24*time.Hour)); err != nil {
		d.t.Fatal(err)
	}
	if n := len(d.keys("o.")); n != 0 {
		d.t.Errorf("%d runs stay open", n)
	}
	if n := len(d.keys("c.")); n != 0 {
		d.t.Errorf("%d calls stay stored", n)
	}
	return d.reporter.list()
}

// keys returns the keys with a prefix that are not deleted.
func (d *desk) keys(kind string) (keys []string) {
	d.t.Helper()
	kv, err := d.conn.JetStream().KeyValue(d.t.Context(), events.BucketOpen)
	if err != nil {
		d.t.Fatal(err)
	}
	list, err := kv.ListKeysFiltered(d.t.Context(), kind+">")
	if err != nil {
		d.t.Fatal(err)
	}
	for key := range list.Keys() {
		keys = append(keys, key)
	}
	return keys
}

// client is an agent: it keeps the messages of a conversation in the form of its API.
type client struct {
	d        *desk
	api      modelapi.API
	owner    string
	session  string
	task     string
	trace    string
	observe  bool
	system   string
	items    []any
	previous string // previous_response_id
	conv     string // conversation
	store    int    // the gateway that takes the next call
	outcome  events.Outcome

	background bool
}

var apis = []modelapi.API{modelapi.Chat, modelapi.Responses, modelapi.Messages}

func (d *desk) client(api modelapi.API) *client {
	return &client{d: d, api: api, owner: "ann", system: "Be brief."}
}

type object = map[string]any

// user adds a message of the user.
func (c *client) user(text string) {
	c.items = append(c.items, object{"role": "user", "content": text})
}

// reply adds a reply of the model.
func (c *client) reply(r *modelapi.Reply) {
	switch c.api {
	case modelapi.Chat:
		m := object{"role": "assistant", "content": r.Text}
		var calls []object
		for _, call := range r.Calls {
			calls = append(calls, object{"id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": call.Arguments}})
		}
		if calls != nil {
			m["tool_calls"] = calls
		}
		c.items = append(c.items, m)
	case modelapi.Responses:
		if r.Text != "" || len(r.Calls) == 0 {
			c.items = append(c.items, object{"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": r.Text}}})
		}
		for _, call := range r.Calls {
			c.items = append(c.items, object{"type": "function_call", "call_id": call.ID, "name": call.Name, "arguments": call.Arguments})
		}
	case modelapi.Messages:
		var parts []object
		if r.Text != "" {
			parts = append(parts, object{"type": "text", "text": r.Text})
		}
		for _, call := range r.Calls {
			parts = append(parts, object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": json.RawMessage(call.Arguments)})
		}
		c.items = append(c.items, object{"role": "assistant", "content": parts})
	}
}

// results adds the results of tool calls, in pairs of id and output.
func (c *client) results(pairs ...string) {
	var parts []object
	for i := 0; i < len(pairs); i += 2 {
		id, output := pairs[i], pairs[i+1]
		switch c.api {
		case modelapi.Chat:
			c.items = append(c.items, object{"role": "tool", "tool_call_id": id, "content": output})
		case modelapi.Responses:
			c.items = append(c.items, object{"type": "function_call_output", "call_id": id, "output": output})
		case modelapi.Messages:
			parts = append(parts, object{"type": "tool_result", "tool_use_id": id, "content": output})
		}
	}
	if parts != nil {
		c.items = append(c.items, object{"role": "user", "content": parts})
	}
}

func (c *client) request() *modelapi.Request {
	c.d.t.Helper()
	body := object{"model": "m"}
	switch c.api {
	case modelapi.Chat:
		body["messages"] = append([]any{object{"role": "system", "content": c.system}}, c.items...)
	case modelapi.Responses:
		body["instructions"], body["input"] = c.system, c.items
		if c.previous != "" {
			body["previous_response_id"] = c.previous
		}
		if c.conv != "" {
			body["conversation"] = c.conv
		}
	case modelapi.Messages:
		body["system"], body["messages"] = c.system, c.items
	}
	data, err := json.Marshal(body)
	if err != nil {
		c.d.t.Fatal(err)
	}
	r, err := modelapi.Parse(c.api, data)
	if err != nil {
		c.d.t.Fatal(err)
	}
	return r
}

// begin sends a call. Calls go to both gateways in turn.
func (c *client) begin() *ActiveCall { return c.beginAgain(0) }

// abandon sends a call whose gateway dies while the model works.
func (c *client) abandon() { c.begin().die() }

// die simulates that the gateway of a call dies after the writes so far.
func (o *ActiveCall) die() {
	<-o.done
	o.store.calls.add(o.place.start, -1)
}

func (c *client) beginAgain(retry int) *ActiveCall {
	c.d.t.Helper()
	o := c.match(retry)
	o.Start(Block{}, nil)
	return o
}

// beginWith sends a call that gets a block if it begins a run.
func (c *client) beginWith(b Block) *ActiveCall {
	c.d.t.Helper()
	o := c.match(0)
	o.Start(b, nil)
	return o
}

// match sends a call and returns it before Start.
func (c *client) match(retry int) *ActiveCall {
	c.d.t.Helper()
	s := c.d.stores[c.store%len(c.d.stores)]
	c.store++
	o, err := s.Begin(c.d.t.Context(), c.call(retry))
	if err != nil {
		c.d.t.Fatal(err)
	}
	return o
}

func (c *client) call(retry int) *Call {
	return &Call{
		Caller: events.Caller{Owner: c.owner}, Book: "b", Session: c.session, Task: c.task, Trace: c.trace, Request: c.request(), Retry: retry, Inject: !c.observe, Background: c.background, At: time.Now(),
		Outcome: c.outcome,
	}
}

// end finishes a call, and adds a complete reply to the conversation.
func (c *client) end(o *ActiveCall, r *modelapi.Reply) {
	c.d.t.Helper()
	status := 200
	if r.Finish == modelapi.FinishFailed {
		status = 400
	}
	if err := o.Finish(c.d.t.Context(), r, status); err != nil {
		c.d.t.Fatal(err)
	}
	if r.Complete() {
		c.reply(r)
	}
}

// ask sends the text of a user and returns the call after its reply.
func (c *client) ask(text string, r *modelapi.Reply) *ActiveCall {
	c.d.t.Helper()
	c.user(text)
	return c.next(r)
}

// next sends the conversation and returns the call after its reply.
func (c *client) next(r *modelapi.Reply) *ActiveCall {
	c.d.t.Helper()
	o := c.match(0)
	o.Start(Block{Text: "Advice for " + string(o.Run), ContextID: "ctx-" + o.Run, Version: 3}, nil)
	c.end(o, r)
	return o
}

func says(text string) *modelapi.Reply {
	return &modelapi.Reply{ID: "r-" + string(events.NewID()), Model: "m-1", Text: text, Finish: modelapi.FinishStop, Usage: modelapi.Usage{InputTokens: 100, CachedTokens: 60, OutputTokens: 10}}
}

// calls returns a reply that calls a tool for each id.
func calls(ids ...string) *modelapi.Reply {
	r := says("")
	r.Finish = modelapi.FinishTools
	for _, id := range ids {
		r.Calls = append(r.Calls, modelapi.ToolCall{ID: id, Name: "look", Arguments: `{"for":"` + id + `"}`})
	}
	return r
}

var (
	cut    = &modelapi.Reply{Text: "I th"}
	failed = &modelapi.Reply{Finish: modelapi.FinishFailed, Error: "invalid"}
)
