package capture

import (
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// Ref names a run of a playbook. ID is the id of a response, the id of the run, the task of the client, a session, which
// means its latest run, SESSION/N for its turn N, from 1, a trace id, or the handle of an execution.
type Ref struct {
	Book playbook.Book
	ID   string
}

// NotFoundError is returned for a reference that names no run, or a run that has no execution.
type NotFoundError struct{ text string }

func (e *NotFoundError) Error() string { return e.text }

// NotFound marks the error as not found.
func (e *NotFoundError) NotFound() bool { return true }

func notFound(ref Ref, reason string) error {
	return &NotFoundError{fmt.Sprintf("execution %.80q in playbook %q: %s", ref.ID, string(ref.Book), reason)}
}

// Feedback gives a run an outcome and returns the handle of its execution. An open run is closed with this outcome. Feedback on a
// closed run is sent to the Reporter; f.Execution is set. The same id of f identifies the same feedback. It returns a
// *NotFoundError for an unknown run, and for a run that the caller of f may not rate.
func (s *Store) Feedback(ctx context.Context, ref Ref, f *events.FeedbackRequest) (*events.StoredReply, error) {
	request := *f
	request.Book = ref.Book
	if _, _, err := events.Handle(ref.ID).Parse(); err == nil {
		request.Execution = events.Handle(ref.ID)
		return s.reporter.Feedback(ctx, &request)
	}
	r, err := s.resolveRef(ctx, ref)
	if err == nil && !f.Caller.MayRate(r.Caller.Owner) {
		err = notFound(ref, "unknown or expired")
	}
	if err != nil {
		return nil, err
	}
	used := false
	if outcome := f.Outcome.Complete(); !r.Closed {
		if r, used, err = s.closeRun(ctx, r.ID, outcome, false); err != nil {
			return nil, fmt.Errorf("close run %s: %w", ref.ID, err)
		}
		used = used && outcome.Known() && f.Target == ""
	}
	if r.Handle == "" {
		return nil, notFound(ref, "no complete reply, so it is not an execution")
	}
	if used {
		return &events.StoredReply{Handle: r.Handle}, nil
	}
	request.Execution = r.Handle
	return s.reporter.Feedback(ctx, &request)
}

// Close closes a run and returns the handle of its execution. It returns a *NotFoundError for an unknown run.
func (s *Store) Close(ctx context.Context, ref Ref) (events.Handle, error) {
	r, err := s.resolveRef(ctx, ref)
	if err == nil && !r.Closed {
		r, _, err = s.closeRun(ctx, r.ID, events.Outcome{}, false)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("close run: %w", err)
	case r.Handle == "":
		return "", notFound(ref, "no complete reply, so it is not an execution")
	}
	return r.Handle, nil
}

// A client can have a reply before its reference is stored, so an unknown reference is looked up several times.
const (
	refTries = 5
	refPause = 100 * time.Millisecond
)

// resolveRef returns the run that a reference names.
func (s *Store) resolveRef(ctx context.Context, ref Ref) (*run, error) {
	for try := 1; ; try++ {
		r, err := s.findRef(ctx, ref)
		if err != nil || r != nil {
			return r, err
		}
		if try == refTries {
			return nil, notFound(ref, "unknown or expired")
		}
		if err := pause(ctx, refPause); err != nil {
			return nil, err
		}
	}
}

// findRef returns the run that a reference names, or nil. Ids have priority in the order of Ref.
func (s *Store) findRef(ctx context.Context, ref Ref) (*run, error) {
	of := func(kind string) string { return publicKey(ref.Book, kind, ref.ID) }
	refs, err := s.lastReferences(ctx, []string{of("response"), of("task"), of("session"), of("turn"), of("trace")})
	if err != nil {
		return nil, fmt.Errorf("find run: %w", err)
	}
	found, err := s.resolve(ctx, slices.Insert(refs, 1, []reference{{Run: events.ID(ref.ID)}}))
	if err != nil {
		return nil, fmt.Errorf("find run: %w", err)
	}
	for _, list := range found {
		if len(list) > 0 && list[0].Book == ref.Book {
			return list[0].run, nil
		}
	}
	return nil, nil
}
