package window

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// maxMarks is how many interactions of a session may be marked: as many as the largest window holds.
const maxMarks = 20

// ErrFull is returned when a session has as many marks as it may have, or they would take too much room.
var ErrFull = errors.New("unmark something first")

// marks is the value of a session's marks.
type marks struct {
	List []events.Marked `msgpack:"m"`
}

// Marks are what people marked in a session, oldest mark first. A value that cannot be read is an error.
func (s *Store) Marks(ctx context.Context, b playbook.Book, session string) ([]events.Marked, error) {
	err := valid(b, session)
	var found marks
	if err == nil {
		found, _, err = s.marks(ctx, events.MarksKey(b, session))
	}
	if err != nil {
		return nil, fmt.Errorf("read marks of %s: %w", name(b, session), err)
	}
	return found.List, nil
}

// marks is the value of a key of marks, and its sequence, 0 if there is none.
func (s *Store) marks(ctx context.Context, key string) (found marks, seq uint64, err error) {
	m, err := s.last(ctx, windows, key)
	if m == nil || err != nil {
		return marks{}, 0, err
	}
	if m.Removed() {
		return marks{}, m.Seq, nil
	}
	v, err := decode[marks](*m)
	if err != nil {
		return marks{}, 0, err
	}
	return *v, m.Seq, nil
}

// Mark marks an interaction of a session, or changes its mark. ErrFull says that another must go first. The marks of a
// session expire together, as windows do, counted from the last change.
func (s *Store) Mark(ctx context.Context, b playbook.Book, session string, m events.Marked) error {
	_, _, err := m.Interaction.Execution.Parse()
	if m.Mark != events.Pin && m.Mark != events.Star {
		err = errors.Join(fmt.Errorf("mark: %q is neither %s nor %s", string(m.Mark), events.Pin, events.Star), err)
	}
	if err == nil {
		err = s.change(ctx, b, session, func(list []events.Marked) ([]events.Marked, error) {
			if at := indexOf(list, m.Interaction.Execution); at >= 0 {
				list[at] = m
				return list, nil
			}
			if len(list) >= maxMarks {
				return nil, fmt.Errorf("has %d marks, the most there can be: %w", len(list), ErrFull)
			}
			return append(list, m), nil
		})
	}
	if err != nil {
		return fmt.Errorf("mark %s in %s: %w", m.Interaction.Execution, name(b, session), err)
	}
	return nil
}

// Unmark takes the mark off an execution, and reports whether there was one.
func (s *Store) Unmark(ctx context.Context, b playbook.Book, session string, h events.Handle) (bool, error) {
	err := s.change(ctx, b, session, func(list []events.Marked) ([]events.Marked, error) {
		at := indexOf(list, h)
		if at < 0 {
			return nil, errUnmarked
		}
		return slices.Delete(list, at, at+1), nil
	})
	switch {
	case errors.Is(err, errUnmarked):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("unmark %s in %s: %w", h, name(b, session), err)
	}
	return true, nil
}

var errUnmarked = errors.New("is not marked")

func indexOf(list []events.Marked, h events.Handle) int {
	return slices.IndexFunc(list, func(m events.Marked) bool { return m.Interaction.Execution == h })
}

// change replaces the marks of a session by what fn makes of them, unless they have changed meanwhile; then again.
func (s *Store) change(ctx context.Context, b playbook.Book, session string, fn func([]events.Marked) ([]events.Marked, error)) error {
	if err := valid(b, session); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := events.MarksKey(b, session)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		found, seq, err := s.marks(ctx, key)
		if err != nil {
			return cause(ctx, err)
		}
		if found.List, err = fn(found.List); err != nil {
			return err
		}
		m, err := encode(windows, key, &found)
		if errors.Is(err, errTooLarge) && len(found.List) > 1 {
			err = fmt.Errorf("with it the list %w: %w", err, ErrFull)
		}
		if err != nil {
			return err
		}
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject) // of marks nobody reads the history
		if err := s.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(seq)); !conflict(err) {
			return err
		}
		select { // a replica may be behind, so a loser who reads at once can lose again to the same write
		case <-ctx.Done():
			return cause(ctx, ctx.Err())
		case <-time.After(rand.N(wait)):
		}
	}
}

// conflict reports a lost compare-and-swap: the second code where a write of the same key was still in flight.
func conflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
