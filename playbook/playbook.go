// Package playbook defines playbooks: learned bullets in sections, and the deltas that change them. It has no clock, no
// text similarity, no token counts and no storage. Therefore a log of deltas folds to the same state on every machine,
// under every configuration. Package deltalog stores playbooks in JetStream.
package playbook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Playbook is the state of a book after its deltas are applied in order. The zero value is the empty playbook. It is safe
// for concurrent reads, not for a read during a write.
type Playbook struct {
	version   uint64
	last      uint64 // see LastMinted
	bullets   map[BulletID]entry
	sum       Checksum
	change    ChangeAssembler // the deltas of an incomplete change
	gate      Gate
	leading   string // see LeadingScore
	about     About
	judge     Judge
	admission Admission
	duplicate []BulletID // see DuplicateAdds
	journal   *journal   // nil before the first change

	byContent contentIndex // nil until the first call of FindByContent
	tally     Tally
}

// entry is a bullet with its hash, so that a change of the checksum need not hash the old bullet again.
type entry struct {
	*Bullet
	hash Checksum
}

// Checksum is the exclusive or of the hashes of a set of bullets, so that the cost of an update is proportional to the change. It
// detects views that are read while they are written. To compare playbooks, use the state hash.
type Checksum [16]byte

// toggle adds the hash of a bullet to the set, or removes it.
func (c *Checksum) toggle(hash Checksum) {
	for i := range c {
		c[i] ^= hash[i]
	}
}

// Version returns the version of the last applied delta, 0 for none.
func (p *Playbook) Version() uint64 { return p.version }

// LastMinted returns the highest number in an id of this book, removed bullets included.
func (p *Playbook) LastMinted() uint64 { return p.last }

// Gate returns the gate mode: off, guard or strict. Set is false if the mode is the default.
func (p *Playbook) Gate() (mode Gate, set bool) {
	if p.gate == "" {
		return GateGuard, false
	}
	return p.gate, true
}

// SetGate sets the gate mode, for a playbook restored from a view. An empty mode means the default.
func (p *Playbook) SetGate(mode Gate) { p.gate = mode }

// LeadingScore returns the name of the score that counts if an outcome has several, or "" if no person chose one.
func (p *Playbook) LeadingScore() string { return p.leading }

// SetLeadingScore sets the leading score, for a playbook restored from a view.
func (p *Playbook) SetLeadingScore(name string) { p.leading = name }

// About returns the name and the description of the playbook.
func (p *Playbook) About() About { return p.about }

// SetAbout sets the name and the description, for a playbook restored from a view.
func (p *Playbook) SetAbout(a About) { p.about = a }

// Judge returns the measured error of the judge, the zero value if no person has measured it.
func (p *Playbook) Judge() Judge { return p.judge }

// SetJudge sets the error of the judge, for a playbook restored from a view.
func (p *Playbook) SetJudge(j Judge) { p.judge = j }

// Admission returns the state that decides which reflections a prompt may contain. The caller must not change its slices.
func (p *Playbook) Admission() Admission { return p.admission }

// SetAdmission sets the state that decides which reflections a prompt may contain, for a playbook restored from a view.
func (p *Playbook) SetAdmission(a Admission) { p.admission = a }

// Checksum returns the checksum of the current bullets.
func (p *Playbook) Checksum() Checksum { return p.sum }

// Len returns the number of bullets of every status.
func (p *Playbook) Len() int { return len(p.bullets) }

// Bullet returns the bullet with this id, nil if it does not exist. The caller must not change it.
func (p *Playbook) Bullet(id BulletID) *Bullet { return p.bullets[id].Bullet }

// All yields every bullet in unspecified order.
func (p *Playbook) All() iter.Seq[*Bullet] {
	return func(yield func(*Bullet) bool) {
		for _, e := range p.bullets {
			if !yield(e.Bullet) {
				return
			}
		}
	}
}

