package draft

import (
	"debrief/playbook"
	"debrief/playbook/similar"
)

// DuplicateIndex is an index of bullet texts that finds the near duplicates of a new text. A draft updates it to its state.
// The zero value is an empty index. It is not safe for concurrent use.
type DuplicateIndex struct {
	index similar.Index
	texts playbook.Texts
}

// update updates the index to the state p. It indexes only the texts that have changed since the last call.
func (x *DuplicateIndex) update(p *playbook.Playbook) {
	x.texts.Update(p, func(b *playbook.Bullet) string { return b.Content }, x.index.Put, x.index.Drop)
}

// findSimilar returns a bullet with nearly the same text and the similarity of the two texts, from 0 to 1. It returns ""
// if nothing matches. Texts with different numbers, negations or identifiers are different advice, even if
// their similarity is high.
func (d *draft) findSimilar(content string) (playbook.BulletID, float64) {
	if d.Duplicates == nil {
		return "", 0
	}
	if !d.baseIndexed {
		d.Duplicates.update(d.base)
		d.baseIndexed = true
	}
	if id, similarity := d.findSimilarIn(&d.Duplicates.index, content); id != "" {
		return id, similarity
	}
	return d.findSimilarIn(&d.addedTexts, content)
}

// findSimilarIn searches one index. It ignores entries whose bullet the draft has removed, and those whose text in the draft is not
// similar.
func (d *draft) findSimilarIn(index *similar.Index, content string) (playbook.BulletID, float64) {
	m, _ := index.Duplicate(content, func(id string) string {
		b := d.Bullet(playbook.BulletID(id))
		if b == nil || similar.Similarity(b.Content, content) < similar.DuplicateThreshold {
			return ""
		}
		return b.Content
	})
	return playbook.BulletID(m.ID), m.Similarity
}
