package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// expectedBook is the expected state of a book. It is computed only from the published events, without the log and the
// Curator's code. Each event counts once, however often it was published.
type expectedBook struct {
	book  playbook.Book
	seeds []playbook.BulletID // receive votes

	mu        sync.Mutex
	published []events.Event   // distinct
	votes     map[string]tally // by content
	contents  map[string]bool  // each must be in the book once
	seed      map[playbook.BulletID]string
	again     int            // events published again with another sequence
	gone      []events.Event // events lost with the end of the log
}

const seedBullets = 12

// newExpectedBook adds some bullets, which receive the votes, to a new book with an edit. It needs a running curator.
func newExpectedBook(t *testing.T, ctx context.Context, conn *bus.Conn, book playbook.Book) *expectedBook {
	t.Helper()
	h := &expectedBook{book: book, seed: map[playbook.BulletID]string{}}
	h.recount(nil)
	e := h.newEdit()
	for i := range seedBullets {
		e.Ops = append(e.Ops, playbook.Op{Kind: playbook.Add, Section: "tax", Content: fmt.Sprintf("For region %d the region tax is %d %%.", i, 5+i)})
	}
	if _, err := conn.Request(ctx, e, bus.PublishOptions{}); err != nil {
		t.Fatalf("seed book %s: %v", book, err)
	}
	h.count(e)
	log, err := readAll(ctx, conn.JetStream(), events.StreamDeltas, events.KindDelta.Subject(book))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range fold(t, log).Sorted() {
		h.seeds = append(h.seeds, b.ID)
		h.seed[b.ID] = b.Content
	}
	if len(h.seeds) != seedBullets {
		t.Fatalf("book %s has %d bullets, want %d", book, len(h.seeds), seedBullets)
	}
	return h
}

func (h *expectedBook) newEdit() *events.Edit {
	e := &events.Edit{Book: h.book, ID: events.NewID(), Author: "operator", Reason: "test", Created: time.Now().UTC()}
	return e
}

// largeEdit returns an edit that takes three deltas.
func (h *expectedBook) largeEdit() *events.Edit {
	e := h.newEdit()
	e.Ops = longAdditions(string(e.ID))
	return e
}

// longAdditions returns additions that are too large for one delta: their contents have 240 KiB and are unique to name.
// The bullets are retired, so that they do not count in the token budget.
func longAdditions(name string) []playbook.Op {
	ops := make([]playbook.Op, 4)
	for i := range ops {
		sentence := fmt.Sprintf("This is line %d of file %s. ", i, name)
		content := strings.TrimSpace(strings.Repeat(sentence, 60<<10/len(sentence)))
		ops[i] = playbook.Op{Kind: playbook.Add, Section: "imported", Content: content, Status: playbook.Retired}
	}
	return ops
}

// newReflection returns a reflection without content.
func (h *expectedBook) newReflection() *events.Reflection {
	id := events.NewID()
	r := &events.Reflection{Book: h.book, ID: id, Execution: id, Handle: events.NewHandle(1, id), Reflector: "test", Model: "m", Created: time.Now().UTC()}
	return r
}

// next returns a random event for the book: mostly votes, some insights, and a few edits.
func (h *expectedBook) next(rng *rand.Rand) events.Event {
	n := len(h.published)
	if n%97 == 96 {
		e := h.newEdit()
		e.Ops = []playbook.Op{{Kind: playbook.Add, Section: "desk", Content: fmt.Sprintf("Person %d wants the stamp on top.", n)}}
		return e
	}
	r := h.newReflection()
	vote := func() events.Vote { return []events.Vote{events.Helpful, events.Harmful, events.Neutral}[rng.IntN(3)] }
	for _, i := range rng.Perm(len(h.seeds))[:1+rng.IntN(3)] {
		r.Tags = append(r.Tags, events.BulletTag{ID: h.seeds[i], Tag: vote()})
	}
	if n%10 == 3 { // two successive reflections have the same insight
		r.Lessons = []events.Lesson{{Section: "customers", Content: fmt.Sprintf("Customer %d pays in instalments.", n/20)}}
	}
	return r
}

