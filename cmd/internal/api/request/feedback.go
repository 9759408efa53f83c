package request

import (
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// FeedbackResult is feedback on an execution with its effect, which comes from the log of its playbook.
type FeedbackResult struct {
	Handle    events.Handle  `json:"handle,omitempty"` // of the feedback; of its first copy if Duplicate is set
	Execution events.Handle  `json:"execution"`
	Book      playbook.Book  `json:"book"`
	Duplicate bool           `json:"duplicate"`
	After     events.Outcome `json:"after"`             // outcome of the execution after the feedback
	Version   string         `json:"version,omitempty"` // version that covers the feedback; empty until a delta covers it
	Before    events.Outcome `json:"before"`            // latest outcome before the feedback, or the latest of all if the log covers it already
	Moved     []MovedVote    `json:"moved_votes"`
	Outcomes  int            `json:"moved_outcomes"` // outcomes moved in experiments
	Refused   []string       `json:"refused,omitempty"`

	log              deltaReader
	sequence         uint64 // sequence of the feedback, 0 before it is stored
	logEnd           uint64 // sequence of the last delta read
	sample, feedback string // ids
	beforeSeq        uint64 // sequence of the feedback that Before comes from; 0 for the execution itself
}

// MovedVote is a vote that moved between counters. Before is empty for a new vote, After for a withdrawn one.
type MovedVote struct {
	Bullet playbook.BulletID `json:"bullet_id"`
	Before playbook.Vote     `json:"old_vote,omitempty"`
	After  playbook.Vote     `json:"new_vote,omitempty"`
}

type deltaReader interface {
	DeltasAfter(ctx context.Context, b playbook.Book, seq uint64, fn func(*deltalog.Record) error) error
}

// NewFeedbackResult returns the result of feedback that is not stored yet. If the log covers the feedback already, an earlier copy of it
// took effect: the result is a duplicate with the handle and the version of that copy, and there is nothing to store. Otherwise it has no
// version until Wait returns.
func NewFeedbackResult(ctx context.Context, log deltaReader, f *events.Feedback, e *events.Execution) (*FeedbackResult, error) {
	r := newFeedbackResult(log, f, e)
	if err := r.readLog(ctx); err != nil {
		return nil, err
	}
	if r.Version != "" {
		r.Duplicate, r.After = true, r.Before
	} else {
		r.After = r.Before.WithFeedback(f)
	}
	return r, nil
}

func newFeedbackResult(log deltaReader, f *events.Feedback, e *events.Execution) *FeedbackResult {
	return &FeedbackResult{
		Execution: f.Execution, Book: e.Book, Before: e.Outcome, Moved: []MovedVote{},
		log: log, sample: string(e.SampleID()), feedback: string(f.ID),
	}
}

// SetStored records that the feedback is stored.
func (r *FeedbackResult) SetStored(s *events.StoredReply) error {
	var err error
	r.Handle, r.Duplicate = s.Handle, s.Duplicate
	r.sequence, _, err = s.Handle.Parse()
	return err
}

// readLog reads the new deltas of the log.
func (r *FeedbackResult) readLog(ctx context.Context) error {
	return r.log.DeltasAfter(ctx, r.Book, r.logEnd, func(d *deltalog.Record) error {
		r.logEnd = d.Seq
		r.add(d)
		return nil
	})
}

// PendingError reports that no delta covers the feedback yet. Role is the role that has not processed it.
type PendingError struct {
	Handle events.Handle
	Role   string
	After  time.Duration
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("feedback not applied after %s: it waits for a %s; it is stored as %s and will be applied when one runs", e.After, e.Role, e.Handle)
}

type lagReader interface {
	Lag(ctx context.Context, role string) (bus.Lag, error)
}

// Wait reads the log until a delta covers the feedback. After the timeout it returns a *PendingError.
func (r *FeedbackResult) Wait(ctx context.Context, s lagReader, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for pause := 20 * time.Millisecond; r.Version == ""; pause = min(2*pause, 500*time.Millisecond) {
		if time.Now().After(deadline) {
			return r.pendingError(ctx, s, timeout)
		}
		if err := events.Sleep(ctx, pause); err != nil {
			return err
		}
		if err := r.readLog(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pendingError returns the *PendingError with the role that has the feedback now.
func (r *FeedbackResult) pendingError(ctx context.Context, s lagReader, timeout time.Duration) error {
	lag, err := s.Lag(ctx, events.RoleReflector)
	if err != nil {
		return err
	}
	role := events.RoleCurator
	if lag.Floor < r.sequence { // the reflectors have not acknowledged the feedback yet
		role = events.RoleReflector
	}
	return &PendingError{r.Handle, role, timeout}
}

// add adds the next delta of the log.
//
//   - If the feedback is not stored yet, add keeps the latest outcome of the sample in Before. If a delta covers the feedback already, it is
//     a duplicate without an effect of its own, and add sets the handle of its first copy.
//   - If it is stored, add collects the effect of the delta that covers it.
func (r *FeedbackResult) add(d *deltalog.Record) {
	stored := r.sequence > 0
	for i, c := range d.Covers {
		e := c.Evidence
		if e == nil || e.Sample != r.sample {
			continue
		}
		if e.FeedbackSeq > 0 && c.ID == r.feedback {
			r.Version = playbook.VersionLabel(d.Version, d.Chain)
			if stored {
				r.collect(d, i)
			} else if r.Handle == "" {
				r.Handle = events.NewHandle(e.FeedbackSeq, events.ID(c.ID))
			}
		}
		if !stored && e.FeedbackSeq > r.beforeSeq {
			r.beforeSeq, r.Before = e.FeedbackSeq, events.Outcome{Label: events.Label(e.Outcome), Score: e.Score}
		}
	}
}

// collect adds the operations and rejections of a delta that the cover at index supports. A vote counts once for each entry in Support.
func (r *FeedbackResult) collect(d *deltalog.Record, index int) {
	for i := range d.Ops {
		op := &d.Ops[i]
		for _, s := range op.Support {
			switch {
			case s != index:
			case op.Kind == playbook.Tag || op.Kind == playbook.Retag:
				r.Moved = append(r.Moved, MovedVote{op.Bullet, op.OldVote, op.NewVote()})
			case op.Kind == playbook.AddExposures:
				r.Outcomes++
			}
		}
	}
	for _, j := range d.Rejected {
		if slices.Contains(j.Op.Support, index) {
			r.Refused = append(r.Refused, j.Reason)
		}
	}
}
