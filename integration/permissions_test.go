package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/natserr"
)

// roleUsers are the users of a tenant, in the order of roleLetters.
var roleUsers = []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator, events.UserGateway, events.UserOperator, events.UserAgent}

const roleLetters = "GRCWOA"

// matrix lists the users that may publish or subscribe to a subject. The body is for requests that reach the server's API.
var matrix = []struct {
	what, subject, body, may string
}{
	{"hand in a task", "debrief.task.m", "", "WO"},
	{"hand in a task of an owner", "debrief.task.m.Vg8mnzK13ZARoCkIqK7pWA", "", "WO"},
	{"hand in a further round", "debrief.round.m._", "", "RWO"},
	{"hand in a further round of an owner", "debrief.round.m.Vg8mnzK13ZARoCkIqK7pWA", "", "RWO"},
	{"store an execution", "debrief.execution.m", "", "GWO"},
	{"store feedback", "debrief.feedback.m", "", "GWO"},
	{"store a reflection", "debrief.reflection.m", "", "RWO"},
	{"ask for an edit", "debrief.edit.m", "", "WO"},
	{"write a delta", "debrief.delta.m", "", "C"},
	{"write a dead letter", "debrief.dead.generator.error.m.x", "", "GO"},
	{"write a record of attempts", "$KV.attempts.generator.1", "", "GO"},
	{"ask the service", "debrief.api.context.m", "", "WOA"},
	{"report to the service", "debrief.api.execution.m", "", "WOA"},
	{"ask the service as an owner", "debrief.api.context.m.Vg8mnzK13ZARoCkIqK7pWA", "", "WO"},
	{"report to the service as an owner", "debrief.api.execution.m.Vg8mnzK13ZARoCkIqK7pWA", "", "WO"},
	{"rate a run as an owner", "debrief.api.feedback.m.Vg8mnzK13ZARoCkIqK7pWA", "", "WO"},
	{"ask the service for what it is", "$SRV.PING", "", "O"},
	{"call the roll", "debrief.health", "", "WO"},
	{"write the playbook's head", "$KV.playbook.m.head", "", "C"},
	{"write a bullet", "$KV.playbook.m.bullet.b", "", "C"},
	{"write a window", "$KV.window.m.s", "", "GRO"},
	{"write a state", "$KV.state.m.s.marks", "", "GRO"},
	{"write the marks of a session", "$KV.state.m.o.s.marks", "", "GRWO"},
	{"write a context", "$KV.contexts.x", "", "GWO"},
	{"write a vector", "$KV.vectors.x", "", "GO"},
	{"write a run", "$KV.runs.x", "", "O"},
	{"write an open run", "$KV.openruns.x", "", "WO"},
	{"write a closed run", "$KV.captures.x", "", "WO"},
	{"write a blob", "$O.blobs.C.x", "", "GRCWO"},
	{"ack for the generator", "$JS.ACK.TASKS.generator.1.1.1.1.0", "", "GO"},
	{"ack for the reflector", "$JS.ACK.EXECUTIONS.reflector.1.1.1.1.0", "", "RO"},
	{"ack for the curator", "$JS.ACK.REFLECTIONS.curator.1.1.1.1.0", "", "CO"},
	{"answer the operator", "_INBOX_operator.x", "", "GRCO"},
	{"announce a version", "debrief.head.m", "", "CO"},
	{"answer the gateway", "_INBOX_gateway.x", "", "GRCW"},
	{"answer an agent", "_INBOX_agent.x", "", ""},
	{"forge the curator's answers", "_INBOX_curator.x", "", ""},
	{"ask the system", "$SYS.REQ.SERVER.PING", "", ""},

	{"pull tasks", "$JS.API.CONSUMER.MSG.NEXT.TASKS.generator", `{"no_wait":true}`, "GO"},
	{"pull executions", "$JS.API.CONSUMER.MSG.NEXT.EXECUTIONS.reflector", `{"no_wait":true}`, "RO"},
	{"pull reflections", "$JS.API.CONSUMER.MSG.NEXT.REFLECTIONS.curator", `{"no_wait":true}`, "CO"},
	{"make a consumer of executions", "$JS.API.CONSUMER.CREATE.EXECUTIONS.x.debrief.execution.*", "{}", "O"},
	{"make a consumer of the playbook", "$JS.API.CONSUMER.CREATE.KV_playbook.x", "{}", "O"},
	{"make a consumer of blobs", "$JS.API.CONSUMER.CREATE.OBJ_blobs.x", "{}", "O"},
	{"make a durable consumer", "$JS.API.CONSUMER.DURABLE.CREATE.TASKS.x", "{}", "O"},
	{"delete a consumer", "$JS.API.CONSUMER.DELETE.EXECUTIONS.x", "", "O"},
	{"list streams", "$JS.API.STREAM.LIST", "", "O"},
	{"name streams", "$JS.API.STREAM.NAMES", "", "O"},
	{"make a stream", "$JS.API.STREAM.CREATE.X", "{}", "O"},
	{"change a stream", "$JS.API.STREAM.UPDATE.DELTAS", "{}", "O"},
	{"delete a stream", "$JS.API.STREAM.DELETE.X", "", "O"},
	{"purge windows", "$JS.API.STREAM.PURGE.KV_window", "", "O"},
	{"take a snapshot", "$JS.API.STREAM.SNAPSHOT.X", "{}", "O"},
	{"send a snapshot back", "$JS.SNAPSHOT.RESTORE.X.x", "", "O"},
	{"see how full the store is", "$JS.API.INFO", "", "GRCWO"},
	{"delete a task", "$JS.API.STREAM.MSG.DELETE.TASKS", `{"seq":1}`, "O"},
	{"delete an execution", "$JS.API.STREAM.MSG.DELETE.EXECUTIONS", `{"seq":99}`, "O"},
	{"delete a dead letter", "$JS.API.STREAM.MSG.DELETE.DEAD", `{"seq":99}`, "WO"},
	{"see what waits for the generator", "$JS.API.STREAM.INFO.TASKS", "", "GRWO"},
	{"see which books there are", "$JS.API.STREAM.INFO.DELTAS", "", "CWO"},
	{"see which runs there are", "$JS.API.STREAM.INFO.KV_runs", "", "WO"},
	{"read tasks", "$JS.API.DIRECT.GET.TASKS", `{"seq":1}`, "GRWO"},
	{"read executions", "$JS.API.DIRECT.GET.EXECUTIONS", `{"seq":1}`, "GRCWO"},
	{"read the log", "$JS.API.DIRECT.GET.DELTAS", `{"seq":1}`, "GRCWO"},
	{"read the end of the log", "$JS.API.STREAM.MSG.GET.DELTAS", `{"seq":1}`, "CWO"},
	{"read the playbook", "$JS.API.DIRECT.GET.KV_playbook.$KV.playbook.m.head", "", "GRCWO"},
	{"read windows", "$JS.API.DIRECT.GET.KV_window", `{"seq":1}`, "GRWO"},
	{"read states", "$JS.API.DIRECT.GET.KV_state.$KV.state.m.s.marks", "", "GRWO"},
	{"read contexts", "$JS.API.DIRECT.GET.KV_contexts", `{"seq":1}`, "GWO"},
	{"read vectors", "$JS.API.DIRECT.GET.KV_vectors", `{"seq":1}`, "GO"},
	{"read runs", "$JS.API.DIRECT.GET.KV_runs", `{"seq":1}`, "WO"},
	{"read dead letters", "$JS.API.DIRECT.GET.DEAD", `{"seq":1}`, "GRCWO"},
	{"read blobs", "$JS.API.DIRECT.GET.OBJ_blobs", `{"seq":1}`, "GRCWO"},

	{"listen to everything", "sub >", "", ""},
	{"listen to all inboxes", "sub _INBOX.>", "", ""},
	{"listen to the generator's inboxes", "sub _INBOX_generator.>", "", "G"},
	{"listen to the curator's inboxes", "sub _INBOX_curator.>", "", "C"},
	{"listen to the operator's inboxes", "sub _INBOX_operator.>", "", "O"},
	{"listen to the gateway's inboxes", "sub _INBOX_gateway.>", "", "W"},
	{"listen to agents' inboxes", "sub _INBOX_agent.>", "", "A"},
	{"listen to deltas", "sub debrief.delta.*", "", ""},
	{"listen to executions", "sub debrief.execution.*", "", ""},
	{"listen to all of the API", "sub $JS.API.>", "", ""},
	{"be the service", "sub debrief.api.*.*", "", "G"},
	{"hear the requests of owners", "sub debrief.api.*.*.*", "", "G"},
	{"answer the roll call", "sub debrief.health", "", "GRCWO"},
	{"hear that a playbook moves", "sub debrief.head.*", "", "GWO"},
	{"hear the view written", "sub $KV.playbook.*.head", "", ""},
}

