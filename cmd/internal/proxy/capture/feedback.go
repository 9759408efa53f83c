package capture

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// Ref names a run of a playbook. ID is one of these:
//
//   - the id of a response, or of the run
//   - a session, which means its latest run, or SESSION/N for its turn N, from 1
//   - a trace id
//   - the handle of an execution
type Ref struct {
	Book   playbook.Book
	ID     string
	Caller events.Caller // only runs that it may rate count
}

// AmbiguousError is returned for a reference that names several runs.
type AmbiguousError struct {
	Ref  Ref
	Runs []string // the handles of the executions, or the ids of open runs: each names one run
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("execution %.80q in playbook %q: several runs have this id: name one of %s", e.Ref.ID, string(e.Ref.Book), strings.Join(e.Runs, ", "))
}

// Names returns Runs. The API answers an error with names as a conflict, and lists them.
func (e *AmbiguousError) Names() []string { return e.Runs }

// NotFoundError is returned for a reference that names no run, or a run that has no execution.
type NotFoundError struct{ text string }

func (e *NotFoundError) Error() string { return e.text }

// NotFound marks the error as not found.
func (e *NotFoundError) NotFound() bool { return true }

func notFound(ref Ref, reason string) error {
	return &NotFoundError{fmt.Sprintf("execution %.80q in playbook %q: %s", ref.ID, string(ref.Book), reason)}
}

// handleForm matches texts in the form of a handle. No id of a run has this form.
var handleForm = regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`)

// Feedback gives a run an outcome and returns the handle of its execution. The execution of f may be any id of a Ref. An open run is closed
// with this outcome. Feedback on a closed run is sent to the Reporter with the handle of the execution. The same id of f identifies the
// same feedback. Feedback returns a *NotFoundError for an unknown run and for one that the caller may not rate, and an *AmbiguousError for
// several.
func (s *Store) Feedback(ctx context.Context, f *events.FeedbackRequest) (*events.StoredReply, error) {
	if f.Execution == "" || handleForm.MatchString(string(f.Execution)) { // the Reporter refuses invalid ones
		return s.reporter.Feedback(ctx, f)
	}
	ref := Ref{Book: f.Book, ID: string(f.Execution), Caller: f.Caller}
	r, err := s.resolveRef(ctx, ref)
	if err != nil {
		return nil, err
	}
	inReport := false // the report of the run has the whole feedback
	if !r.Closed {
		outcome := f.Outcome.Complete()
		if outcome.Violation { // a report may not set one, so the feedback below does
			outcome = events.Outcome{}
		}
		gaveOutcome := false
		r, gaveOutcome, err = s.closeWith(ctx, r.ID, outcome)
		if err != nil {
			return nil, fmt.Errorf("close run %s: %w", ref.ID, err)
		}
		inReport = gaveOutcome && f.Target == ""
	}
	if r.Handle == "" {
		return nil, notFound(ref, "no complete reply, so it is not an execution")
	}
	if inReport {
		return &events.StoredReply{Handle: r.Handle, Execution: r.Handle}, nil
	}
	request := *f
	request.Execution = r.Handle
	stored, err := s.reporter.Feedback(ctx, &request)
	if err != nil {
		return nil, err
	}
	out := *stored
	out.Execution = r.Handle
	return &out, nil
}

// refWait is the wait for an unknown reference: a client can have a reply before its reference is stored.
var refWait = wait{tries: 5, pause: 100 * time.Millisecond}

// resolveRef returns the run that a reference names.
func (s *Store) resolveRef(ctx context.Context, ref Ref) (r *run, err error) {
	err = refWait.until(ctx, func() (bool, error) {
		r, err = s.findRef(ctx, ref)
		return r != nil, err
	})
	if err == nil && r == nil {
		err = notFound(ref, "unknown or expired")
	}
	return r, err
}

// findRef returns the run that a reference names, or nil. If the id is of several kinds, such as a session and a trace, the first kind in the
// order of Ref counts.
func (s *Store) findRef(ctx context.Context, ref Ref) (*run, error) {
	key := keys{ref.Caller.Owner, ref.Book}.key
	if ref.Caller.Reviews { // the caller may rate the runs of all owners
		key = keys{book: ref.Book}.ofAnyOwner
	}
	response, session := key(kindResponse, ref.ID), key(kindSession, events.FitName(ref.ID))
	turn, trace := key(kindTurn, fitTurn(ref.ID)), key(kindTrace, ref.ID)
	found, err := s.lookup(ctx, &s.closed, ref.Caller.MayRate, response, session, turn, trace) // see idReference
	if err != nil {
		return nil, fmt.Errorf("find run: %w", err)
	}
	byRunID, err := s.findRunID(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("find run: %w", err)
	}
	for _, list := range [][]candidate{found[response].runs, byRunID, found[session].runs, found[turn].runs, found[trace].runs} {
		list = filter(list, func(c *candidate) bool { return c.Book == ref.Book })
		switch {
		case len(list) == 0: // the id is not of this kind
		case isOneRun(list):
			return list[0].run, nil
		default:
			return nil, ambiguous(ref, list)
		}
	}
	return nil, nil
}

// findRunID returns the run whose id a reference has, as a list, if the caller may rate it.
func (s *Store) findRunID(ctx context.Context, ref Ref) (list []candidate, err error) {
	byID, err := s.runs(ctx, []events.ID{events.ID(ref.ID)})
	for _, r := range byID {
		if ref.Caller.MayRate(r.Owner) {
			list = append(list, candidate{revision: r})
		}
	}
	return list, err
}

// fitTurn returns SESSION/N with the name of the session as runs store it.
func fitTurn(id string) string {
	end := strings.LastIndexByte(id, '/')
	if end < 0 {
		return id
	}
	return events.FitName(id[:end]) + id[end:]
}

// ambiguous returns the error for several runs.
func ambiguous(ref Ref, list []candidate) error {
	e := &AmbiguousError{Ref: ref}
	for _, c := range list {
		if name := cmp.Or(string(c.Handle), string(c.ID)); !slices.Contains(e.Runs, name) {
			e.Runs = append(e.Runs, name)
		}
	}
	return e
}
