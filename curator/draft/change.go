package draft

import (
	"cmp"
	"slices"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// change drafts an operation on the content, the status or the existence of a bullet, and sets the id of a new bullet. It returns nil, or the
// reason to reject the operation.
func (d *draft) change(op *playbook.Op) *screen.Refusal {
	if !d.hasRoom(op, 1+len(op.Sources)) {
		return errFull
	}
	switch op.Kind {
	case playbook.Add:
		return d.add(op)
	case playbook.Put:
		return d.importBullet(op)
	}
	b := d.Bullet(op.Bullet)
	if b == nil {
		return unknownBullet(op.Bullet)
	}
	switch op.Kind {
	case playbook.Confirm:
		return d.confirm(op, duplicateText(b))
	case playbook.Update:
		same := d.findByContent(op.Content)
		switch {
		case same != "" && same != op.Bullet:
			return screen.Refusef(playbook.ReasonDuplicate, "bullet %q has the same text as the new text of %q", same, op.Bullet)
		case op.When == b.When && op.Content == b.Content && (op.Section == "" || op.Section == b.Section):
			return duplicateText(b)
		}
		op.Standing = d.newStanding()
		d.contents[playbook.ContentKeyOf(op.Content)] = b.ID
	case playbook.SetStatus, playbook.Pin: // always possible
	case playbook.Remove:
		if b.Pinned {
			return screen.Refusef(playbook.ReasonPinned, "bullet %q is pinned", op.Bullet)
		}
		d.flushCounts() // votes on the bullet must come before its removal
		d.changed[b.ID] = nil
		d.addOp(*op)
		return nil
	case playbook.Merge:
		return d.merge(op, b)
	default:
		return screen.Refusef(playbook.ReasonInvalid, "type: %q is not allowed here", text.Excerpt(string(op.Kind), screen.MaxName))
	}
	d.changeBullet(*op)
	return nil
}

// duplicateText returns the refusal for content that a bullet has already.
func duplicateText(b *playbook.Bullet) *screen.Refusal { return duplicateOf(b, "has the same text") }

// duplicateAdvice returns the refusal for a request that needs no operation, because a bullet gives the advice already.
func duplicateAdvice(b *playbook.Bullet) *screen.Refusal {
	return duplicateOf(b, "gives this advice already")
}

func duplicateOf(b *playbook.Bullet, what string) *screen.Refusal {
	state := ""
	switch b.Status {
	case playbook.Retired:
		state = " and is retired"
	case playbook.Quarantined:
		state = " and is in quarantine"
	}
	refusal := screen.Refusef(playbook.ReasonDuplicate, "bullet %q %s%s", b.ID, what, state)
	refusal.DuplicateOf = b.ID
	return refusal
}

// merge drafts the merge of the source bullets into b, which keeps its id. It removes b and duplicates from op.Sources.
func (d *draft) merge(op *playbook.Op, b *playbook.Bullet) *screen.Refusal {
	var ids []playbook.BulletID
	for _, id := range op.Sources {
		if id != op.Bullet && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	op.Sources = ids
	if len(ids) == 0 {
		return screen.Refusef(playbook.ReasonInvalid, "source_ids: at least one other bullet is required")
	}
	var sources []*playbook.Bullet
	for _, id := range ids {
		src := d.Bullet(id)
		switch {
		case src == nil:
			return unknownBullet(id)
		case src.Pinned:
			return screen.Refusef(playbook.ReasonPinned, "bullet %q is pinned", id)
		}
		sources = append(sources, src)
	}
	if same := d.findByContent(op.Content); same != "" && same != op.Bullet && !slices.Contains(op.Sources, same) {
		return duplicateText(d.Bullet(same))
	}
	if !d.byPerson {
		replaced := []*playbook.Bullet{b}
		for _, src := range sources {
			if !d.isCovered(src, b, op) {
				replaced = append(replaced, src)
			}
		}
		if refusal := refuseLoss(op, replaced); refusal != nil {
			return refusal
		}
	}
	d.flushCounts() // votes on the bullets must come before the merge
	for _, id := range op.Sources {
		d.changed[id] = nil
	}
	if op.Content != b.Content {
		op.Standing = d.newStanding()
	}
	d.changed[b.ID] = b.Apply(op, d.covers, sources...)
	d.contents[playbook.ContentKeyOf(op.Content)] = b.ID
	d.addOp(*op)
	return nil
}

// add drafts a new bullet, unless a bullet has the same or nearly the same text.
func (d *draft) add(op *playbook.Op) *screen.Refusal {
	if op.Bullet != "" {
		return screen.Refusef(playbook.ReasonInvalid, "bullet_id: %q is not allowed: the playbook assigns the id of a new bullet",
			text.Excerpt(string(op.Bullet), screen.MaxName))
	}
	if same := d.findByContent(op.Content); same != "" {
		return d.confirm(op, duplicateText(d.Bullet(same)))
	}
	if d.byPerson { // a person may add a similar text
		if op.Replaces != "" && d.Bullet(op.Replaces) == nil {
			return unknownBullet(op.Replaces)
		}
		return d.mint(op)
	}
	if same, similarity := d.findSimilar(op.Content); same != "" {
		refusal := screen.Refusef(playbook.ReasonSimilar, "bullet %q has nearly the same text (similarity %.2f)", same, similarity)
		refusal.DuplicateOf = same
		return d.confirm(op, refusal)
	}
	if op.Status != playbook.Quarantined {
		d.limitBurst(op)
	}
	return d.mint(op)
}

// confirm drafts a Confirm: one more request for the text of a bullet that waits or is retired. duplicate is the refusal of op as a duplicate
// of that bullet. confirm returns duplicate if the bullet needs no request, or if a request of the same sample counts already.
func (d *draft) confirm(op *playbook.Op, duplicate *screen.Refusal) *screen.Refusal {
	b := d.Bullet(duplicate.DuplicateOf)
	hasRequested := d.correction != nil && d.correction.Requested(b.ID) // with the outcome that is now corrected
	if d.byPerson || hasRequested || !d.countsRequests(b) {
		return duplicate
	}
	counted := d.countedRequests(b.ID)
	support := slices.DeleteFunc(slices.Clone(op.Support), func(i int) bool { return slices.Contains(counted, i) })
	if len(support) == 0 {
		return duplicate
	}
	var refusal *screen.Refusal
	support = slices.DeleteFunc(support, func(i int) bool {
		refused := d.refuseSource(b, d.covers[i].Evidence)
		refusal = cmp.Or(refused, refusal)
		return refused != nil
	})
	if len(support) == 0 {
		return refusal
	}
	confirm := playbook.Op{Kind: playbook.Confirm, Bullet: b.ID, Support: support}
	if !d.hasRoom(&confirm, 1) {
		return errFull
	}
	d.changed[b.ID] = b.Apply(&confirm, d.covers)
	d.sum(countKey{bullet: b.ID, kind: playbook.Confirm}, confirm)
	d.evidenceChanged[b.ID] = struct{}{}
	return nil
}

// countsRequests reports whether requests for the text of a bullet change its status. With the gate off, only a text with inferred outcomes
// waits for another execution.
func (d *draft) countsRequests(b *playbook.Bullet) bool {
	if d.mode == playbook.GateOff {
		return b.Status == playbook.Candidate && b.OnlyInferred
	}
	return b.Status == playbook.Candidate || b.Status == playbook.Probation || gate.MayReturn(b)
}

// countedRequests returns the covers that request a bullet in this draft already.
func (d *draft) countedRequests(id playbook.BulletID) (covers []int) {
	if sum := d.sums[countKey{bullet: id, kind: playbook.Confirm}]; sum != nil {
		covers = slices.Clone(sum.Support)
	}
	for i := range d.ops {
		if op := &d.ops[i]; op.Bullet == id && (op.Kind == playbook.Add || op.Kind == playbook.Confirm) {
			covers = append(covers, op.Support...)
		}
	}
	return covers
}

// mint drafts a new bullet under the next id.
func (d *draft) mint(op *playbook.Op) *screen.Refusal {
	if d.lastMinted >= playbook.MaxNumber {
		return screen.Refusef(playbook.ReasonNoIDs, "the playbook has no bullet number left")
	}
	op.Section = playbook.Section(op.Section)
	if op.Standing == "" {
		op.Standing = d.newStanding()
	}
	id := playbook.MintID(op.Section, d.lastMinted+1)
	if d.Bullet(id) != nil {
		return screen.Refusef(playbook.ReasonExists, "bullet %q already exists", id)
	}
	d.lastMinted++
	op.Bullet = id
	d.changed[op.Bullet] = playbook.NewBullet(op, d.covers)
	d.contents[playbook.ContentKeyOf(op.Content)] = op.Bullet
	if d.Duplicates != nil {
		d.addedTexts.Put(string(op.Bullet), op.Content)
	}
	if !d.byPerson && d.Burst.Max > 0 {
		for _, c := range d.contributors(op) {
			d.added[c]++
		}
	}
	d.addOp(*op)
	return nil
}

// importBullet drafts a bullet of another playbook under its own id. It never changes an existing bullet.
func (d *draft) importBullet(op *playbook.Op) *screen.Refusal {
	if old := d.Bullet(op.Bullet); old != nil {
		if old.Section == op.PutBullet.Section && old.Content == op.PutBullet.Content {
			return nil
		}
		return screen.Refusef(playbook.ReasonExists, "bullet %q already exists with another text", text.Excerpt(string(op.Bullet), screen.MaxName))
	}
	d.putBullet(*op)
	return nil
}

// DuplicateIndex is an index of bullet texts that finds the near duplicates of a new text. A draft updates it to its state.
// The zero value is an empty index. It is not safe for concurrent use.
type DuplicateIndex struct {
	index similar.Index
	texts playbook.Texts
}

// update updates the index to the state p. It indexes only the texts that have changed since the last call.
func (x *DuplicateIndex) update(p *playbook.Playbook) {
	x.texts.Update(p, func(b *playbook.Bullet) string { return b.Content }, x.index.Put, x.index.Drop)
}

// findSimilar returns a bullet with nearly the same text and the similarity of the two texts, from 0 to 1. It returns ""
// if nothing matches. Texts with different numbers, negations or identifiers are different advice, even if
// their similarity is high.
func (d *draft) findSimilar(content string) (playbook.BulletID, float64) {
	if d.Duplicates == nil {
		return "", 0
	}
	if !d.baseIndexed {
		d.Duplicates.update(d.base)
		d.baseIndexed = true
	}
	if id, similarity := d.findSimilarIn(&d.Duplicates.index, content); id != "" {
		return id, similarity
	}
	return d.findSimilarIn(&d.addedTexts, content)
}

// findSimilarIn searches one index. It ignores entries whose bullet the draft has removed, and those whose text in the draft is not
// similar.
func (d *draft) findSimilarIn(index *similar.Index, content string) (playbook.BulletID, float64) {
	m, _ := index.Duplicate(content, func(id string) string {
		b := d.Bullet(playbook.BulletID(id))
		if b == nil || similar.Similarity(b.Content, content) < similar.DuplicateThreshold {
			return ""
		}
		return b.Content
	})
	return playbook.BulletID(m.ID), m.Similarity
}
