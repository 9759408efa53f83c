package main

import (
	"context"
	"encoding/base64"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"

	book "debrief/playbook"
)

// runID is an execution's id, small: there may be millions.
type runID [16]byte

func runIDOf(id events.ID) (r runID) {
	_, _ = base64.RawURLEncoding.Decode(r[:], []byte(id)) // what is none of ours is no run in a file
	return r
}

// known is what is known of an execution.
type known uint8

const (
	wasStored   known = 1 << iota // before this command, in this book
	isMine                        // in a file
	isReflected                   // there is a reflection on it
	isDead                        // it, or a reflection on it, is a dead letter
)

// runs are the executions that are stored or were handed in.
type runs map[runID]known

// is adds to what is known of a run in the files; of others it keeps nothing.
func (r runs) is(id events.ID, k known) bool {
	key := runIDOf(id)
	now := r[key]
	if now&isMine == 0 || now&k != 0 {
		return false
	}
	r[key] = now | k
	return true
}

func (r runs) count(k known) (n int) {
	for _, is := range r {
		if is&isMine != 0 && is&k == k {
			n++
		}
	}
	return n
}

// account says what became of every run in the files, of this command or of one before it: reflected on, nothing to
// learn, or a dead letter.
func (l *learn) account(ctx context.Context, s *session, b book.Book, in runs, res *learned) error {
	err := s.ReadStored(ctx, events.StreamReflections, events.KindReflection.Subject(b), func(st bus.Stored) error {
		if r, ok := st.Event.(*events.Reflection); ok {
			in.is(r.Execution, isReflected)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = s.ReadStored(ctx, events.StreamDead, events.DeadSubject("", b), func(st bus.Stored) error {
		letter, ok := st.Event.(*events.DeadLetter)
		if !ok {
			return nil
		}
		var id events.ID
		if letter.Stream == events.StreamExecutions {
			id = events.ID(nats.Header(letter.Header).Get(nats.MsgIdHdr)) // the payload may be elsewhere
		} else if e, err := events.Decode(letter.Subject, letter.Header, letter.Data); err == nil {
			if r, ok := e.(*events.Reflection); ok {
				id = r.Execution
			}
		}
		if in.is(id, isDead) {
			res.DeadReasons[letter.Reason]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	res.Dead = in.count(isDead)
	res.Reflected = in.count(isReflected) - in.count(isReflected|isDead)
	res.Nothing = res.Executions - res.Dead - res.Reflected
	return nil
}
