package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
)

// TestExhaustedMessagesSurviveServerKill uses up all delivery attempts of many reflections. It kills the server, which
// flushes every write, shortly after the next pull, and then a curator that handles them. Each reflection must end with
// either an effect or one dead letter. The long form has 20 rounds of 1,200, and kills up to 1.5 s after the pull:
//
//	DEBRIEF_LONG=1 go test ./integration -run ExhaustedMessages -v -timeout 30m
func TestExhaustedMessagesSurviveServerKill(t *testing.T) {
	t.Parallel()
	rounds, n, latest := 2, 400, 100*time.Millisecond
	if os.Getenv(longEnv) != "" {
		rounds, n, latest = 20, 1200, 1500*time.Millisecond
	}
	rng := rand.New(rand.NewPCG(chooseSeed(t), 3))
	server, url := startServerIn(t, t.TempDir(), "always")
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	curator := startWorker(t, "curator", events.RoleCurator, "--nats", url, "--ack-wait", ackWait.String())
	h := newExpectedBook(t, ctx, conn, "exhausted")
	awaitSettled(t, ctx, conn)
	curator.kill()

	effects, dead, began := 0, 0, time.Now()
	for round := range rounds {
		ids := map[events.ID]bool{}
		for range n {
			r := h.newReflection()
			r.Tags = []events.BulletTag{{ID: h.seeds[rng.IntN(len(h.seeds))], Tag: events.Helpful}}
			if _, err := conn.Publish(ctx, r, bus.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
			ids[r.ID] = true
		}
		lost := exhaust(t, ctx, conn, n)
		wait := 20*time.Millisecond + rand.N(latest-20*time.Millisecond)
		pulled := pullOnce(t, url)
		pause(ctx, wait)
		server.kill()
		pulled()
		if err := server.start(); err != nil {
			t.Fatal(err)
		}
		server.line()
		if err := curator.start(); err != nil {
			t.Fatal(err)
		}
		pause(ctx, ackWait+rand.N(500*time.Millisecond))
		curator.kill()
		if err := curator.start(); err != nil {
			t.Fatal(err)
		}
		awaitSettled(t, ctx, conn)
		curator.kill()
		some, letters := countOutcomes(t, ctx, conn, h, ids)
		effects, dead = effects+some, dead+letters
		t.Logf("round %d: %d lost deliveries, server killed %s after the next pull: %d effects, %d dead letters of %d",
			round+1, lost, wait.Round(time.Millisecond), some, letters, n)
	}
	t.Logf("EXHAUSTED | %d rounds of %d | %d effects | %d dead letters | %d lost | %s |", rounds, n, effects, dead, rounds*n-effects-dead, time.Since(began).Round(time.Second))
	if dead == 0 {
		t.Error("no message ran out of attempts")
	}
}

// exhaust takes each message of the curator five times without an ack, as a worker that dies. It returns the number of
// deliveries.
func exhaust(t *testing.T, ctx context.Context, conn *bus.Conn, n int) (deliveries int) {
	t.Helper()
	const attempts = 5
	cons, err := conn.JetStream().Consumer(ctx, events.StreamReflections, events.RoleCurator)
	if err != nil {
		t.Fatal(err)
	}
	last := map[uint64]jetstream.Msg{} // by sequence: the delivery that ends the last attempt
	// The last attempts are in a group and alone, and the worker stores that before they start.
	const record = `{"id":%q,"delivered":5,"attempts":5,"grouped":4}`
	for len(last) < n {
		batch, err := cons.Fetch(min(n, 256), jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			md, err := m.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			deliveries++
			if md.NumDelivered >= attempts {
				last[md.Sequence.Stream] = m
			} else if err := m.Nak(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for seq, m := range last {
		subject := fmt.Sprintf("$KV.%s.%s.%d", events.BucketAttempts, events.RoleCurator, seq)
		if _, err := conn.JetStream().Publish(ctx, subject, fmt.Appendf(nil, record, m.Headers().Get(nats.MsgIdHdr))); err != nil {
			t.Fatal(err)
		}
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	return deliveries
}

// pullOnce pulls on a separate connection, which ends with the server.
func pullOnce(t *testing.T, url string) (ended func()) {
	t.Helper()
	nc, err := nats.Connect(url, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	next := "$JS.API.CONSUMER.MSG.NEXT." + events.StreamReflections + "." + events.RoleCurator
	if err := nc.PublishRequest(next, nc.NewInbox(), []byte(`{"batch":256,"expires":5000000000}`)); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(nc.Close)
}

// countOutcomes counts, in the streams, the reflections with an effect and those with a dead letter. A reflection with
// neither, both or two of one is an error.
func countOutcomes(t *testing.T, ctx context.Context, conn *bus.Conn, h *expectedBook, ids map[events.ID]bool) (effects, dead int) {
	t.Helper()
	covered, buried := map[events.ID]int{}, map[events.ID]int{}
	log, err := readAll(ctx, conn.JetStream(), events.StreamDeltas, events.KindDelta.Subject(h.book))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range log {
		d, err := events.DecodeDelta(m.data)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range d.Covers {
			covered[events.ID(c.ID)]++
		}
	}
	letters, err := readAll(ctx, conn.JetStream(), events.StreamDead, events.DeadSubject(events.RoleCurator, h.book))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range letters {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			t.Fatal(err)
		}
		l := e.(*events.DeadLetter)
		id := bus.EventID(l.Header)
		if buried[id]++; ids[id] && l.Code != events.DeadAttempts {
			t.Errorf("%s has a letter with code %s: %s", id, l.Code, l.Reason)
		}
	}
	var problems []string
	for id := range ids {
		effects, dead = effects+min(covered[id], 1), dead+min(buried[id], 1)
		if covered[id]+buried[id] != 1 {
			problems = append(problems, fmt.Sprintf("%s has %d effects and %d dead letters", id, covered[id], buried[id]))
		}
	}
	for i, p := range problems {
		if t.Error(p); i == 9 {
			t.Errorf("%d more problems", len(problems)-10)
			break
		}
	}
	return effects, dead
}
