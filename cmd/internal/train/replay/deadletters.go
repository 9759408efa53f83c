package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
)

// deadLetters are the dead-lettered events of a playbook. The lock of the tracker guards them. A dead letter ends the work on its event.
type deadLetters struct {
	reasons map[events.ID]string // by the ids of tasks, executions and edits
	lastSeq uint64               // stream sequence of the last dead letter
}

// OtherModelError ends a run whose tasks reach a generator with another model. Dead letters from before this process do not end the
// run: it submits their tasks again.
type OtherModelError struct{ Reason string }

func (e *OtherModelError) Error() string { return e.Reason }

func (l *tracker) addDeadLetter(s bus.Stored) {
	letter, ok := s.Event.(*events.DeadLetter)
	isOfOtherModel := ok && letter.Code == events.DeadOtherModel
	if isOfOtherModel && s.Seq > l.oldLetters {
		l.fail(&OtherModelError{letter.Reason})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead.lastSeq = s.Seq
	if ok && !isOfOtherModel && letter.Shared == "" { // the tasks of the others are submitted again
		l.dead.reasons[bus.EventID(letter.Header)] = letter.Reason
	}
	l.wake()
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
		changed, err := l.changed, l.err
		read := l.dead.lastSeq >= m.Sequence
		l.mu.Unlock()
		if err != nil || read {
			return err
		}
		if err := l.wait(ctx, changed, func() string { return role }); err != nil {
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
