package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/window"
	"debrief/playbook"
)

// TestResentIDCountsOnceAfterRestart resends reports, tasks and feedback after the server's duplicate window, a kill of all workers
// and 5,000 other reports, with four curators. The replies must name the first copy.
// Then it removes the records of first copies, so that the copies are stored, and gives feedback on the second and the first
// handle of an execution. Each execution must count once.
func TestResentIDCountsOnceAfterRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts six real processes twice")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, url := startServer(t)
	conn := connect(t, url)
	shortenWindows(t, ctx, conn)
	r := &resender{T: t, ctx: ctx, conn: conn, book: "default"}
	model := startModel(t, 0)
	workers := []*process{
		startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--ack-wait", ackWait.String(), "--model", "simulated-invoice-desk", "--base-url", model),
		startWorker(t, "reflector", events.RoleReflector, "--nats", url, "--ack-wait", ackWait.String()),
	}
	for i := range 4 {
		workers = append(workers, startWorker(t, fmt.Sprint("curator", i+1), events.RoleCurator, "--nats", url, "--ack-wait", ackWait.String()))
	}
	r.seed()
	var handles []events.Handle
	for n := range 5 {
		handles = append(handles, r.report(n).Handle)
		r.submit(n)
	}
	awaitSettled(t, ctx, conn)
	rating := &events.FeedbackRequest{Book: r.book, ID: "rating-1", Execution: handles[0], Outcome: events.Outcome{Label: events.Success, Score: 1, Feedback: "well done"}}
	rated := new(events.StoredReply)
	r.ask(events.VerbFeedback, rating, rated)
	awaitSettled(t, ctx, conn)
	before, version := r.outcomes()
	if before.successes < 5 || before.failures > 0 {
		t.Fatalf("got %+v, want five successes", before)
	}
	for _, p := range workers {
		p.kill()
	}
	for _, p := range workers {
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	r.others(5000)
	var second events.Handle
	for n := range 5 {
		if stored := r.report(n); !stored.Duplicate || stored.Handle != handles[n] {
			t.Errorf("report %d again: got %+v, want a duplicate of %s", n, stored, handles[n])
		}
		r.submit(n)
	}
	again := new(events.StoredReply)
	if r.ask(events.VerbFeedback, rating, again); !again.Duplicate || again.Handle != rated.Handle {
		t.Errorf("feedback again: got %+v, want a duplicate of %s", again, rated.Handle)
	}
	r.forgetFirstCopies()
	for n := range 5 {
		eventually(t, 20*time.Second, "the server forgets an id", func() error {
			stored := r.report(n)
			if stored.Duplicate {
				return fmt.Errorf("got %+v", stored)
			}
			second = stored.Handle
			return nil
		})
		r.submit(n)
	}
	again = new(events.StoredReply)
	if r.ask(events.VerbFeedback, rating, again); again.Duplicate {
		t.Errorf("feedback without a record of the first copy: got %+v", again)
	}
	awaitSettled(t, ctx, conn)
	if again, now := r.outcomes(); again != before || now != version {
		t.Errorf("after the resends: got %+v at version %d, want %+v at version %d", again, now, before, version)
	}
	r.windowOnce(5)

	// Both handles belong to the fifth report: its outcome changes and counts once.
	if second == handles[4] {
		t.Fatal("the report has only one handle, so the test is not meaningful")
	}
	failure := events.Outcome{Label: events.Failure}
	r.feedback(second, failure)
	awaitSettled(t, ctx, conn)
	moved, _ := r.outcomes()
	if moved != (citedOutcomes{before.successes - 1, 1}) {
		t.Errorf("after feedback on the second handle: got %+v, want one failure more than in %+v", moved, before)
	}
	r.feedback(handles[4], failure)
	awaitSettled(t, ctx, conn)
	if again, _ := r.outcomes(); again != moved {
		t.Errorf("after the same feedback on the first handle: got %+v, want %+v", again, moved)
	}
	r.feedback(handles[4], events.Outcome{Label: events.Success, Score: 1})
	awaitSettled(t, ctx, conn)
	if back, _ := r.outcomes(); back != before {
		t.Errorf("after feedback that reverts it: got %+v, want %+v", back, before)
	}
	v, err := deltalog.New(conn.JetStream()).Verify(ctx, r.book)
	if err != nil || len(v.Findings) > 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// resender sends the same reports and tasks again.
type resender struct {
	*testing.T
	ctx  context.Context
	conn *bus.Conn
	book playbook.Book
	// A context with the only bullet of the book, which all reports cite.
	context events.ID
	cited   []playbook.BulletID
}

// seed adds a bullet and requests a context with it.
func (r *resender) seed() {
	r.Helper()
	e := &events.Edit{Book: r.book, ID: events.NewID(), Author: "operator", Ops: []playbook.Op{{Kind: playbook.Add, Section: "others", Content: "Look up the id before you book a berth."}}}
	if _, err := r.conn.Request(r.ctx, e, bus.PublishOptions{}); err != nil {
		r.Fatal(err)
	}
	served := new(events.ContextReply)
	r.ask(events.VerbContext, &events.ContextRequest{Session: "before", Query: "Book a berth.", MinVersion: 1}, served)
	if len(served.Shown) != 1 {
		r.Fatalf("got %+v, want a context with the bullet", served)
	}
	r.context, r.cited = served.ID, []playbook.BulletID{served.Shown[0].ID}
}

// ask sends a request to the service until it succeeds.
func (r *resender) ask(verb string, body, reply any) {
	r.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.Fatal(err)
	}
	eventually(r, 20*time.Second, verb, func() error {
		m, err := r.conn.NATS().Request(events.ServiceSubject(verb, r.book, ""), data, 10*time.Second)
		if err == nil && m.Header.Get("Nats-Service-Error") != "" {
			err = errors.New(m.Header.Get("Nats-Service-Error"))
		}
		if err == nil {
			err = json.Unmarshal(m.Data, reply)
		}
		return err
	})
}

