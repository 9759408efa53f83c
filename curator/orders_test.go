package curator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestEveryOrderOfABatch curates each pair and triple of a reflection, feedback on it, feedback on a run that is in the log, a
// late reflection, two items of feedback on a run without a reflection, an edit and a forget edit. The events are in every order of the
// stream, in one batch, and with a redelivery at each place. Each event must count once, without a panic, and the result
// must be that of the events one by one.
func TestEveryOrderOfABatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, first := range allKinds {
		t.Run(string(first), func(t *testing.T) {
			t.Parallel()
			c := newOrderCheck(t)
			for _, second := range allKinds {
				for _, third := range append([]eventKind{""}, allKinds...) {
					if second == first || third == first || third == second {
						continue
					}
					stream := []eventKind{first, second}
					if third != "" {
						stream = append(stream, third)
					}
					c.check(stream)
				}
			}
		})
	}
}

// eventKind is an event of TestEveryOrderOfABatch.
type eventKind string

const (
	ownReflection  eventKind = "reflection"
	ownFeedback    eventKind = "feedback on it"
	knownFeedback  eventKind = "feedback on a known run"
	lateReflection eventKind = "late reflection"
	firstFeedback  eventKind = "first feedback"
	secondFeedback eventKind = "second feedback"
	addEdit        eventKind = "edit"
	forgetEdit     eventKind = "forget"
)

var allKinds = []eventKind{
	ownReflection, ownFeedback, knownFeedback, lateReflection, firstFeedback, secondFeedback, addEdit, forgetEdit,
}

func (k eventKind) isEdit() bool { return k == addEdit || k == forgetEdit }

func (k eventKind) isCorrection() bool {
	return k == ownFeedback || k == knownFeedback || k == secondFeedback
}

// earlier returns the kind on the same run for which a correction waits.
func (k eventKind) earlier() eventKind {
	switch k {
	case ownFeedback:
		return ownReflection
	case secondFeedback:
		return firstFeedback
	}
	return ""
}

// event returns the event of a kind in a book.
func (k eventKind) event(b playbook.Book) events.Event {
	switch k {
	case ownReflection:
		return vote(b, "own", 0, "misc-00001", events.Helpful)
	case ownFeedback:
		return vote(b, "own", 9, "misc-00001", events.Harmful)
	case knownFeedback:
		return vote(b, "known", 9, "misc-00002", events.Harmful)
	case lateReflection:
		return vote(b, "late", 0, "misc-00003", events.Helpful)
	case firstFeedback:
		r := vote(b, "unrated", 5, "misc-00001", events.Helpful)
		r.Corrects, r.FirstOutcome = false, true
		return r
	case secondFeedback:
		return vote(b, "unrated", 12, "misc-00002", events.Neutral)
	}
	e := &events.Edit{Book: b, ID: events.Hash(string(b), string(k)), Author: "ann", Reason: "test"}
	if k == forgetEdit {
		e.Forget = &playbook.Selector{Execution: string(vote(b, "own", 0, "", "").Handle)}
	} else {
		e.Ops = []playbook.Op{{Kind: playbook.Add, Section: "others", Content: "added by a person"}}
	}
	return e
}

// vote returns a reflection on a run with a vote and, without feedback, a lesson. A sequence of feedback above 0 makes it a
// reflection on feedback.
func vote(b playbook.Book, run string, feedback uint64, id playbook.BulletID, v events.Vote) *events.Reflection {
	execution := events.ExecutionID(b, "", run, 0)
	r := &events.Reflection{Book: b, Execution: execution, Handle: events.NewHandle(1, execution), Reflector: "test", Model: "m", FeedbackSeq: feedback}
	if feedback > 0 {
		r.Feedback, r.Corrects = events.Hash("feedback", string(execution), fmt.Sprint(feedback)), true
	} else {
		r.Lessons = []events.Lesson{{Section: "others", Content: "what the run " + run + " taught"}}
	}
	r.ID = events.ReflectionID(execution, r.Feedback, r.Reflector)
	if id != "" {
		r.Tags = []events.BulletTag{{ID: id, Tag: v}}
	}
	return r
}

// orderCheck curates events with one worker, batch by batch.
type orderCheck struct {
	*testing.T
	conn   *bus.Conn
	worker *worker
	source jetstream.Consumer
	books  int
	serial map[string]bookState // by order of the events
}

// bookState is the result of a scenario.
type bookState struct {
	counters, bullets string
	covers            map[eventKind]int
}

