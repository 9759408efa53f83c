// Package playbook is what agents learn: bullets in sections, and the deltas that change them. It is pure: it reads
// no clock, compares no texts, counts no tokens and knows no storage, so that one log of deltas folds to one state on
// any machine under any configuration. Package natskv keeps a playbook in JetStream.
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

// Playbook is the state that a book's deltas fold to. The zero value is the empty playbook. It is not safe for use
// by several goroutines while one of them writes.
type Playbook struct {
	version uint64
	last    uint64 // highest number minted into an id, removed bullets included
	bullets map[BulletID]entry
	sum     Checksum
	parts   Parts // of a change that is not complete
	gate    Gate
	taken   []BulletID

	rules   index[string]                    // by rule key
	resting map[string]map[BulletID]struct{} // by the key that a rule has as its base
	texts   *index[Wording]                  // nil until Same is asked for the first time
}

// entry is a bullet with its part of the checksum, so that a change costs one hash and not two.
type entry struct {
	*Bullet
	part Checksum
}

// Checksum tells one set of bullets from another: the exclusive or of their fingerprints, so that it costs as much as
// what changed. It detects torn reads; the state hash is what compares playbooks.
type Checksum [16]byte

func (c *Checksum) toggle(part Checksum) {
	for i := range c {
		c[i] ^= part[i]
	}
}

// Version is the version of the last delta applied, 0 for none.
func (p *Playbook) Version() uint64 { return p.version }

// LastMinted is the highest number that an id of this book has carried.
func (p *Playbook) LastMinted() uint64 { return p.last }

// Gate is how new advice earns its place: off, shadow or on. Set says whether somebody chose it.
func (p *Playbook) Gate() (mode Gate, set bool) {
	if p.gate == "" {
		return GateShadow, false
	}
	return p.gate, true
}

// SetGate sets the mode as it was stored beside the bullets.
func (p *Playbook) SetGate(mode Gate) { p.gate = mode }

// Checksum is that of the bullets as they are.
func (p *Playbook) Checksum() Checksum { return p.sum }

// Len counts the bullets, shown or not.
func (p *Playbook) Len() int { return len(p.bullets) }

// Bullet is the bullet with this id, nil if there is none. It must not be changed.
func (p *Playbook) Bullet(id BulletID) *Bullet { return p.bullets[id].Bullet }

// All yields every bullet in no order.
func (p *Playbook) All() iter.Seq[*Bullet] {
	return func(yield func(*Bullet) bool) {
		for _, e := range p.bullets {
			if !yield(e.Bullet) {
				return
			}
		}
	}
}

