package curator

import (
	"errors"
	"fmt"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// workItem is a reflection or an edit in a batch, with its proposals. Proposals are made once. Each attempt to commit
// decides against the current state which of them become operations.
type workItem struct {
	id         events.ID // of the event
	seq        uint64    // in the stream REFLECTIONS
	trace      string    // trace id
	attempt    int       // delivery number, from 1
	reflection *events.Reflection
	edit       *events.Edit // exactly one of r and e is set
	result     *bus.Result

	proposals  []proposal           // from a model or from the lessons
	rejected   []playbook.Rejection // rejected before a draft
	model      string               // that made the proposals
	modelInput *events.Reflection   // the reflection as a model gets it; nil if no model is asked
	modelDone  bool                 // a model was asked about it, and its reply was useful
	coverIndex int                  // index of its cover in the current draft

	// For an edit: data that must be read first, and the decision of the last draft for the reply.
	target   *editTarget
	gathered *gatherResult
	decision events.EditReply

	// For a correction: the votes and outcomes of its sample, read from the log up to readSeq.
	contribution *history.Contribution
	readSeq      uint64
	waitDone     bool // waited for earlier reflections on the sample
	mustCorrect  bool // first feedback on its execution, but other feedback on the sample was faster
}

// proposal is an operation and the work items that support it. It belongs to the last of these items in the batch.
type proposal struct {
	op   playbook.Op
	from []*workItem
}

// newWorkItem returns the work item of a delivery. It returns an error if the event is neither a reflection nor an edit.
func newWorkItem(d *bus.Delivery, result *bus.Result) (*workItem, error) {
	item := &workItem{id: d.Event.EventID(), seq: d.Seq, attempt: d.Attempt, trace: events.TraceID(d.Trace), result: result}
	switch e := d.Event.(type) {
	case *events.Reflection:
		item.reflection = e
	case *events.Edit:
		item.edit = e
	default:
		return nil, fmt.Errorf("create work item: unexpected event kind %q", d.Event.Kind())
	}
	return item, nil
}

// toCover returns the cover of the work item's event.
func (item *workItem) toCover() playbook.Cover {
	if item.edit != nil {
		return item.edit.Cover(item.seq)
	}
	return item.reflection.Cover(item.seq)
}

// coverLookup looks up covered ids in one state. Its methods return false on an error and collect the errors in err.
type coverLookup struct {
	state deltalog.State
	err   error
}

// covered reports whether the log covers the event of a work item.
func (l *coverLookup) covered(item *workItem) bool {
	cover := item.toCover()
	ok, err := l.state.Covers(cover.Key())
	l.err = errors.Join(l.err, err)
	return ok
}

// hasFeedback reports whether the log covers feedback on a sample.
func (l *coverLookup) hasFeedback(sample events.ID) bool {
	ok, err := l.state.Covers(playbook.FeedbackKey(string(sample)))
	l.err = errors.Join(l.err, err)
	return ok
}

// fillResults sets the results of decided work items. The reply to an edit contains its decision and the version.
func fillResults(decided []*workItem, s deltalog.State) {
	for _, item := range decided {
		*item.result = bus.Result{Version: s.Playbook().Version(), ModelUseful: item.modelDone}
		if item.edit == nil {
			continue
		}
		item.decision.Version, item.decision.Chain = s.Playbook().Version(), s.Chain()
		if item.gathered != nil {
			item.gathered.fillDecision(&item.decision)
		}
		reply, err := events.Marshal(&item.decision)
		if err == nil {
			item.result.Reply = reply
		}
	}
}
