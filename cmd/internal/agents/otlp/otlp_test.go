package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
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
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/operate/erase"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/direct"
	"debrief/events/erasure"
	"debrief/generator"
	"debrief/playbook"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

const patience = time.Minute

// desk is a server with streams, and a handler of traces with a token.
type desk struct {
	*testing.T
	conn    *bus.Conn
	handler *Handler
	server  string // its address
	url     string // of the next request
	secrets map[string]string
}

// open starts a desk whose traces close after a short time.
func open(t *testing.T, cfg Config) *desk {
	t.Helper()
	d := &desk{T: t}
	set, secrets := apitest.Load(t, t.TempDir(), apitest.Grant{Name: "agent", Scopes: []tokens.Scope{tokens.Report}}, apitest.Grant{Name: "other", Scopes: []tokens.Scope{tokens.Report}},
		apitest.Grant{Name: "reader", Scopes: []tokens.Scope{tokens.Read}}, apitest.Grant{Name: "support", Scopes: []tokens.Scope{tokens.Report}, Books: []playbook.Book{"support"}})
	d.secrets = secrets
	d.conn, _ = bustest.Open(t, bus.Policy{})
	d.handler = NewHandler(set)
	server := httptest.NewServer(d.handler)
	t.Cleanup(server.Close)
	d.server, d.url = server.URL, server.URL+Path
	d.start(cfg)
	return d
}

// start starts a store in place of the last one, as a new gateway does. stop ends its sweeps at once.
func (d *desk) start(cfg Config) (stop func()) {
	d.Helper()
	builder := generator.NewContextBuilder(d.conn, nil, generator.Config{})
	cfg.Log = zerolog.New(zerolog.NewTestWriter(d.T)).Level(zerolog.WarnLevel)
	s := New(d.conn, builder, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { s.Run(ctx) })
	d.handler.SetStore(s)
	stop = func() {
		cancel()
		done.Wait()
	}
	d.Cleanup(func() {
		stop()
		builder.Close()
	})
	return stop
}

// executions returns the stored executions after no trace is left.
func (d *desk) executions() []*events.Execution {
	d.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left := 0
		err := direct.Read(d.Context(), d.conn.NATS(), stream, direct.Query{Subject: subject + "h.>"}, func(m direct.Message) error {
			if !m.Deleted() {
				left++
			}
			return nil
		})
		if err != nil {
			d.Fatal(err)
		}
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			d.Fatalf("%d values of traces are left", left)
		}
	}
	return d.stored()
}

