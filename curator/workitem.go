package curator

import (
	"errors"
	"fmt"

	"debrief/curator/draft"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// workItem is a reflection or an edit in a batch, with its proposals. Proposals are made once. Each attempt to commit
// decides against the current state which of them become operations.
type workItem struct {
	propose.Item
	trace    string // trace id
	result   *bus.Result
	gathered *gatherResult // for an edit that gathers reflections
}

// drafts returns the items in the form of the package draft.
func drafts(items []*workItem) []*draft.Item {
	list := make([]*draft.Item, len(items))
	for i, item := range items {
		list[i] = &item.Item.Item
	}
	return list
}

// newWorkItem returns the work item of a delivery. It returns an error if the event is neither a reflection nor an edit.
func newWorkItem(d *bus.Delivery, result *bus.Result) (*workItem, error) {
	item := &workItem{
		Item: propose.Item{Item: draft.Item{ID: d.Event.EventID(), Seq: d.Seq}}, trace: events.TraceID(d.Trace), result: result,
	}
	switch e := d.Event.(type) {
	case *events.Reflection:
		item.Reflection = e
	case *events.Edit:
		item.Edit = e
	default:
		return nil, fmt.Errorf("create work item: unexpected event kind %q", d.Event.Kind())
	}
	return item, nil
}

// coverLookup looks up covered ids in one state. Its methods return false on an error and collect the errors in err.
type coverLookup struct {
	state deltalog.State
	err   error
}

// covered reports whether the log covers the event of an item.
func (l *coverLookup) covered(item *draft.Item) bool {
	cover := item.Cover()
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
		*item.result = bus.Result{Version: s.Playbook().Version(), ModelUseful: item.Useful}
		if item.Edit == nil {
			continue
		}
		item.Decision.Version, item.Decision.Chain = s.Playbook().Version(), s.Chain()
		if item.gathered != nil {
			item.gathered.fillDecision(&item.Decision)
		}
		item.result.Reply, _ = events.Marshal(&item.Decision) // a decision can always be encoded
	}
}
