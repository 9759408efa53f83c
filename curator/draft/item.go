package draft

import (
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Item is a reflection or an edit with all that is needed to draft it. Exactly one of Reflection and Edit is set.
type Item struct {
	ID         events.ID // of the event
	Seq        uint64    // in the stream REFLECTIONS
	Reflection *events.Reflection
	Edit       *events.Edit

	Proposals []Proposal           // from a model or from the lessons
	Rejected  []playbook.Rejection // rejected before a draft
	Model     string               // that made the proposals; empty without a model
	Prompt    string               // version of the prompt for the model

	// For an edit: data that must be read first, and the decision of the last draft for the reply.
	Target   *Target
	Gathered *Gathered
	Decision events.EditReply

	// For a correction: the votes and outcomes of its sample, nil before the log is read. EarlierDone reports that the
	// earlier reflections on the sample are in the log, or that the wait for them has ended.
	Contribution *history.Contribution
	EarlierDone  bool

	coverIndex  int  // index in draft.covers, set when the item is drafted
	mustCorrect bool // its feedback is the first on the execution, but other feedback on the sample is in the log already
}

// Proposal is an operation and the items that support it. It belongs to the last of these items in the batch. If From is empty, a Merge
// rests on the executions behind its bullets alone, and any other operation rests on the item that it belongs to.
type Proposal struct {
	Op   playbook.Op
	From []*Item
}

// Target is the state that a restore, forget, rebuild or fork leads to, read from the log.
type Target struct {
	Version  uint64             // of the playbook when the log was read
	Playbook *playbook.Playbook // the bullets to change to; nil for a rebuild
	Before   uint64             // of a forget: the first sequence of the stream of executions that it does not apply to
	Source   *playbook.Playbook // of a fork: the playbook that it copies
	Problem  string             // why the edit is impossible, or empty
}

// Gathered contains the reflections that an edit gathers.
type Gathered struct {
	Items    []*Item  // without duplicates and skipped reflections
	Problems []string // a sentence for each reflection that cannot be gathered
}

// Cover returns the cover of the item's event.
func (item *Item) Cover() playbook.Cover {
	if item.Edit != nil {
		return item.Edit.Cover(item.Seq)
	}
	return item.Reflection.Cover(item.Seq)
}

// IsCorrection reports whether the item is a reflection on feedback that may have votes or outcomes to replace. The result
// may change from false to true when the item is drafted.
func (item *Item) IsCorrection() bool {
	r := item.Reflection
	if r == nil || r.FeedbackSeq == 0 { // an edit, or not on feedback
		return false
	}
	return !r.FirstOutcome || item.mustCorrect
}

// Gathers reports whether the item is an edit that gathers reflections.
func (item *Item) Gathers() bool { return item.Edit != nil && len(item.Edit.Gather) > 0 }

// ready reports whether the item has the data that its draft against the state p needs. A correction, restore, forget or rebuild needs data
// from the log up to the version of p. A fork needs the playbook that it copies. An edit that gathers reflections needs these reflections.
func (item *Item) ready(p *playbook.Playbook) bool {
	switch {
	case item.IsCorrection():
		return item.EarlierDone && item.Contribution != nil && item.Contribution.Version() == p.Version()
	case item.Edit == nil:
		return true
	case item.Gathers():
		return item.Gathered != nil
	case item.Edit.Fork != nil:
		return item.Target != nil
	case item.Edit.Restore == nil && item.Edit.Forget == nil && !item.Edit.Rebuild:
		return true
	}
	return item.Target != nil && item.Target.Version == p.Version()
}
