package bus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/streams"
)

// A role reads its recent dead letters every few seconds, for two reasons:
//
//   - The role is outdated while it has a letter of a newer schema.
//   - A letter is withdrawn if the effect of its message is stored. The worker that stores an effect looks for a letter
//     itself (see roleLetters.withdraw), but it can crash in between.

// letterInterval is the interval at which a role reads its dead letters, in units of Policy.HoldInterval.
const letterInterval = 5

// recheckAge is the age from which a letter is not checked any more: only a worker that was suspended for longer stores an
// effect later. Until then the interval between two checks of a letter grows with its age.
const recheckAge = 10 * time.Minute

// recheckSlack is subtracted from the time at which Worker.Done begins to search for an effect. The worker has looked for the effect
// before and after it stored the letter, but may have missed one that had just been stored. It is also subtracted from the time of this
// machine from which letters are read, because the clock of the server may differ.
const recheckSlack = time.Minute

// maxRechecks bounds the letters that a role checks again.
const maxRechecks = 10_000

// watchedLetter is a recent dead letter, which is checked until it is withdrawn or old.
type watchedLetter struct {
	subject string
	d       Delivery
	stored  time.Time
	next    time.Time // when it is checked again
}

// letterWatch reads the recent dead letters of a role.
type letterWatch struct {
	*runner
	state *roleState

	// Only the goroutine of run uses these fields.
	next       uint64           // sequence of the first letter that was not read yet; 0 if it is unknown
	since      time.Time        // no letter was read that is stored later
	reconnects uint64           // of the connection at the last read
	open       []*watchedLetter // oldest first
}

// run reads the dead letters of the role until ctx ends.
func (w *letterWatch) run(ctx context.Context) {
	t := time.NewTicker(letterInterval * w.policy.HoldInterval)
	defer t.Stop()
	for {
		w.checkNewerSchema(ctx)
		if w.worker.Done != nil {
			err := w.read(ctx)
			if err == nil {
				err = w.check(ctx)
			}
			if err != nil && ctx.Err() == nil {
				w.log.Debug().Err(err).Msg("check dead letters again")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// read adds the letters that were stored since the last call; the first call reads those since w.since.
func (w *letterWatch) read(ctx context.Context) error {
	began := time.Now()
	if n := w.conn.nc.Stats().Reconnects; n != w.reconnects { // a server that crashed may use the last sequences again
		w.reconnects, w.next = n, 0
	}
	q := direct.Query{Subject: events.DeadSubject(w.worker.Role, ""), Since: w.since}
	if w.next > 0 {
		q.From, q.Since = w.next, time.Time{}
	}
	var letters []direct.Message
	err := w.conn.direct.Read(ctx, events.StreamDead, q, func(m direct.Message) error {
		w.next = m.Seq + 1
		if !Withdrawn(m.Header) && !neverHasEffect(m.Subject) {
			letters = append(letters, m)
		}
		return nil
	})
	for _, m := range letters {
		l := w.conn.DeadLetters.decodeLetter(ctx, &m)
		if l.Role != w.worker.Role || l.Stream != streams.Input(w.worker.Role) {
			continue
		}
		e, err := w.conn.DeadLetters.Event(ctx, l)
		if err != nil { // the payload has expired
			continue
		}
		w.open = append(w.open, &watchedLetter{subject: m.Subject, stored: l.Stored, d: Delivery{
			Event: e, Seq: l.Seq, Attempt: l.Deliveries, Stored: l.Stored.Add(-recheckSlack), Repeat: true,
		}})
	}
	w.open = w.open[max(0, len(w.open)-maxRechecks):]
	if err == nil {
		w.since = began.Add(-recheckSlack)
	}
	return err
}

// check withdraws the letters for which the effect of the message is stored. It removes them, and letters that are too old, from
// w.open. After an error it checks the other letters, and returns the last error.
func (w *letterWatch) check(ctx context.Context) (failed error) {
	now := time.Now()
	w.open = slices.DeleteFunc(w.open, func(l *watchedLetter) bool {
		if now.Before(l.next) || ctx.Err() != nil {
			return false
		}
		hasEffect, err := w.worker.Done(ctx, &l.d)
		if err == nil && hasEffect {
			err = w.withdrawStored(ctx, l)
		}
		if err != nil {
			failed = err
			return false
		}
		age := now.Sub(l.stored)
		l.next = now.Add(age / 2)
		return hasEffect || age > recheckAge
	})
	return failed
}

// withdrawStored withdraws a letter whose message has an effect, unless another worker has done so.
func (w *letterWatch) withdrawStored(ctx context.Context, l *watchedLetter) error {
	has := false
	err := w.conn.lastPerSubject(ctx, events.StreamDead, []string{l.subject}, func(m direct.Message) { has = !Withdrawn(m.Header) })
	if err != nil || !has { // another worker has withdrawn it, or an operator has removed it
		return err
	}
	if err := w.conn.DeadLetters.withdraw(ctx, l.subject); err != nil {
		return err
	}
	w.log.Info().Str("kind", string(l.d.Event.Kind())).Uint64(events.LogSeq, l.d.Seq).Msg("dead letter withdrawn: the effect of the message is stored")
	return nil
}

// neverHasEffect reports whether every worker rejects the message of a letter, so that the message has no effect.
func neverHasEffect(subject string) bool {
	tokens := strings.Split(subject, ".")
	if len(tokens) < 4 {
		return false
	}
	code := events.DeadCode(tokens[3])
	return code == events.DeadInvalid || code == events.DeadNewerSchema
}

// checkNewerSchema looks for the oldest dead letter of a newer schema. While there is one, the role is outdated. An error of
// the search does not change the state of the role.
func (w *letterWatch) checkNewerSchema(ctx context.Context) {
	m, err := w.conn.nextMsg(ctx, events.StreamDead, events.DeadCodeSubject(w.worker.Role, events.DeadNewerSchema), 1)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Debug().Err(err).Msg("look for dead letters of a newer schema")
		}
		return
	}
	var reason error
	if m != nil {
		l := w.conn.DeadLetters.decodeLetter(ctx, m)
		reason = fmt.Errorf("dead letter %s: %s: upgrade, then requeue or drop it", l.Handle(), l.Reason)
	}
	w.state.mu.Lock()
	before := w.state.outdated
	w.state.mu.Unlock()
	if fmt.Sprint(reason) == fmt.Sprint(before) { // the same text, or both nil
		return
	}
	w.state.update(func(s *workerState) { s.outdated = reason })
}
