package playbook

import (
	"crypto/sha256"
	"iter"
	"maps"
	"slices"
	"unicode"
	"unicode/utf8"
)

// ContentKey is the hash of a content without white space, in lower case. FindByContent compares contents by it.
type ContentKey [16]byte

// ContentKeyOf returns the key of a content.
func ContentKeyOf(content string) ContentKey {
	var buf [512]byte
	b := buf[:0]
	for _, r := range content {
		if !unicode.IsSpace(r) {
			b = utf8.AppendRune(b, unicode.ToLower(r))
		}
	}
	sum := sha256.Sum256(b)
	return ContentKey(sum[:16])
}

// ByRule returns the bullet with a rule key, nil if none exists. If several have the key, it returns the lowest id.
func (p *Playbook) ByRule(key string) *Bullet { return p.bullets[p.rules.first[key]].Bullet }

// BulletsWithBase yields the bullets whose rule has this base, in unspecified order.
func (p *Playbook) BulletsWithBase(base string) iter.Seq[*Bullet] {
	return func(yield func(*Bullet) bool) {
		for id := range p.byBase[base] {
			if !yield(p.bullets[id].Bullet) {
				return
			}
		}
	}
}

// FindByContent returns the bullet with this content, ignoring white space and case. It returns nil if none exists. If several
// have the content, it returns the lowest id. The first call indexes all bullets.
func (p *Playbook) FindByContent(content string) *Bullet {
	if p.texts == nil {
		p.texts = new(index[ContentKey])
		for b := range p.All() {
			p.texts.add(ContentKeyOf(b.Content), b.ID)
		}
	}
	return p.bullets[p.texts.first[ContentKeyOf(content)]].Bullet
}

// reindex updates the indexes and the tally when a bullet replaces another; either may be nil.
func (p *Playbook) reindex(old, b *Bullet) {
	p.tally.count(old, -1)
	p.tally.count(b, 1)
	was, is := ruleOf(old), ruleOf(b)
	if was != is && (was == nil || is == nil || was.Key != is.Key || was.Base != is.Base) {
		p.unindexRule(old, was)
		p.indexRule(b, is)
	}
	if p.texts == nil || (old != nil && b != nil && old.Content == b.Content) {
		return
	}
	if old != nil {
		p.texts.remove(ContentKeyOf(old.Content), old.ID)
	}
	if b != nil {
		p.texts.add(ContentKeyOf(b.Content), b.ID)
	}
}

func ruleOf(b *Bullet) *Rule {
	if b == nil {
		return nil
	}
	return b.Rule
}

func (p *Playbook) indexRule(b *Bullet, r *Rule) {
	if r == nil {
		return
	}
	p.rules.add(r.Key, b.ID)
	if r.Base == "" {
		return
	}
	if p.byBase == nil {
		p.byBase = make(map[string]map[BulletID]struct{})
	}
	if p.byBase[r.Base] == nil {
		p.byBase[r.Base] = make(map[BulletID]struct{})
	}
	p.byBase[r.Base][b.ID] = struct{}{}
}

func (p *Playbook) unindexRule(b *Bullet, r *Rule) {
	if r == nil {
		return
	}
	p.rules.remove(r.Key, b.ID)
	delete(p.byBase[r.Base], b.ID)
	if len(p.byBase[r.Base]) == 0 {
		delete(p.byBase, r.Base)
	}
}

// index maps a key to the bullet with the lowest id that has it. Nearly every key has one bullet. The result does not
// depend on the order of additions, so that two folds of one log agree.
type index[K comparable] struct {
	first map[K]BulletID
	more  map[K][]BulletID // further bullets of a key, sorted by id; the slices are never changed in place
}

func (x *index[K]) add(k K, id BulletID) {
	first, ok := x.first[k]
	switch {
	case !ok:
		if x.first == nil {
			x.first = make(map[K]BulletID)
		}
		x.first[k] = id
		return
	case first == id:
		return
	case id < first:
		x.first[k], id = id, first
	}
	if at, found := slices.BinarySearch(x.more[k], id); !found {
		if x.more == nil {
			x.more = make(map[K][]BulletID)
		}
		x.more[k] = slices.Concat(x.more[k][:at], []BulletID{id}, x.more[k][at:])
	}
}

func (x *index[K]) remove(k K, id BulletID) {
	others := x.more[k]
	switch {
	case x.first[k] != id:
		others = slices.DeleteFunc(slices.Clone(others), func(o BulletID) bool { return o == id })
	case len(others) > 0:
		x.first[k], others = others[0], others[1:]
	default:
		delete(x.first, k)
	}
	if len(others) > 0 {
		x.more[k] = others
	} else {
		delete(x.more, k)
	}
}

func (x *index[K]) clone() index[K] { return index[K]{maps.Clone(x.first), maps.Clone(x.more)} }
