package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/agents"
	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/proxy"
	"debrief/cmd/internal/runs"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/generator"
	"debrief/playbook"
)

const waysPatience = time.Minute

// theBullet is the text of the only bullet of the playbook default.
const theBullet = "Ask for the invoice number first."

// ways is a gateway with tokens, in front of a simulated model, with all ways in.
type ways struct {
	*testing.T
	conn    *bus.Conn
	front   *proxy.Front
	secrets map[string]string
	seen    func() string // the last request to the model
	erased  string        // a session whose runs are erased
}

// openWays starts a gateway. The playbook has a control share.
func openWays(t *testing.T, share playbook.Share) *ways {
	t.Helper()
	w := &ways{T: t}
	seen := make(chan string, 1)
	model := httptest.NewServer(simulated.NewProvider(func(r *simulated.Request) simulated.Answer {
		select {
		case <-seen:
		default:
		}
		seen <- string(r.Body)
		return simulated.Answer{Text: "Shelf 7."}
	}, "fake"))
	t.Cleanup(model.Close)
	w.seen = func() string { return <-seen }
	w.conn, _ = bustest.Open(t, bus.Policy{})
	writer, err := deltalog.New(w.conn.JetStream()).Writer(t.Context(), events.DefaultBook)
	if err == nil {
		_, err = writer.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{Gate: playbook.GateOff, Control: share, ControlSalt: []byte("salt"), Ops: []playbook.Op{{Kind: playbook.Add, Bullet: playbook.MintID("others", 1), Section: "others", Content: theBullet}}}}, nil
		})
	}
	if err == nil {
		err = writer.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	agent := []tokens.Scope{tokens.Context, tokens.Report}
	path, secrets := apitest.Write(t, t.TempDir(),
		apitest.Grant{Name: "agent", Scopes: agent}, apitest.Grant{Name: "reader", Scopes: []tokens.Scope{tokens.Read}},
		apitest.Grant{Name: "elsewhere", Scopes: agent, Books: []playbook.Book{"sales"}}, apitest.Grant{Name: "operator", Scopes: append(agent, tokens.Operate)},
	)
	w.secrets = secrets
	secrets["forged"] = "dbr_" + strings.Repeat("x", 43)
	w.front, err = proxy.Listen(proxy.Options{
		Gateway: program.Gateway{
			HTTP: "127.0.0.1:0", OTLPListen: "127.0.0.1:0", Tokens: path, GatewayMode: "tail", AdviceTimeout: waysPatience, RunIdle: 200 * time.Millisecond,
			UpstreamOpenAI: model.URL, UpstreamAnthropic: model.URL,
		},
		Metrics: program.MetricsWithoutFigures("test"), Log: zerolog.Nop(), TraceQuiet: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.front.Close(); err != nil {
			t.Error(err)
		}
	})
	builder := generator.NewContextBuilder(w.conn, nil, generator.Config{})
	t.Cleanup(builder.Close)
	builder.WaitLoaded(t.Context(), events.DefaultBook, waysPatience)
	stop, err := service.Serve(w.conn.NATS(), builder, zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	t.Cleanup(w.front.Connect(t.Context(), w.conn, builder))
	return w
}

// sentRun is a run that comes in by one of the ways.
type sentRun struct {
	id, session, user, task string
	question                string
	book                    playbook.Book // empty: default
	token                   string        // name of a token, "" for none
	header                  []string      // further headers
	resend                  func() error  // sends the run again, for a way with a state of its own
}

// way is a way in for runs. The error is what the sender hears.
type way struct {
	name string
	send func(w *ways, r *sentRun) error
	// advise returns the prompt that the agent of the run gets. Nil: the way has no advice.
	advise func(w *ways, r *sentRun) (string, error)
	// hears is set if the sender of a run hears of a refusal, and can send it again. Otherwise names are made to fit.
	hears bool
	// local is set if the sender has the rights of the machine or of NATS, and no token.
	local bool
	// again sends a run a second time, as the way repeats it. Nil: send.
	again func(w *ways, r *sentRun) error
	// trust is the source of the stored run, and whether its outcome counts as inferred.
	source   string
	inferred bool
	unrated  bool // the run comes without an outcome
	nameless bool // the run comes without names of a session, a user and a task
	limit    int  // bytes of a text that is too large for the way
	passes   bool // the sender gets its answer also if nothing is stored
}

// refuses reports whether the sender hears an error with one of the codes or words.
func (*way) refuses(err error, codes ...string) bool {
	return err != nil && slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(err.Error(), code) })
}

