package curator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/events/outcome"
	"debrief/playbook"
	"debrief/reflector"
)

// TestViolationSuspendsCitedBullets sends feedback of a person through a Reflector and a Curator. The bullet that the run cited is in
// quarantine, and the one that was only shown is not. Feedback that takes the violation back changes nothing until a person approves.
func TestViolationSuspendsCitedBullets(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	h.runReflector()
	h.edit("b", add("refund first"), add("ask first"))
	e := &events.Execution{
		Book: "b",
		ID:   events.ExecutionID("b", "", "run", 0), RunID: "run", Question: "q", Answer: "a", Outcome: events.Outcome{Score: 1, Label: events.Success},
		Shown: []events.ShownBullet{{ID: "misc-00001", Content: "refund first"}, {ID: "misc-00002", Content: "ask first"}}, Cited: []playbook.BulletID{"misc-00001"},
	}
	stored, err := h.conn.Publish(h.Context(), e, bus.PublishOptions{})
	h.ok(err)
	said, err := outcome.Decoder{Reviews: true}.Decode([]byte(`{"violation": true, "feedback": "no approval", "by": "ann"}`))
	h.ok(err)
	h.giveFeedback(stored.Handle, said.Outcome)
	suspended := func(p *playbook.Playbook) bool { return p.Bullet("misc-00001").Status == playbook.Quarantined }
	p := h.until("b", "a suspended bullet", suspended)
	if other := p.Bullet("misc-00002"); !other.Shown() {
		t.Errorf("a bullet that was only shown: got the status %s, want active", other.Status)
	}
	var why string
	h.ok(h.store.ReadLog(h.Context(), "b", func(r *deltalog.Record) error {
		for _, op := range r.Delta.Ops {
			if op.Code == playbook.ReasonViolation {
				why = op.Reason
			}
		}
		return nil
	}))
	if !strings.Contains(why, string(stored.Handle)) || !strings.Contains(why, "ann") || !strings.Contains(why, "no approval") {
		t.Errorf("got the reason %q, want the run, who said it, and what", why)
	}
	h.giveFeedback(stored.Handle, events.Outcome{Score: 1, Label: events.Success})
	h.floor(h.reflection(3)) // on the execution and on twice feedback
	if p := h.whole("b"); !suspended(p) {
		t.Error("later feedback shows the bullet again, without a person")
	}
	h.edit("b", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00001", Status: playbook.Active})
	h.until("b", "an approved bullet", func(p *playbook.Playbook) bool { return p.Bullet("misc-00001").Shown() })
}

// runReflector runs a Reflector without a model until the test ends.
func (h *harness) runReflector() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- bustest.Must(reflector.New(nil, reflector.Config{})).Run(ctx, h.conn) }()
	h.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.Error(err)
		}
	})
}

func (h *harness) giveFeedback(on events.Handle, o events.Outcome) {
	h.Helper()
	f := &events.Feedback{Book: "b", ID: events.NewID(), Execution: on, Outcome: o}
	h.publish(f)
}

// reflection waits for the nth reflection on the playbook and returns its sequence.
func (h *harness) reflection(n int) (seq uint64) {
	h.Helper()
	h.ok(h.conn.Events.Poll(h.Context(), events.StreamReflections, events.KindReflection.Subject("b"), 0, time.Millisecond, func(s bus.Stored) error {
		if n--; n == 0 {
			seq = s.Seq
			return bus.ErrStop
		}
		return nil
	}))
	return seq
}
