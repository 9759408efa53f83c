package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// openAI serves the OpenAI API. reply returns the text of an answer to a request body.
func openAI(t testing.TB, reply func(ctx context.Context, request string) string) (baseURL string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client disconnected
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "1", "object": "chat.completion", "model": "scripted",
			"choices": []any{map[string]any{
				"index": 0, "finish_reason": "stop",
				"message": map[string]string{"role": "assistant", "content": reply(r.Context(), string(body))},
			}},
		})
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/v1"
}

// noOperations is a curator's answer without operations.
const noOperations = `{"reasoning": "the playbook says that", "operations": []}`

// TestSlowBookDelaysNoOtherBook checks that reflections of other books, with and without a model call, are covered during a
// slow model call for one book. The model answers that call only after they are covered.
func TestSlowBookDelaysNoOtherBook(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	slow, others, each := 5*time.Second, 5, 60
	if os.Getenv(longEnv) != "" {
		slow = time.Minute
	}
	const patience = 2 * time.Minute // for the other books, on a busy machine
	const marker = "a lesson that takes long"
	asked, release := make(chan time.Time, 10), make(chan struct{})
	model := openAI(t, func(ctx context.Context, request string) string {
		if strings.Contains(request, marker) {
			asked <- time.Now()
			pause(ctx, slow)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return noOperations
	})
	_, url := startServer(t)
	startWorker(t, "curator", events.RoleCurator, "--nats", url, "--ack-wait", ackWait.String(),
		"--model", "scripted", "--base-url", model, "--timeout", (slow + patience).String())
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), slow+patience)
	defer cancel()

	var books []*expectedBook
	for i := range others {
		books = append(books, newExpectedBook(t, ctx, conn, playbook.Book(fmt.Sprint("quick", i))))
	}
	held := newExpectedBook(t, ctx, conn, "slow")
	teach(t, ctx, conn, held, marker)
	began := <-asked
	var published []events.ID
	for n := range others * each {
		h := books[n%others]
		if n/others%2 == 0 {
			published = append(published, teach(t, ctx, conn, h, fmt.Sprint("lesson ", n)))
			continue
		}
		r := h.newReflection()
		r.Tags = []events.BulletTag{{ID: h.seeds[0], Tag: events.Helpful}}
		if err := h.publish(ctx, conn, r); err != nil {
			t.Fatal(err)
		}
		published = append(published, coveredID(r))
	}
	handedIn := time.Since(began)
	last := covered(t, ctx, conn, published).Sub(began)
	if settled(ctx, conn) == nil {
		t.Error("the curator is idle before the answer for the slow book, want its reflection in work")
	}
	close(release)
	awaitSettled(t, ctx, conn)
	t.Logf("a model call of at least %s for one book; %d reflections on %d other books were published %s and covered %s after its start",
		slow, len(published), others, handedIn.Round(time.Millisecond), last.Round(time.Millisecond))
	for _, h := range append(books, held) {
		l, err := h.ledger(ctx, conn)
		if err != nil {
			t.Fatal(err)
		}
		awaitView(t, ctx, conn, h.book)
		a := l.check()
		for _, p := range append(a.problems, a.letters...) {
			t.Errorf("%s: %s", h.book, p)
		}
	}
}

// teach publishes a reflection with an insight.
func teach(t *testing.T, ctx context.Context, conn *bus.Conn, h *expectedBook, lesson string) events.ID {
	t.Helper()
	r := h.newReflection()
	r.Lessons = []events.Lesson{{Section: "desk", Content: lesson}}
	if err := h.publish(ctx, conn, r); err != nil {
		t.Fatal(err)
	}
	return coveredID(r)
}

// covered waits until deltas cover all ids, and returns the server's timestamp of the last delta. Server and test use the same
// clock.
func covered(t *testing.T, ctx context.Context, conn *bus.Conn, ids []events.ID) (last time.Time) {
	t.Helper()
	cons, err := conn.JetStream().OrderedConsumer(ctx, events.StreamDeltas, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	it, err := cons.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	left := map[events.ID]bool{}
	for _, id := range ids {
		left[id] = true
	}
	for len(left) > 0 {
		m, err := it.Next()
		if err != nil {
			t.Fatalf("%d of %d are not covered: %v", len(left), len(ids), err)
		}
		d, err := events.DecodeDelta(m.Data())
		if err != nil {
			t.Fatal(err)
		}
		md, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(d.Covers, func(c playbook.Cover) bool { return left[events.ID(c.ID)] }) {
			last = md.Timestamp
		}
		for _, c := range d.Covers {
			delete(left, events.ID(c.ID))
		}
	}
	return last
}