func newOrderCheck(t *testing.T) *orderCheck {
	t.Helper()
	w := openWorker(t)
	source, err := w.conn.JetStream().CreateOrUpdateConsumer(t.Context(), events.StreamReflections, jetstream.ConsumerConfig{
		Durable: events.RoleCurator, AckPolicy: jetstream.AckExplicitPolicy,
	})
	c := &orderCheck{T: t, conn: w.conn, worker: w, source: source, serial: map[string]bookState{}}
	c.ok(err)
	return c
}

func (c *orderCheck) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// check curates the events of a stream in all ways, and compares the results.
func (c *orderCheck) check(stream []eventKind) {
	c.Helper()
	oneByOne := c.oneByOne(stream)
	compare := func(how string, got bookState, order []eventKind, sameRun bool) {
		c.Helper()
		want := c.oneByOne(order)
		if got.counters != want.counters || got.bullets != want.bullets {
			c.Errorf("%q, %s: got %s %s, want %s %s, as in the order %q", stream, how, got.counters, got.bullets, want.counters, want.bullets, order)
		}
		if sameRun && got.counters != oneByOne.counters {
			c.Errorf("%q, %s: got %s, want %s, as one by one", stream, how, got.counters, oneByOne.counters)
		}
		for _, k := range stream {
			if n := got.covers[k]; n != 1 {
				c.Errorf("%q, %s: the event %q is covered %d times", stream, how, k, n)
			}
		}
	}
	order, _ := batchOrder(stream, "")
	compare("one batch", c.curate(stream, func(s *scenario) { s.handle(stream...) }), order, true)
	for i := 1; i < len(stream); i++ { // the first event is delivered again between two others
		order, _ := batchOrder(stream[i:], "")
		compare(fmt.Sprint("redelivery at ", i), c.curate(stream, func(s *scenario) {
			s.handle(stream[:i]...)
			s.handle(append([]eventKind{stream[0]}, stream[i:]...)...)
		}), append(first(batchOrder(stream[:i], "")), order...), true)
	}
	for _, held := range stream {
		rest := without(stream, held)
		order, waiting := batchOrder(stream, held)
		keepsOrder := !slices.Contains(stream, forgetEdit) // forgetting does not apply to later events
		compare(fmt.Sprintf("%q is late", held), c.curate(stream, func(s *scenario) {
			s.wantWaiting(s.handle(rest...), waiting)
			again := waiting // it waits as often as it is delivered, unless its run was forgotten
			if slices.Contains(rest, forgetEdit) {
				again = without(waiting, ownFeedback)
			}
			s.wantWaiting(s.handle(waiting...), again)
			s.handle(held)
			s.handle(waiting...)
		}), slices.Concat(order, []eventKind{held}, waiting), keepsOrder)
		compare(fmt.Sprintf("%q is late, and the wait is over", held), c.curate(stream, func(s *scenario) {
			s.c.worker.correctionWait = 0
			s.handle(rest...)
			s.handle(held)
		}), append(first(batchOrder(rest, "")), held), keepsOrder)
	}
}

func first[A, B any](a A, _ B) A { return a }

func without(stream []eventKind, kind eventKind) []eventKind {
	return slices.DeleteFunc(slices.Clone(stream), func(k eventKind) bool { return k == kind })
}

// batchOrder returns the order in which the events of a stream take effect if they are one batch, and the corrections that
// wait because the held event is not in the batch. Between two edits the corrections come last. Feedback on a run that was forgotten
// before waits for nothing.
func batchOrder(stream []eventKind, held eventKind) (order, waiting []eventKind) {
	var corrections []eventKind
	for i, k := range stream {
		switch {
		case k == held:
		case k == ownFeedback && slices.Contains(order, forgetEdit):
			corrections = append(corrections, k)
		case held != "" && k.earlier() == held && slices.Contains(stream[:i], held):
			waiting = append(waiting, k)
		case k.isCorrection():
			corrections = append(corrections, k)
		case k.isEdit():
			order, corrections = append(append(order, corrections...), k), nil
		default:
			order = append(order, k)
		}
	}
	return append(order, corrections...), waiting
}

// oneByOne returns the result of the events in batches of one. Equal orders are curated once.
func (c *orderCheck) oneByOne(order []eventKind) bookState {
	c.Helper()
	key := fmt.Sprint(order)
	if _, ok := c.serial[key]; !ok {
		c.serial[key] = c.curate(order, func(s *scenario) {
			for _, k := range order {
				s.handle(k)
			}
		})
	}
	return c.serial[key]
}

// scenario is a book with the events of one order in the stream.
type scenario struct {
	c          *orderCheck
	book       playbook.Book
	deliveries map[eventKind]*bus.Delivery
	messages   map[eventKind]jetstream.Msg
}

