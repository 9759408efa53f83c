package history

import (
	"cmp"
	"slices"

	"debrief/playbook"
)

// Promotion contains the operations that copy changes of one book, the source, to another book, the target. It
// considers content, section, status and pins, but not votes: a bullet that both books have keeps its votes in the
// target, and a new bullet brings its own.
type Promotion struct {
	Ops   []playbook.Op      // in the order in which they must be applied
	After *playbook.Playbook // the target after the operations; its version has no meaning
	// ChangedInTarget are the changes in the target since the common base.
	ChangedInTarget []Difference
	// Skipped are changes of the source that are not copied because the target has a conflicting bullet, or the same
	// content under another id. Before is the bullet in the target, After the one in the source; nil means removed.
	Skipped []Difference
	// Renamed maps bullets to new ids, because the target has used their ids.
	Renamed map[playbook.BulletID]playbook.BulletID
}

// Promote returns the promotion of a source into a target. base and from are two states of the source, an earlier and the newest one, and
// to is the target. A change of a bullet between base and from is copied if the target has not changed the bullet since base. If both
// changed it, the bullet in the target stays.
func Promote(base, from, to *playbook.Playbook) *Promotion {
	p := &Promotion{After: to.Clone(), ChangedInTarget: diff(base, to, sameAdvice), Renamed: map[playbook.BulletID]playbook.BulletID{}}
	mode, _ := to.Gate()
	var removed, changed, added []*playbook.Bullet
	for _, d := range diff(base, from, sameAdvice) {
		inTarget, inSource := to.Bullet(d.ID()), adjustStatus(d.After, mode) // nil: removed
		switch {
		case d.Before == nil:
			added = append(added, inSource)
		case inSource == nil && inTarget == nil: // both have removed the bullet
		case inTarget == nil: // only the target has removed it
			p.skip(nil, inSource)
		case inSource != nil && sameAdvice(inTarget, inSource): // both have made the same change
		case !sameAdvice(d.Before, inTarget): // the target has changed it in another way
			p.skip(inTarget, inSource)
		case inSource == nil:
			removed = append(removed, inTarget)
		default:
			changed = append(changed, inSource)
		}
	}
	p.removeAll(removed)
	p.updateAll(changed)
	p.addAll(added, to, from.LastMinted())
	return p
}

// sameAdvice reports whether two bullets have the same condition, content, section, status and pin. It ignores counters.
func sameAdvice(a, b *playbook.Bullet) bool {
	return a.Section == b.Section && a.When == b.When && a.Content == b.Content && a.Pinned == b.Pinned && statusOf(a) == statusOf(b)
}

// statusOf returns the status of a bullet, Active in place of an empty one.
func statusOf(b *playbook.Bullet) playbook.Status { return cmp.Or(b.Status, playbook.Active) }

// adjustStatus returns a bullet on probation, or a candidate, in the form for the target: with a strict gate it is a candidate,
// otherwise it is active. As an added bullet it begins a new experiment. Of a bullet that the target has, the Curator sets the standing.
// Other bullets stay unchanged.
func adjustStatus(b *playbook.Bullet, mode playbook.Gate) *playbook.Bullet {
	if b == nil || b.Status != playbook.Probation && b.Status != playbook.Candidate {
		return b
	}
	adjusted := *b
	adjusted.Status = playbook.Active
	adjusted.Experiment = nil
	if mode == playbook.GateStrict {
		adjusted.Status = playbook.Candidate
	}
	if mode != playbook.GateOff {
		adjusted.Experiment = &playbook.Experiment{Number: 1, Standing: playbook.StandingNew}
	}
	return &adjusted
}

// skip records a change of the source that is not copied.
func (p *Promotion) skip(inTarget, inSource *playbook.Bullet) {
	p.Skipped = append(p.Skipped, Difference{inTarget, inSource})
}

// apply adds an operation and applies it to After. That cannot fail: the version is the next one.
func (p *Promotion) apply(op playbook.Op) {
	p.Ops = append(p.Ops, op)
	_, _ = p.After.Apply(&playbook.Delta{Version: p.After.Version() + 1, Ops: []playbook.Op{op}})
}

// removeAll removes bullets of the target.
func (p *Promotion) removeAll(bullets []*playbook.Bullet) {
	for _, b := range bullets {
		if b.Pinned { // the Curator removes no pinned bullet
			p.apply(playbook.Op{Kind: playbook.Pin, Bullet: b.ID})
		}
		p.apply(playbook.Op{Kind: playbook.Remove, Bullet: b.ID})
	}
}

// updateAll updates bullets to their state in the source. No two bullets may have the same content, so a bullet that
// takes the content of another waits until that one has changed. Bullets that exchange their contents are skipped.
func (p *Promotion) updateAll(bullets []*playbook.Bullet) {
	for {
		left := len(bullets)
		bullets = slices.DeleteFunc(bullets, func(b *playbook.Bullet) bool {
			if same := p.After.FindByContent(b.Content); same != nil && same.ID != b.ID {
				return false
			}
			p.update(b)
			return true
		})
		if len(bullets) == left {
			break
		}
	}
	for _, b := range bullets {
		p.skip(p.After.FindByContent(b.Content), b)
	}
}

// update adds the operations that give a bullet of the target its state in the source.
func (p *Promotion) update(b *playbook.Bullet) {
	old := p.After.Bullet(b.ID)
	if old.When != b.When || old.Content != b.Content || old.Section != b.Section {
		p.apply(playbook.Op{Kind: playbook.Update, Bullet: b.ID, When: b.When, Content: b.Content, Section: b.Section})
	}
	if statusOf(old) != statusOf(b) {
		p.apply(playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: statusOf(b)})
	}
	if old.Pinned != b.Pinned {
		p.apply(playbook.Op{Kind: playbook.Pin, Bullet: b.ID, Pinned: b.Pinned})
	}
}

// addAll adds bullets with their votes. A bullet whose number the target has used gets the next number that neither
// book has. last is the last number that the source has used.
func (p *Promotion) addAll(bullets []*playbook.Bullet, to *playbook.Playbook, last uint64) {
	last = max(last, to.LastMinted())
	var fresh []*playbook.Bullet // the bullets whose content the target does not have; several may have the same content
	for _, b := range bullets {
		if existing := p.After.FindByContent(b.Content); existing != nil {
			if !sameAdvice(existing, b) {
				p.skip(existing, b)
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
		if existing := p.After.FindByContent(b.Content); existing != nil { // that of an earlier fresh bullet
			delete(p.Renamed, b.ID)
			p.skip(existing, b)
			continue
		}
		whole := *b
		whole.ID = cmp.Or(p.Renamed[b.ID], b.ID)
		whole.Replaces, whole.Contests = "", "" // the Curator drops them too: in the target, these ids may be of other bullets
		p.apply(playbook.Op{Kind: playbook.Put, Bullet: whole.ID, PutBullet: &whole})
		if b.Pinned { // the Curator drops the pin of an imported bullet
			p.apply(playbook.Op{Kind: playbook.Pin, Bullet: whole.ID, Pinned: true})
		}
	}
}
