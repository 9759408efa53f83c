package window

import (
	"context"
	"errors"
	"fmt"

	"debrief/events"
	"debrief/playbook"
)

// Run is a summary of an execution for a comparison with another execution of the same task.
type Run struct {
	Execution events.ID     `msgpack:"x"`
	Handle    events.Handle `msgpack:"h,omitempty"` // of the execution; empty in a value of an older version
	Calls     []string      `msgpack:"c"`           // tool calls in order; of equal consecutive calls only the first
	Try       events.Try    `msgpack:"t"`           // the outcome and, without calls, the answer
	User      string        `msgpack:"u,omitempty"` // see events.Task.User
	Session   string        `msgpack:"n,omitempty"`
}

// MaxRunCalls is the maximum number of calls in a Run. Of a longer run the caller of PutRun keeps the first calls.
const MaxRunCalls = 200

// PutRun stores r as the last run at its task with this label. A nil r removes the last run. The value expires like
// all values of the bucket.
func (s *Store) PutRun(ctx context.Context, b playbook.Book, owner string, task events.ID, l events.Label, r *Run) error {
	err := validateRun(b, owner, l)
	if r == nil {
		r = new(Run)
	}
	if err == nil && len(r.Calls) > MaxRunCalls {
		err = fmt.Errorf("calls: at most %d are allowed, got %d", MaxRunCalls, len(r.Calls))
	}
	if err == nil {
		err = s.put(ctx, states, events.RunKey(b, owner, task, l), r)
	}
	if err != nil {
		return fmt.Errorf("store run %s of task %s in book %q: %w", r.Execution, task, string(b), err)
	}
	return nil
}

// LastRun returns the last run at a task with this label, or nil if it is unknown.
func (s *Store) LastRun(ctx context.Context, b playbook.Book, owner string, task events.ID, l events.Label) (*Run, error) {
	err := validateRun(b, owner, l)
	var r *Run
	if err == nil {
		r, _, err = load[Run](ctx, s, states, events.RunKey(b, owner, task, l))
	}
	if err != nil {
		return nil, fmt.Errorf("read the last run of task %s in book %q: %w", task, string(b), err)
	}
	if r == nil || r.Execution == "" { // PutRun removed the run
		return nil, nil
	}
	return r, nil
}

func validateRun(b playbook.Book, owner string, l events.Label) error {
	err := errors.Join(b.Validate(), events.ValidateOwner(owner))
	switch l {
	case events.Success, events.Partial, events.Failure:
		return err
	}
	return errors.Join(err, fmt.Errorf("label: must be %s, %s or %s, got %q", events.Success, events.Partial, events.Failure, string(l)))
}
