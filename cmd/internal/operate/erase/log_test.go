package erase

import (
	"bytes"
	"context"
	"testing"
	"time"

	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/erasure"
	"debrief/playbook"
)

// startCurator runs a curator without a model.
func (d *desk) startCurator(t *testing.T) {
	t.Helper()
	role, err := curator.New(nil, curator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- program.Run(ctx, d.conn, role) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// learn adds a bullet that rests on the run of a user.
func (d *desk) learn(t *testing.T, user string) {
	t.Helper()
	e := &events.Execution{
		Book: "b", ID: events.ExecutionID("b", "", user+"-learned", 0), RunID: user + "-learned", User: user, Session: canary(user, "session"),
		Question: canary(user, "excerpt"), Started: time.Now().UTC().Add(-time.Minute),
	}
	r, err := d.conn.Publish(t.Context(), e, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bus.Request[events.EditReply](t.Context(), d.conn, &events.Edit{
		Book: "b", ID: events.NewID(), Author: "learn", Reason: canary(user, "why"), Created: time.Now().UTC(),
		Ops:      []playbook.Op{{Kind: playbook.Add, Section: "misc", Content: canary(user, "bullet")}},
		Evidence: []playbook.Evidence{e.Evidence(r.Handle)},
	}, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestErasedTextsLeaveTheLog erases one of two users from whom a playbook has learned. The log stays readable and whole.
func TestErasedTextsLeaveTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, t.TempDir())
	d.startCurator(t)
	d.learn(t, "ann")
	d.learn(t, "bob")
	texts := func(user string) (found []string) {
		data := d.files(t)
		for _, place := range []string{"session", "excerpt", "why", "bullet"} {
			if bytes.Contains(data, []byte(canary(user, place))) {
				found = append(found, place)
			}
		}
		return found
	}
	if len(texts("ann")) != 4 || len(texts("bob")) != 4 {
		t.Fatalf("before: got the texts %v and %v, want four of each", texts("ann"), texts("bob"))
	}
	out := d.erase(t, erasure.Request{User: "ann"})
	if out.Runs != 1 || out.Versions == 0 {
		t.Errorf("got %+v, want one run and changed versions", out)
	}
	logs := deltalog.New(d.conn.JetStream())
	found, err := logs.Verify(t.Context(), "b")
	if err != nil || found.Damaged() {
		t.Errorf("got %+v and error %v, want a log without damage", found, err)
	}
	p, err := deltalog.Load(t.Context(), d.conn, "b")
	if err != nil {
		t.Fatal(err)
	}
	for b := range p.All() {
		if p.Len() != 1 || b.Content != canary("bob", "bullet") {
			t.Errorf("got %d bullets, one with %q; want only that of bob", p.Len(), b.Content)
		}
	}
	before, err := logs.PlaybookAt(t.Context(), "b", 1)
	if err != nil || before.Len() != 1 {
		t.Errorf("got %v and error %v, want the first version with one bullet", before, err)
	}
	if out := d.erase(t, erasure.Request{User: "nobody"}); out.Versions != 0 || out.Removed != 0 {
		t.Errorf("a second erasure: got %+v, want nothing to remove", out)
	}
	d.learn(t, "cleo") // the log goes on
	d.stop()
	if got := texts("ann"); len(got) > 0 {
		t.Errorf("after: the texts of ann are still at %v", got)
	}
	if len(texts("bob")) != 4 {
		t.Errorf("after: got the texts of bob at %v, want four", texts("bob"))
	}
}
