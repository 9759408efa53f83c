package curator

import (
	"fmt"

	"debrief/playbook"
)

// Bounds on one delta, under those of the log. A reflection that would go past the room waits for the next delta. One
// that alone is larger than a delta gets what fits, and the rest is turned down; between room and full there is space
// for rule bullets to be brought in line with their counts.
const (
	roomKeys  = playbook.MaxDeltaKeys - 100
	roomBytes = playbook.MaxDeltaBytes * 3 / 4
	fullKeys  = playbook.MaxDeltaKeys
	fullBytes = playbook.MaxDeltaBytes * 7 / 8
	// Rejections have room of their own, so that turning down much does not turn down more.
	maxRejections  = 200
	rejectionBytes = playbook.MaxDeltaBytes / 16

	frameBytes = 128 << 10 // of an import's frame, a delta

	// Texts that a delta records beside its content, in bytes.
	maxReason  = 1000
	maxAuthor  = 200
	maxName    = 200 // an id or a key, where it is quoted
	maxExcerpt = 500 // of content that was turned down
)

// Encoded sizes, rounded up: what is not text.
const (
	coverSize   = 24
	maxEvidence = 1200 // evidence of a reflection, all its texts at their bounds
	supportSize = 5
	seenSize    = 18
	fixedSize   = 80
)

// opSize is at least what an operation takes in a delta.
func opSize(op *playbook.Op) int {
	n := fixedSize + len(op.Bullet) + len(op.Section) + len(op.Content) + len(op.Status) + len(op.Reason) + supportSize*len(op.Support) +
		len(op.Replaces) + len(op.Was) + seenSize*len(op.Seen)
	for _, id := range op.Sources {
		n += 5 + len(id)
	}
	if r := op.Rule; r != nil {
		n += 32 + len(r.Key) + len(r.Base) + len(r.Text)
	}
	if b := op.Whole; b != nil {
		n += 160 + len(b.ID) + len(b.Section) + len(b.Content)
		if r := b.Rule; r != nil {
			n += 32 + len(r.Key) + len(r.Base) + len(r.Text)
		}
	}
	return n
}

// coverBytes is at least what a cover takes in a delta.
func coverBytes(c *playbook.Cover) int {
	n := coverSize + len(c.ID)
	if e := c.Evidence; e != nil {
		n += 40 + len(e.Execution) + len(e.Session) + len(e.Source) + len(e.Excerpt) + len(e.Outcome) + len(e.Reflector) + len(e.Model)
	}
	return n
}

// room reports whether an operation on so many bullets can still go into the delta.
func (d *draft) room(op *playbook.Op, bullets int) bool {
	return d.whole || d.bytes+opSize(op)+idSize <= fullBytes && len(d.changed)+bullets <= fullKeys
}

// idSize is what an id and a section grow an Add by when it gets them.
const idSize = 40 + playbook.MaxSection

// fits reports whether everything a reflection may change has room, so that nothing of it is turned down for want of
// room here that would not be in a delta of its own.
func (d *draft) fits(k *docket) bool {
	keys := len(d.changed) + len(k.r.Tags) + len(k.r.Findings) + len(k.proposals)
	bytes := d.bytes + coverSize + len(k.id) + maxEvidence
	for _, t := range k.r.Tags {
		bytes += fixedSize + supportSize + len(t.ID)
	}
	for _, t := range k.r.Trials[:min(len(k.r.Trials), maxTrials)] {
		if d.mode == playbook.GateOff {
			break
		}
		bytes += supportSize + seenSize
		if d.sums[tally{bullet: t.Bullet, kind: playbook.Trial, number: t.Case}] == nil {
			keys++
			bytes += fixedSize + len(t.Bullet)
		}
	}
	for i := range k.r.Findings {
		f := &k.r.Findings[i]
		bytes += 2*(fixedSize+supportSize) + 2*idSize + 32 + len(f.Key) + len(f.Base) + 2*len(f.Text)
	}
	for i := range k.proposals {
		op := &k.proposals[i].op
		keys += len(op.Sources)
		bytes += opSize(op) + supportSize*(1+len(k.proposals[i].from)) + idSize
	}
	return keys < roomKeys && bytes < roomBytes
}

// rejections are what was turned down, as a delta keeps it: texts cut, and past the bounds only counted.
type rejections struct {
	kept  []playbook.Rejection
	more  int
	bytes int
}

func (r *rejections) add(j playbook.Rejection) {
	op := &j.Op
	op.Rule, op.Whole = nil, nil
	op.Kind = playbook.OpKind(clip(string(op.Kind), maxName))
	op.Bullet = playbook.BulletID(clip(string(op.Bullet), maxName))
	op.Status = playbook.Status(clip(string(op.Status), maxName))
	op.Section = clip(op.Section, playbook.MaxSection)
	op.Content = clip(op.Content, maxExcerpt)
	op.Reason = clip(op.Reason, maxReason)
	j.Reason = clip(j.Reason, maxReason)
	if len(op.Sources) > 8 {
		op.Sources = op.Sources[:8]
	}
	for i, id := range op.Sources {
		if len(id) > maxName {
			op.Sources = append([]playbook.BulletID{}, op.Sources...)
			op.Sources[i] = playbook.BulletID(clip(string(id), maxName))
		}
	}
	size := opSize(op) + len(op.Kind) + 16 + len(j.Reason)
	if len(r.kept) == maxRejections || r.bytes+size > rejectionBytes {
		r.more++
		return
	}
	r.bytes += size
	r.kept = append(r.kept, j)
}

func (r *rejections) list() []playbook.Rejection {
	if r.more == 0 {
		return r.kept
	}
	return append(r.kept[:len(r.kept):len(r.kept)], playbook.Rejection{Reason: fmt.Sprintf("%d more proposals were rejected", r.more)})
}
