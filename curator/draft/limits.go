package draft

import (
	"fmt"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Limits of one delta, below those of the log. A reflection that does not fit into the soft limits (room) goes into the next delta. If a
// reflection alone exceeds the hard limits (full), the operations that do not fit are rejected. The space between the soft and the hard
// limits is for the decisions of the gate.
const (
	roomKeys  = playbook.MaxDeltaKeys - 100
	roomBytes = playbook.MaxDeltaBytes * 3 / 4
	fullKeys  = playbook.MaxDeltaKeys
	fullBytes = playbook.MaxDeltaBytes * 7 / 8
	// Rejections have separate limits, so that many rejections do not cause more.
	maxRejections  = 200
	rejectionBytes = playbook.MaxDeltaBytes / 16

	// The author in a delta, in bytes.
	maxAuthor = 200
)

// Encoded sizes in bytes, rounded up, without texts.
const (
	coverSize      = 24
	evidenceSize   = 96
	comparedSize   = 18
	supportSize    = 5
	exposureSize   = 18
	sourceSize     = 12
	reflectionSize = 9                              // a sequence
	experimentSize = 40 + 3*(playbook.MaxScore+1)*5 // three arrays of counts
	bulletSize     = 180
	opFixedSize    = 80
)

// opSize returns an upper bound of the encoded size of an operation.
func opSize(op *playbook.Op) int {
	n := opFixedSize + len(op.Bullet) + len(op.Section) + len(op.When) + len(op.Content) + len(op.Status) + len(op.Code) + len(op.Reason) + supportSize*len(op.Support) +
		len(op.Replaces) + len(op.Contests) + len(op.Standing) + len(op.OldVote) + exposureSize*len(op.Exposures)
	for _, id := range op.Sources {
		n += 5 + len(id)
	}
	if b := op.PutBullet; b != nil {
		n += bulletSize + len(b.ID) + len(b.Section) + len(b.When) + len(b.Content) + len(b.Status) + len(b.Replaces) + len(b.Contests) + reflectionSize*len(b.LearnedFrom)
		if e := b.Experiment; e != nil {
			n += experimentSize + len(e.Standing) + len(e.Recent)
		}
		for _, s := range b.SupportBySource {
			n += sourceSize + len(s.Source)
		}
	}
	return n
}

// coverBytes returns an upper bound of the encoded size of a cover.
func coverBytes(c *playbook.Cover) int {
	n := coverSize + len(c.ID)
	if e := c.Evidence; e != nil {
		n += evidenceSize + len(e.Execution) + len(e.Sample) + len(e.Owner) + len(e.User) + len(e.Session) + len(e.Source) + len(e.Excerpt) + len(e.Outcome) +
			len(e.Reflector) + len(e.Model) + len(e.Judge)
		if other := e.Compared; other != nil {
			n += comparedSize + len(other.Execution) + len(other.User) + len(other.Session)
		}
	}
	return n
}

// idSize is the maximum size that a new id, a section and a condition add to an operation. The condition counts twice, because the content
// begins with it.
const idSize = 60 + playbook.MaxSection + 2*playbook.MaxWhen

// fits reports whether the delta has room for all that a reflection may change. Otherwise the reflection goes into the next delta, so
// that none of its operations is rejected only because of the other reflections.
func (d *draft) fits(item *Item) bool {
	keys := len(d.changed) + len(item.Reflection.Tags) + len(item.Proposals)
	cover := item.Cover()
	bytes := d.bytes + coverBytes(&cover)
	for _, t := range item.Reflection.Tags {
		bytes += opFixedSize + supportSize + len(t.ID)
	}
	for _, id := range item.Reflection.Suspends {
		keys++
		bytes += opFixedSize + len(id) + maxViolation
	}
	exposures := item.Reflection.Exposures[:min(len(item.Reflection.Exposures), events.MaxExposures)]
	if d.mode == playbook.GateOff {
		exposures = nil // they are not recorded
	}
	for _, t := range exposures {
		bytes += supportSize + exposureSize
		if d.sums[countKey{bullet: t.Bullet, kind: playbook.AddExposures, number: t.Experiment}] == nil {
			keys++
			bytes += opFixedSize + len(t.Bullet)
		}
	}
	for i := range item.Proposals {
		op := &item.Proposals[i].Op
		keys += len(op.Sources)
		bytes += opSize(op) + supportSize*(1+len(item.Proposals[i].From)) + idSize
	}
	return keys < roomKeys && bytes < roomBytes
}

// rejections collects the rejections of a delta. It truncates their texts and only counts those beyond the limits.
type rejections struct {
	kept  []playbook.Rejection
	more  int
	bytes int
}

// add adds a rejection.
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
	size := opSize(op) + len(op.Kind) + 16 + len(rejection.Code) + len(rejection.Reason)
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