// Sorted is every bullet by id.
func (p *Playbook) Sorted() []*Bullet {
	all := make([]*Bullet, 0, len(p.bullets))
	for _, e := range p.bullets {
		all = append(all, e.Bullet)
	}
	slices.SortFunc(all, func(a, b *Bullet) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}

// Clone is a copy that can be changed without changing p.
func (p *Playbook) Clone() *Playbook {
	c := *p
	c.parts.open = slices.Clip(p.parts.open)
	c.bullets, c.rules, c.resting = maps.Clone(p.bullets), p.rules.clone(), maps.Clone(p.resting)
	for base, ids := range c.resting {
		c.resting[base] = maps.Clone(ids)
	}
	if p.texts != nil {
		texts := p.texts.clone()
		c.texts = &texts
	}
	return &c
}

// StateHash is the SHA-256 over the bullets by id: section, content, counters, status and pin of each, and nothing
// else. Two runs with the same outcome have the same one, whatever way and time they took.
func (p *Playbook) StateHash() [32]byte {
	h := sha256.New()
	var buf []byte
	for _, b := range p.Sorted() {
		buf = b.appendState(buf[:0])
		h.Write(buf)
	}
	return [32]byte(h.Sum(nil))
}

// Label is how a version is shown to people: its number and the beginning of its chain hash. Version 0, the empty
// playbook, has none.
func Label(version uint64, chain []byte) string {
	if len(chain) == 0 {
		return strconv.FormatUint(version, 10)
	}
	return fmt.Sprintf("%d@%s", version, hex.EncodeToString(chain[:min(3, len(chain))]))
}

// Restore is a playbook as it was stored: its version, the highest number minted, and its bullets.
func Restore(version, last uint64, bullets iter.Seq[*Bullet]) *Playbook {
	p := &Playbook{version: version, last: last}
	for b := range bullets {
		p.put(b, b.checksum())
	}
	return p
}

// put stores a bullet and keeps the checksum.
func (p *Playbook) put(b *Bullet, part Checksum) {
	if p.bullets == nil {
		p.bullets = make(map[BulletID]entry)
	}
	old := p.bullets[b.ID]
	p.sum.toggle(old.part) // of no bullet it is all zero
	p.sum.toggle(part)
	p.bullets[b.ID] = entry{b, part}
	p.reindex(old.Bullet, b)
	if old.Bullet == nil {
		p.last = max(p.last, b.ID.Number())
	}
}

func (p *Playbook) drop(id BulletID) {
	if old, ok := p.bullets[id]; ok {
		p.sum.toggle(old.part)
		delete(p.bullets, id)
		p.reindex(old.Bullet, nil)
	}
}

// Mirror moves the playbook to a version by its changed bullets, nil for a removed one. It does so only if the
// outcome has the expected size and checksum; otherwise it reports false and the playbook is as it was.
func (p *Playbook) Mirror(version, last uint64, changed map[BulletID]*Bullet, size int, sum Checksum) bool {
	got, n := p.sum, len(p.bullets)
	parts := make(map[BulletID]Checksum, len(changed))
	for id, b := range changed {
		if old, ok := p.bullets[id]; ok {
			got.toggle(old.part)
			n--
		}
		if b != nil {
			parts[id] = b.checksum()
			got.toggle(parts[id])
			n++
		}
	}
	if got != sum || n != size {
		return false
	}
	for id, b := range changed {
		if b == nil {
			p.drop(id)
		} else {
			p.put(b, parts[id])
		}
	}
	p.version, p.last = version, max(last, p.last)
	return true
}

// Apply folds one delta and returns the ids of the bullets it changed. It is deterministic; a delta that is not newer
// than the playbook changes nothing. Of a change in several deltas the last one changes the bullets. An operation whose target
// is gone does nothing, and neither does an Add whose id is taken, which Taken then names. The writer rebases on the
// newest state and records its rejections, so our logs have neither.
func (p *Playbook) Apply(d *Delta) (changed []BulletID, err error) {
	if d.Version <= p.version {
		return nil, nil
	}
	if d.Version != p.version+1 {
		return nil, fmt.Errorf("apply delta: version %d does not follow %d", d.Version, p.version)
	}
	p.version, p.taken = d.Version, nil
	for _, part := range p.parts.Take(d) {
		if part.Gate != "" {
			p.gate = part.Gate
		}
		changed = slices.Grow(changed, len(part.Ops))
		for i := range part.Ops {
			if op := &part.Ops[i]; p.applyOp(op, d.Covers, part.Time) {
				changed = append(append(changed, op.Bullet), op.Sources...)
			}
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// Taken returns the ids of the bullets that the newest delta adds and that were there before it: those were not added.
func (p *Playbook) Taken() []BulletID { return p.taken }

// Renumber gives the case of a bullet another number. A fold that leaves something out keeps the numbers of the log by
// it.
func (p *Playbook) Renumber(id BulletID, number int) {
	old := p.bullets[id].Bullet
	if old == nil || old.TheCase().Number == number {
		return
	}
	b, c := *old, old.TheCase()
	c.Number = number
	b.Case = &c
	p.put(&b, b.checksum())
}

// Reopen notes a delta that the playbook's version includes already. A playbook that was stored in the middle of a
// change needs those of its parts that came before.
func (p *Playbook) Reopen(d *Delta) { p.parts.Take(d) }

// Open reports whether the newest delta is part of a change that has not come to its end.
func (p *Playbook) Open() bool { return p.parts.Open() }

func (p *Playbook) applyOp(op *Op, covers []Cover, at time.Time) bool {
	old := p.bullets[op.Bullet].Bullet
	if op.Kind == Add {
		if old != nil {
			p.taken = append(p.taken, op.Bullet)
			return false
		}
		b := Made(op, covers)
		b.CreatedAt, b.UpdatedAt = at, at
		p.put(b, b.checksum())
		return true
	}
	if op.Kind == Put {
		b := *op.Whole
		p.put(&b, b.checksum())
		return true
	}
	if old == nil {
		return false
	}
	if op.Kind == Remove {
		p.drop(op.Bullet)
		return true
	}
	var sources []*Bullet
	for i, id := range op.Sources {
		if src := p.bullets[id].Bullet; op.Kind == Merge && src != nil && id != op.Bullet && !slices.Contains(op.Sources[:i], id) {
			sources = append(sources, src)
		}
	}
	b := old.After(op, covers, sources...)
	if b == nil {
		return false
	}
	for _, src := range sources {
		p.drop(src.ID)
	}
	switch op.Kind {
	case Update, SetStatus, Pin, Merge:
		b.UpdatedAt = at
	case Tag:
		b.LastUsed = at
	}
	p.put(b, b.checksum())
	return true
}