// report reports a run as an outside agent.
func (r *resender) report(n int) *events.StoredReply {
	r.Helper()
	stored := new(events.StoredReply)
	r.ask(events.VerbReport, &events.Report{
		Book: r.book, ContextID: r.context, RunID: fmt.Sprint("report-", n), Session: "s", Question: fmt.Sprint("Book berth ", n), Answer: "done",
		Cited: r.cited, Outcome: events.Outcome{Label: events.Success, Score: 1},
	}, stored)
	return stored
}

// submit submits a task with an id of the client.
func (r *resender) submit(n int) {
	r.Helper()
	task := &events.Task{
		Book: r.book,
		ID:   fmt.Sprint("task-", n), Session: "s", Question: fmt.Sprintf("Invoice 2041%d, to be paid in EUR:\n3 x lamp at 12.50\nWhat is the total?", n),
		Target: "37.5", Evaluator: "numeric", Created: time.Now().UTC(),
	}
	if _, err := r.conn.Publish(r.ctx, task, bus.PublishOptions{}); err != nil {
		r.Fatal(err)
	}
}

// others reports n other runs without an outcome.
func (r *resender) others(n int) {
	r.Helper()
	const clients = 16
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := c; i < n && r.ctx.Err() == nil; i += clients {
				data := fmt.Appendf(nil, `{"run_id": "other-%d", "question": "Book berth %d?", "answer": "done"}`, i, i)
				m, err := r.conn.NATS().Request(events.ServiceSubject(events.VerbReport, r.book, ""), data, 10*time.Second)
				if err != nil || m.Header.Get("Nats-Service-Error") != "" {
					i -= clients // the generator starts
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
}

// forgetFirstCopies removes the records of first copies, as if they had expired.
func (r *resender) forgetFirstCopies() {
	r.Helper()
	s, err := r.conn.JetStream().Stream(r.ctx, "KV_"+events.BucketState)
	if err == nil {
		err = s.Purge(r.ctx, jetstream.WithPurgeSubject("$KV."+events.BucketState+"."+string(r.book)+"._first.>"))
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *resender) feedback(on events.Handle, o events.Outcome) {
	r.Helper()
	f := &events.Feedback{Book: r.book, ID: events.NewID(), Execution: on, Outcome: o, Created: time.Now().UTC()}
	if _, err := r.conn.Publish(r.ctx, f, bus.PublishOptions{}); err != nil {
		r.Fatal(err)
	}
}

// citedOutcomes counts the outcomes of the runs that cited a bullet.
type citedOutcomes struct{ successes, failures int }

// outcomes counts the outcomes of the seeded bullet, and fails if two deltas cover one id.
func (r *resender) outcomes() (citedOutcomes, uint64) {
	r.Helper()
	p, covered := new(playbook.Playbook), map[string]uint64{}
	log, err := readAll(r.ctx, r.conn.JetStream(), events.StreamDeltas, events.KindDelta.Subject(r.book))
	if err != nil {
		r.Fatal(err)
	}
	for _, m := range log {
		d, err := events.DecodeDelta(m.data)
		if err == nil {
			_, err = p.Apply(d)
		}
		if err != nil {
			r.Fatal(err)
		}
		for _, c := range d.Covers {
			if before := covered[c.ID]; before > 0 {
				r.Errorf("%s is covered by versions %d and %d", c.ID, before, d.Version)
			}
			covered[c.ID] = d.Version
		}
	}
	e := p.Bullet(r.cited[0]).CurrentExperiment()
	return citedOutcomes{e.Cited[playbook.MaxScore], e.Cited[0]}, p.Version()
}

// windowOnce checks that each report and each task is one turn of the session.
func (r *resender) windowOnce(n int) {
	r.Helper()
	turns, damaged, err := window.New(r.conn.NATS(), r.conn.JetStream()).Interactions(r.ctx, r.book, "", "s")
	if err != nil || damaged > 0 || len(turns) != 2*n {
		r.Errorf("got %d turns, %d damaged, %v; want %d", len(turns), damaged, err, 2*n)
	}
}