// TestRights tries each operation of the matrix as each user. A forbidden operation must fail with an error that names the
// subject; an allowed one must reach its receiver. With -v it prints the table.
func TestRights(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := startTLSServer(t, "m")
	s.setUp("m")
	cells := make([][]string, len(matrix))
	for i := range cells {
		cells[i] = make([]string, len(roleUsers))
	}
	users := make([]*nats.Conn, len(roleUsers))
	for u, user := range roleUsers {
		users[u] = s.connect("m", user)
	}
	for i, m := range matrix { // one row after another: a request must not reach a subscription of a later row, which never answers
		var row sync.WaitGroup
		for u, user := range roleUsers {
			row.Go(func() {
				got, err := refusedTo(t.Context(), users[u], m.subject, m.body)
				want := !strings.Contains(m.may, roleLetters[u:u+1])
				if got != want || err != nil {
					t.Errorf("%s, %s (%s): got refused %v, error %v, want refused %v", user, m.what, m.subject, got, err, want)
				}
				if cells[i][u] = "yes"; got {
					cells[i][u] = "refused"
				}
			})
		}
		row.Wait()
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n\t%s\tsubject\n", strings.Join(roleUsers, "\t"))
	for i, m := range matrix {
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.what, strings.Join(cells[i], "\t"), m.subject)
	}
	w.Flush()
	t.Logf("%d cells%s", len(matrix)*len(roleUsers), table.String())
}