// values returns the stored values of all traces.
func (d *desk) values() (all []direct.Message) {
	d.Helper()
	err := direct.Read(d.Context(), d.conn.NATS(), stream, direct.Query{Subject: subject + ">"}, func(m direct.Message) error {
		all = append(all, m)
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	return all
}

func (d *desk) stored() []*events.Execution {
	d.Helper()
	return apitest.Stored[*events.Execution](d, d.conn)
}

// post sends a body and returns the status and the text of the response.
func (d *desk) post(token, kind, encoding string, body []byte, headers ...string) (int, string) {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+d.secrets[token])
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// send sends a body in JSON to a path. All of it must be accepted.
func (d *desk) send(token, path string, body []byte) {
	d.Helper()
	d.url = d.server + path
	if status, text := d.post(token, jsonType, "", body); status != http.StatusOK || text != "{}" {
		d.Fatalf("%s: got %d %s", path, status, text)
	}
}

func zipped(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body)
	_ = w.Close()
	return out.Bytes()
}

// exported is a trace of one model call in OTLP as JSON, with ids in hexadecimal.
func exported(traceID string) []byte {
	return fmt.Appendf(nil, `{"resourceSpans":[{"resource":{"attributes":[{"key":"debrief.book","value":{"stringValue":"stolen"}}]},"scopeSpans":[{"spans":[{
		"traceId":%q,"spanId":"00f067aa0ba902b7","name":"chat","kind":3,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000001000000000","status":{"code":1},
		"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"12"}},
		{"key":"db.password","value":{"stringValue":"hunter2-one"}},{"key":"config","value":{"kvlistValue":{"values":[{"key":"api_key","value":{"stringValue":"hunter2Zr2LxV71mKpT0wYb4N"}}]}}},
		{"key":"http.request.header.authorization","value":{"arrayValue":{"values":[{"stringValue":"Basic aHVudGVyMjpodW50ZXIy"}]}}},{"key":"use AKIAIOSFODNN7EXAMPLE","value":{"boolValue":true}},
		{"key":"gen_ai.input.messages","value":{"stringValue":"[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"use key AKIAIOSFODNN7EXAMPLE\"}]}]"}},
		{"key":"gen_ai.output.messages","value":{"arrayValue":{"values":[{"kvlistValue":{"values":[{"key":"role","value":{"stringValue":"assistant"}},{"key":"content","value":{"stringValue":"done"}}]}}]}}}]}]}]}]}`, traceID)
}

const traceID = "5b8efff798038103d269b633813fc60c"

// TestJSON sends OTLP in JSON. The token decides on the playbook and the owner; secrets are replaced before anything is stored.
func TestJSON(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Quiet: 200 * time.Millisecond, Limit: time.Minute})
	for _, test := range []struct {
		token   string
		headers []string
		book    playbook.Book
	}{
		{"agent", nil, "default"}, {"other", nil, "default"}, {"support", nil, "support"}, {"agent", []string{headerBook, "orders"}, "orders"},
	} {
		if status, text := d.post(test.token, jsonType, "gzip", zipped(exported(traceID)), test.headers...); status != http.StatusOK || text != "{}" {
			t.Errorf("%s: got %d %s", test.token, status, text)
		}
	}
	for _, m := range d.values() {
		for _, secret := range []string{"AKIA", "hunter2", "aHVudGVy"} {
			if bytes.Contains(m.Data, []byte(secret)) {
				t.Errorf("%s has the secret %s", m.Subject, secret)
			}
		}
	}
	all := d.executions()
	owners, books := map[string]bool{}, map[playbook.Book]int{}
	for _, e := range all {
		owners[e.Owner] = true
		books[e.Book]++
		if e.RunID != "otel/"+traceID || e.Answer != "done" || e.Usage.InputTokens != 12 || !strings.Contains(e.Question, "[redacted") {
			t.Errorf("got %+v", e)
		}
	}
	if len(all) != 4 || len(owners) != 3 || books["default"] != 2 || books["support"] != 1 || books["orders"] != 1 {
		t.Errorf("got %d executions of %d owners in %v", len(all), len(owners), books)
	}
}

