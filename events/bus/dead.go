package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/direct"
	"debrief/playbook"
)

// A message that cannot be handled becomes a dead letter, stored by the worker before it acknowledges the message. It
// has one letter, however many workers store it, and has either an effect or a letter:
//
//   - A worker that gives up a message asks its role first whether the effect of an earlier attempt is stored, and asks
//     again after it has stored the letter. If it is, the letter is withdrawn.
//   - A worker whose signs of life the server may have missed, so that another worker may have given up its message,
//     looks for a letter after it has stored the effect, and withdraws it.
//   - A redelivered message that has a letter is not handled again.

// nobook is the book of dead letters whose subject names none.
const nobook = playbook.Book("_unknown")

// maxLetterData bounds the original bytes in a letter, so that it fits a message. What is larger was never published
// by us: our payloads of that size are blobs.
const maxLetterData = 768 << 10

// Bury stores a dead letter. A message has one letter, also when several workers store it with different codes.
func (c *Conn) Bury(ctx context.Context, l *events.DeadLetter) error {
	l.Book = bookOf(l.Subject)
	redactLetter(l)
	l.Reason = oneLine(l.Reason)
	if len(l.Data) > maxLetterData {
		l.Data = l.Data[:maxLetterData]
		l.Reason += fmt.Sprintf(" (original cut to %d bytes)", maxLetterData)
	}
	filter := events.DeadIDSubject(l.Role, l.Book, l.EventID())
	_, _, err := c.publish(ctx, l, Marks{Trace: nats.Header(l.Header).Get(events.HeaderTrace)}, jetstream.WithExpectLastSequenceForSubject(0, filter))
	if conflict(err) { // also without another letter, where a cluster is busy
		stored := false
		if err := c.last(ctx, events.StreamDead, []string{filter}, func(m direct.Message) { stored = !withdrawn(m.Header) }); err != nil {
			return fmt.Errorf("store dead letter: %w", err)
		}
		if stored {
			return nil
		}
		err = fmt.Errorf("%w (%v)", nats.ErrTimeout, err)
	}
	if err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	return nil
}

// bookOf returns the book that a subject names, or nobook.
func bookOf(subject string) playbook.Book {
	if _, book, err := events.ParseSubject(subject); err == nil {
		return book
	}
	return nobook
}

// conflict reports that a publish was refused because its subject already holds a message.
func conflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// withdrawnFor is how long the message is kept that stands in the place of a letter that was withdrawn.
const withdrawnFor = time.Second

// withdraw removes a dead letter by its subject. A role has the right to publish its letters, but not to delete messages.
// So it replaces the letter by a message that expires.
func (c *Conn) withdraw(ctx context.Context, subject string) error {
	m := &nats.Msg{Subject: subject, Header: nats.Header{}}
	if _, err := c.js.PublishMsg(ctx, m, jetstream.WithMsgTTL(withdrawnFor)); err != nil {
		return fmt.Errorf("withdraw dead letter: %w", asFull(unanswered(ctx, err)))
	}
	return nil
}

// withdrawn reports whether a message of DEAD with these headers only replaces a letter.
func withdrawn(h nats.Header) bool { return h.Get(jetstream.MsgTTLHeader) != "" }

// countLetters returns the number of dead letters of a role.
func (c *Conn) countLetters(ctx context.Context, role string) (uint64, error) {
	n, err := denied.Call(ctx, c.watch, events.StreamDead, func(ctx context.Context) (uint64, error) {
		return direct.Count(ctx, c.nc, events.StreamDead, events.DeadSubject(role, ""))
	})
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", unanswered(ctx, err))
	}
	return n, nil
}

// letterID is the id of the dead letter that an item has or would have.
func (r *run) letterID(it *item) events.ID {
	return events.DeadID(r.w.Role, source(r.w.Role), it.d.Seq, r.message(it).Headers())
}

// letterFilter matches the letter of an item, whatever its code.
func (r *run) letterFilter(it *item) string {
	return events.DeadIDSubject(r.w.Role, bookOf(r.message(it).Subject()), r.letterID(it))
}

