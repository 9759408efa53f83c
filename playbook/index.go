package playbook

import (
	"crypto/sha256"
	"iter"
	"maps"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Wording is content without white space and case, hashed: what Same compares by.
type Wording [16]byte

// WordingOf is the wording of content.
func WordingOf(content string) Wording {
	var buf [512]byte
	b := buf[:0]
	for _, r := range content {
		if !unicode.IsSpace(r) {
			b = utf8.AppendRune(b, unicode.ToLower(r))
		}
	}
	sum := sha256.Sum256(b)
	return Wording(sum[:16])
}

// ByRule is the bullet of a rule's key, nil if there is none. Of several it is the one with the lowest id.
func (p *Playbook) ByRule(key string) *Bullet { return p.bullets[p.rules.one[key]].Bullet }

// RestingOn yields the bullets whose rule has this base, in no order.
func (p *Playbook) RestingOn(base string) iter.Seq[*Bullet] {
	return func(yield func(*Bullet) bool) {
		for id := range p.resting[base] {
			if !yield(p.bullets[id].Bullet) {
				return
			}
		}
	}
}

// Same is a bullet with this content, white space and case aside; nil if there is none. Of several it is the one with
// the lowest id. The first call reads every bullet.
func (p *Playbook) Same(content string) *Bullet {
	if p.texts == nil {
		p.texts = new(index[Wording])
		for b := range p.All() {
			p.texts.add(WordingOf(b.Content), b.ID)
		}
	}
	return p.bullets[p.texts.one[WordingOf(content)]].Bullet
}

// reindex keeps the look-ups when a bullet replaces another; either may be nil.
func (p *Playbook) reindex(old, b *Bullet) {
	was, is := ruleOf(old), ruleOf(b)
	if was != is && (was == nil || is == nil || was.Key != is.Key || was.Base != is.Base) {
		p.unrule(old, was)
		p.rule(b, is)
	}
	if p.texts == nil || (old != nil && b != nil && old.Content == b.Content) {
		return
	}
	if old != nil {
		p.texts.drop(WordingOf(old.Content), old.ID)
	}
	if b != nil {
		p.texts.add(WordingOf(b.Content), b.ID)
	}
}

func ruleOf(b *Bullet) *Rule {
	if b == nil {
		return nil
	}
	return b.Rule
}

func (p *Playbook) rule(b *Bullet, r *Rule) {
	if r == nil {
		return
	}
	p.rules.add(r.Key, b.ID)
	if r.Base == "" {
		return
	}
	if p.resting == nil {
		p.resting = make(map[string]map[BulletID]struct{})
	}
	if p.resting[r.Base] == nil {
		p.resting[r.Base] = make(map[BulletID]struct{})
	}
	p.resting[r.Base][b.ID] = struct{}{}
}

func (p *Playbook) unrule(b *Bullet, r *Rule) {
	if r == nil {
		return
	}
	p.rules.drop(r.Key, b.ID)
	delete(p.resting[r.Base], b.ID)
	if len(p.resting[r.Base]) == 0 {
		delete(p.resting, r.Base)
	}
}

// index finds the bullet with the lowest id by something that is nearly always one bullet's alone. It depends on what
// is in it and not on the order in which that came, so that two folds of one log agree.
type index[K comparable] struct {
	one  map[K]BulletID
	more map[K][]BulletID // the others where there are several, by id; never changed in place
}

func (x *index[K]) add(k K, id BulletID) {
	first, taken := x.one[k]
	switch {
	case !taken:
		if x.one == nil {
			x.one = make(map[K]BulletID)
		}
		x.one[k] = id
		return
	case first == id:
		return
	case id < first:
		x.one[k], id = id, first
	}
	if at, there := slices.BinarySearch(x.more[k], id); !there {
		if x.more == nil {
			x.more = make(map[K][]BulletID)
		}
		x.more[k] = slices.Concat(x.more[k][:at], []BulletID{id}, x.more[k][at:])
	}
}

func (x *index[K]) drop(k K, id BulletID) {
	others := x.more[k]
	switch {
	case x.one[k] != id:
		others = slices.DeleteFunc(slices.Clone(others), func(o BulletID) bool { return o == id })
	case len(others) > 0:
		x.one[k], others = others[0], others[1:]
	default:
		delete(x.one, k)
	}
	if len(others) > 0 {
		x.more[k] = others
	} else {
		delete(x.more, k)
	}
}

func (x *index[K]) clone() index[K] { return index[K]{maps.Clone(x.one), maps.Clone(x.more)} }