// eventsOf are log records of the model call of exported, without its attributes with texts: messages in the body, a choice, an evaluation,
// and a record of the program.
func eventsOf(traceID string) []byte {
	record := func(name, body string, attributes ...string) string {
		return fmt.Sprintf(`{"timeUnixNano":"1700000000000000000","eventName":%q,"traceId":%q,"spanId":"00f067aa0ba902b7","body":%s,"attributes":[%s]}`, name, traceID, body, strings.Join(attributes, ","))
	}
	content := func(text string) string {
		return fmt.Sprintf(`{"kvlistValue":{"values":[{"key":"content","value":{"stringValue":%q}}]}}`, text)
	}
	return fmt.Appendf(nil, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[%s]}]}]}`, strings.Join([]string{
		record("gen_ai.user.message", content("Which berth? use key AKIAIOSFODNN7EXAMPLE")),
		record("gen_ai.choice", `{"kvlistValue":{"values":[{"key":"message","value":{"kvlistValue":{"values":[{"key":"content","value":{"stringValue":"Berth 4."}}]}}}]}}`),
		record("gen_ai.evaluation.result", `{}`, `{"key":"gen_ai.evaluation.name","value":{"stringValue":"correctness"}}`, `{"key":"gen_ai.evaluation.score.value","value":{"doubleValue":0}}`),
		record("http.request", `{"stringValue":"an ordinary record AKIAIOSFODNN7EXAMPLE"}`),
		`{"body":{"stringValue":"outside a span"}}`,
	}, ","))
}

// TestLogs sends the texts and the evaluation of a run as log records: before its span, after it, and twice.
func TestLogs(t *testing.T) {
	t.Parallel()
	span := fmt.Appendf(nil, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":%q,"spanId":"00f067aa0ba902b7","name":"chat","startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000001000000000",
		"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}]}]}]}]}`, traceID)
	for name, order := range map[string][]string{"first": {LogsPath, Path}, "last": {Path, LogsPath}, "twice": {LogsPath, Path, LogsPath}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, Config{Quiet: time.Second, Limit: time.Minute})
			bodies := map[string][]byte{Path: span, LogsPath: eventsOf(traceID)}
			for _, path := range order {
				d.send("agent", path, bodies[path])
			}
			for _, m := range d.values() {
				if bytes.Contains(m.Data, []byte("AKIA")) || bytes.Contains(m.Data, []byte("ordinary")) {
					t.Errorf("%s has a secret, or a record of the program", m.Subject)
				}
			}
			all := d.executions()
			if len(all) != 1 {
				t.Fatalf("got %d executions, want 1", len(all))
			}
			if e := all[0]; !strings.HasPrefix(e.Question, "Which berth? use key [redacted") || e.Answer != "Berth 4." || e.Outcome.Label != events.Failure {
				t.Errorf("got the question %q, the answer %q and the outcome %+v", e.Question, e.Answer, e.Outcome)
			}
		})
	}
	d := open(t, Config{Quiet: time.Second, Limit: time.Minute})
	d.url = d.server + LogsPath
	if status, text := d.post("agent", jsonType, "", []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"eventName":"gen_ai.choice","body":{}}]}]}]}`)); status != http.StatusOK || !strings.Contains(text, `"rejectedLogRecords":"1"`) {
		t.Errorf("an event without a span: got %d %s", status, text)
	}
	for token, want := range map[string]int{"reader": http.StatusForbidden, "": http.StatusUnauthorized} {
		if status, _ := d.post(token, jsonType, "", eventsOf(traceID)); status != want {
			t.Errorf("token %q: got status %d, want %d", token, status, want)
		}
	}
}

// TestRefusals sends what must not be stored.
func TestRefusals(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Quiet: time.Hour, Limit: time.Hour})
	id, _ := hex.DecodeString(traceID)
	whole, err := proto.Marshal(&tracev1.TracesData{ResourceSpans: []*tracev1.ResourceSpans{{ScopeSpans: []*tracev1.ScopeSpans{{Spans: []*tracev1.Span{{TraceId: id, SpanId: id[:8], Name: "chat"}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	for _, test := range []struct {
		name, token, kind, encoding string
		body                        []byte
		headers                     []string
		status                      int
		want                        string
	}{
		{"no token", "", protobufType, "", whole, nil, 401, "token"},
		{"a token that only reads", "reader", protobufType, "", whole, nil, 403, "report"},
		{"another playbook", "support", protobufType, "", whole, []string{headerBook, "default"}, 403, "default"},
		{"an invalid playbook", "agent", protobufType, "", whole, []string{headerBook, "a b"}, 400, headerBook},
		{"gRPC", "agent", "application/grpc", "", whole, nil, 415, "http/protobuf"},
		{"another encoding", "agent", protobufType, "br", whole, nil, 415, "gzip"},
		{"no gzip", "agent", protobufType, "gzip", whole, nil, 400, "gzip"},
		{"torn gzip", "agent", protobufType, "gzip", zipped(whole)[:20], nil, 400, "incomplete"},
		{"a bomb", "agent", protobufType, "gzip", zipped(make([]byte, 200<<20)), nil, 413, "after decompression"},
		{"a large body", "agent", protobufType, "", make([]byte, maxBody+1), nil, 413, "after decompression"},
		{"a torn body", "agent", protobufType, "", whole[:len(whole)-3], nil, 400, "OTLP"},
		{"torn JSON", "agent", jsonType, "", exported(traceID)[:300], nil, 400, "OTLP"},
		{"deep JSON", "agent", jsonType, "", []byte(deep), nil, 400, "OTLP"},
		{"text behind JSON", "agent", jsonType, "", append(exported(traceID), "{}"...), nil, 400, "OTLP"},
		{"an invalid id of a trace", "agent", jsonType, "", exported("5b8efff7"), nil, 200, `"rejectedSpans":"1"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, text := d.post(test.token, test.kind, test.encoding, test.body, test.headers...)
			if status != test.status || !strings.Contains(text, test.want) {
				t.Errorf("got %d %.200q, want %d with %q", status, text, test.status, test.want)
			}
		})
	}
	if left := d.values(); len(left) > 0 {
		t.Errorf("got %d stored values, want none", len(left))
	}
}

