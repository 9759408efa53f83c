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
	if p.byContent == nil {
		p.byContent = new(contentIndex)
		for b := range p.All() {
			p.byContent.add(ContentKeyOf(b.Content), b.ID)
		}
	}
	return p.bullets[p.byContent.first[ContentKeyOf(content)]].Bullet
}

// reindex updates the index of contents and the tally after b has replaced old. For a new bullet old is nil, and for a removed one b is nil.
func (p *Playbook) reindex(old, b *Bullet) {
	p.tally.countBullet(old, -1)
	p.tally.countBullet(b, 1)
	sameText := old != nil && b != nil && old.Content == b.Content
	if sameText || p.byContent == nil {
		return
	}
	if old != nil {
		p.byContent.remove(ContentKeyOf(old.Content), old.ID)
	}
	if b != nil {
		p.byContent.add(ContentKeyOf(b.Content), b.ID)
	}
}

// contentIndex maps a content to the bullet with the lowest id that has it. Nearly every content has only one bullet. The order of
// additions changes nothing, so that two folds of one log agree.
type contentIndex struct {
	first map[ContentKey]BulletID
	more  map[ContentKey][]BulletID // further bullets of a content, sorted by id; the slices are immutable, because clones share them
}

// add adds a bullet with a content. It does nothing if the bullet is there already.
func (x *contentIndex) add(k ContentKey, id BulletID) {
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
		id = first // move the old one to more
	}
	if i, found := slices.BinarySearch(x.more[k], id); !found {
		if x.more == nil {
			x.more = make(map[ContentKey][]BulletID)
		}
		x.more[k] = slices.Concat(x.more[k][:i], []BulletID{id}, x.more[k][i:])
	}
}

// remove removes a bullet with a content.
func (x *contentIndex) remove(k ContentKey, id BulletID) {
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

func (x *contentIndex) clone() *contentIndex {
	return &contentIndex{maps.Clone(x.first), maps.Clone(x.more)}
}
