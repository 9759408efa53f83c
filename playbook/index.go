package playbook

import (
	"crypto/sha256"
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

// FindByContent returns the bullet with this content, ignoring white space and case. It returns nil if none exists. If several
// have the content, it returns the lowest id. The first call indexes all bullets.
func (p *Playbook) FindByContent(content string) *Bullet {
	if p.texts == nil {
		p.texts = new(index)
		for b := range p.All() {
			p.texts.add(ContentKeyOf(b.Content), b.ID)
		}
	}
	return p.bullets[p.texts.first[ContentKeyOf(content)]].Bullet
}

// reindex updates the index of contents and the tally when a bullet replaces another; either may be nil.
func (p *Playbook) reindex(old, b *Bullet) {
	p.tally.count(old, -1)
	p.tally.count(b, 1)
	sameText := old != nil && b != nil && old.Content == b.Content
	if sameText || p.texts == nil {
		return
	}
	if old != nil {
		p.texts.remove(ContentKeyOf(old.Content), old.ID)
	}
	if b != nil {
		p.texts.add(ContentKeyOf(b.Content), b.ID)
	}
}

// index maps a content to the bullet with the lowest id that has it. Nearly every content has one bullet. The result does
// not depend on the order of additions, so that two folds of one log agree.
type index struct {
	first map[ContentKey]BulletID
	more  map[ContentKey][]BulletID // further bullets of a content, sorted by id; the slices are never changed in place
}

func (x *index) add(k ContentKey, id BulletID) {
	first, ok := x.first[k]
	switch {
	case !ok:
		if x.first == nil {
			x.first = make(map[ContentKey]BulletID)
		}
		x.first[k] = id
		return
	case first == id:
		return
	case id < first:
		x.first[k] = id
		id = first // to more
	}
	if at, found := slices.BinarySearch(x.more[k], id); !found {
		if x.more == nil {
			x.more = make(map[ContentKey][]BulletID)
		}
		x.more[k] = slices.Concat(x.more[k][:at], []BulletID{id}, x.more[k][at:])
	}
}

func (x *index) remove(k ContentKey, id BulletID) {
	others := x.more[k]
	switch {
	case x.first[k] != id:
		others = slices.DeleteFunc(slices.Clone(others), func(o BulletID) bool { return o == id })
	case len(others) > 0:
		x.first[k] = others[0]
		others = others[1:]
	default:
		delete(x.first, k)
	}
	if len(others) > 0 {
		x.more[k] = others
	} else {
		delete(x.more, k)
	}
}

func (x *index) clone() *index { return &index{maps.Clone(x.first), maps.Clone(x.more)} }
