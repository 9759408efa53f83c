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
// An event is submitted again if its workers crashed, or if it reached a generator with another model. Any other dead letter ends the
// work on its event, and so does the last one of an event with maxCopies copies. The maps have the ids of tasks, executions and edits.
type deadLetters struct {
	reasons   map[events.ID]string       // events that are not submitted again
	resubmits map[events.ID]events.Event // events to submit again
	copies    map[events.ID]int          // number of copies that were submitted
	lastSeq   uint64                     // stream sequence of the last dead letter
}

func newDeadLetters() deadLetters {
	return deadLetters{reasons: map[events.ID]string{}, resubmits: map[events.ID]events.Event{}, copies: map[events.ID]int{}}
}

// OtherModelError ends a run whose tasks reach a generator with another model. Dead letters from before this process do not end the
// run: it submits their tasks again.
type OtherModelError struct{ Reason string }

func (e *OtherModelError) Error() string { return e.Reason }

func (tr *tracker) addDeadLetter(s bus.Stored) {
	letter, ok := s.Event.(*events.DeadLetter)
	own := ok && letter.Shared == "" // a shared letter is of many tasks of a run, which submits them again; see events.DeadLetter
	if ok && letter.Code == events.DeadOtherModel && s.Seq > tr.lastOldLetter {
		tr.fail(&OtherModelError{letter.Reason})
	}
	var again events.Event // nil for an event that is not submitted again
	if own && (letter.Code == events.DeadAttempts || letter.Code == events.DeadOtherModel) {
		var err error
		again, err = tr.conn.Events.Decode(tr.ctx, letter.Subject, letter.Header, letter.Data)
		if bus.IsUnavailable(err) { // after any other error, the event is not submitted again
			tr.fail(fmt.Errorf("read dead-lettered event: %w", err))
		}
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.dead.lastSeq = s.Seq
	if own {
		id := bus.EventID(letter.Header)
		if again != nil && tr.dead.copies[id] < maxCopies {
			tr.dead.resubmits[id] = again
		} else {
			tr.dead.reasons[id] = letter.Reason
		}
	}
	tr.wake()
}

// takeResubmits returns the events to submit again whose result is not stored, and counts their copies. The next call does not return
// them again.
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