// TestLimitsOfATrace sends more spans than a trace may have, and a span that is too large: the rest is refused in the response.
func TestLimitsOfATrace(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Quiet: time.Hour, Limit: time.Hour})
	id, _ := hex.DecodeString(traceID)
	spans := make([]*tracev1.Span, maxSpans+5)
	for i := range spans {
		spans[i] = &tracev1.Span{TraceId: id, SpanId: fmt.Appendf(nil, "%08d", i), Name: "step"}
	}
	spans[0].Name = strings.Repeat("x", maxSpan+1)
	body, err := proto.Marshal(&tracev1.TracesData{ResourceSpans: []*tracev1.ResourceSpans{{ScopeSpans: []*tracev1.ScopeSpans{{Spans: spans}}}}})
	if err != nil {
		t.Fatal(err)
	}
	status, text := d.post("agent", protobufType, "gzip", zipped(body))
	number, _, n := protowire.ConsumeTag([]byte(text))
	if status != http.StatusOK || number != 1 || n < 0 {
		t.Fatalf("got %d %q", status, text)
	}
	partial, _ := protowire.ConsumeBytes([]byte(text)[n:])
	_, _, n = protowire.ConsumeTag(partial)
	refused, _ := protowire.ConsumeVarint(partial[n:])
	if refused != 5 { // the large one, and four beyond the limit
		t.Errorf("got %d refused spans, want 5: %q", refused, partial)
	}
}

// TestTracesWithoutAgents: the trace of a web server is no run, and one without a root ends after the limit.
func TestTracesWithoutAgents(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Quiet: 100 * time.Millisecond, Limit: 500 * time.Millisecond})
	web := bytes.ReplaceAll(exported("5b8efff798038103d269b633813fc60d"), []byte("gen_ai."), []byte("http."))
	orphan := bytes.Replace(exported(traceID), []byte(`"name":"chat"`), []byte(`"name":"chat","parentSpanId":"00f067aa0ba902b8"`), 1)
	for _, body := range [][]byte{web, orphan} {
		if !json.Valid(body) {
			t.Fatal("invalid test data")
		}
		if status, text := d.post("agent", jsonType, "", body); status != http.StatusOK {
			t.Fatalf("got %d %s", status, text)
		}
	}
	if all := d.executions(); len(all) != 1 || all[0].RunID != "otel/"+traceID {
		t.Errorf("got %d executions, want that of the trace without a root", len(all))
	}
}

// annotation is a span that carries a later annotation of exported, in OTLP as JSON.
func annotation(traceID, spanID, kind string, score float64) []byte {
	return fmt.Appendf(nil, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","spanId":%q,"name":"annotation","startTimeUnixNano":"1700000002000000000","endTimeUnixNano":"1700000002000000000",
		"links":[{"traceId":%q,"spanId":"00f067aa0ba902b7"}],"attributes":[{"key":"annotations.0.annotation.name","value":{"stringValue":"correctness"}},
		{"key":"annotations.0.annotation.annotator_kind","value":{"stringValue":%q}},{"key":"annotations.0.annotation.score","value":{"doubleValue":%v}}]}]}]}]}`, spanID, traceID, kind, score)
}

// evaluation is a log record with an evaluation of exported.
func evaluation(traceID string, score float64) []byte {
	return fmt.Appendf(nil, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1700000003000000000","eventName":"gen_ai.evaluation.result","traceId":%q,"spanId":"00f067aa0ba902b7","body":{},"attributes":[
		{"key":"gen_ai.evaluation.name","value":{"stringValue":"correctness"}},{"key":"gen_ai.evaluation.score.value","value":{"doubleValue":%v}}]}]}]}]}`, traceID, score)
}