// request sends a request to the gateway. An error has the status and the body of the response.
func (w *ways) request(path, kind string, body []byte, r *sentRun, header ...string) ([]byte, error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), waysPatience)
	defer cancel()
	if strings.HasPrefix(path, "/") {
		path = w.front.URL() + path
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", kind)
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+w.secrets[r.token])
		q.Header.Set("X-Debrief-Token", w.secrets[r.token])
	}
	all := append(slices.Clone(header), r.header...)
	for i := 0; i < len(all); i += 2 {
		if all[i+1] != "" {
			q.Header.Set(all[i], all[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%d: %s", resp.StatusCode, data)
	}
	return data, err
}

// object is a value of JSON. Empty texts are left out, as clients do.
type object map[string]any

func (o object) encode() []byte {
	for name, v := range o {
		if v == "" || v == playbook.Book("") {
			delete(o, name)
		}
	}
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return data
}

const jsonKind = "application/json"

// allWays are the ways in.
var allWays = []way{
	{name: "API", hears: true, source: "agent/agent", limit: 17 << 20, send: func(w *ways, r *sentRun) error {
		body := object{"book": r.book, "run_id": r.id, "session": r.session, "user": r.user, "task": r.task, "question": r.question, "answer": "Shelf 7.", "outcome": "success"}
		_, err := w.request("/api/v1/executions", jsonKind, body.encode(), r)
		return err
	}, advise: func(w *ways, r *sentRun) (string, error) {
		body := object{"book": r.book, "run_id": r.id, "session": r.session, "user": r.user, "query": r.question}
		data, err := w.request("/api/v1/contexts", jsonKind, body.encode(), r)
		return string(data), err
	}},
	{name: "NATS", hears: true, local: true, source: "agent", limit: 2 << 20, send: func(w *ways, r *sentRun) error {
		body := object{"run_id": r.id, "session": r.session, "user": r.user, "task": r.task, "question": r.question, "answer": "Shelf 7.", "outcome": "success"}
		_, err := w.service(events.VerbReport, r.book, body)
		return err
	}, advise: func(w *ways, r *sentRun) (string, error) {
		return w.service(events.VerbContext, r.book, object{"run_id": r.id, "session": r.session, "user": r.user, "query": r.question})
	}},
	{name: "gateway", source: "agent/agent", limit: 33 << 20, passes: true, send: func(w *ways, r *sentRun) error {
		_, err := w.chat(r)
		return err
	}, again: func(w *ways, r *sentRun) error {
		second := *r
		second.header = append(second.header, "X-Stainless-Retry-Count", "1")
		_, err := w.chat(&second)
		return err
	}, advise: (*ways).chat},
	{name: "OTLP traces", source: "agent/agent", unrated: true, limit: 17 << 20, send: func(w *ways, r *sentRun) error {
		_, err := w.request("/v1/traces", jsonKind, traceOf(r), r, "X-Debrief-Book", string(r.book))
		return err
	}},
	{name: "OTLP logs, on a port of its own", source: "agent/agent", unrated: true, limit: 17 << 20, send: func(w *ways, r *sentRun) error {
		if _, err := w.request(w.front.TracesURL()+"/v1/logs", jsonKind, logsOf(r), r, "X-Debrief-Book", string(r.book)); err != nil {
			return err
		}
		withoutTexts := *r
		withoutTexts.question = ""
		_, err := w.request(w.front.TracesURL()+"/v1/traces", jsonKind, traceOf(&withoutTexts), r, "X-Debrief-Book", string(r.book))
		return err
	}},
	{name: "hooks", source: "agent/agent", inferred: true, unrated: true, limit: 17 << 20, passes: true, send: func(w *ways, r *sentRun) error {
		u := w.newHookUser(r)
		u.event("UserPromptSubmit", r)
		u.event("Stop", r)
		r.resend = func() error {
			u.event("Stop", r)
			u.event("SessionEnd", r)
			return u.handOver()
		}
		return u.handOver()
	}, again: func(_ *ways, r *sentRun) error { return r.resend() }, advise: func(w *ways, r *sentRun) (string, error) {
		for {
			u := w.newHookUser(r)
			advice := u.event("UserPromptSubmit", r)
			err := u.logged("")
			isLate := err != nil && strings.Contains(err.Error(), "deadline") // on a busy machine a hook goes on without advice
			if !isLate {
				return advice, err
			}
		}
	}},
	{name: "MCP", hears: true, source: "agent/agent", inferred: true, limit: 17 << 20, send: func(w *ways, r *sentRun) error {
		_, err := w.tool(r, "report_run", object{"run_id": r.id, "session": r.session, "task": r.task, "question": r.question, "answer": "Shelf 7.", "outcome": "success"})
		return err
	}, advise: func(w *ways, r *sentRun) (string, error) {
		return w.tool(r, "playbook_context", object{"run_id": r.id, "session": r.session, "query": r.question})
	}},
	{name: "learn", local: true, source: "file/debrief", limit: 17 << 20, send: func(w *ways, r *sentRun) error {
		line := object{"session": r.session, "question": r.question, "answer": "Shelf 7.", "outcome": "success", "origin": object{"task": r.task}, "steps": []object{{"text": "I look."}}, "task_id": r.id}
		if r.session == "" {
			line["session"] = "s-learn"
		}
		return w.learn("f.jsonl", append(line.encode(), '\n'))
	}},
	{name: "learn from a data set", local: true, nameless: true, source: "file/qa", limit: 17 << 20, send: func(w *ways, r *sentRun) error {
		var table bytes.Buffer
		out := csv.NewWriter(&table)
		if err := out.WriteAll([][]string{{"id", "question", "answer", "score"}, {r.id, r.question, "Shelf 7.", "1"}}); err != nil {
			return err
		}
		return w.learn("f.csv", table.Bytes())
	}},
}

// learn reads the runs of a file and stores them, as 'debrief learn' does.
func (w *ways) learn(name string, data []byte) error {
	report, err := runs.Read(w.Context(), events.DefaultBook, name, bytes.NewReader(data), func(e *events.Execution) error {
		_, err := w.conn.Publish(w.Context(), e, bus.PublishOptions{})
		return err
	})
	if len(report.Problems) > 0 {
		return errors.Join(err, fmt.Errorf("%v", report.Problems))
	}
	return err
}

// service sends a request over NATS.
func (w *ways) service(verb string, b playbook.Book, body object) (string, error) {
	w.Helper()
	if b == "" {
		b = events.DefaultBook
	}
	reply, err := w.conn.NATS().Request(events.ServiceSubject(verb, b, ""), body.encode(), waysPatience)
	if err != nil {
		return "", err
	}
	if code := reply.Header.Get("Nats-Service-Error-Code"); code != "" {
		return "", fmt.Errorf("%s: %s", code, reply.Data)
	}
	return string(reply.Data), nil
}

// chat makes a model call, whose outcome closes the run. It returns what the model got.
func (w *ways) chat(r *sentRun) (string, error) {
	body := object{"model": "m", "messages": []object{{"role": "user", "content": r.question}}}
	_, err := w.request("/v1/chat/completions", jsonKind, body.encode(), r,
		"X-Debrief-Book", string(r.book), "X-Debrief-Session", r.session, "X-Debrief-User", r.user, "X-Debrief-Task", r.task, "X-Debrief-Label", "success", "Authorization", "Bearer key-of-the-agent")
	if err != nil {
		return "", err
	}
	return w.seen(), nil
}

// traceOf returns a run as the trace of an agent in OTLP.
func traceOf(r *sentRun) []byte {
	attribute := func(key, value string) object { return object{"key": key, "value": object{"stringValue": value}} }
	attributes := []object{attribute("gen_ai.operation.name", "chat")}
	if r.question != "" {
		messages, _ := json.Marshal([]object{{"role": "user", "parts": []object{{"type": "text", "content": r.question}}}})
		attributes = append(attributes, attribute("gen_ai.input.messages", string(messages)), attribute("gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"Shelf 7."}]}]`))
	}
	if r.session != "" {
		attributes = append(attributes, attribute("gen_ai.conversation.id", r.session))
	}
	if r.user != "" {
		attributes = append(attributes, attribute("user.id", r.user))
	}
	id := traceID(r)
	start := time.Now().UnixNano()
	return object{"resourceSpans": []object{{"scopeSpans": []object{{"spans": []object{{
		"traceId": id, "spanId": "00f067aa0ba902b7", "name": "chat", "startTimeUnixNano": fmt.Sprint(start), "endTimeUnixNano": fmt.Sprint(start + 1000), "attributes": attributes,
	}}}}}}}.encode()
}

// traceID returns the id of the trace of a run.
func traceID(r *sentRun) string { return fmt.Sprintf("%x", events.Hash("trace", r.id))[:32] }

// logsOf returns the texts of a run as events of its trace in the log.
func logsOf(r *sentRun) []byte {
	content := func(text string) object {
		return object{"kvlistValue": object{"values": []object{{"key": "content", "value": object{"stringValue": text}}}}}
	}
	record := func(name string, body object) object {
		return object{"timeUnixNano": "1", "eventName": name, "traceId": traceID(r), "spanId": "00f067aa0ba902b7", "body": body}
	}
	choice := object{"kvlistValue": object{"values": []object{{"key": "message", "value": content("Shelf 7.")}}}}
	return object{"resourceLogs": []object{{"scopeLogs": []object{{"logRecords": []object{record("gen_ai.user.message", content(r.question)), record("gen_ai.choice", choice)}}}}}}.encode()
}

// hookUser is a user whose repository is connected.
type hookUser struct {
	*ways
	hook  *agents.Hook
	repo  string
	run   *sentRun // in whose session the user works
	token string   // its secret
}

func (w *ways) newHookUser(r *sentRun) *hookUser {
	w.Helper()
	dir, err := filepath.EvalSymlinks(w.TempDir())
	if err != nil {
		w.Fatal(err)
	}
	u := &hookUser{ways: w, repo: filepath.Join(dir, "repo"), run: r, token: w.secrets[r.token]}
	git := filepath.Join(u.repo, ".git")
	book := r.book
	if book == "" {
		book = events.DefaultBook
	}
	settings, err := json.Marshal(agents.Settings{Repositories: []*agents.Repository{{
		GitDir: git, Key: "k", Book: string(book), URL: w.front.URL(), Token: w.secrets[r.token], Agents: agents.Names, Transcripts: true,
	}}})
	if err == nil {
		err = errors.Join(os.MkdirAll(git, 0o700), os.WriteFile(filepath.Join(git, agents.KeyFile), []byte("k\n"), 0o600), os.WriteFile(filepath.Join(dir, "agents.json"), settings, 0o600))
	}
	if err != nil {
		w.Fatal(err)
	}
	u.hook = &agents.Hook{Agent: agents.ClaudeCode, Settings: filepath.Join(dir, "agents.json"), State: filepath.Join(dir, "state"), StartHandOver: func() error { return nil }}
	return u
}

// event sends an event to the hook and returns its output.
func (u *hookUser) event(name string, r *sentRun) string {
	session := r.session
	if session == "" {
		session = "s-hook"
	}
	event := object{"hook_event_name": name, "session_id": session, "cwd": u.repo, "prompt": r.question, "last_assistant_message": "Shelf 7."}
	return string(u.hook.Handle(u.Context(), bytes.NewReader(event.encode())))
}

// handOver hands over the runs that wait. An error is what the log has.
func (u *hookUser) handOver() error {
	_, err := agents.HandOver(u.Context(), u.hook.Settings, u.hook.State)
	return errors.Join(err, u.logged("hand over"))
}

// logged returns the log of the hooks as an error if it has a text.
func (u *hookUser) logged(text string) error {
	log, err := os.ReadFile(filepath.Join(u.hook.State, "hook.log"))
	if err != nil || !strings.Contains(string(log), text) {
		return nil //nolint:nilerr // no error was logged
	}
	return errors.New(string(log))
}

// tool calls a tool over MCP.
func (w *ways) tool(r *sentRun, name string, arguments object) (string, error) {
	book := r.book
	if book == "" {
		book = events.DefaultBook
	}
	client := &http.Client{Transport: withHeaders{w.secrets[r.token], r.header}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(w.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.front.URL() + "/mcp/" + string(book), HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return "", err
	}
	defer session.Close()
	arguments.encode() // leaves out empty texts
	result, err := session.CallTool(w.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return "", err
	}
	text := ""
	for _, c := range result.Content {
		if part, ok := c.(*mcp.TextContent); ok {
			text += part.Text
		}
	}
	if result.IsError {
		return "", errors.New(text)
	}
	return text, nil
}

// withHeaders sends a token and headers with each request.
type withHeaders struct {
	secret string
	header []string
}

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if h.secret != "" {
		r.Header.Set("Authorization", "Bearer "+h.secret)
	}
	for i := 0; i < len(h.header); i += 2 {
		r.Header.Set(h.header[i], h.header[i+1])
	}
	return http.DefaultTransport.RoundTrip(r)
}

// stored waits for the execution with a question, and returns all that have it.
func (w *ways) stored(question string) []*events.Execution {
	w.Helper()
	for end := time.Now().Add(waysPatience); ; time.Sleep(20 * time.Millisecond) {
		all := w.with(question)
		if len(all) > 0 {
			return all
		}
		if time.Now().After(end) {
			w.Fatalf("no execution with the question %q", question)
		}
	}
}

// with returns the stored executions with a question.
func (w *ways) with(question string) []*events.Execution {
	w.Helper()
	return slices.DeleteFunc(apitest.Stored[*events.Execution](w, w.conn), func(e *events.Execution) bool { return !strings.HasPrefix(e.Question, question) })
}

// TestWaysHaveOneRuleForNames sends runs with names that no event may have by every way. Where the sender hears of it, the run is refused
// with the field. Otherwise the run is stored, with names that fit and stay distinct.
func TestWaysHaveOneRuleForNames(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	w := openWays(t, "")
	long := strings.Repeat("x", events.MaxName+1)
	for _, way := range allWays {
		if way.nameless {
			continue
		}
		for _, field := range []string{"session", "user", "task"} {
			for kind, name := range map[string]string{"long": long, "control": "a\u2028b"} {
				t.Run(way.name+" "+field+" "+kind, func(t *testing.T) {
					w := w.in(t)
					r := &sentRun{id: string(events.NewID()), question: "Where is " + string(events.NewID()) + "?", token: "agent"}
					switch field {
					case "session":
						r.session = name
					case "user":
						r.user = name
					case "task":
						r.task = name
					}
					isOptional := field == "user" && (way.name == "MCP" || way.name == "hooks" || way.name == "learn") || field == "task" && (strings.HasPrefix(way.name, "OTLP") || way.name == "hooks")
					if isOptional { // the way has no such field
						t.SkipNow()
					}
					err := way.send(w, r)
					if way.hears {
						if err == nil || !strings.Contains(err.Error(), field) || len(w.with(r.question)) > 0 {
							t.Errorf("got %v, want an error with the field %s, and nothing stored", err, field)
						}
						return
					}
					if err != nil {
						t.Fatalf("got %v, want the run", err)
					}
					e := w.stored(r.question)[0]
					got := map[string]string{"session": e.Session, "user": e.User, "task": e.Origin.Task}[field]
					if got != events.FitName(name) {
						t.Errorf("got %s %.40q, want it to fit", field, got)
					}
				})
			}
		}
	}
}

// in returns the ways for a subtest.
func (w *ways) in(t *testing.T) *ways {
	in := *w
	in.T = t
	return &in
}

// newSentRun returns a run with a new question.
func newSentRun(token string) *sentRun {
	id := string(events.NewID())
	return &sentRun{id: id, session: "s-" + id, question: "Where is " + id + "?", token: token}
}
