package playbook

import (
	"crypto/sha256"
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
		p.byContent = make(contentIndex, p.Len())
		for b := range p.All() {
			p.byContent.add(ContentKeyOf(b.Content), b.ID)
		}
	}
	ids := p.byContent[ContentKeyOf(content)]
	if len(ids) == 0 {
		return nil
	}
	return p.Bullet(ids[0])
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

// contentIndex has the bullets of each content, sorted by id. Nearly every content has only one bullet. The slices are immutable, because
// clones share them.
type contentIndex map[ContentKey][]BulletID

// add adds a bullet with a content.
func (x contentIndex) add(k ContentKey, id BulletID) {
	ids := x[k]
	if i, found := slices.BinarySearch(ids, id); !found {
		x[k] = slices.Concat(ids[:i], []BulletID{id}, ids[i:])
	}
}

// remove removes a bullet with a content.
func (x contentIndex) remove(k ContentKey, id BulletID) {
	others := slices.DeleteFunc(slices.Clone(x[k]), func(o BulletID) bool { return o == id })
	if len(others) == 0 {
		delete(x, k)
		return
	}
	x[k] = others
}