// TestLaterEvaluations sends evaluations after the run of a trace was reported, in each form: each is feedback, once, and only of the owner.
func TestLaterEvaluations(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Quiet: 50 * time.Millisecond, Limit: time.Hour})
	d.send("agent", Path, exported(traceID))
	all := d.executions()
	if len(all) != 1 || all[0].Outcome.Known() {
		t.Fatalf("got %+v, want one execution without an outcome", all)
	}
	again := bytes.Replace(exported(traceID), []byte(`"kind":3,`), []byte(`"kind":3,"events":[{"name":"gen_ai.evaluation.result","attributes":[{"key":"gen_ai.evaluation.name","value":{"stringValue":"correctness"}},{"key":"gen_ai.evaluation.score.label","value":{"stringValue":"partial"}}]}],`), 1)
	for _, step := range []struct {
		name, path string
		body       []byte
		want       events.Label
	}{
		{"a log record", LogsPath, evaluation(traceID, 0), events.Failure},
		{"the log record again", LogsPath, evaluation(traceID, 0), ""},
		{"an annotation", Path, annotation(traceID, "00f067aa0ba90201", "HUMAN", 1), events.Success},
		{"the annotation again", Path, annotation(traceID, "00f067aa0ba90201", "HUMAN", 1), ""},
		{"the whole trace again", Path, exported(traceID), ""},
		{"the whole trace with an evaluation", Path, again, events.Partial},
	} {
		before := len(apitest.Stored[*events.Feedback](t, d.conn))
		d.send("agent", step.path, step.body)
		if got := d.executions(); len(got) != 1 {
			t.Fatalf("%s: got %d executions, want one", step.name, len(got))
		}
		feedback := apitest.Stored[*events.Feedback](t, d.conn)[before:]
		if step.want == "" && len(feedback) > 0 || step.want != "" && (len(feedback) != 1 || feedback[0].Outcome.Label != step.want || !strings.HasSuffix(string(feedback[0].Execution), string(events.NewHandle(1, all[0].ID))[1:])) {
			t.Errorf("%s: got feedback %+v, want %q", step.name, feedback, step.want)
		}
	}
	before := len(apitest.Stored[*events.Feedback](t, d.conn))
	d.start(Config{Quiet: 50 * time.Millisecond, Limit: 100 * time.Millisecond})
	d.send("other", LogsPath, evaluation(traceID, 0.25))
	d.executions()
	if got := len(apitest.Stored[*events.Feedback](t, d.conn)) - before; got > 0 {
		t.Errorf("an evaluation of a run of another owner: got feedback")
	}
}

// TestNamesOfAnnotators sends several annotations whose names and annotators claim to be a judge. The run has all scores, and none counts as
// one of a judge.
func TestNamesOfAnnotators(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Quiet: 50 * time.Millisecond, Limit: time.Hour, LeadingScore: func(context.Context, playbook.Book) (string, error) { return "judge/m/1", nil }})
	attribute := func(i int, key, value string) string {
		return fmt.Sprintf(`{"key":"annotations.%d.annotation.%s","value":{"stringValue":%q}},`, i, key, value)
	}
	all := ""
	for i, score := range []string{"0.5", "1"} {
		all += attribute(i, "name", []string{"judge/m/1", "tone"}[i]) + attribute(i, "score", score) + attribute(i, "annotator_kind", "LLM") + attribute(i, "identifier", "judge/m/1") + attribute(i, "by", "judge/m/1")
	}
	body := bytes.Replace(exported(traceID), []byte(`"attributes":[{"key":"gen_ai.op`), []byte(`"attributes":[`+all+`{"key":"gen_ai.op`), 1)
	d.send("agent", Path, body)
	got := d.executions()
	if len(got) != 1 || got[0].Outcome.Judge() != "" || got[0].Outcome.By != "otel:judge/m/1" || got[0].Outcome.Score != 0.5 {
		t.Fatalf("got %+v, want an outcome with the score 0.5 that is not of a judge", got)
	}
	if want := []events.NamedScore{{Name: "judge/m/1", Score: 0.5}, {Name: "tone", Score: 1}}; !slices.Equal(got[0].Outcome.Scores, want) {
		t.Errorf("got the scores %v, want %v", got[0].Outcome.Scores, want)
	}
}

