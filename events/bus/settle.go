package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

// settle carries out the verdict on a handled delivery. It returns an error when the delivery must be held, and why.
func (r *run) settle(it *item) error {
	err := it.done.Err
	if err == nil {
		err = r.store(it)
	}
	switch r.p.judge(err, it.d.Attempt, r.isPaused()) {
	case ack:
		r.let(it, jetstream.Msg.Ack)
	case retry:
		r.log.Warn().Err(err).Uint64("seq", it.d.Seq).Int("delivery", it.d.Attempt).Msg("will be tried again")
		r.giveBack(it, r.p.backoff(it.d.Attempt))
	case hold:
		if it.done.Err != nil {
			it.done = nil // to be handled again; a result that only waits to be stored is kept
		}
		return err
	case dead:
		if derr := r.bury(it, err); derr != nil {
			return derr // the message stays with us until its letter is stored
		}
		r.log.Error().Err(err).Uint64("seq", it.d.Seq).Int("delivery", it.d.Attempt).Msg("dead letter")
		r.let(it, jetstream.Msg.Ack)
	case refuse:
		r.mu.Lock()
		r.old = true
		r.mu.Unlock()
		r.setState(Outdated, err.Error())
		r.giveBack(it, r.p.BackoffMax)
	}
	return nil
}

// store publishes what came of a delivery and answers whoever asked. Only then may the delivery be acked.
func (r *run) store(it *item) error {
	marks := Marks{Repeat: it.d.Repeat, Trace: it.d.Trace}
	var first *nats.Msg
	for i, e := range it.done.Events {
		receipt, msg, err := r.c.publish(r.work, e, marks)
		if err != nil {
			return err
		}
		if i == 0 {
			first = msg
			first.Header.Set(events.HeaderHandle, string(receipt.Handle))
		}
	}
	if it.done.after != nil {
		if err := it.done.after(r.work); err != nil {
			return err
		}
	}
	if to := replyTo(it.d.Event); to != "" && it.done.Reply != nil {
		r.reply(&nats.Msg{Subject: to, Data: it.done.Reply, Header: events.SchemaHeader()})
	} else if to != "" && first != nil {
		r.reply(&nats.Msg{Subject: to, Data: first.Data, Header: first.Header})
	}
	return nil
}

func replyTo(e events.Event) string {
	if a, ok := e.(interface{ ReplySubject() string }); ok {
		return a.ReplySubject()
	}
	return ""
}

// reply answers as well as it can: who asked may be gone, and the work is stored either way.
func (r *run) reply(m *nats.Msg) {
	m.Header.Del(nats.MsgIdHdr)
	if err := r.c.nc.PublishMsg(m); err != nil {
		r.log.Warn().Err(err).Msg("reply")
	}
}

// bury stores the dead letter of a delivery.
func (r *run) bury(it *item, why error) error {
	m := r.message(it)
	letter := &events.DeadLetter{
		Role: r.w.Role, Reason: why.Error(), Deliveries: it.d.Attempt,
		Stream: source(r.w.Role), Seq: it.d.Seq, Subject: m.Subject(), Header: m.Headers(), Data: m.Data(), Time: time.Now().UTC(),
	}
	if err := r.c.Bury(r.work, letter); err != nil {
		return err
	}
	if it.d.Event != nil {
		if to := replyTo(it.d.Event); to != "" {
			r.reply(&nats.Msg{Subject: to, Header: nats.Header{events.HeaderError: {oneLine(why.Error())}}})
		}
	}
	return nil
}

// let acks, or gives back, and forgets.
func (r *run) let(it *item, how func(jetstream.Msg) error) {
	if err := how(r.message(it)); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		r.log.Debug().Err(err).Uint64("seq", it.d.Seq).Msg("settle")
	}
	r.mu.Lock()
	delete(r.held, it.d.Seq)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *run) giveBack(it *item, after time.Duration) {
	r.let(it, func(m jetstream.Msg) error { return m.NakWithDelay(after) })
}

func (r *run) message(it *item) jetstream.Msg {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.msg
}

// keepAlive tells the server, three times in every ack wait, that what we hold is still in work.
func (r *run) keepAlive(ctx context.Context) {
	t := time.NewTicker(r.p.AckWait / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		r.mu.Lock()
		items := make([]*item, 0, len(r.held))
		for _, it := range r.held {
			items = append(items, it)
		}
		r.mu.Unlock()
		for _, it := range items {
			if err := r.message(it).InProgress(); err != nil {
				r.log.Debug().Err(err).Msg("keep alive")
			}
		}
	}
}

// hold counts the groups of deliveries that wait for something unreachable; while there are any, no more is taken.
func (r *run) hold(d int, why error) {
	r.mu.Lock()
	r.holding += d
	holding, paused := r.holding > 0, r.paused
	r.mu.Unlock()
	switch {
	case holding && why != nil:
		r.setState(Unavailable, why.Error())
	case !holding && !paused && r.intake.Err() == nil:
		r.setState(Running, "")
	}
}

// waitHeld waits before held work is tried again; false says that the worker is stopping.
func (r *run) waitHeld(why error, try int) bool {
	d := min(r.p.Hold*time.Duration(1+try), 10*r.p.Hold)
	var after interface{ RetryAfter() time.Duration }
	if errors.As(why, &after) {
		d = max(d, min(after.RetryAfter(), 10*r.p.Hold))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.intake.Done():
		return false
	case <-t.C:
		return true
	}
}

// note keeps the record of useless output. At the limit the role pauses: it gives back what waits and tries one
// message in a while; the first that goes well ends the pause.
func (r *run) note(err error) {
	useless := is[interface{ Useless() bool }](err)
	if err != nil && !useless {
		return
	}
	r.mu.Lock()
	was := r.paused
	r.recent[r.seen%uselessWindow] = useless
	r.seen++
	n := 0
	for _, u := range r.recent {
		if u {
			n++
		}
	}
	switch {
	case !useless && r.paused:
		r.paused, r.seen, r.recent = false, 0, [uselessWindow]bool{}
	case r.seen >= uselessWindow && float64(n) >= uselessShare*uselessWindow:
		r.paused = true
	}
	now := r.paused
	var waiting []*item
	if now && !was {
		for _, q := range r.queues {
			waiting = append(waiting, q.items...)
			q.items = nil
		}
	}
	r.mu.Unlock()
	for _, it := range waiting {
		r.giveBack(it, r.p.BackoffMax)
		r.busy.Done()
	}
	switch {
	case now && !was:
		r.setState(Paused, fmt.Sprintf("at least %.0f %% of the last %d outputs were useless: %v", 100*uselessShare, uselessWindow, err))
	case was && !now:
		r.setState(Running, "")
	}
}

func (r *run) setState(s State, reason string) {
	if !r.c.health.set(r.w.Role, s, reason) {
		return
	}
	level := r.log.Warn()
	if s == Running {
		level = r.log.Info()
	}
	level.Str("state", string(s)).Str("reason", reason).Msg("state changed")
}
