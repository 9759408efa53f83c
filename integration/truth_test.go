package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// truth is what a book must come to, worked out from what was published alone: neither the log nor the Curator's code
// has a say in it. Every event counts once, however often it was published.
type truth struct {
	book  playbook.Book
	seeds []playbook.BulletID // voted on

	mu        sync.Mutex
	published []events.Event   // distinct
	votes     map[string]tally // by content
	sightings map[string]tally // by rule key
	contents  map[string]bool  // each is in the book once
	seed      map[playbook.BulletID]string
	again     int            // published once more, under another sequence
	gone      []events.Event // with the end of the log
}

const seedBullets = 12

// newTruth is a book with a few bullets to vote on: an edit adds them, through a curator that must be at work.
func newTruth(t *testing.T, ctx context.Context, conn *bus.Conn, book playbook.Book) *truth {
	t.Helper()
	h := &truth{book: book, seed: map[playbook.BulletID]string{}}
	h.recount(nil)
	e := h.newEdit()
	for i := range seedBullets {
		e.Ops = append(e.Ops, playbook.Op{Kind: playbook.Add, Section: "tax", Content: fmt.Sprintf("For region %d the region tax is %d %%.", i, 5+i)})
	}
	if _, err := conn.Request(ctx, e, bus.Marks{}); err != nil {
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

func (h *truth) newEdit() *events.Edit {
	e := &events.Edit{ID: events.NewID(), Author: "operator", Reason: "test", Created: time.Now().UTC()}
	e.Book = h.book
	return e
}

// largeEdit is one that takes three deltas.
func (h *truth) largeEdit() *events.Edit {
	e := h.newEdit()
	e.Ops = []playbook.Op{{Kind: playbook.Add, Section: "desk", Content: fmt.Sprintf("File %s came with a frame.", e.ID)}}
	e.Frame = make([]byte, 300<<10)
	return e
}

// newReflection is one that says nothing yet.
func (h *truth) newReflection() *events.Reflection {
	id := events.NewID()
	r := &events.Reflection{ID: id, Execution: id, Handle: events.NewHandle(1, id), Reflector: "test", Created: time.Now().UTC()}
	r.Book = h.book
	return r
}

// next is an event for the book: most vote, some teach, some bring what a rule found, a few are people's edits.
func (h *truth) next(rng *rand.Rand) events.Event {
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
	switch n % 10 {
	case 3: // two reflections in a row bring the same lesson
		r.Lessons = []events.Lesson{{Section: "customers", Content: fmt.Sprintf("Customer %d pays in instalments.", n/20)}}
	case 7:
		key := fmt.Sprintf("order/%d", rng.IntN(5))
		r.Findings = []events.Finding{{Key: key, Section: "order", Text: "Steps of " + key + " were seen in {runs} runs.", Vote: vote()}}
	}
	return r
}

// publish publishes an event until the server confirms it, and then counts it.
func (h *truth) publish(ctx context.Context, conn *bus.Conn, e events.Event) error {
	marks := bus.Marks{}
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

// count enters an event into the books.
func (h *truth) count(e events.Event) {
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
		for _, f := range e.Findings {
			c := h.sightings[f.Key]
			c.add(f.Vote)
			h.sightings[f.Key] = c
		}
	}
}

// recount is the truth if only these events had ever been published.
func (h *truth) recount(kept []events.Event) {
	h.published, h.votes, h.sightings, h.contents = nil, map[string]tally{}, map[string]tally{}, map[string]bool{}
	for _, e := range kept {
		h.count(e)
	}
}

// repeat publishes an event under another sequence, marked as one that may have come before.
func (h *truth) repeat(ctx context.Context, conn *bus.Conn, e events.Event) error {
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

// publishAgain stores a message that was stored before. It carries no Nats-Msg-Id: with one, the server would drop it
// within two minutes, and a requeue comes later than that.
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
		pause(ctx, 50*time.Millisecond) // stored three times is as good as twice
	}
}

// ledger reads what the streams hold of the book. What was published is taken from our own memory: the stream of the
// reflections may have been purged.
func (h *truth) ledger(ctx context.Context, conn *bus.Conn) (*ledger, error) {
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

// check compares what the log folds to with the truth. Nothing excuses here: a dead letter is to be requeued first.
func (h *truth) check(a *audit) {
	bullets := map[string][]*playbook.Bullet{}
	rules := map[string][]*playbook.Bullet{}
	for b := range a.fold.All() {
		if b.Rule != nil {
			rules[b.Rule.Key] = append(rules[b.Rule.Key], b)
		} else {
			bullets[b.Content] = append(bullets[b.Content], b)
		}
	}
	for _, e := range h.published {
		if id := e.EventID(); a.covered[id] == 0 && a.excused[id] {
			a.complain("lost: %s became a dead letter and has no effect", id)
		}
	}
	want := func(what string, found []*playbook.Bullet, votes tally) {
		switch {
		case len(found) != 1:
			a.complain("truth: %d bullets are %q, want one", len(found), what)
		case tallyOf(found[0]) != votes:
			a.complain("truth: %q has %+v, what was published gives it %+v", what, tallyOf(found[0]), votes)
		}
	}
	for content := range h.contents {
		want(content, bullets[content], h.votes[content])
	}
	for key, votes := range h.sightings {
		want(key, rules[key], votes)
	}
	if n := len(h.contents) + len(h.sightings); a.fold.Len() != n {
		a.complain("truth: the book has %d bullets, want %d", a.fold.Len(), n)
	}
}
