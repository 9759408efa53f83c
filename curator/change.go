package curator

import (
	"fmt"
	"slices"

	"debrief/playbook"
)

// change drafts any operation but a vote, and fills in the id of a new bullet. It returns why not, or nil.
func (d *draft) change(op *playbook.Op) *refusal {
	if !d.room(op, 1+len(op.Sources)) {
		return errFull
	}
	switch op.Kind {
	case playbook.Add:
		return d.add(op)
	case playbook.Put:
		return d.put(op)
	}
	b := d.get(op.Bullet)
	if b == nil {
		return unknown(op.Bullet)
	}
	switch op.Kind {
	case playbook.Second:
		return d.again(op, says(b))
	case playbook.Update:
		same := d.same(op.Content)
		switch {
		case same != "" && same != op.Bullet:
			return no("bullet %q says that already, %q cannot say it too", same, op.Bullet)
		case op.Content == b.Content && (op.Section == "" || op.Section == b.Section):
			return says(b)
		}
		d.touch(b)
		d.texts[playbook.WordingOf(op.Content)] = b.ID
		if b.Rule != nil && op.Rule == nil && b.Status == playbook.Candidate {
			// Somebody's words now: no count will ever show them.
			d.turn(playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: playbook.Active, Share: d.decree(playbook.Active), Support: op.Support})
		}
	case playbook.SetStatus, playbook.Pin:
	case playbook.Remove:
		if b.Pinned {
			return no("bullet %q is pinned", op.Bullet)
		}
		d.touch(b)
		d.flush() // votes come before the end of what they are on
		d.changed[b.ID] = nil
		d.emit(*op)
		return nil
	case playbook.Merge:
		return d.merge(op, b)
	default:
		return no("type: %q is no operation of a proposal", clip(string(op.Kind), maxName))
	}
	d.turn(*op)
	return nil
}

// turn drafts an operation on one bullet that is there.
func (d *draft) turn(op playbook.Op) {
	if op.Kind == playbook.Update || op.Share > 0 || op.Kind == playbook.SetStatus && op.Status == playbook.Retired {
		d.flush() // what was counted so far belongs to what was before
	}
	d.changed[op.Bullet] = d.get(op.Bullet).After(&op, d.covers)
	d.emit(op)
}

func says(b *playbook.Bullet) *refusal {
	switch b.Status {
	case playbook.Retired:
		return &refusal{fmt.Sprintf("bullet %q says that already, and is retired", b.ID), b.ID}
	case playbook.Quarantined:
		return &refusal{fmt.Sprintf("bullet %q says that already, and is in quarantine", b.ID), b.ID}
	}
	return &refusal{fmt.Sprintf("bullet %q says that already", b.ID), b.ID}
}

// counted is why a merge is refused that would add a rule's counts of runs to votes on advice.
func counted(id playbook.BulletID) *refusal {
	return no("bullet %q counts runs for a rule, it cannot be merged", id)
}

func (d *draft) merge(op *playbook.Op, b *playbook.Bullet) *refusal {
	var others []playbook.BulletID // each once
	for _, id := range op.Sources {
		if id != op.Bullet && !slices.Contains(others, id) {
			others = append(others, id)
		}
	}
	op.Sources = others
	if len(op.Sources) == 0 {
		return no("source_ids: names no other bullet")
	}
	if b.Rule != nil {
		return counted(op.Bullet)
	}
	var sources []*playbook.Bullet
	for _, id := range op.Sources {
		src := d.get(id)
		switch {
		case src == nil:
			return unknown(id)
		case src.Pinned:
			return no("bullet %q is pinned", id)
		case src.Rule != nil:
			return counted(id)
		}
		sources = append(sources, src)
	}
	if same := d.same(op.Content); same != "" && same != op.Bullet && !slices.Contains(op.Sources, same) {
		return says(d.get(same))
	}
	d.flush()
	for _, id := range op.Sources {
		d.changed[id] = nil
	}
	d.changed[b.ID] = b.After(op, d.covers, sources...)
	d.texts[playbook.WordingOf(op.Content)] = b.ID
	d.emit(*op)
	return nil
}

// add drafts a new bullet, unless one says the same already. What a rule counts is told by its key and not by its
// words, which change with the counts.
func (d *draft) add(op *playbook.Op) *refusal {
	if op.Bullet != "" {
		return no("bullet_id: %q, new bullets get their id from the playbook", clip(string(op.Bullet), maxName))
	}
	if op.Rule == nil {
		if same := d.same(op.Content); same != "" {
			return d.again(op, says(d.get(same)))
		}
		if d.person { // a person's words count as they are
			return d.mint(op)
		}
		if same, likeness := d.nearlySame(op.Content); same != "" {
			return d.again(op, &refusal{fmt.Sprintf("bullet %q says nearly that (%.2f alike)", same, likeness), same})
		}
		if op.Status != playbook.Quarantined {
			d.stem(op)
		}
	}
	return d.mint(op)
}

// mint drafts a new bullet under the next id.
func (d *draft) mint(op *playbook.Op) *refusal {
	if d.minted >= playbook.MaxNumber {
		return no("the playbook has no number left for a new bullet")
	}
	op.Section = playbook.Section(op.Section)
	id := playbook.MintID(op.Section, d.minted+1)
	if d.get(id) != nil {
		return no("bullet %q is there already", id)
	}
	d.minted++
	op.Bullet = id
	d.changed[op.Bullet] = playbook.Made(op, d.covers)
	d.texts[playbook.WordingOf(op.Content)] = op.Bullet
	if op.Rule == nil && d.alike != nil {
		d.news.Put(string(op.Bullet), op.Content)
	}
	if !d.person && op.Rule == nil && d.burst.most > 0 {
		for _, m := range d.makers(op.Support) {
			d.born[m]++
		}
	}
	d.emit(*op)
	return nil
}

// same is the id of a bullet with this content, white space and case aside; "" if there is none.
func (d *draft) same(content string) playbook.BulletID {
	w := playbook.WordingOf(content)
	if b := d.base.Same(content); b != nil {
		if now := d.get(b.ID); now == b || now != nil && playbook.WordingOf(now.Content) == w {
			return b.ID
		}
	}
	if id := d.texts[w]; id != "" {
		if now := d.get(id); now != nil && playbook.WordingOf(now.Content) == w {
			return id
		}
	}
	return ""
}