// publish publishes an event until the server confirms it, and then counts it.
func (h *expectedBook) publish(ctx context.Context, conn *bus.Conn, e events.Event) error {
	marks := bus.PublishOptions{}
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := conn.Publish(try, e, marks)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("publish to book %s: %w", h.book, err)
		}
		marks.Repeat = true // it may be stored
		pause(ctx, 50*time.Millisecond)
	}
	h.count(e)
	return nil
}

// count adds the effect of an event.
func (h *expectedBook) count(e events.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.published = append(h.published, e)
	switch e := e.(type) {
	case *events.Edit:
		for _, op := range e.Ops {
			h.contents[op.Content] = true
		}
	case *events.Reflection:
		for _, tag := range e.Tags {
			c := h.votes[h.seed[tag.ID]]
			c.add(tag.Tag)
			h.votes[h.seed[tag.ID]] = c
		}
		for _, l := range e.Lessons {
			h.contents[l.Content] = true
		}
	}
}

// recount recomputes the state from these events only.
func (h *expectedBook) recount(kept []events.Event) {
	h.published, h.votes, h.contents = nil, map[string]tally{}, map[string]bool{}
	for _, e := range kept {
		h.count(e)
	}
}

// repeat publishes an event again, marked as a possible duplicate.
func (h *expectedBook) repeat(ctx context.Context, conn *bus.Conn, e events.Event) error {
	subject, header, data, err := events.Encode(e)
	if err != nil {
		return err
	}
	if err := publishAgain(ctx, conn, subject, header, data); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.again++
	return nil
}

// publishAgain stores a message again, without Nats-Msg-Id. With it the server would drop the message within its duplicate
// window of two minutes, and a requeue usually comes later.
func publishAgain(ctx context.Context, conn *bus.Conn, subject string, header nats.Header, data []byte) error {
	m := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data}
	for k, v := range header {
		if k != nats.MsgIdHdr {
			m.Header[k] = v
		}
	}
	m.Header[events.HeaderRepeat] = []string{"1"}
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := conn.JetStream().PublishMsg(try, m)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, 50*time.Millisecond) // a third copy would do no harm
	}
}

// ledger reads the messages of the book from the streams. It takes the published events from memory, because REFLECTIONS may
// have been purged.
func (h *expectedBook) ledger(ctx context.Context, conn *bus.Conn) (*ledger, error) {
	l, err := readOutcome(ctx, conn.JetStream(), h.book)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.published {
		subject, header, data, err := events.Encode(e)
		if err != nil {
			return nil, err
		}
		m := message{subject: subject, header: nats.Header(header), data: data}
		if e.Kind() == events.KindEdit {
			l.edits = append(l.edits, m)
		} else {
			l.reflections = append(l.reflections, m)
		}
	}
	return l, nil
}

// check compares the folded log with the expected state. Dead letters must be requeued before.
func (h *expectedBook) check(a *audit) {
	bullets := map[string][]*playbook.Bullet{}
	for b := range a.fold.All() {
		bullets[b.Content] = append(bullets[b.Content], b)
	}
	for _, e := range h.published {
		if id := e.EventID(); a.covered[id] == 0 && a.deadLettered[id] {
			a.addProblem("lost: %s became a dead letter and has no effect", id)
		}
	}
	want := func(what string, found []*playbook.Bullet, votes tally) {
		switch {
		case len(found) != 1:
			a.addProblem("truth: %d bullets are %q, want one", len(found), what)
		case tallyOf(found[0]) != votes:
			a.addProblem("truth: %q has %+v, what was published gives it %+v", what, tallyOf(found[0]), votes)
		}
	}
	for content := range h.contents {
		want(content, bullets[content], h.votes[content])
	}
	if n := len(h.contents); a.fold.Len() != n {
		a.addProblem("truth: the book has %d bullets, want %d", a.fold.Len(), n)
	}
}
