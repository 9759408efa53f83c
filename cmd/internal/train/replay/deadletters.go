package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
)

// maxCopies limits how often an event is submitted again after its workers crashed. Beyond that, the event itself is
// the likely cause of the crashes.
const maxCopies = 3

// deadLetters are the dead-lettered events of a playbook. The lock of the tracker guards them.
type deadLetters struct {
	reasons map[events.ID]string       // by id of the task, execution or edit
	lastSeq uint64                     // stream sequence of the last dead letter
	crashed map[events.ID]events.Event // dead-lettered after worker crashes or by other models, to be submitted again
	copies  map[events.ID]int          // submitted again, by event id
}

func newDeadLetters() deadLetters {
	return deadLetters{reasons: map[events.ID]string{}, crashed: map[events.ID]events.Event{}, copies: map[events.ID]int{}}
}

// OtherModelError ends a run whose tasks reach a generator with another model. Letters from before the run was resumed do not
// end it: another program had its data meanwhile, and the run submits the discarded tasks again.
type OtherModelError struct{ Reason string }

func (e *OtherModelError) Error() string { return e.Reason }

func (l *tracker) addDeadLetter(s bus.Stored) {
	letter, ok := s.Event.(*events.DeadLetter)
	var id events.ID
	var e events.Event
	if ok {
		id = bus.EventID(letter.Header)
		if letter.Code == events.DeadOtherModel && s.Seq > l.oldLetters {
			l.fail(&OtherModelError{letter.Reason})
		}
		if letter.Shared == "" && (letter.Code == events.DeadAttempts || letter.Code == events.DeadOtherModel) {
			var err error
			if e, err = l.conn.Events.Decode(l.ctx, letter.Subject, letter.Header, letter.Data); bus.IsUnavailable(err) { // an unreadable event counts as dead
				l.fail(fmt.Errorf("read dead-lettered event: %w", err))
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead.lastSeq = s.Seq
	switch {
	case !ok, letter.Shared != "": // not written by a worker; or of tasks that are submitted again
	case e != nil && l.dead.copies[id] < maxCopies:
		l.dead.crashed[id] = e
	default:
		l.dead.reasons[id] = letter.Reason
	}
	l.wake()
}

// takeCrashed returns the events whose workers crashed and whose result is not stored, and forgets them.
func (l *tracker) takeCrashed() (list []events.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.dead.crashed {
		switch e := e.(type) {
		case *events.Task:
			if l.answers[events.ExecutionID(e.Book, e.Owner, e.ID, e.Origin.Round)] != nil {
				continue
			}
		case *events.Execution:
			if l.reflected[e.ID] != "" {
				continue
			}
		}
		l.dead.copies[id]++
		list = append(list, e)
	}
	clear(l.dead.crashed)
	return list
}

// forgetDead removes the dead letter of an event.
func (l *tracker) forgetDead(id events.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.dead.reasons, id)
}

// waitDeadLetters waits until the tracker has read all dead letters that a role has written so far.
func (l *tracker) waitDeadLetters(ctx context.Context, role string) error {
	s, err := l.conn.JetStream().Stream(ctx, events.StreamDead)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamDead, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, events.DeadSubject(role, l.book))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", events.StreamDead, err)
	}
	for {
		l.mu.Lock()
		moved, at, err := l.changed, l.dead.lastSeq, l.err
		l.mu.Unlock()
		if err != nil || at >= m.Sequence {
			return err
		}
		if err := l.wait(ctx, moved, func() string { return role }); err != nil {
			return err
		}
	}
}

// deadReason returns the reason why an event was dead-lettered, "" if it was not.
func (l *tracker) deadReason(id events.ID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead.reasons[id]
}
