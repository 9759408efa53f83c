package bus

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"debrief/events"
)

// outsider publishes messages as a client without this package does.
type outsider struct {
	*Conn
	replies *nats.Subscription
}

func newOutsider(t *testing.T, c *Conn) outsider {
	t.Helper()
	replies, err := c.nc.SubscribeSync(c.nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	return outsider{c, replies}
}

// send publishes a message on a stream and waits for the acknowledgement of the stream.
func (o outsider) send(t *testing.T, subject, data string, headers ...string) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Header: nats.Header{events.HeaderReply: {o.replies.Subject}}, Data: []byte(data)}
	for i := 0; i < len(headers); i += 2 {
		m.Header.Add(headers[i], headers[i+1])
	}
	if _, err := o.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func (o outsider) receive(t *testing.T) *nats.Msg {
	t.Helper()
	m, err := o.replies.NextMsg(waitLimit)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestUndecodableMessageGetsErrorReply(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	o := newOutsider(t, c)
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		start(t, c, Worker{Role: role, Handle: single(func(context.Context, *Delivery) Result {
			t.Error("the handler was called")
			return Result{}
		})})
	}
	message, err := events.Marshal(task("main", 1))
	if err != nil {
		t.Fatal(err)
	}
	const asJSON = "application/json"
	stored := 0
	for _, test := range []struct {
		name, subject, data string
		headers             []string
		names               string
	}{
		{"JSON without its type", "debrief.task.main", `{"run_id":"a","question":"q"}`, nil, "header Content-Type: application/json"},
		{"an execution in JSON", "debrief.execution.main", `{"run_id":"a"}`, []string{"Content-Type", asJSON}, "header Content-Type: only tasks"},
		{"an edit in JSON without its type", "debrief.edit.main", `{"run_id":"a"}`, nil, "payload: is JSON, want MessagePack"},
		{"an unknown type", "debrief.task.main", string(message), []string{"Content-Type", "text/xml"}, `header Content-Type: must be application/json or application/msgpack, got "text/xml"`},
		{"no schema", "debrief.task.main", string(message), nil, "header Debrief-Schema: want one value, got 0"},
		{"a newer schema", "debrief.feedback.main", "\x80", []string{events.HeaderSchema, "2"}, "header Debrief-Schema: version 2"},
		{"no payload", "debrief.edit.main", "", []string{events.HeaderSchema, "1"}, "unexpected end"},
		{"a hostile payload", "debrief.task.main", "\xdd\xff\xff\xff\xff", []string{events.HeaderSchema, "1"}, "declared length"},
		{"an unknown field in JSON", "debrief.task.main", `{"run_id":"a","qestion":"q"}`, []string{"content-type", asJSON}, `unknown field "qestion"`},
		{"a wrong type in JSON", "debrief.task.main", `{"run_id":7,"question":"q"}`, []string{"Content-Type", asJSON}, "run_id: want a string"},
		{"an empty question in JSON", "debrief.task.main", `{"run_id":"a"}`, []string{"Content-Type", asJSON}, "question: is empty"},
		{"an invalid book", "debrief.task.a+b", `{"run_id":"a","question":"q"}`, []string{"Content-Type", asJSON}, `book "a+b"`},
	} {
		o.send(t, test.subject, test.data, test.headers...)
		m := o.receive(t)
		reason := m.Header.Get(events.HeaderError)
		if !strings.Contains(reason, test.names) {
			t.Errorf("%s: got the error %q, want one that names %s", test.name, reason, test.names)
		}
		if want, _ := json.Marshal(events.ErrorReply{Error: reason}); len(m.Data) > 0 && string(m.Data) != string(want) {
			t.Errorf("%s: got the body %s, want %s", test.name, m.Data, want)
		}
		stored++
		if all := letters(t, c, stored); all[stored-1].Reason != reason || string(all[stored-1].Data) != test.data {
			t.Errorf("%s: got the dead letter %q with %q", test.name, all[stored-1].Reason, all[stored-1].Data)
		}
	}
}

