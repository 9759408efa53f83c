package window

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// Run is an execution in the fewest words that tell it from another one at the same task.
type Run struct {
	Execution events.ID `msgpack:"x"`
	Calls     []string  `msgpack:"c"` // what was called, in order; of equal ones in a row the first
}

// MaxRunCalls is how many calls of a run are kept, the first ones.
const MaxRunCalls = 200

// PutRun keeps a run as the last one at its task that ended so; nil is that none is known. Like all windows it expires.
func (s *Store) PutRun(ctx context.Context, b playbook.Book, task events.ID, l events.Label, r *Run) error {
	err := validRun(b, l)
	if r == nil {
		r = new(Run)
	}
	if err == nil && len(r.Calls) > MaxRunCalls {
		err = fmt.Errorf("calls: %d are more than %d", len(r.Calls), MaxRunCalls)
	}
	if err == nil {
		err = s.putRun(ctx, events.RunKey(b, task, l), r)
	}
	if err != nil {
		return fmt.Errorf("keep run %s of task %s in book %q: %w", r.Execution, task, string(b), err)
	}
	return nil
}

func (s *Store) putRun(ctx context.Context, key string, r *Run) error {
	m, err := encode(windows, key, r)
	if err != nil {
		return err
	}
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject) // nobody reads the history
	return s.publish(ctx, m)
}

// LastRun is the last run at a task that ended so, nil if none is known.
func (s *Store) LastRun(ctx context.Context, b playbook.Book, task events.ID, l events.Label) (*Run, error) {
	err := validRun(b, l)
	var r *Run
	if err == nil {
		r, err = s.lastRun(ctx, events.RunKey(b, task, l))
	}
	if err != nil {
		return nil, fmt.Errorf("read the last run of task %s in book %q: %w", task, string(b), err)
	}
	return r, nil
}

func (s *Store) lastRun(ctx context.Context, key string) (*Run, error) {
	m, err := s.last(ctx, windows, key)
	if m == nil || err != nil || m.Removed() {
		return nil, err
	}
	r, err := decode[Run](*m)
	if err != nil || r.Execution == "" {
		return nil, err
	}
	return r, nil
}

func validRun(b playbook.Book, l events.Label) error {
	if l != events.Success && l != events.Failure {
		return errors.Join(b.Validate(), fmt.Errorf("label: %q is neither %s nor %s", string(l), events.Success, events.Failure))
	}
	return b.Validate()
}