// TestErasureFindsTraces erases a user and a session while traces of theirs wait for their end, with spans that name neither. Other traces stay.
func TestErasureFindsTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := open(t, Config{Quiet: time.Hour, Limit: time.Hour})
	for i, attribute := range []string{`"user.id","value":{"stringValue":"cleo"}`, `"session.id","value":{"stringValue":"s-1"}`, `"user.id","value":{"stringValue":"bob"}`} {
		trace := strings.Replace(traceID, "5b", fmt.Sprintf("%02d", i), 1)
		named := bytes.Replace(exported(trace), []byte(`"attributes":[{"key":"gen_ai.op`), []byte(`"attributes":[{"key":`+attribute+`},{"key":"gen_ai.op`), 1)
		child := bytes.Replace(exported(trace), []byte(`"spanId":"00f067aa0ba902b7"`), []byte(`"spanId":"00f067aa0ba902b8","parentSpanId":"00f067aa0ba902b7"`), 1)
		for _, body := range [][]byte{named, child} {
			d.send("agent", Path, body)
		}
	}
	requests := erasure.NewStore(d.conn.JetStream())
	for _, r := range []*erasure.Request{{User: "cleo"}, {Session: "s-1"}} {
		r.ID, r.Created = events.NewID(), time.Now()
		if err := requests.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := erase.New(d.conn, nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, m := range d.values() {
		left[strings.Split(m.Subject, ".")[4]] = true
	}
	if len(left) != 1 {
		t.Errorf("got the waiting traces %v, want that of bob", left)
	}
}

// TestSpansThatAreNotStored: an outage of the server does not use up the limits, because the client sends the spans again.
func TestSpansThatAreNotStored(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Quiet: time.Hour, Limit: time.Hour})
	if err := d.conn.JetStream().DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if status, text := d.post("agent", jsonType, "", exported(traceID)); status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s, want 503", status, text)
	}
	if s := d.handler.store.Load(); s.total != (traceCounts{}) {
		t.Errorf("got the count %+v of spans that were not stored, want none", s.total)
	}
}

// TestLimitOfAGateway: a gateway with too many spans that wait asks for them later, and takes them after the traces have ended.
func TestLimitOfAGateway(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Quiet: time.Hour, Limit: time.Hour})
	s := d.handler.store.Load()
	s.mu.Lock()
	s.total.spans = maxWaitingSpans
	s.mu.Unlock()
	if status, text := d.post("agent", jsonType, "", exported(traceID)); status != http.StatusServiceUnavailable || !strings.Contains(text, "send them again") {
		t.Errorf("got %d %s, want that the client sends the spans later", status, text)
	}
	s.mu.Lock()
	s.total = traceCounts{}
	s.mu.Unlock()
	if status, text := d.post("agent", jsonType, "", exported(traceID)); status != http.StatusOK {
		t.Errorf("got %d %s", status, text)
	}
	if s.total.spans != 1 || s.total.bytes == 0 {
		t.Errorf("got the count %+v, want that of a span", s.total)
	}
	s.cfg.Limit = 0
	if err := s.sweep(t.Context(), time.Now()); err != nil { // closes the trace
		t.Fatal(err)
	}
	if err := s.sweep(t.Context(), time.Now().Add(2*storeTimeout)); err != nil {
		t.Fatal(err)
	}
	if s.total != (traceCounts{}) || len(s.traces) > 0 {
		t.Errorf("after the end of all traces: got the count %+v", s.total)
	}
}

// connection is a response with a connection that records its read deadline.
type connection struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (c *connection) SetReadDeadline(deadline time.Time) error {
	c.deadline = deadline
	return nil
}

func TestReadDeadlineEndsWithTheBody(t *testing.T) {
	t.Parallel()
	c := &connection{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader("{}"))
	r.Header.Set("Content-Type", jsonType)
	if _, _, err := readBody(c, r); err != nil || !c.deadline.IsZero() {
		t.Errorf("got a read deadline at %s, %v, want none: it cancels the request while the spans are stored", c.deadline, err)
	}
}
