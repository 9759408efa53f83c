package curator

import (
	"errors"
	"fmt"
	"slices"

	"debrief/playbook"
)

// change drafts any operation but a vote, and fills in the id of a new bullet. It returns the reason why not, or "".
func (d *draft) change(op *playbook.Op) string {
	if !d.room(op, 1+len(op.Sources)) {
		return errFull
	}
	if op.Kind == playbook.Add {
		return d.add(op)
	}
	old := d.get(op.Bullet)
	if old == nil {
		return unknown(op.Bullet)
	}
	b := *old
	switch op.Kind {
	case playbook.Update:
		same := d.same(op.Content)
		switch {
		case same != "" && same != op.Bullet:
			return fmt.Sprintf("bullet %q says that already, %q cannot say it too", same, op.Bullet)
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
			return fmt.Sprintf("bullet %q is pinned", op.Bullet)
		}
		d.touch(&b)
		d.flushTags() // votes come before the end of what they are on
		d.changed[b.ID] = nil
		d.emit(*op)
		return ""
	case playbook.Merge:
		return d.merge(op, b)
	default:
		return fmt.Sprintf("type: %q is no operation of a proposal", clip(string(op.Kind), maxName))
	}
	d.changed[b.ID] = &b
	d.emit(*op)
	return ""
}

func says(id playbook.BulletID) string { return fmt.Sprintf("bullet %q says that already", id) }

// counted is why a merge is refused that would add a rule's counts of runs to votes on advice.
func counted(id playbook.BulletID) string {
	return fmt.Sprintf("bullet %q counts runs for a rule, it cannot be merged", id)
}

func (d *draft) merge(op *playbook.Op, b playbook.Bullet) string {
	var sources []playbook.BulletID // others, each once
	for _, id := range op.Sources {
		if id != op.Bullet && !slices.Contains(sources, id) {
			sources = append(sources, id)
		}
	}
	op.Sources = sources
	if len(op.Sources) == 0 {
		return "source_ids: names no other bullet"
	}
	if b.Rule != nil {
		return counted(op.Bullet)
	}
	for _, id := range op.Sources {
		switch src := d.get(id); {
		case src == nil:
			return unknown(id)
		case src.Pinned:
			return fmt.Sprintf("bullet %q is pinned", id)
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
	return ""
}

// add drafts a new bullet, unless one says the same already. What a rule counts is told by its key and not by its
// words, which change with the counts.
func (d *draft) add(op *playbook.Op) string {
	if op.Bullet != "" {
		return fmt.Sprintf("bullet_id: %q, new bullets get their id from the playbook", clip(string(op.Bullet), maxName))
	}
	if same := d.same(op.Content); same != "" && op.Rule == nil {
		return says(same)
	}
	d.minted++
	op.Section = playbook.Section(op.Section)
	op.Bullet = playbook.MintID(op.Section, d.minted)
	d.changed[op.Bullet] = &playbook.Bullet{ID: op.Bullet, Section: op.Section, Content: op.Content, Rule: op.Rule, Status: op.Status}
	d.texts[playbook.WordingOf(op.Content)] = op.Bullet
	d.emit(*op)
	return ""
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

// edit drafts a person's change. What cannot be done is told to the person, too.
func (d *draft) edit(k *docket) {
	k.refused = nil
	for _, op := range k.e.Ops {
		op.Support = []int{k.cover}
		reason := ""
		if err := tidy(&op); err != nil {
			reason = err.Error()
		} else {
			reason = d.change(&op)
		}
		if reason != "" {
			d.reject(op, reason)
			k.refused = append(k.refused, reason)
		}
	}
}

// tidy makes an operation that comes from outside one that a log can hold, or says why it cannot be. A log with an
// operation that it cannot hold would be refused whole, and everybody's reflections with it.
func tidy(op *playbook.Op) (err error) {
	op.Helpful, op.Harmful, op.Neutral = 0, 0, 0
	op.Reason = clip(op.Reason, maxReason)
	if op.Rule != nil {
		return errors.New("rule: is for what rules find, an edit cannot set it")
	}
	if op.Section != "" {
		op.Section = playbook.Section(op.Section)
	}
	switch op.Kind {
	case playbook.Add, playbook.Update, playbook.Merge:
		if op.Content, err = playbook.CleanContent(op.Content); err != nil {
			return err
		}
	default:
		op.Content = ""
	}
	switch op.Status {
	case playbook.Active, playbook.Candidate, playbook.Probation, playbook.Retired, playbook.Quarantined:
	case "":
		if op.Kind == playbook.SetStatus {
			op.Status = playbook.Active
		}
	default:
		return fmt.Errorf("status: %q is none of active, candidate, probation, retired, quarantined", clip(string(op.Status), maxName))
	}
	return nil
}
