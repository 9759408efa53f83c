package playbook

import (
	"crypto/sha256"
	"iter"
	"unicode"
)

// text is the hash of normalised content.
type text [16]byte

// normalise is content as Same compares it: letters, digits and signs, lower case, without white space.
func normalise(content string) text {
	var buf [512]byte
	b := buf[:0]
	for _, r := range content {
		if !unicode.IsSpace(r) {
			b = append(b, string(unicode.ToLower(r))...)
		}
	}
	sum := sha256.Sum256(b)
	return text(sum[:16])
}

// ByRule is the bullet of a rule's key, nil if there is none.
func (p *Playbook) ByRule(key string) *Bullet { return p.bullets[p.rules[key]] }

// RestingOn yields the bullets whose rule has this base.
func (p *Playbook) RestingOn(base string) iter.Seq[*Bullet] {
	return func(yield func(*Bullet) bool) {
		for _, id := range p.rules {
			if b := p.bullets[id]; b.Rule.Base == base && !yield(b) {
				return
			}
		}
	}
}

// Same is a bullet with this content, white space and case aside; nil if there is none. The first call reads every
// bullet.
func (p *Playbook) Same(content string) *Bullet {
	if p.texts == nil {
		p.texts = make(map[text]BulletID, len(p.bullets))
		for _, b := range p.Sorted() {
			p.texts[normalise(b.Content)] = b.ID
		}
	}
	return p.bullets[p.texts[normalise(content)]]
}

// reindex keeps the look-ups when a bullet replaces another; either may be nil.
func (p *Playbook) reindex(old, b *Bullet) {
	if old != nil && old.Rule != nil && (b == nil || b.Rule == nil || b.Rule.Key != old.Rule.Key) && p.rules[old.Rule.Key] == old.ID {
		delete(p.rules, old.Rule.Key)
	}
	if b != nil && b.Rule != nil && p.rules[b.Rule.Key] != b.ID {
		if p.rules == nil {
			p.rules = make(map[string]BulletID)
		}
		p.rules[b.Rule.Key] = b.ID
	}
	if p.texts == nil || (old != nil && b != nil && old.Content == b.Content) {
		return
	}
	if old != nil {
		if t := normalise(old.Content); p.texts[t] == old.ID {
			delete(p.texts, t)
		}
	}
	if b != nil {
		p.texts[normalise(b.Content)] = b.ID
	}
}
