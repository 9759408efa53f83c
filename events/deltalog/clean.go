package deltalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"debrief/events"
	"debrief/events/natserr"
	"debrief/playbook"
)

// maxStrays is the maximum number of strays that a verification lists.
const maxStrays = 20

// reportStrays adds a finding for each stray, and one with the command to remove them.
func (v *verifier) reportStrays() {
	for _, s := range v.Strays[:min(len(v.Strays), maxStrays)] {
		v.addFinding(Skipped, FindingStray, "the message at sequence %d of stream %s (%d bytes) is not part of the log: %s", s.Seq, events.StreamDeltas, s.Size, s.Reason)
	}
	if n := len(v.Strays); n > 0 {
		v.addFinding(Skipped, FindingStray, "readers skip %d messages that are not part of the log; remove them with 'debrief playbook clean --book %s'", n, v.Book)
	}
}

// Strays lists the messages on a book's subject in DELTAS that are not part of its log. It returns the same errors as
// Log. With an error it also returns the messages after the last readable delta as undecided.
func (s *Store) Strays(ctx context.Context, b playbook.Book) (strays, undecided []Stray, err error) {
	if err := b.Validate(); err != nil {
		return nil, nil, err
	}
	log := &logCursor{book: b, onStray: func(stray Stray) { strays = append(strays, stray) }}
	if err := s.readDeltas(ctx, log, func(*Record) error { return nil }); err != nil {
		return strays, log.undecided, err
	}
	log.confirmStrays()
	return strays, nil, nil
}

// NotStraysError is returned by SelectStrays if messages are not strays. Number is their number.
type NotStraysError struct {
	Book   playbook.Book
	Number int
}

func (e *NotStraysError) Error() string {
	return fmt.Sprintf("%d of the messages are not strays of playbook %q", e.Number, e.Book)
}

// SelectStrays returns the strays with these sequences; without sequences it returns all. It returns a *NotStraysError if a message
// is not a stray. In a broken log, or a log with a newer schema, sequences may also select undecided messages; without sequences
// it returns the error of Strays.
func (s *Store) SelectStrays(ctx context.Context, b playbook.Book, seqs []uint64) ([]Stray, error) {
	strays, undecided, err := s.Strays(ctx, b)
	return selectStrays(b, strays, undecided, err, seqs)
}

// selectStrays selects from the results of Strays.
func selectStrays(b playbook.Book, strays, undecided []Stray, err error, seqs []uint64) ([]Stray, error) {
	hasUndecided := errors.Is(err, ErrBrokenLog) || errors.Is(err, events.ErrNewerSchema)
	if err != nil && (!hasUndecided || len(seqs) == 0) {
		return nil, err
	}
	if len(seqs) == 0 {
		return strays, nil
	}
	selected := slices.DeleteFunc(slices.Concat(strays, undecided), func(s Stray) bool { return !slices.Contains(seqs, s.Seq) })
	if missing := len(seqs) - len(selected); missing > 0 {
		return nil, &NotStraysError{b, missing}
	}
	return selected, nil
}

// RemoveStrays deletes strays from DELTAS by their sequences, which Strays returned. It returns an error and deletes
// nothing if one of the messages is part of the log.
func (s *Store) RemoveStrays(ctx context.Context, b playbook.Book, seqs []uint64) error {
	strays, undecided, err := s.Strays(ctx, b)
	if err != nil && len(undecided) == 0 {
		return err
	}
	stream, err := s.js.Stream(ctx, events.StreamDeltas)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamDeltas, err)
	}
	known := slices.Concat(strays, undecided)
	for _, seq := range seqs {
		if !slices.ContainsFunc(known, func(s Stray) bool { return s.Seq == seq }) {
			return fmt.Errorf("remove message %d of %s: not a stray of playbook %q", seq, events.StreamDeltas, b)
		}
	}
	for _, seq := range seqs {
		err := natserr.Do(ctx, s.watch, events.StreamDeltas, func(ctx context.Context) error { return stream.DeleteMsg(ctx, seq) })
		if err != nil {
			return fmt.Errorf("remove message %d of %s: %w", seq, events.StreamDeltas, err)
		}
	}
	return nil
}