// refusedTo reports whether the server denies a user a subject. It returns an error if the denial has the wrong error.
func refusedTo(ctx context.Context, nc *nats.Conn, subject, body string) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	watch := natserr.NewWatch(nc)
	var err error
	listen := strings.HasPrefix(subject, "sub ")
	subject = strings.TrimPrefix(subject, "sub ")
	switch {
	case listen:
		err = unanswered(ctx, nc, watch, subject, func() error {
			_, err := nc.SubscribeSync(subject)
			return err
		})
	case strings.HasPrefix(subject, "$JS.ACK."), strings.HasPrefix(subject, "_INBOX"):
		err = unanswered(ctx, nc, watch, subject, func() error { return nc.Publish(subject, []byte(body)) })
	default:
		_, err = natserr.Call(ctx, watch, subject, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, subject, []byte(body)) })
	}
	refused := (*bus.DeniedError)(nil)
	switch {
	case errors.As(err, &refused) && (refused.Subject != subject || refused.Subscribe != listen || !bus.IsUnavailable(err)):
		return true, fmt.Errorf("wrong error: %w", err)
	case refused == nil && err != nil && !errors.Is(err, nats.ErrNoResponders): // without a receiver, the request was allowed
		return false, err
	}
	return refused != nil, nil
}

// unanswered returns the denial of a request that has no receiver. The request was allowed if the denial of a later, always
// forbidden request comes first.
func unanswered(ctx context.Context, nc *nats.Conn, watch *natserr.Watch, subject string, ask func() error) error {
	certain := nats.NewInbox() // no user may use that prefix
	said := make(chan *natserr.DeniedError, 2)
	defer watch.Notify([]string{subject, certain}, func(e *natserr.DeniedError) { said <- e })()
	if err := ask(); err != nil {
		return err
	}
	if err := nc.Publish(certain, nil); err != nil {
		return err
	}
	select {
	case e := <-said:
		if e.Subject == certain {
			return nil
		}
		return e
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestOnlyOperatorCreatesConsumers checks that no other user may create consumers, because the server delivers to any
// subject without the rights of the creator. The control proves that: with a push consumer the operator makes the server
// publish to an inbox that the operator may not publish to.
func TestOnlyOperatorCreatesConsumers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := startTLSServer(t, "m")
	c := s.setUp("m")
	operator := c.NATS()
	if _, err := c.JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.window.m.s", Data: []byte("a window")}); err != nil {
		t.Fatal(err)
	}
	const deliver = "_INBOX_operator.control"
	heard, err := operator.SubscribeSync(deliver)
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Flush(); err != nil {
		t.Fatal(err)
	}
	push := func(nc *nats.Conn, name string) error {
		watch := natserr.NewWatch(nc)
		subject := "$JS.API.CONSUMER.CREATE.KV_window." + name
		body, err := json.Marshal(map[string]any{"stream_name": "KV_window", "config": map[string]any{
			"name": name, "deliver_subject": deliver, "ack_policy": "none", "deliver_policy": "all",
		}})
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		m, err := natserr.Call(ctx, watch, subject, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, subject, body) })
		if err == nil && strings.Contains(string(m.Data), `"error"`) {
			err = fmt.Errorf("server error: %s", m.Data)
		}
		return err
	}
	for _, user := range roleUsers {
		if user == events.UserOperator {
			continue
		}
		var refused *bus.DeniedError
		if err := push(s.connect("m", user), user); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want a denial", user, err)
		}
	}
	if n, _, err := heard.Pending(); n != 0 || err != nil {
		t.Fatalf("got %d deliveries before the control, error %v, want 0", n, err)
	}
	if err := push(operator, "control"); err != nil {
		t.Fatal(err)
	}
	if m, err := heard.NextMsg(20 * time.Second); err != nil || string(m.Data) != "a window" {
		t.Errorf("control: got %v, error %v: the server now checks rights, update the list of rights", m, err)
	}
}

