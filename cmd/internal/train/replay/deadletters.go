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
//
// An event is submitted again, up to maxCopies times, if its workers crashed or if it reached a generator with another model. After any other
// dead letter, it is not. The keys of the maps are ids of tasks, executions and edits.
type deadLetters struct {
	reasons   map[events.ID]string       // reasons of the events that are not submitted again
	resubmits map[events.ID]events.Event // events to submit again
	copies    map[events.ID]int          // number of copies of an event that were submitted
	lastSeq   uint64                     // stream sequence of the last dead letter
}

// OtherModelError ends a run whose tasks reach a generator with another model. Dead letters from before this process do not end the
// run: it submits their tasks again.
type OtherModelError struct{ Reason string }

func (e *OtherModelError) Error() string { return e.Reason }

// addDeadLetter adds a dead letter.
func (tr *tracker) addDeadLetter(s bus.Stored) {
	letter, ok := s.Event.(*events.DeadLetter)
	if ok && letter.Code == events.DeadOtherModel && s.Seq > tr.lastOldLetter {
		tr.fail(&OtherModelError{letter.Reason})
	}
	if ok && letter.Shared == "" { // a shared letter is of many tasks: the run finds them without a result, and submits them
		tr.addDeadEvent(letter)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.dead.lastSeq = s.Seq
	tr.wake()
}

// addDeadEvent adds the event of a dead letter to those that are submitted again, or else its reason.
func (tr *tracker) addDeadEvent(letter *events.DeadLetter) {
	id := bus.EventID(letter.Header)
	resubmit := tr.eventToResubmit(letter)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if resubmit != nil && tr.dead.copies[id] < maxCopies {
		tr.dead.resubmits[id] = resubmit
	} else {
		tr.dead.reasons[id] = letter.Reason
	}
}

// eventToResubmit returns the event of a dead letter if it can be submitted again, else nil. While the event is temporarily unreadable, it
// ends the run.
func (tr *tracker) eventToResubmit(letter *events.DeadLetter) events.Event {
	if letter.Code != events.DeadAttempts && letter.Code != events.DeadOtherModel {
		return nil
	}
	e, err := tr.conn.Events.Decode(tr.ctx, letter.Subject, letter.Header, letter.Data)
	if bus.IsUnavailable(err) {
		tr.fail(fmt.Errorf("read dead-lettered event: %w", err))
	}
	if err != nil {
		return nil
	}
	return e
}

// takeResubmits returns the events to submit again, without those whose result is stored by now. It counts a copy of each, and removes them
// from the list.
func (tr *tracker) takeResubmits() (list []events.Event) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for id, e := range tr.dead.resubmits {
		switch e := e.(type) {
		case *events.Task:
			if tr.answers[events.ExecutionID(e.Book, e.Owner, e.ID, e.Origin.Round)] != nil {
				continue
			}
		case *events.Execution:
			if tr.reflected[e.ID] != "" {
				continue
			}
		}
		tr.dead.copies[id]++
		list = append(list, e)
	}
	clear(tr.dead.resubmits)
	return list
}

// forgetDead removes the dead letter of an event.
func (tr *tracker) forgetDead(id events.ID) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delete(tr.dead.reasons, id)
}

// waitDeadLetters waits until the tracker has read all dead letters that a role has written so far.
func (tr *tracker) waitDeadLetters(ctx context.Context, role string) error {
	s, err := tr.conn.JetStream().Stream(ctx, events.StreamDead)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamDead, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, events.DeadSubject(role, tr.book))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", events.StreamDead, err)
	}
	for {
		tr.mu.Lock()
		changed, err := tr.changed, tr.err
		read := tr.dead.lastSeq >= m.Sequence
		tr.mu.Unlock()
		if err != nil || read {
			return err
		}
		if err := tr.wait(ctx, changed, func() string { return role }); err != nil {
			return err
		}
	}
}

// deadReason returns the reason why an event was dead-lettered, "" if it was not.
func (tr *tracker) deadReason(id events.ID) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.dead.reasons[id]
}
