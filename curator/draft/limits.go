package draft

import (
	"fmt"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Limits of one delta, below those of the log: the number of changed bullets, and the encoded size. A reflection that exceeds a soft limit
// goes into the next delta. If a reflection alone exceeds a hard limit, the operations that do not fit are rejected. The space between the
// soft and the hard limits is for the decisions of the gate.
const (
	softBullets = playbook.MaxDeltaKeys - 100
	softBytes   = playbook.MaxDeltaBytes * 3 / 4
	hardBullets = playbook.MaxDeltaKeys
	hardBytes   = playbook.MaxDeltaBytes * 7 / 8
	// Rejections have separate limits, so that many rejections do not cause more.
	maxRejections  = 200
	rejectionBytes = playbook.MaxDeltaBytes / 16

	maxAuthor = 200 // bytes of the author in a delta
)

// Encoded sizes in bytes, rounded up, without texts.
const (
	coverBytes      = 24
	evidenceBytes   = 96
	comparedBytes   = 18
	supportBytes    = 5 // one index of a cover
	exposureBytes   = 18
	sourceBytes     = 12
	sequenceBytes   = 9
	experimentBytes = 40 + 3*(playbook.MaxScore+1)*5 // three arrays of counts
	bulletBytes     = 180
	opBytes         = 80
)

// sizeOfOp returns an upper bound of the encoded size of an operation.
func sizeOfOp(op *playbook.Op) int {
	n := opBytes + len(op.Bullet) + len(op.Section) + len(op.When) + len(op.Content) + len(op.Status) + len(op.Code) + len(op.Reason) + supportBytes*len(op.Support) +
		len(op.Replaces) + len(op.Contests) + len(op.Standing) + len(op.OldVote) + exposureBytes*len(op.Exposures)
	for _, id := range op.Sources {
		n += 5 + len(id)
	}
	if b := op.PutBullet; b != nil {
		n += bulletBytes + len(b.ID) + len(b.Section) + len(b.When) + len(b.Content) + len(b.Status) + len(b.Replaces) + len(b.Contests) + sequenceBytes*len(b.LearnedFrom)
		if e := b.Experiment; e != nil {
			n += experimentBytes + len(e.Standing) + len(e.Recent)
		}
		for _, s := range b.SupportBySource {
			n += sourceBytes + len(s.Source)
		}
	}
	return n
}

// sizeOfCover returns an upper bound of the encoded size of a cover.
func sizeOfCover(c *playbook.Cover) int {
	n := coverBytes + len(c.ID)
	if e := c.Evidence; e != nil {
		n += evidenceBytes + len(e.Execution) + len(e.Sample) + len(e.Owner) + len(e.User) + len(e.Session) + len(e.Source) + len(e.Excerpt) + len(e.Outcome) +
			len(e.Reflector) + len(e.Model) + len(e.Judge)
		if other := e.Compared; other != nil {
			n += comparedBytes + len(other.Execution) + len(other.User) + len(other.Session)
		}
	}
	return n
}

// addedOpBytes is the maximum size by which an operation grows while it is drafted: by a new id, a section and a condition. The condition
// counts twice, because the content begins with it.
const addedOpBytes = 60 + playbook.MaxSection + 2*playbook.MaxWhen

// fits reports whether the delta has room for all that a reflection may change. Otherwise the reflection goes into the next delta, so
// that none of its operations is rejected only because of the other reflections.
func (d *draft) fits(item *Item) bool {
	bullets := len(d.changed) + len(item.Reflection.Tags) + len(item.Proposals)
	cover := item.Cover()
	bytes := d.bytes + sizeOfCover(&cover)
	for _, t := range item.Reflection.Tags {
		bytes += opBytes + supportBytes + len(t.ID)
	}
	for _, id := range item.Reflection.Suspends {
		bullets++
		bytes += opBytes + len(id) + maxViolation
	}
	exposures := item.Reflection.Exposures[:min(len(item.Reflection.Exposures), events.MaxExposures)]
	if d.mode == playbook.GateOff {
		exposures = nil // they are not recorded
	}
	for _, t := range exposures {
		bytes += supportBytes + exposureBytes
		if d.sums[countKey{bullet: t.Bullet, kind: playbook.AddExposures, number: t.Experiment}] == nil {
			bullets++
			bytes += opBytes + len(t.Bullet)
		}
	}
	for i := range item.Proposals {
		op := &item.Proposals[i].Op
		bullets += len(op.Sources)
		bytes += sizeOfOp(op) + supportBytes*(1+len(item.Proposals[i].From)) + addedOpBytes
	}
	return bullets < softBullets && bytes < softBytes
}

// rejections collects the rejections of a delta.
type rejections struct {
	kept  []playbook.Rejection
	more  int // number of rejections beyond the limits, which are only counted
	bytes int // upper bound of the encoded size of kept
}

// add adds a rejection with truncated texts.
func (r *rejections) add(rejection playbook.Rejection) {
	op := &rejection.Op
	op.PutBullet = nil
	op.Kind = playbook.OpKind(text.Excerpt(string(op.Kind), screen.MaxName))
	op.Bullet = playbook.BulletID(text.Excerpt(string(op.Bullet), screen.MaxName))
	op.Status = playbook.Status(text.Excerpt(string(op.Status), screen.MaxName))
	op.Section = text.Excerpt(op.Section, playbook.MaxSection)
	op.When = text.Excerpt(op.When, playbook.MaxWhen)
	op.Content = text.Excerpt(op.Content, screen.MaxExcerpt)
	op.Reason = text.Excerpt(op.Reason, screen.MaxReason)
	rejection.Reason = text.Excerpt(rejection.Reason, screen.MaxReason)
	if len(op.Sources) > 8 {
		op.Sources = op.Sources[:8]
	}
	op.Sources = slices.Clone(op.Sources) // the caller's list stays as it is
	for i, id := range op.Sources {
		if len(id) > screen.MaxName {
			op.Sources[i] = playbook.BulletID(text.Excerpt(string(id), screen.MaxName))
		}
	}
	size := sizeOfOp(op) + len(op.Kind) + 16 + len(rejection.Code) + len(rejection.Reason)
	if len(r.kept) == maxRejections || r.bytes+size > rejectionBytes {
		r.more++
		return
	}
	r.bytes += size
	r.kept = append(r.kept, rejection)
}

// list returns the rejections. The last one counts those that were left out.
func (r *rejections) list() []playbook.Rejection {
	if r.more == 0 {
		return r.kept
	}
	more := playbook.Rejection{Code: playbook.ReasonMore, Reason: fmt.Sprintf("%d more proposals were rejected", r.more), Count: r.more}
	return append(r.kept[:len(r.kept):len(r.kept)], more)
}