// curate publishes the events of a stream for a new book, lets run curate them, and returns the result.
func (c *orderCheck) curate(stream []eventKind, run func(*scenario)) bookState {
	c.Helper()
	c.books++
	s := &scenario{c: c, book: playbook.Book(fmt.Sprint("b", c.books)), deliveries: map[eventKind]*bus.Delivery{}, messages: map[eventKind]jetstream.Msg{}}
	c.worker.correctionWait = time.Minute
	s.begin()
	for _, k := range stream {
		e := k.event(s.book)
		r, err := c.conn.Publish(c.Context(), e, bus.PublishOptions{})
		c.ok(err)
		s.deliveries[k] = &bus.Delivery{Event: e, Seq: r.Seq}
	}
	batch, err := c.source.Fetch(len(stream))
	c.ok(err)
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		c.ok(err)
		for k, d := range s.deliveries {
			if d.Seq == meta.Sequence.Stream {
				s.messages[k] = m
			}
		}
	}
	run(s)
	if len(s.messages) > 0 {
		c.Fatalf("%q: %d events are not acknowledged", stream, len(s.messages))
	}
	c.worker.book(s.book).close()
	delete(c.worker.books, s.book)
	return s.state()
}

// begin adds three bullets, the vote of a known run, and feedback on a run whose reflection is late.
func (s *scenario) begin() {
	s.c.Helper()
	var added playbook.Delta
	for i := range uint64(3) {
		added.Ops = append(added.Ops, playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", i+1), Section: "others", Content: fmt.Sprint("bullet ", i+1)})
	}
	known, late := vote(s.book, "known", 0, "", ""), vote(s.book, "late", 9, "", "")
	AddDeltas(s.c.T, s.c.worker.store, s.book, added,
		playbook.Delta{Covers: []playbook.Cover{known.Cover(1)}, Ops: []playbook.Op{{Kind: playbook.Tag, Bullet: "misc-00002", Helpful: 1, Support: []int{0}}}},
		playbook.Delta{Covers: []playbook.Cover{late.Cover(2)}, Ops: []playbook.Op{{Kind: playbook.Tag, Bullet: "misc-00003", Harmful: 1, Support: []int{0}}}},
	)
}

// handle delivers events as one batch and acknowledges those without an error. It returns the others with their errors.
func (s *scenario) handle(kinds ...eventKind) map[eventKind]error {
	s.c.Helper()
	if len(kinds) == 0 {
		return nil
	}
	batch := make([]*bus.Delivery, len(kinds))
	for i, k := range kinds {
		batch[i] = s.deliveries[k]
		batch[i].Attempt++
	}
	failed := map[eventKind]error{}
	for i, r := range s.c.worker.handle(s.c.Context(), batch) {
		m := s.messages[kinds[i]]
		switch {
		case r.Err != nil:
			failed[kinds[i]] = r.Err
		case m != nil:
			s.c.ok(m.Ack())
			delete(s.messages, kinds[i])
		}
	}
	return failed
}

func (s *scenario) wantWaiting(failed map[eventKind]error, waiting []eventKind) {
	s.c.Helper()
	for k, err := range failed {
		if !slices.Contains(waiting, k) || !strings.Contains(err.Error(), "is not in the log") {
			s.c.Errorf("%q: got error %v", k, err)
		}
	}
	if len(failed) != len(waiting) {
		s.c.Errorf("got errors %v, want %q to wait", failed, waiting)
	}
}

// state reads the log of the book.
func (s *scenario) state() bookState {
	s.c.Helper()
	ctx, stop := context.WithTimeout(s.c.Context(), time.Minute)
	defer stop()
	kinds := map[string]eventKind{}
	for k, d := range s.deliveries {
		switch e := d.Event.(type) {
		case *events.Reflection:
			kinds[e.Cover(0).ID] = k
		case *events.Edit:
			kinds[e.Cover(0).ID] = k
		}
	}
	st := bookState{covers: map[eventKind]int{}}
	var version uint64
	s.c.ok(s.c.worker.store.ReadLog(ctx, s.book, func(r *deltalog.Record) error {
		version = r.Version
		for _, cover := range r.Covers {
			st.covers[kinds[cover.ID]]++
		}
		return nil
	}))
	p, err := s.c.worker.store.PlaybookAt(ctx, s.book, version)
	s.c.ok(err)
	var bullets []string
	for _, b := range p.Sorted() {
		if b.Helpful+b.Harmful+b.Neutral > 0 {
			st.counters += fmt.Sprintf("%s +%d -%d =%d, ", b.Content, b.Helpful, b.Harmful, b.Neutral)
		}
		bullets = append(bullets, fmt.Sprintf("%s %s", b.Content, b.Status))
	}
	slices.Sort(bullets)
	st.bullets = strings.Join(bullets, ", ")
	return st
}
