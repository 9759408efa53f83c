package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
)

// start serves a Backend on a connection until the test ends.
func start(t *testing.T, nc *nats.Conn, d Backend) (stop func()) {
	t.Helper()
	stop, err := Serve(nc, d, zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return stop
}

func request(t *testing.T, nc *nats.Conn, subject, body string) *nats.Msg {
	t.Helper()
	msg, err := nc.Request(subject, []byte(body), waitLimit)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return msg
}

func TestRequestsOverNATS(t *testing.T) {
	t.Parallel()
	connect := bustest.Server(t)
	start(t, connect(), backend{feedback: func(context.Context, *events.FeedbackRequest) (*events.StoredReply, error) {
		return nil, &behaving{text: "no such execution", notFound: true}
	}})
	nc := connect()
	for _, test := range []struct{ name, subject, body, code, text, want string }{
		{"a context", "debrief.api.context.b", `{"query":"q","min_version":3}`, "", "", `{"book":"b","session":"q","playbook_version":3,`},
		{"a report", "debrief.api.execution.b", `{"answer":"x"}`, "", "", `{"handle":"b/x"}`},
		{"refused by the backend", "debrief.api.feedback.b", `{}`, "404", "no such execution", `{"error":"no such execution"}`},
		{"another book", "debrief.api.execution.b", `{"book":"c"}`, "400", `book: "c"`, `{"error":`},
		{"no name of a book", "debrief.api.execution.a+b", `{}`, "400", `book "a+b"`, `{"error":`},
		{"no JSON", "debrief.api.context.b", "hello\r\nForged: 1", "400", "the body: ", `{"error":`},
		{"forged headers", "debrief.api.context.b", "{\"a\r\nNats-Service-Error-Code: 200\":1}", "400", "", `{"error":`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			msg := request(t, nc, test.subject, test.body)
			if got := msg.Header.Get(micro.ErrorCodeHeader); got != test.code || len(msg.Header[micro.ErrorCodeHeader]) > 1 {
				t.Errorf("got code %q, want %q", msg.Header[micro.ErrorCodeHeader], test.code)
			}
			if got := msg.Header.Get(micro.ErrorHeader); !strings.HasPrefix(got, test.text) || test.code == "" && got != "" {
				t.Errorf("got error %q, want it to begin with %q", got, test.text)
			}
			if got := string(msg.Data); !strings.HasPrefix(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestServiceDiscovery(t *testing.T) {
	t.Parallel()
	connect := bustest.Server(t)
	start(t, connect(), backend{})
	nc := connect()
	var info micro.Info
	if err := json.Unmarshal(request(t, nc, "$SRV.INFO.debrief", "").Data, &info); err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, e := range info.Endpoints {
		subjects = append(subjects, e.Name+" "+e.Subject)
	}
	if got, want := strings.Join(subjects, ", "), "context debrief.api.context.*, context debrief.api.context.*.*, execution debrief.api.execution.*, "+
		"execution debrief.api.execution.*.*, feedback debrief.api.feedback.*, feedback debrief.api.feedback.*.*"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReplyOverMaxPayload(t *testing.T) {
	t.Parallel()
	connect := bustest.Server(t)
	start(t, connect(), backend{context: func(context.Context, *events.ContextRequest) (*events.ContextReply, error) {
		return &events.ContextReply{Messages: []chat.Message{{Text: strings.Repeat("x", 2<<20)}}}, nil
	}})
	msg := request(t, connect(), "debrief.api.context.b", `{"query":"q"}`)
	if got := msg.Header.Get(micro.ErrorCodeHeader); got != "413" || !strings.Contains(msg.Header.Get(micro.ErrorHeader), "limit") {
		t.Errorf("got %v", msg.Header)
	}
}

func TestServiceRejectsTooManyRequests(t *testing.T) {
	t.Parallel()
	connect := bustest.Server(t)
	entered, release := make(chan struct{}), make(chan struct{})
	start(t, connect(), backend{report: func(context.Context, *events.Report) (*events.StoredReply, error) {
		entered <- struct{}{}
		<-release
		return &events.StoredReply{}, nil
	}})
	nc := connect()
	replies := make(chan *nats.Msg, maxInFlight)
	sub, err := nc.ChanSubscribe(nc.NewInbox()+".*", replies)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxInFlight {
		if err := nc.PublishRequest("debrief.api.execution.b", strings.Replace(sub.Subject, "*", fmt.Sprint(i), 1), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range maxInFlight {
		receive(t, entered, "a request to be taken")
	}
	msg := request(t, nc, "debrief.api.context.b", `{"query":"q"}`)
	if got := msg.Header.Get(micro.ErrorCodeHeader) + " " + msg.Header.Get("Retry-After"); got != "503 1" {
		t.Errorf("got %q, want 503 and a second to wait", got)
	}
	close(release)
	for range maxInFlight {
		if m := receive(t, replies, "a reply"); m.Header.Get(micro.ErrorCodeHeader) != "" {
			t.Errorf("got %v for one that was taken", m.Header)
		}
	}
}

func TestTwoInstancesShareRequests(t *testing.T) {
	t.Parallel()
	connect := bustest.Server(t)
	var calls [2]atomic.Int64
	for i := range calls {
		start(t, connect(), backend{report: func(context.Context, *events.Report) (*events.StoredReply, error) {
			calls[i].Add(1)
			return &events.StoredReply{}, nil
		}})
	}
	nc := connect()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				if msg, err := nc.Request("debrief.api.execution.b", []byte(`{}`), waitLimit); err != nil || msg.Header != nil {
					t.Errorf("got %v, %v", msg, err)
				}
			}
		})
	}
	all.Wait()
	if a, b := calls[0].Load(), calls[1].Load(); a+b != 200 || a < 20 || b < 20 {
		t.Errorf("got %d and %d, want 200 in all and no one idle", a, b)
	}
}

func TestStopWaitsForRequests(t *testing.T) {
	t.Parallel()
	connect := bustest.Server(t)
	entered, release := make(chan struct{}), make(chan struct{})
	serving := connect()
	stop := start(t, serving, backend{report: func(ctx context.Context, r *events.Report) (*events.StoredReply, error) {
		entered <- struct{}{}
		select {
		case <-release:
			return &events.StoredReply{Handle: "1-ab12cd34"}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	nc := connect()
	type answer struct {
		msg *nats.Msg
		err error
	}
	const many = 10
	answers := make(chan answer, many)
	for range many {
		go func() {
			msg, err := nc.Request("debrief.api.execution.b", []byte(`{}`), waitLimit)
			answers <- answer{msg, err}
		}()
	}
	for range many {
		receive(t, entered, "a request to be taken")
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	// After the stop the server reports no responders. Until then requests are accepted or rejected.
	for {
		_, err := nc.Request("debrief.api.context.b", []byte(`{}`), waitLimit)
		if errors.Is(err, nats.ErrNoResponders) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-stopped:
		t.Error("stop returned with requests in flight")
	default:
	}
	close(release)
	receive(t, stopped, "stop")
	serving.Close() // accepted requests have been answered
	for range many {
		if a := receive(t, answers, "an answer"); a.err != nil || string(a.msg.Data) != "{\"handle\":\"1-ab12cd34\"}\n" {
			t.Errorf("got %v, %v", a.msg, a.err)
		}
	}
}

// lateRequest is a request that the client library delivers after the stop.
type lateRequest struct {
	micro.Request
	reply string
}

func (s lateRequest) Reply() string { return s.reply }

func TestRequestAfterStopIsRejected(t *testing.T) {
	t.Parallel()
	nc := bustest.Server(t)()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	d := &server{nc: nc, handler: NewHandler(backend{}, zerolog.Nop()), stopped: true}
	d.endpoint(events.VerbReport)(lateRequest{reply: sub.Subject})
	msg, err := sub.NextMsg(waitLimit)
	if err != nil {
		t.Fatal(err)
	}
	if got := msg.Header.Get(micro.ErrorHeader); got != "stopping: try again" {
		t.Errorf("got %q", got)
	}
}

// TestRepliesGoOnlyToInboxes: permission for requests must not let a client write to streams or control the server.
func TestRepliesGoOnlyToInboxes(t *testing.T) {
	t.Parallel()
	connect := bustest.Server(t)
	reports := make(chan string, 10)
	stop := start(t, connect(), backend{report: func(_ context.Context, r *events.Report) (*events.StoredReply, error) {
		reports <- r.Answer
		return &events.StoredReply{}, nil
	}})
	nc := connect()
	everything := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe(">", everything); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"debrief.delta.b", "$JS.API.STREAM.DELETE.DELTAS", "debrief.api.execution.b", "x._INBOX.y", "_R_", "_INBOX.ok", "_INBOX_agent.ok", ""} {
		msg := &nats.Msg{Subject: "debrief.api.execution.b", Reply: reply, Data: []byte(`{"answer":"` + reply + `"}`)}
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	taken := map[string]bool{}
	for range 3 { // a report without a reply subject is stored too
		taken[receive(t, reports, "a report")] = true
	}
	if !taken[""] || !taken["_INBOX.ok"] || !taken["_INBOX_agent.ok"] {
		t.Errorf("got reports %v", taken)
	}
	stop() // all replies are sent
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var answered []string
	for len(everything) > 0 {
		if msg := <-everything; string(msg.Data) == "{\"handle\":\"\"}\n" || msg.Header.Get(micro.ErrorHeader) != "" {
			answered = append(answered, msg.Subject)
		}
	}
	slices.Sort(answered)
	if got := strings.Join(answered, " "); got != "_INBOX.ok _INBOX_agent.ok" {
		t.Errorf("got answers to %s", got)
	}
}

func TestClosedConnectionEndsTheService(t *testing.T) {
	t.Parallel()
	connect := bustest.Server(t)
	nc := connect()
	stop := start(t, nc, backend{})
	nc.Close()
	stop()
	stop()
	if _, err := Serve(nc, backend{}, zerolog.Nop(), nil); err == nil {
		t.Error("want an error for a connection that is closed")
	}
	if _, err := connect().Request("debrief.api.context.b", []byte(`{}`), waitLimit); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v, want no responders", err)
	}
}

func BenchmarkReportOverNATS(b *testing.B) {
	connect := bustest.Server(b)
	stop, err := Serve(connect(), backend{}, zerolog.Nop(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	nc := connect()
	for b.Loop() {
		if _, err := nc.Request("debrief.api.execution.b", []byte(`{"answer":"x"}`), waitLimit); err != nil {
			b.Fatal(err)
		}
	}
}
