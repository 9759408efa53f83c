package draft

import (
	"fmt"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Limits of one delta: the number of changed bullets, and the encoded size of operations and covers. A reflection that would exceed a soft limit
// goes into the next delta. If a reflection alone exceeds a hard limit, the operations that do not fit are rejected, and decisions of the gate that
// do not fit go into the next delta. hardBytes leaves space for the rejections and the other fields of the delta.
const (
	softBullets = playbook.MaxDeltaKeys / 2
	softBytes   = playbook.MaxDeltaBytes / 2
	hardBullets = playbook.MaxDeltaKeys
	hardBytes   = playbook.MaxDeltaBytes * 7 / 8
	// Rejections have separate limits, so that they take no space from operations.
	maxRejections  = 200
	rejectionBytes = playbook.MaxDeltaBytes / 16
	maxSources     = 8 // source bullets of a rejected MERGE

	maxAuthor = 200 // bytes of the author in a delta
)

// sizeOf returns the encoded size of an operation, a cover or a rejection.
func sizeOf(v any) int {
	raw, _ := events.Marshal(v) // never fails for these types
	return len(raw)
}

// Maximum sizes in bytes by which an operation grows while it is drafted.
const (
	supportBytes  = 5 // one index of a cover
	exposureBytes = 18
	// addedOpBytes is for a new id, a section and a condition. The condition counts twice, because the content begins with it.
	addedOpBytes = 60 + playbook.MaxSection + 2*playbook.MaxWhen
)

// hasRoomForReflection reports whether the delta stays below the soft limits with the votes and proposals of a reflection. Otherwise the
// reflection goes into the next delta, so that none of its operations is rejected only because of the other reflections.
func (d *draft) hasRoomForReflection(item *Item) bool {
	bullets, bytes := len(d.changed)+len(item.Reflection.Tags), d.bytes
	for i := range item.Proposals {
		op := &item.Proposals[i].Op
		bullets += 1 + len(op.Sources)
		bytes += sizeOf(op) + addedOpBytes
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
	op.Sources = slices.Clone(op.Sources[:min(len(op.Sources), maxSources)]) // a copy, because the caller keeps the list
	for i, id := range op.Sources {
		op.Sources[i] = playbook.BulletID(text.Excerpt(string(id), screen.MaxName))
	}
	size := sizeOf(&rejection)
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