func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// giveUp stores the dead letter of an item unless its effect is stored. It reports whether there is a letter.
func (r *run) giveUp(it *item, why error) (dead bool, err error) {
	if done, err := r.done(it); err != nil || done {
		return false, err
	}
	m := r.message(it)
	letter := &events.DeadLetter{
		Role: r.w.Role, Code: codeOf(why), Reason: why.Error(), Deliveries: r.attemptsMade(it),
		Stream: source(r.w.Role), Seq: it.d.Seq, Subject: m.Subject(), Header: m.Headers(), Data: m.Data(), Time: time.Now().UTC(),
	}
	if err := r.c.Bury(r.work, letter); err != nil {
		return false, err
	}
	if done, err := r.done(it); err != nil || done {
		if err == nil {
			err = r.retract(it)
		}
		return false, err
	}
	r.c.refuse(it.d.Event, why.Error())
	return true, nil
}

// done reports whether an earlier attempt at an item had its effect: another worker's, or one that died after it. The
// first attempt at a new message has none before it.
func (r *run) done(it *item) (bool, error) {
	switch {
	case it.stored > 0:
		return true, nil
	case r.w.Done == nil || it.d.Event == nil || !it.d.Repeat:
		return false, nil
	}
	done, err := r.w.Done(r.work, &it.d)
	if err != nil {
		return false, fmt.Errorf("look for the effect of an earlier attempt: %w", err)
	}
	return done, nil
}

// retract withdraws the letter of an item whose effect is stored, if there is one.
func (r *run) retract(it *item) error {
	var subject string
	err := r.c.last(r.work, events.StreamDead, []string{r.letterFilter(it)}, func(m direct.Message) {
		if !withdrawn(m.Header) {
			subject = m.Subject
		}
	})
	if err == nil && subject != "" {
		err = r.c.withdraw(r.work, subject)
	}
	return err
}

// attemptsMade is the number of attempts that an item had when it was given up: one that is over the limit was not begun.
func (r *run) attemptsMade(it *item) int { return min(it.d.Attempt, r.p.MaxAttempts) }

// exhaustedError is the reason of a message that had all of its attempts, each of which ended with its worker.
type exhaustedError struct{ attempts int }

func (e *exhaustedError) Error() string {
	return fmt.Sprintf("no worker finished it in %d attempts", e.attempts)
}

// codeOf is the code of a dead letter for this reason.
func codeOf(why error) events.DeadCode {
	var own *ownFault
	var exhausted *exhaustedError
	switch {
	case errors.As(why, &exhausted):
		return events.DeadAttempts
	case errors.Is(why, events.ErrNewerSchema):
		return events.DeadNewerSchema
	case errors.As(why, &own) && useless(own.err):
		return events.DeadUseless
	case errors.As(why, &own):
		return events.DeadUnavailable
	case discarded(why):
		return events.DeadInvalid
	}
	return events.DeadError
}

// EventID is the id of the event that a message with this header holds, of any of its copies.
func EventID(h nats.Header) events.ID {
	id, _, _ := strings.Cut(h.Get(nats.MsgIdHdr), copyMark)
	return events.ID(id)
}

// Undead is the event that a dead letter is about, its payload fetched.
func (c *Conn) Undead(ctx context.Context, l *events.DeadLetter) (events.Event, error) {
	return c.decodeStored(ctx, l.Subject, l.Header, l.Data)
}

// refuse tells whoever asked for an event's answer why there is none. The event may be nil.
func (c *Conn) refuse(e events.Event, why string) {
	if to := replyTo(e); to != "" {
		c.reply(&nats.Msg{Subject: to, Header: nats.Header{events.HeaderError: {oneLine(why)}}})
	}
}

// reply answers as well as it can: who asked may be gone, and what came of the work is stored either way.
func (c *Conn) reply(m *nats.Msg) {
	m.Header.Del(nats.MsgIdHdr)
	if err := c.nc.PublishMsg(m); err != nil {
		c.log.Warn().Err(err).Msg("reply")
	}
}

// oneLine is text as a header or a list shows it.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + "…"
	}
	return s
}
