package draft

import (
	"slices"

	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// changes drafts operations that change the content or the existence of bullets.
type changes struct {
	*state
	sources     *sources
	addedIndex  similar.Index // texts of the bullets that this draft added
	baseIndexed bool          // Policy.Duplicates has the texts of base, the playbook before this draft
}

// change drafts an operation other than a vote, and sets the id of a new bullet. It returns nil, or the reason to reject it.
func (d *changes) change(op *playbook.Op) *screen.Refusal {
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
		d.flush() // votes on the bullet must come before its removal
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
func duplicateText(b *playbook.Bullet) *screen.Refusal {
	state := ""
	switch b.Status {
	case playbook.Retired:
		state = " and is retired"
	case playbook.Quarantined:
		state = " and is in quarantine"
	}
	refusal := screen.Refusef(playbook.ReasonDuplicate, "bullet %q has the same text%s", b.ID, state)
	refusal.DuplicateOf = b.ID
	return refusal
}

// merge drafts the merge of the source bullets into b, which keeps its id.
func (d *changes) merge(op *playbook.Op, b *playbook.Bullet) *screen.Refusal {
	var others []playbook.BulletID // without duplicates
	for _, id := range op.Sources {
		if id != op.Bullet && !slices.Contains(others, id) {
			others = append(others, id)
		}
	}
	op.Sources = others
	if len(op.Sources) == 0 {
		return screen.Refusef(playbook.ReasonInvalid, "source_ids: at least one other bullet is required")
	}
	var sources []*playbook.Bullet
	for _, id := range op.Sources {
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
		if refusal := refuseLoss(op, append([]*playbook.Bullet{b}, sources...)); refusal != nil {
			return refusal
		}
	}
	d.flush()
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
func (d *changes) add(op *playbook.Op) *screen.Refusal {
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
	if same, likeness := d.findSimilar(op.Content); same != "" {
		refusal := screen.Refusef(playbook.ReasonSimilar, "bullet %q has nearly the same text (similarity %.2f)", same, likeness)
		refusal.DuplicateOf = same
		return d.confirm(op, refusal)
	}
	if op.Status != playbook.Quarantined {
		d.sources.limitBurst(op)
	}
	return d.mint(op)
}

// mint drafts a new bullet under the next id.
func (d *changes) mint(op *playbook.Op) *screen.Refusal {
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
		d.addedIndex.Put(string(op.Bullet), op.Content)
	}
	if !d.byPerson && d.Burst.Max > 0 {
		for _, m := range d.sources.contributors(op.Support) {
			d.sources.added[m]++
		}
	}
	d.addOp(*op)
	return nil
}
