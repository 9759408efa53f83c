package erasure_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/direct"
	"debrief/events/erasure"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

var erasedAt = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) (*bus.Conn, *erasure.Store) {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{})
	return conn, erasure.NewStore(conn.JetStream())
}

func add(t *testing.T, s *erasure.Store, r erasure.Request) erasure.Request {
	t.Helper()
	r.ID, r.Created = events.NewID(), erasedAt
	if err := s.Add(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFilter(t *testing.T) {
	t.Parallel()
	const owner, other = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"
	before, after := erasedAt.Add(-time.Minute), erasedAt.Add(time.Minute)
	execution := func(e events.Execution) *events.Execution {
		e.RunID = "1"
		e.ID = events.ExecutionID(e.Book, e.Owner, e.RunID, 0)
		return &e
	}
	for _, test := range []struct {
		name    string
		request erasure.Request
		event   events.Event
		erased  bool
	}{
		{"run of the user", erasure.Request{User: "ann"}, execution(events.Execution{Book: "b", User: "ann", Started: before}), true},
		{"run of the user without a time", erasure.Request{User: "ann"}, execution(events.Execution{Book: "b", User: "ann"}), true},
		{"later run of the user", erasure.Request{User: "ann"}, execution(events.Execution{Book: "b", User: "ann", Started: after}), false},
		{"run of another user", erasure.Request{User: "ann"}, execution(events.Execution{Book: "b", User: "anna", Started: before}), false},
		{"session with the name of the user", erasure.Request{User: "ann"}, execution(events.Execution{Book: "b", Session: "ann", Started: before}), false},
		{"user in the playbook", erasure.Request{User: "ann", Book: "b"}, execution(events.Execution{Book: "b", User: "ann", Started: before}), true},
		{"user in another playbook", erasure.Request{User: "ann", Book: "c"}, execution(events.Execution{Book: "b", User: "ann", Started: before}), false},
		{"task of the user", erasure.Request{User: "ann"}, &events.Task{Book: "b", ID: "1", User: "ann", Created: before}, true},
		{"reflection on the user", erasure.Request{User: "ann"}, &events.Reflection{Book: "b", User: "ann", Created: before}, true},
		{"session of any owner", erasure.Request{Session: "s"}, execution(events.Execution{Book: "b", Owner: owner, Session: "s", Started: before}), true},
		{"session of the owner", erasure.Request{Session: "s", Owner: owner}, execution(events.Execution{Book: "b", Owner: owner, Session: "s", Started: before}), true},
		{"session of another owner", erasure.Request{Session: "s", Owner: other}, execution(events.Execution{Book: "b", Owner: owner, Session: "s", Started: before}), false},
		{"feedback on the execution", erasure.Request{Execution: "1-ab12cd34", Book: "b"}, &events.Feedback{Book: "b", Execution: "1-ab12cd34", Created: after}, true},
		{"feedback on another execution", erasure.Request{Execution: "1-ab12cd34", Book: "b"}, &events.Feedback{Book: "b", Execution: "1-ab12cd35"}, false},
		{"reflection on the execution", erasure.Request{Execution: "1-ab12cd34", Book: "b"}, &events.Reflection{Book: "b", Handle: "1-ab12cd34"}, true},
		{"playbook", erasure.Request{Book: "b"}, &events.Task{Book: "b", ID: "1", Created: before}, true},
		{"playbook, later", erasure.Request{Book: "b"}, &events.Task{Book: "b", ID: "1", Created: after}, false},
		{"another playbook", erasure.Request{Book: "c"}, &events.Task{Book: "b", ID: "1", Created: before}, false},
		{"edit", erasure.Request{Book: "b"}, &events.Edit{Book: "b"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, store := open(t)
			add(t, store, test.request)
			err := erasure.NewFilter(conn.JetStream()).Check(t.Context(), test.event)
			if errors.Is(err, erasure.ErrErased) != test.erased || err != nil && !test.erased {
				t.Errorf("got %v, want erased %t", err, test.erased)
			}
		})
	}
}

// TestErasedRunsStayOut checks that a run that was erased is recognised by its id, whenever it is sent again.
func TestErasedRunsStayOut(t *testing.T) {
	t.Parallel()
	conn, store := open(t)
	r := add(t, store, erasure.Request{User: "ann"})
	task := &events.Task{Book: "b", ID: "1", Created: erasedAt.Add(time.Hour)}
	filter := erasure.NewFilter(conn.JetStream())
	if err := filter.Check(t.Context(), task); err != nil {
		t.Fatalf("before its id is known: got %v, want no error", err)
	}
	run := string(events.ExecutionID("b", "", "1", 0))
	for range 2 {
		if err := store.AddRuns(t.Context(), r.ID, []string{run}); err != nil {
			t.Fatal(err)
		}
	}
	if err := filter.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := filter.Check(t.Context(), task); !errors.Is(err, erasure.ErrErased) {
		t.Errorf("got %v, want %v", err, erasure.ErrErased)
	}
	task.ID = "2"
	if err := filter.Check(t.Context(), task); err != nil {
		t.Errorf("another run: got %v, want no error", err)
	}
}

// TestTombstonesHaveNoNames reads every message of the bucket but the request.
func TestTombstonesHaveNoNames(t *testing.T) {
	t.Parallel()
	conn, store := open(t)
	r := add(t, store, erasure.Request{User: "ann-canary"})
	if err := store.AddRuns(t.Context(), r.ID, []string{"run-canary"}); err != nil {
		t.Fatal(err)
	}
	requests := 0
	read(t, conn, func(m direct.Message) {
		hasName := bytes.Contains(m.Data, []byte("canary"))
		isRequest := m.Subject == "$KV.erasures."+string(r.ID)+".request"
		if isRequest && hasName {
			requests++
		} else if hasName {
			t.Errorf("%s: got a name in %q", m.Subject, m.Data)
		}
	})
	if requests != 1 {
		t.Errorf("got %d requests with a name, want 1", requests)
	}
}

// TestWithoutBucket checks that a server without the bucket has erased nothing.
func TestWithoutBucket(t *testing.T) {
	t.Parallel()
	conn, _ := open(t)
	if err := conn.JetStream().DeleteStream(t.Context(), erasure.Stream); err != nil {
		t.Fatal(err)
	}
	filter := erasure.NewFilter(conn.JetStream())
	if err := filter.Check(t.Context(), &events.Task{Book: "b", ID: "1", User: "ann"}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// refusingJetStream refuses every publish with an error that does not go away.
type refusingJetStream struct{ jetstream.JetStream }

var errStreamSealed = &jetstream.APIError{Code: 400, ErrorCode: 10109, Description: "invalid operation on sealed stream"}

func (refusingJetStream) PublishMsg(context.Context, *nats.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return nil, errStreamSealed
}

// plainServer returns a connection to a server without JetStream. The user may not publish the denied subjects.
func plainServer(t *testing.T, denied ...string) *nats.Conn {
	t.Helper()
	user := &server.User{Username: "u", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: denied}}}
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, Users: []*server.User{user}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserInfo(user.Username, user.Password))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// TestBucketWithoutLeader checks that a bucket without a leader is not taken for a missing one, although a reader gets the same error.
func TestBucketWithoutLeader(t *testing.T) {
	t.Parallel()
	nc := plainServer(t)
	if _, err := nc.Subscribe("$JS.API.STREAM.INFO."+erasure.Stream, func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`))
	}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	err = erasure.NewFilter(js).Check(t.Context(), &events.Task{Book: "b", ID: "1"})
	if err == nil || !bus.IsUnavailable(err) {
		t.Errorf("filter: got %v, want an error that holds the message", err)
	}
	store := erasure.NewStore(js)
	if err := store.MarkRestored(t.Context()); err == nil {
		t.Error("mark a restore: got no error, but nothing is marked")
	}
	if _, err := store.Gaps(t.Context()); err == nil {
		t.Error("gaps: got no error")
	}
}

// TestBucketThatCannotBeAskedFor checks that work waits if the user lacks the right to ask whether the bucket exists: it may have no leader.
func TestBucketThatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	conn, err := bus.Attach(plainServer(t, "$JS.API.STREAM.INFO.>"), bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = erasure.NewFilter(conn.JetStream()).Check(t.Context(), &events.Task{Book: "b", ID: "1"})
	if err == nil || !bus.IsUnavailable(err) {
		t.Errorf("got %v, want an error that holds the message", err)
	}
}

// TestFilterOfASilentServer checks that callers do not wait for the server one after another, nor longer than their contexts.
func TestFilterOfASilentServer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the timeout of a read of 5 s: run without -short")
	}
	nc := plainServer(t)
	asked := make(chan struct{}, 100)
	if _, err := nc.Subscribe("$JS.API.DIRECT.GET.>", func(*nats.Msg) { asked <- struct{}{} }); err != nil { // the responder does not answer
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	filter := erasure.NewFilter(js)
	began := time.Now()
	var callers sync.WaitGroup
	for range 5 {
		callers.Go(func() {
			if err := filter.Check(t.Context(), &events.Task{Book: "b", ID: "1"}); !errors.Is(err, nats.ErrTimeout) {
				t.Errorf("got %v, want the timeout of the server", err)
			}
		})
	}
	<-asked // one of them reads
	hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := filter.Check(hurried, &events.Task{Book: "b", ID: "2"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 4*time.Second {
		t.Errorf("a caller with a short timeout: got %v after %v", err, time.Since(began))
	}
	callers.Wait()
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("five callers: got an answer after %v, want it after one timeout of 5 s", took)
	}
}

// TestLaterErasureOfABook checks that the latest tombstone of a playbook applies, also if an earlier one changes after it.
func TestLaterErasureOfABook(t *testing.T) {
	t.Parallel()
	conn, store := open(t)
	first := add(t, store, erasure.Request{Book: "b"})
	second := erasure.Request{ID: events.NewID(), Book: "b", Created: erasedAt.Add(time.Hour)}
	if err := store.Add(t.Context(), &second); err != nil {
		t.Fatal(err)
	}
	if err := store.Update(t.Context(), first.ID, func(s *erasure.Tombstone) { s.Done = second.Created }); err != nil {
		t.Fatal(err)
	}
	filter := erasure.NewFilter(conn.JetStream())
	if err := filter.Check(t.Context(), &events.Task{Book: "b", ID: "1", Created: erasedAt.Add(time.Minute)}); !errors.Is(err, erasure.ErrErased) {
		t.Errorf("a run between the erasures: got %v, want %v", err, erasure.ErrErased)
	}
}

// TestUnreadableTombstone checks that work waits for a tombstone of a newer release, and is neither done nor given up.
func TestUnreadableTombstone(t *testing.T) {
	t.Parallel()
	conn, _ := open(t)
	newer := &nats.Msg{Subject: "$KV.erasures.x", Header: nats.Header{events.HeaderSchema: {strconv.Itoa(events.Schema + 1)}}, Data: []byte{0x80}}
	if _, err := conn.JetStream().PublishMsg(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	filter := erasure.NewFilter(conn.JetStream())
	check := func() error { return filter.Check(t.Context(), &events.Task{Book: "b", ID: "1"}) }
	first := check()
	_ = filter.Refresh(t.Context()) // as FilterAge later
	for _, err := range []error{first, check()} {
		if err == nil || !bus.IsUnavailable(err) || errors.Is(err, events.ErrNewerSchema) {
			t.Errorf("got %v, want an error that holds the message, which is not of a newer release", err)
		}
	}
	if err := conn.JetStream().DeleteStream(t.Context(), erasure.Stream); err != nil {
		t.Fatal(err)
	}
	if err := filter.Refresh(t.Context()); err != nil {
		t.Errorf("without the tombstone: got %v", err)
	}
}

// TestFilterAfterDataLoss checks that a new tombstone applies after a crash in which the server lost the last ones.
func TestFilterAfterDataLoss(t *testing.T) {
	t.Parallel()
	conn, store := open(t)
	add(t, store, erasure.Request{User: "ann"})
	filter := erasure.NewFilter(conn.JetStream())
	if err := filter.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream, err := conn.JetStream().Stream(t.Context(), erasure.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.JetStream().DeleteStream(t.Context(), erasure.Stream); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.JetStream().CreateStream(t.Context(), stream.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	reconnected := conn.NATS().StatusChanged(nats.CONNECTED)
	if err := conn.NATS().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	<-reconnected
	add(t, store, erasure.Request{Book: "b"})
	if err := filter.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := filter.Check(t.Context(), &events.Task{Book: "b", ID: "1", Created: erasedAt.Add(-time.Minute)}); !errors.Is(err, erasure.ErrErased) {
		t.Errorf("got %v, want %v", err, erasure.ErrErased)
	}
}

func TestAddReturnsRefusal(t *testing.T) {
	t.Parallel()
	conn, _ := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	store := erasure.NewStore(refusingJetStream{conn.JetStream()})
	if err := store.Add(ctx, &erasure.Request{ID: events.NewID(), User: "ann", Created: erasedAt}); !errors.Is(err, errStreamSealed) {
		t.Errorf("got %v, want the error of the server", err)
	}
}

func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]erasure.Request{
		"user, session, execution, book: one is required":       {},
		"user, session, execution: only one of them can be set": {User: "a", Session: "b"},
		"book: is required with execution":                      {Execution: "1-ab12cd34"},
		"owner: is only for a session":                          {User: "a", Owner: "x"},
	} {
		if err := r.Validate(); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", r, err, want)
		}
	}
}

func read(t *testing.T, conn *bus.Conn, fn func(direct.Message)) {
	t.Helper()
	err := direct.Read(context.WithoutCancel(t.Context()), conn.NATS(), erasure.Stream, direct.Query{Subject: ">"}, func(m direct.Message) error {
		fn(m)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