// TestRefusalIsNotATimeout checks that each kind of call returns a denial at once, without a timeout, and that it makes the
// role unavailable.
func TestRefusalIsNotATimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := startTLSServer(t, "m", "empty")
	s.setUp("m")
	ctx := t.Context()
	open := func(user string) *bus.Conn {
		t.Helper()
		c, err := bus.Open(ctx, s.connect("m", user), bus.Options{Role: user})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	generator, reflector := open(events.RoleGenerator), open(events.RoleReflector)
	note := func(bus.Stored) error { return nil }
	for name, test := range map[string]struct {
		subject string
		call    func() error
	}{
		"publish": {"debrief.execution.m", func() error {
			e := &events.Execution{Book: "m", ID: events.ExecutionID("m", "", "t", 0), RunID: "t", Started: time.Now().UTC()}
			_, err := reflector.Publish(ctx, e, bus.PublishOptions{})
			return err
		}},
		"read": {"$JS.API.DIRECT.GET.REFLECTIONS", func() error { return generator.Events.Scan(ctx, events.StreamReflections, ">", 1, note) }},
		"find": {"$JS.API.DIRECT.GET.REFLECTIONS", func() error {
			_, err := generator.Events.Find(ctx, events.StreamReflections, 1, func(events.ID) bool { return true })
			return err
		}},
		"lag": {"$JS.API.CONSUMER.INFO.REFLECTIONS.curator", func() error {
			_, err := generator.Consumers.Lag(ctx, events.RoleCurator)
			return err
		}},
		"work": {"$JS.API.CONSUMER.INFO.TASKS.generator", func() error {
			return reflector.Run(ctx, bus.Worker{Role: events.RoleGenerator, Handle: func(context.Context, []*bus.Delivery) []bus.Result { return nil }})
		}},
		"a stream that is not there": {"$JS.API.STREAM.CREATE.TASKS", func() error {
			_, err := bus.Open(ctx, s.connect("empty", events.RoleReflector), bus.Options{Role: events.RoleReflector})
			if err != nil && !strings.Contains(err.Error(), "debrief setup") {
				t.Errorf("got %v, want an error with a fix", err)
			}
			return err
		}},
		"another's inbox": {"_INBOX_reflector.", func() error {
			key, err := nats.NkeyOptionFromSeed(s.dir + "/secrets/m/agent.nk")
			if err != nil {
				return err
			}
			nc, err := nats.Connect(s.url, key, nats.RootCAs(s.dir+"/secrets/ca.pem"), nats.CustomInboxPrefix("_INBOX_reflector"))
			if err != nil {
				return err
			}
			defer nc.Close()
			_, err = bus.Open(ctx, nc, bus.Options{Role: events.RoleReflector})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.call()
			var refused *bus.DeniedError
			if !errors.As(err, &refused) || !strings.HasPrefix(refused.Subject, test.subject) || !bus.IsUnavailable(err) {
				t.Errorf("got %v, want a denial of %s", err, test.subject)
			}
		})
	}
}

// TestForgedAckHasNoEffect acknowledges a delivery as other users, which must fail, and as its role, which must succeed.
func TestForgedAckHasNoEffect(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := startTLSServer(t, "m")
	c := s.setUp("m")
	task := &events.Task{Book: "m", ID: "t", Question: "how many", Created: time.Now().UTC()}
	if _, err := c.Publish(t.Context(), task, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(s.connect("m", events.RoleGenerator))
	if err != nil {
		t.Fatal(err)
	}
	cons, err := js.Consumer(t.Context(), events.StreamTasks, events.RoleGenerator)
	if err != nil {
		t.Fatal(err)
	}
	m, err := cons.Next(jetstream.FetchMaxWait(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	pending := func() int {
		t.Helper()
		l, err := c.Consumers.Lag(t.Context(), events.RoleGenerator)
		if err != nil {
			t.Fatal(err)
		}
		return l.InFlight
	}
	for _, user := range []string{events.RoleReflector, events.RoleCurator, events.UserAgent} {
		if refused, err := refusedTo(t.Context(), s.connect("m", user), m.Reply(), "+ACK"); !refused || err != nil {
			t.Errorf("%s acks: got refused %v, error %v", user, refused, err)
		}
	}
	if n := pending(); n != 1 {
		t.Errorf("after forged acks: got %d in flight, want 1", n)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pending(); n != 0 {
		t.Errorf("after the role's ack: got %d in flight, want 0", n)
	}
}
