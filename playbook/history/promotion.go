package history

import (
	"slices"

	"debrief/playbook"
)

// Promotion is what takes what one book learned into another. What bullets say, where, to whom and whether they are
// pinned counts; votes do not: a bullet that both have keeps the votes that it has, and one that is new brings its own.
// What rules count is of the runs of one book: such a bullet comes only where the other book counts nothing of the kind,
// and is not changed otherwise.
type Promotion struct {
	Ops   []playbook.Op      // in the order in which they can be done
	After *playbook.Playbook // the other book with them done; its version means nothing
	// Moved is what the other book changed by itself.
	Moved []Difference
	// Left is what was learned and stays behind, since the other book says otherwise or has it under another id: Was is
	// there, Is in the book that learned. Nil is a bullet that is gone.
	Left []Difference
	// Renamed are bullets that get a new id, because the other book has used theirs.
	Renamed map[playbook.BulletID]playbook.BulletID
}

// Promote is the promotion of what changed from base to from, two states of the book that learned, into another book as
// it is now. A bullet is taken over if the other book has left it as it was in base; where both have changed one, the
// other book's stays.
func Promote(base, from, to *playbook.Playbook) *Promotion {
	p := &Promotion{After: to.Clone(), Renamed: map[playbook.BulletID]playbook.BulletID{}}
	for _, d := range between(base, to, sameAdvice) {
		if !counted(d.Was) || !counted(d.Is) {
			p.Moved = append(p.Moved, d)
		}
	}
	mode, _ := to.Gate()
	var gone, changed, added []*playbook.Bullet
	for _, d := range between(base, from, sameAdvice) {
		there, is := to.Bullet(d.ID()), fit(d.Is, mode)
		switch {
		case d.Was == nil:
			added = append(added, is)
		case is == nil && (there == nil || d.Was.Rule != nil):
		case there == nil:
			p.leave(nil, is)
		case is != nil && sameAdvice(there, is):
		case !sameAdvice(d.Was, there):
			p.leave(there, is)
		case is == nil:
			gone = append(gone, there)
		default:
			changed = append(changed, is)
		}
	}
	p.remove(gone)
	p.change(changed)
	p.add(added, to, from.LastMinted())
	return p
}

// sameAdvice reports whether two bullets say the same to the same; how often it helped aside.
func sameAdvice(a, b *playbook.Bullet) bool {
	if a.Rule != nil && b.Rule != nil && a.Rule.Key == b.Rule.Key {
		return true
	}
	return a.Section == b.Section && a.Content == b.Content && a.Pinned == b.Pinned && statusOf(a) == statusOf(b)
}

func statusOf(b *playbook.Bullet) playbook.Status {
	if b.Status == "" {
		return playbook.Active
	}
	return b.Status
}

// counted reports whether a bullet is a rule's, or none.
func counted(b *playbook.Bullet) bool { return b == nil || b.Rule != nil }

// fit is a bullet as it can be in a book with this gate: there alone can it earn its place, and without one all is shown.
func fit(b *playbook.Bullet, mode playbook.Gate) *playbook.Bullet {
	if b == nil || b.Rule != nil || b.Status != playbook.Probation && b.Status != playbook.Candidate {
		return b
	}
	fitted := *b
	fitted.Status = playbook.Active
	if mode == playbook.GateOn {
		fitted.Status = playbook.Candidate
	}
	if c := b.TheCase(); c.Share > 0 {
		c.Share = 0
		fitted.Case = &c
	}
	return &fitted
}

func (p *Promotion) leave(there, is *playbook.Bullet) {
	p.Left = append(p.Left, Difference{there, is})
}

func (p *Promotion) do(op playbook.Op) {
	p.Ops = append(p.Ops, op)
	_, _ = p.After.Apply(&playbook.Delta{Version: p.After.Version() + 1, Ops: []playbook.Op{op}}) // of the next version, so it can be
}

func (p *Promotion) remove(gone []*playbook.Bullet) {
	for _, b := range gone {
		if b.Pinned {
			p.do(playbook.Op{Kind: playbook.Pin, Bullet: b.ID})
		}
		p.do(playbook.Op{Kind: playbook.Remove, Bullet: b.ID})
	}
}

// change makes bullets what they are in the other state. Two cannot say the same: one that takes over the words of
// another waits until that says something else.
func (p *Promotion) change(bullets []*playbook.Bullet) {
	for {
		left := len(bullets)
		bullets = slices.DeleteFunc(bullets, func(b *playbook.Bullet) bool {
			if same := p.After.Same(b.Content); same != nil && same.ID != b.ID {
				return false
			}
			p.become(b)
			return true
		})
		if len(bullets) == left {
			break
		}
	}
	for _, b := range bullets {
		p.leave(p.After.Same(b.Content), b)
	}
}

func (p *Promotion) become(b *playbook.Bullet) {
	was := p.After.Bullet(b.ID)
	if was.Content != b.Content || was.Section != b.Section {
		p.do(playbook.Op{Kind: playbook.Update, Bullet: b.ID, Content: b.Content, Section: b.Section})
	}
	if statusOf(was) != statusOf(b) {
		p.do(playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: statusOf(b)})
	}
	if was.Pinned != b.Pinned {
		p.do(playbook.Op{Kind: playbook.Pin, Bullet: b.ID, Pinned: b.Pinned})
	}
}

// add brings in bullets whole. No id is used for two bullets: one whose number the other book has used gets the next that
// neither has.
func (p *Promotion) add(bullets []*playbook.Bullet, to *playbook.Playbook, last uint64) {
	last = max(last, to.LastMinted())
	var fresh []*playbook.Bullet
	for _, b := range bullets {
		if there := p.inPlaceOf(b, to); there != nil {
			if !sameAdvice(there, b) {
				p.leave(there, b)
			}
			continue
		}
		if n := b.ID.Number(); to.Bullet(b.ID) != nil || n > 0 && n <= to.LastMinted() {
			last++
			p.Renamed[b.ID] = playbook.MintID(b.Section, last)
		}
		fresh = append(fresh, b)
	}
	for _, b := range fresh {
		if there := p.After.Same(b.Content); there != nil { // one that came before it says the same
			delete(p.Renamed, b.ID)
			p.leave(there, b)
			continue
		}
		whole := *b
		if id, is := p.Renamed[b.ID]; is {
			whole.ID = id
		}
		if id, is := p.Renamed[b.Replaces]; is {
			whole.Replaces = id
		}
		p.do(playbook.Op{Kind: playbook.Put, Bullet: whole.ID, Whole: &whole})
	}
}

// inPlaceOf is the bullet of the other book because of which one does not come: it says the same, or a rule counts by it.
func (p *Promotion) inPlaceOf(b *playbook.Bullet, to *playbook.Playbook) *playbook.Bullet {
	if b.Rule != nil {
		if there := to.ByRule(b.Rule.Key); there != nil {
			return there
		}
		if there := to.ByRule(b.Rule.Base); there != nil && b.Rule.Base != "" {
			return there
		}
	}
	return p.After.Same(b.Content)
}
