package window

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natserr"
	"debrief/playbook"
)

// maxMarks is the maximum number of marked turns of a session. It equals the size of the largest window.
const maxMarks = 20

// ErrFull is returned if a session has the maximum number of marks, or their total size is too large.
var ErrFull = errors.New("remove a mark first")

// markList is the stored list of a session.
type markList struct {
	List []events.MarkedInteraction `msgpack:"m"`
}

// Marks returns the marked turns of a session, oldest mark first. It returns an error if the stored list is
// unreadable.
func (s *Store) Marks(ctx context.Context, b playbook.Book, owner, session string) ([]events.MarkedInteraction, error) {
	err := validate(b, owner, session)
	var found *markList
	if err == nil {
		found, _, err = load[markList](ctx, s, states, events.MarksKey(b, owner, session))
	}
	if err != nil {
		return nil, fmt.Errorf("read marks of %s: %w", sessionName(b, session), err)
	}
	if found == nil {
		return nil, nil
	}
	return found.List, nil
}

// Mark adds a mark to an interaction of a session, or changes its mark. It returns ErrFull at the limit. All
// marks of a session expire together, counted from the last change.
func (s *Store) Mark(ctx context.Context, b playbook.Book, owner, session string, m events.MarkedInteraction) error {
	var err error
	if m.Mark != events.Pin && m.Mark != events.Star {
		err = fmt.Errorf("mark: must be %s or %s, got %q", events.Pin, events.Star, string(m.Mark))
	}
	err = errors.Join(err, m.Interaction.Execution.Validate())
	if err == nil {
		err = s.updateMarks(ctx, b, owner, session, func(list []events.MarkedInteraction) ([]events.MarkedInteraction, error) {
			if i := indexOf(list, m.Interaction.Execution); i >= 0 {
				list[i] = m
				return list, nil
			}
			if len(list) >= maxMarks {
				return nil, fmt.Errorf("limit of %d marks reached: %w", len(list), ErrFull)
			}
			return append(list, m), nil
		})
	}
	if err != nil {
		return fmt.Errorf("mark %s in %s: %w", m.Interaction.Execution, sessionName(b, session), err)
	}
	return nil
}

// Unmark removes the mark of an execution, and reports whether there was one.
func (s *Store) Unmark(ctx context.Context, b playbook.Book, owner, session string, h events.Handle) (bool, error) {
	err := s.updateMarks(ctx, b, owner, session, func(list []events.MarkedInteraction) ([]events.MarkedInteraction, error) {
		i := indexOf(list, h)
		if i < 0 {
			return nil, errUnmarked
		}
		return slices.Delete(list, i, i+1), nil
	})
	switch {
	case errors.Is(err, errUnmarked):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("unmark %s in %s: %w", h, sessionName(b, session), err)
	}
	return true, nil
}

var errUnmarked = errors.New("not marked")

func indexOf(list []events.MarkedInteraction, h events.Handle) int {
	return slices.IndexFunc(list, func(m events.MarkedInteraction) bool { return m.Interaction.Execution == h })
}

// markChange returns a changed list of marks.
type markChange func(list []events.MarkedInteraction) ([]events.MarkedInteraction, error)

// updateMarks replaces the marks of a session with the result of change. It repeats both if another writer changed the
// marks meanwhile.
func (s *Store) updateMarks(ctx context.Context, b playbook.Book, owner, session string, change markChange) error {
	if err := validate(b, owner, session); err != nil {
		return err
	}
	ctx, cancel := withWriteTimeout(ctx)
	defer cancel()
	key := events.MarksKey(b, owner, session)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		found, seq, err := load[markList](ctx, s, states, key)
		if err != nil {
			return cause(ctx, err)
		}
		found = cmp.Or(found, new(markList))
		found.List, err = change(found.List)
		if err != nil {
			return err
		}
		m, err := encode(states, key, found)
		if errors.Is(err, ErrTooLarge) && len(found.List) > 1 {
			err = fmt.Errorf("list of marks: %w: %w", err, ErrFull)
		}
		if err != nil {
			return err
		}
		err = s.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(seq))
		if !natserr.IsConflict(err) { // stored, or another error
			return err
		}
		// A replica may lag: an immediate read may miss the conflicting write, and the next attempt fails too.
		if err := events.Sleep(ctx, rand.N(wait)); err != nil {
			return cause(ctx, err)
		}
	}
}
