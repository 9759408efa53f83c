package integration

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
)

// TestPoisonMessagesBlockNoOthers publishes an execution that cannot be decoded, one that crashes its reflector, and in the
// long form one with only unusable model answers, whose backoff takes longer. They must become dead letters, while all other
// executions are reflected on without delay.
func TestPoisonMessagesBlockNoOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, at := startServer(t)
	sane := startModel(t, 0)
	const hopeless, deadly = "Invoice 10003,", "Invoice 10007,"
	var reflector *process
	killed := &fault{name: "an execution that crashes its reflector", promise: "a dead letter after 5 attempts; all others applied once"}
	next := proxyTo(t, sane)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client disconnected
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case bytes.Contains(body, []byte(hopeless)) && os.Getenv(longEnv) != "":
			useless.answer(w, r)
		case bytes.Contains(body, []byte(deadly)):
			reflector.kill()
			killed.hit()
			if err := reflector.start(); err != nil {
				t.Error(err)
			}
		default:
			next.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { model.CloseClientConnections(); model.Close() })
	wait := []string{"--nats", at, "--ack-wait", ackWait.String(), "--model", "simulated-invoice-desk", "--base-url"}
	startWorker(t, "generator", events.RoleGenerator, append(wait, sane)...)
	startWorker(t, "curator", events.RoleCurator, append(wait, sane)...)
	// One slot: a message that is handled beside a poison message shares its crashes, and can also become a dead letter.
	reflector = startWorker(t, "reflector", events.RoleReflector, append(wait, model.URL+"/v1", "--reflector-slots=1")...)
	conn := connect(t, at)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	tasks, quiet, handedIn := invoices(rand.New(rand.NewPCG(1, 0)), 5000), make(chan struct{}), make(chan int)
	if _, err := conn.JetStream().PublishMsg(ctx, &nats.Msg{Subject: events.KindExecution.Subject(desk), Header: events.SchemaHeader(), Data: []byte{0xc1}}); err != nil {
		t.Fatal(err)
	}
	go func() { handedIn <- outage{pace: 50 * time.Millisecond}.load(t, ctx, conn, tasks, quiet) }()
	began := time.Now()
	poison := 2
	if os.Getenv(longEnv) != "" {
		poison = 3
	}
	var learned []uint64 // deltas at each letter
	eventually(t, time.Minute, "dead letters", func() error {
		n, err := lastStored(ctx, conn, events.StreamDead)
		if err != nil {
			return err
		}
		if int(n) > len(learned) {
			deltas, err := lastStored(ctx, conn, events.StreamDeltas)
			if err != nil {
				return err
			}
			learned = append(learned, deltas)
			t.Logf("dead letter %d after %s, %d deltas stored", n, time.Since(began).Round(time.Millisecond), deltas)
		}
		if len(learned) < poison {
			return context.DeadlineExceeded
		}
		return nil
	})
	killed.recovered(time.Since(began))
	close(quiet)
	tasks = tasks[:<-handedIn]
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, desk)
	if learned[poison-1] <= learned[0] {
		t.Errorf("%d deltas at the first letter and %d at the last: other executions waited", learned[0], learned[poison-1])
	}
	l, err := readLedger(ctx, conn.JetStream(), desk)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		l.tasks = append(l.tasks, task.ID)
	}
	for i, m := range l.executions { // remove the undecodable one
		if len(m.data) == 1 {
			l.executions = append(l.executions[:i:i], l.executions[i+1:]...)
			break
		}
	}
	a := l.check()
	for _, p := range a.problems {
		t.Error(p)
	}
	for _, letter := range a.letters {
		t.Log(letter)
	}
	if len(a.letters) != poison {
		t.Errorf("got %d dead letters, want %d", len(a.letters), poison)
	}
	killed.lost = a.lost()
	killed.report(t)
}
