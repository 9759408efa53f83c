package window

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// judged names the feedback, by its sequence, that was taken up first.
type judged struct {
	At uint64 `msgpack:"q"`
}

// FirstJudged reports whether this feedback, stored at a sequence, is the first on an execution that anybody takes up:
// of several that ask, one is told so, and always the same. What is kept of it lasts as long as executions do.
func (s *Store) FirstJudged(ctx context.Context, b playbook.Book, execution events.ID, at uint64) (bool, error) {
	err := b.Validate()
	if err == nil {
		err = validKey(execution)
	}
	first := false
	if err == nil {
		first, err = s.firstJudged(ctx, events.JudgedKey(b, execution), at)
	}
	if err != nil {
		return false, fmt.Errorf("take up feedback on %.80q in book %q: %w", string(execution), string(b), err)
	}
	return first, nil
}

func (s *Store) firstJudged(ctx context.Context, key string, at uint64) (bool, error) {
	err := s.put(ctx, windows, key, &judged{at}, jetstream.WithExpectLastSequencePerSubject(0))
	if err == nil {
		return true, nil
	}
	if !conflict(err) {
		return false, err
	}
	m, err := s.last(ctx, windows, key)
	if err != nil || m == nil || m.Removed() {
		return false, err
	}
	was, err := decode[judged](*m)
	return err == nil && was.At == at, err
}
