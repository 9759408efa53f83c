package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/events/redact"
	"debrief/events/streams"
	"debrief/playbook"
	"debrief/playbook/text"
)

// A message that cannot be handled becomes a dead letter. The worker stores the letter before it acknowledges the
// message. A message has at most one letter, even if several workers store it. Before a worker stores a letter, it asks its role whether
// the effect of an earlier attempt is stored. Then it stores none. A message can have an effect and a letter in a few cases: its worker
// dies between the letter and the acknowledgement, and the next attempt succeeds; or two workers have the message, and one of them
// gives it up while the other one succeeds. A requeue of such a letter has no second effect.

// unknownBook is the book of dead letters whose subject names no book.
const unknownBook = playbook.Book("_unknown")

// maxReason is the limit of a reason in a header or a list, in bytes.
const maxReason = 1000

// DeadLetters has the dead letters of an account: the messages that a role could not handle, each with the reason. A person
// looks at them and requeues or drops them; the server deletes them by age. DeadLetters is safe for concurrent use.
type DeadLetters struct {
	*link
	publisher *publisher
}

// Store stores a dead letter. If the message already has one, also with another code, it stores nothing. A shared letter
// is stored again for each of its messages, so that its readers learn of each message.
func (d *DeadLetters) Store(ctx context.Context, l *events.DeadLetter) error {
	l.Book = bookOf(l.Subject)
	redactLetter(l)
	l.Reason = text.Line(redact.Text(l.Reason), maxReason) // before the cut: half of a secret would not be recognised
	filter := events.DeadIDSubject(l.Role, l.Book, l.EventID())
	options := PublishOptions{Trace: nats.Header(l.Header).Get(events.HeaderTrace)}
	onlyFirst := []jetstream.PublishOpt{jetstream.WithExpectLastSequenceForSubject(0, filter)}
	if l.Shared != "" { // each message stores a new copy
		options.Copy = int(time.Now().UnixNano())
		onlyFirst = nil
	}
	_, _, err := d.publisher.publish(ctx, l, options, onlyFirst...)
	if natserr.IsConflict(err) { // the message has a letter, or a cluster was busy
		err = d.checkStored(ctx, filter, err)
	}
	if err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	return nil
}

// checkStored returns nil if a dead letter with the subject is stored. Otherwise the conflict is of a busy cluster. Then checkStored returns a
// timeout, so that the worker holds the message.
func (d *DeadLetters) checkStored(ctx context.Context, subject string, conflict error) error {
	stored := false
	err := d.lastPerSubject(ctx, events.StreamDead, []string{subject}, func(direct.Message) { stored = true })
	if err != nil || stored {
		return err
	}
	return fmt.Errorf("%w (%v)", nats.ErrTimeout, conflict) //nolint:errorlint // only the timeout decides
}

// bookOf returns the book of a subject, or unknownBook.
func bookOf(subject string) playbook.Book {
	if _, book, err := events.ParseSubject(subject); err == nil {
		return book
	}
	return unknownBook
}

// count returns the number of dead letters of a role, 0 if their stream does not exist.
func (d *DeadLetters) count(ctx context.Context, role string) (uint64, error) {
	found, err := d.direct.Count(ctx, events.StreamDead, events.DeadSubject(role, ""), 1)
	if natserr.IsStreamMissing(ctx, d.js, events.StreamDead, err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return found.Messages, nil
}

// rememberShared remembers the shared letter of a reason, and reports whether this process has stored it before. It returns false for a
// letter that is not shared.
func (p *processor) rememberShared(reason error) (storedBefore bool) {
	name := sharedLetter(reason)
	if name == "" {
		return false
	}
	_, storedBefore = p.sharedLetters.LoadOrStore(name, true)
	return storedBefore
}

// storeLetter stores the dead letter of an item, unless the effect of the message is stored. It reports whether the
// item has a letter now.
func (p *processor) storeLetter(it *item, reason error) (stored bool, err error) {
	if done, err := p.effectStored(it); err != nil || done {
		return false, err
	}
	m := p.flight.message(it)
	letter := &events.DeadLetter{
		Role: p.worker.Role, Code: deadCode(reason), Reason: reason.Error(), Attempts: p.attemptsBegun(it),
		Stream: streams.Input(p.worker.Role), Seq: it.d.Seq, Subject: m.Subject(), Header: m.Headers(), Data: m.Data(), Time: time.Now().UTC(),
		Shared: sharedLetter(reason),
	}
	if err := p.conn.DeadLetters.Store(p.work, letter); err != nil {
		return false, err
	}
	p.replyFailure(it, m, reason)
	return true, nil
}

// replyFailure answers the requester of an item that became a dead letter. The answer is the reason. If the item is an
// execution, the execution itself is the answer to its task, because no later stage will send one.
func (p *processor) replyFailure(it *item, m jetstream.Msg, reason error) {
	target := replyTargetOf(m.Headers())
	if _, isExecution := it.d.Event.(*events.Execution); isExecution && target.subject != "" {
		if err := p.conn.replyStored(p.work, target, asStored(m, &it.d)); err == nil {
			return
		}
	}
	p.conn.replyError(target, reason.Error())
}

// effectStored reports whether the effect of an earlier attempt is stored. It asks the role only if another worker may
// have had the message.
func (p *processor) effectStored(it *item) (bool, error) {
	switch {
	case it.storedEvents > 0:
		return true, nil
	case p.worker.Done == nil || it.d.Event == nil || !p.flight.mayBeShared(it):
		return false, nil
	}
	done, err := p.worker.Done(p.work, &it.d)
	if err != nil {
		return false, fmt.Errorf("check whether the effect of an earlier attempt is stored: %w", err)
	}
	return done, nil
}

// exhaustedError is the reason of a dead letter after the last attempt, if every attempt ended without a result.
type exhaustedError struct{ attempts int }

func (e *exhaustedError) Error() string {
	return fmt.Sprintf("no worker finished the message in %d attempts", e.attempts)
}

// deadCode returns the code of a dead letter for a reason.
func deadCode(reason error) events.DeadCode {
	var fault *messageFaultError
	var exhausted *exhaustedError
	var coded interface{ DeadCode() events.DeadCode }
	switch {
	case errors.As(reason, &coded):
		return coded.DeadCode()
	case errors.As(reason, &exhausted):
		return events.DeadAttempts
	case errors.Is(reason, events.ErrNewerSchema):
		return events.DeadNewerSchema
	case errors.As(reason, &fault) && isUseless(fault.err):
		return events.DeadUseless
	case errors.As(reason, &fault):
		return events.DeadUnavailable
	case isDiscard(reason):
		return events.DeadInvalid
	}
	return events.DeadError
}

// sharedLetter returns the field Shared of a dead letter for a reason. Only an error with a method SharedLetter has one.
func sharedLetter(reason error) string {
	var e interface{ SharedLetter() string }
	if errors.As(reason, &e) {
		return e.SharedLetter()
	}
	return ""
}
