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
	old := d.get(op.Bullet)
	if old == nil {
		return unknown(op.Bullet)
	}
	b := *old
	switch op.Kind {
	case playbook.Second:
		return says(op.Bullet)
	case playbook.Update:
		same := d.same(op.Content)
		switch {
		case same != "" && same != op.Bullet:
			return no("bullet %q says that already, %q cannot say it too", same, op.Bullet)
		case op.Content == b.Content && (op.Section == "" || op.Section == b.Section):
			return says(op.Bullet)
		}
		d.touch(&b)
		b.Content, b.Rule = op.Content, op.Rule
		if op.Section != "" {
			b.Section = op.Section
		}
		d.texts[playbook.WordingOf(b.Content)] = b.ID
		if old.Rule != nil && b.Rule == nil && b.Status == playbook.Candidate {
			// Somebody's words now: no count will ever show them.
			b.Status = playbook.Active
			d.emit(playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: b.Status, Support: op.Support})
		}
	case playbook.SetStatus:
		b.Status = op.Status
	case playbook.Pin:
		b.Pinned = op.Pinned
	case playbook.Remove:
		if b.Pinned {
			return no("bullet %q is pinned", op.Bullet)
		}
		d.touch(&b)
		d.flushTags() // votes come before the end of what they are on
		d.changed[b.ID] = nil
		d.emit(*op)
		return nil
	case playbook.Merge:
		return d.merge(op, b)
	default:
		return no("type: %q is no operation of a proposal", clip(string(op.Kind), maxName))
	}
	d.changed[b.ID] = &b
	d.emit(*op)
	return nil
}

func says(id playbook.BulletID) *refusal {
	return &refusal{fmt.Sprintf("bullet %q says that already", id), id}
}

// counted is why a merge is refused that would add a rule's counts of runs to votes on advice.
func counted(id playbook.BulletID) *refusal {
	return no("bullet %q counts runs for a rule, it cannot be merged", id)
}

func (d *draft) merge(op *playbook.Op, b playbook.Bullet) *refusal {
	var sources []playbook.BulletID // others, each once
	for _, id := range op.Sources {
		if id != op.Bullet && !slices.Contains(sources, id) {
			sources = append(sources, id)
		}
	}
	op.Sources = sources
	if len(op.Sources) == 0 {
		return no("source_ids: names no other bullet")
	}
	if b.Rule != nil {
		return counted(op.Bullet)
	}
	for _, id := range op.Sources {
		switch src := d.get(id); {
		case src == nil:
			return unknown(id)
		case src.Pinned:
			return no("bullet %q is pinned", id)
		case src.Rule != nil:
			return counted(id)
		default:
			b.Helpful += src.Helpful
			b.Harmful += src.Harmful
			b.Neutral += src.Neutral
		}
	}
	if same := d.same(op.Content); same != "" && same != op.Bullet && !slices.Contains(op.Sources, same) {
		return says(same)
	}
	d.flushTags()
	for _, id := range op.Sources {
		d.changed[id] = nil
	}
	b.Content = op.Content
	d.changed[b.ID] = &b
	d.texts[playbook.WordingOf(b.Content)] = b.ID
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
			return says(same)
		}
		if d.whole { // a person's words count as they are
			return d.mint(op)
		}
		if same, likeness := d.nearlySame(op.Content); same != "" {
			return &refusal{fmt.Sprintf("bullet %q says nearly that (%.2f alike)", same, likeness), same}
		}
	}
	return d.mint(op)
}

// mint drafts a new bullet under the next id.
func (d *draft) mint(op *playbook.Op) *refusal {
	d.minted++
	op.Section = playbook.Section(op.Section)
	op.Bullet = playbook.MintID(op.Section, d.minted)
	d.changed[op.Bullet] = &playbook.Bullet{ID: op.Bullet, Section: op.Section, Content: op.Content, Rule: op.Rule, Status: op.Status}
	d.texts[playbook.WordingOf(op.Content)] = op.Bullet
	if op.Rule == nil && d.alike != nil {
		d.news.Put(string(op.Bullet), op.Content)
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