// Sorted returns all bullets, sorted by id.
func (p *Playbook) Sorted() []*Bullet {
	all := make([]*Bullet, 0, len(p.bullets))
	for _, e := range p.bullets {
		all = append(all, e.Bullet)
	}
	slices.SortFunc(all, func(a, b *Bullet) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}

// Clone returns a copy that can be changed independently of p.
func (p *Playbook) Clone() *Playbook {
	c := *p
	c.change.open = slices.Clip(p.change.open)
	c.bullets = maps.Clone(p.bullets)
	c.journal = nil
	c.byContent = maps.Clone(p.byContent)
	return &c
}

// StateHash returns the SHA-256 of the bullets sorted by id: section, condition, content, counters, status and pin of each. Times
// and experiments are not included, so two runs that learn the same bullets have the same hash.
func (p *Playbook) StateHash() [32]byte {
	h := sha256.New()
	var buf []byte
	for _, b := range p.Sorted() {
		buf = b.appendState(buf[:0])
		h.Write(buf)
	}
	return [32]byte(h.Sum(nil))
}

// VersionLabel formats a version for display: "17@ab12cd", its number and the beginning of its chain hash. Version 0 has no
// chain hash, so its label is "0".
func VersionLabel(version uint64, chain []byte) string {
	if len(chain) == 0 {
		return strconv.FormatUint(version, 10)
	}
	return fmt.Sprintf("%d@%s", version, hex.EncodeToString(chain[:min(3, len(chain))]))
}

// Restore returns a playbook from stored data: its version, the highest number in a minted id, and its bullets.
func Restore(version, last uint64, bullets iter.Seq[*Bullet]) *Playbook {
	p := &Playbook{version: version, last: last}
	for b := range bullets {
		p.put(b, b.hash())
	}
	p.journal = nil // a reader starts with all bullets
	return p
}

// put stores a bullet with its hash, in place of an old one with its id. It updates the checksum and the indexes.
func (p *Playbook) put(b *Bullet, hash Checksum) {
	if p.bullets == nil {
		p.bullets = make(map[BulletID]entry)
	}
	old := p.bullets[b.ID]
	p.sum.toggle(old.hash) // zero for a new bullet
	p.sum.toggle(hash)
	p.bullets[b.ID] = entry{b, hash}
	p.reindex(old.Bullet, b)
	p.record(b.ID)
	if old.Bullet == nil {
		p.last = max(p.last, b.ID.Number())
	}
}

func (p *Playbook) remove(id BulletID) {
	if old, ok := p.bullets[id]; ok {
		p.sum.toggle(old.hash)
		delete(p.bullets, id)
		p.reindex(old.Bullet, nil)
		p.record(id)
	}
}

// ApplyChanges moves the playbook to a version. The map changed has the new state of each changed bullet, nil for a removed one. last is the
// highest number in an id. If the result would not have the expected size (number of bullets) and checksum, ApplyChanges returns false
// and does not change the playbook.
func (p *Playbook) ApplyChanges(version, last uint64, changed map[BulletID]*Bullet, size int, sum Checksum) bool {
	got, n := p.sum, len(p.bullets) // checksum and size of the result
	hashes := make(map[BulletID]Checksum, len(changed))
	for id, b := range changed {
		if old, ok := p.bullets[id]; ok {
			got.toggle(old.hash)
			n--
		}
		if b != nil {
			hashes[id] = b.hash()
			got.toggle(hashes[id])
			n++
		}
	}
	if got != sum || n != size {
		return false
	}
	for id, b := range changed {
		if b == nil {
			p.remove(id)
		} else {
			p.put(b, hashes[id])
		}
	}
	p.version, p.last = version, max(last, p.last)
	return true
}

// Apply applies one delta and returns the ids of the changed bullets. It is deterministic. A delta that is not newer than
// the playbook changes nothing. In a change of several deltas only the last one changes the bullets. Apply returns an error
// and changes nothing if a delta is missing before this one.
//
// An operation on a missing bullet does nothing. An Add with an existing id does nothing, and DuplicateAdds then returns the id.
// Valid logs contain neither, because the writer rebases on the newest state and records such operations as rejections.
func (p *Playbook) Apply(d *Delta) (changed []BulletID, err error) {
	if d.Version <= p.version {
		return nil, nil
	}
	if d.Version != p.version+1 {
		return nil, fmt.Errorf("apply delta: version %d does not follow %d", d.Version, p.version)
	}
	p.version, p.duplicate = d.Version, nil
	parts := p.change.Add(d) // empty until the last delta of a change
	if len(parts) > 0 {
		p.tally.countTasks(d, parts, p.judge.Name)
	}
	for _, part := range parts {
		if part.Gate != "" {
			p.gate = part.Gate
		}
		if part.LeadingScore != nil {
			p.leading = *part.LeadingScore
		}
		if part.About != nil {
			p.about = *part.About
		}
		if part.Judge != nil {
			p.judge = *part.Judge
		}
		p.admission.apply(part)
		changed = slices.Grow(changed, len(part.Ops))
		for i := range part.Ops {
			op := &part.Ops[i]
			before := p.bullets[op.Bullet].Bullet
			if p.applyOp(op, d.Covers, part.Time) {
				p.admission.applyOp(op, before)
				changed = append(append(changed, op.Bullet), op.Sources...) // a Merge changes its sources too
			}
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// DuplicateAdds returns the ids of the newest delta's Adds that had no effect, because a bullet with the id existed.
func (p *Playbook) DuplicateAdds() []BulletID { return p.duplicate }

// SetExperimentNumber sets the number of a bullet's experiment. A fold that skips operations uses it to keep the numbers of the full log.
func (p *Playbook) SetExperimentNumber(id BulletID, number int) {
	old := p.bullets[id].Bullet
	if old == nil || old.CurrentExperiment().Number == number {
		return
	}
	b, c := *old, old.CurrentExperiment()
	c.Number = number
	b.Experiment = &c
	p.put(&b, b.hash())
}

// ResumeChange records a delta that the playbook's version already includes. A playbook that was stored in the middle of a
// change needs the earlier deltas of that change.
func (p *Playbook) ResumeChange(d *Delta) { p.change.Add(d) }

// InChange reports whether the newest delta is part of an incomplete change.
func (p *Playbook) InChange() bool { return p.change.incomplete() }

// applyOp applies one operation of a delta from the time at. It reports whether the operation had an effect.
func (p *Playbook) applyOp(op *Op, covers []Cover, at time.Time) bool {
	old := p.bullets[op.Bullet].Bullet
	if op.Kind == Add {
		if old != nil {
			p.duplicate = append(p.duplicate, op.Bullet)
			return false
		}
		b := NewBullet(op, covers)
		b.CreatedAt, b.UpdatedAt = at, at
		p.put(b, b.hash())
		return true
	}
	if op.Kind == Put {
		b := *op.PutBullet
		p.put(&b, b.hash())
		return true
	}
	if old == nil {
		return false
	}
	if op.Kind == Remove {
		p.remove(op.Bullet)
		return true
	}
	var sources []*Bullet
	for i, id := range op.Sources {
		src := p.bullets[id].Bullet
		isOther := src != nil && id != op.Bullet && !slices.Contains(op.Sources[:i], id)
		if op.Kind == Merge && isOther {
			sources = append(sources, src)
		}
	}
	b := old.Apply(op, covers, sources...)
	if b == nil {
		return false
	}
	for _, src := range sources {
		p.remove(src.ID)
	}
	b.stamp(op.Kind, at)
	p.put(b, b.hash())
	return true
}