// TestReplySubjectGetsOnlyTheAcknowledgement: the server does not store the reply subject of a message, so a client that
// sets no header gets no error for a message that no worker can decode.
func TestReplySubjectGetsOnlyTheAcknowledgement(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	o := newOutsider(t, c)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	if err := c.nc.PublishRequest("debrief.task.main", o.replies.Subject, []byte(`{"run_id":"a","question":"q"}`)); err != nil {
		t.Fatal(err)
	}
	var ack struct {
		Stream string
		Seq    uint64
	}
	if m := o.receive(t); json.Unmarshal(m.Data, &ack) != nil || ack.Stream != events.StreamTasks || ack.Seq != 1 {
		t.Fatalf("got %s, want the acknowledgement of the stream", m.Data)
	}
	if all := letters(t, c, 1); all[0].Code != events.DeadInvalid {
		t.Errorf("got the dead letter %+v", all[0])
	}
	o.send(t, "debrief.task.main", `{"run_id":"b","question":"q"}`, "Content-Type", "application/json")
	if m := o.receive(t); m.Header.Get(events.HeaderHandle) == "" {
		t.Errorf("got %v %s, want the reply to the next task", m.Header, m.Data)
	}
}

func TestJSONTaskGetsJSONReply(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	o := newOutsider(t, c)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		q := d.Event.(*events.Task)
		switch q.ID {
		case "refused":
			return Result{Err: Discard(errors.New("not today"))}
		case "long":
			r := answer(d)
			r.Events[0].(*events.Execution).Answer = strings.Repeat("a long story ", MaxInline/10)
			return r
		case "large":
			r := answer(d)
			r.Events[0].(*events.Execution).Answer = strings.Repeat("<", MaxInline) // six bytes each in JSON
			return r
		}
		if q.Question != "q" || q.Book != "main" || q.MinVersion != 3 || q.Created.IsZero() {
			t.Errorf("got %+v", q)
		}
		return answer(d)
	})})
	const tail = `,"question":"q","min_version":3,"created":"2026-11-03T13:00:00+01:00"}`
	for _, test := range []struct{ id, answer, failure string }{
		{"a", "42", ""},
		{"a", "42", ""}, // again: the first stored answer counts
		{"long", strings.Repeat("a long story ", MaxInline/10), ""},
		{"large", "", "reply too large: "},
		{"refused", "", "not today"},
	} {
		o.send(t, "debrief.task.main", `{"run_id":"`+test.id+`"`+tail, "Content-Type", "application/json; charset=utf-8")
		m := o.receive(t)
		if m.Header.Get(events.HeaderContentType) != events.ContentTypeJSON || !strings.HasPrefix(m.Header.Get(events.HeaderError), test.failure) {
			t.Errorf("%s: got headers %v, want JSON with error %q", test.id, m.Header, test.failure)
		}
		var e struct {
			events.Execution
			Error string
		}
		if err := json.Unmarshal(m.Data, &e); err != nil || e.Answer != test.answer || !strings.HasPrefix(e.Error, test.failure) {
			t.Errorf("%s: got %d bytes of answer, error %q, %v", test.id, len(e.Answer), e.Error, err)
		}
		if test.failure != "" {
			continue
		}
		if _, is, err := events.Handle(m.Header.Get(events.HeaderHandle)).Parse(); err != nil || !is(e.ID) {
			t.Errorf("%s: got handle %q of execution %s", test.id, m.Header.Get(events.HeaderHandle), e.ID)
		}
	}
}

// TestRedactedJSONTaskCanBeRequeued: the dead letter of a JSON task stays JSON, without the secret and with the reply
// subject.
func TestRedactedJSONTaskCanBeRequeued(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	o := newOutsider(t, c)
	fails := true
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		if fails {
			fails = false
			return Result{Err: Discard(errors.New("not yet"))}
		}
		return answer(d)
	})})
	const secret = "sk-proj-Q7dW2mZk9TxL4vBn8RcYpH3sJf6Ga1Ue"
	o.send(t, "debrief.task.main", `{"run_id":"a","question":"log in with `+secret+`"}`, "Content-Type", "application/json")
	if got := o.receive(t).Header.Get(events.HeaderError); got != "not yet" {
		t.Fatalf("got error %q", got)
	}
	var all []*Letter
	if err := c.DeadLetters.List(t.Context(), LetterFilter{}, func(l *Letter) error { all = append(all, l); return nil }); err != nil || len(all) != 1 {
		t.Fatalf("got %d letters, %v", len(all), err)
	}
	if strings.Contains(string(all[0].Data), secret) || !json.Valid(all[0].Data) {
		t.Errorf("got %s", all[0].Data)
	}
	if _, err := c.DeadLetters.Requeue(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	if m := o.receive(t); m.Header.Get(events.HeaderHandle) == "" {
		t.Errorf("got %v after the requeue", m.Header)
	}
}
