package request

import (
	"slices"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// FeedbackEffect collects the effect of feedback from the log of its playbook.
type FeedbackEffect struct {
	Before   events.Outcome `json:"before"` // the latest outcome of the sample before the feedback
	Moved    []MovedVote    `json:"moved_votes"`
	Outcomes int            `json:"moved_outcomes"` // outcomes moved in experiments
	Refused  []string       `json:"refused,omitempty"`

	sample, feedback string           // ids
	beforeSeq        uint64           // sequence of the feedback that Before comes from; 0 for the execution itself
	covering         *deltalog.Record // nil until a delta covers the feedback
}

// MovedVote is a vote that moved between counters. Before is empty for a new vote, After for a withdrawn one.
type MovedVote struct {
	Bullet playbook.BulletID `json:"bullet_id"`
	Before playbook.Vote     `json:"old_vote,omitempty"`
	After  playbook.Vote     `json:"new_vote,omitempty"`
}

// NewFeedbackEffect returns the effect of feedback on an execution before the first delta.
func NewFeedbackEffect(f *events.Feedback, e *events.Execution) *FeedbackEffect {
	return &FeedbackEffect{Before: e.Outcome, Moved: []MovedVote{}, sample: string(e.SampleID()), feedback: string(f.ID)}
}

// Covering returns the delta that covers the feedback, or nil.
func (f *FeedbackEffect) Covering() *deltalog.Record { return f.covering }

// Read adds the next delta of the log. published is set after this feedback was stored. Before that, Read keeps the latest outcome of the
// sample in Before; a delta that covers the feedback makes it a duplicate of earlier feedback, without an effect of its own. After
// that, Read collects the effect of the delta that covers the feedback.
func (f *FeedbackEffect) Read(r *deltalog.Record, published bool) {
	for i, c := range r.Covers {
		e := c.Evidence
		if e == nil || e.Sample != f.sample {
			continue
		}
		if e.FeedbackSeq > 0 && c.ID == f.feedback {
			f.covering = r
			if published {
				f.collect(r, i)
			}
		}
		if !published && e.FeedbackSeq > f.beforeSeq {
			f.beforeSeq, f.Before = e.FeedbackSeq, events.Outcome{Label: events.Label(e.Outcome), Score: e.Score}
		}
	}
}

// collect adds the operations and rejections of a delta that the cover at index supports. A vote counts once for each entry in Support.
func (f *FeedbackEffect) collect(r *deltalog.Record, index int) {
	for i := range r.Ops {
		op := &r.Ops[i]
		for _, s := range op.Support {
			switch {
			case s != index:
			case op.Kind == playbook.Tag || op.Kind == playbook.Retag:
				f.Moved = append(f.Moved, MovedVote{op.Bullet, op.OldVote, op.NewVote()})
			case op.Kind == playbook.AddExposures:
				f.Outcomes++
			}
		}
	}
	for _, j := range r.Rejected {
		if slices.Contains(j.Op.Support, index) {
			f.Refused = append(f.Refused, j.Reason)
		}
	}
}
