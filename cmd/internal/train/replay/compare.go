package replay

import (
	"debrief/cmd/internal/train/report"
	"debrief/playbook"
	"debrief/playbook/similar"
)

// compare counts the bullets that two playbooks have in common, among the bullets shown to generators. It matches a
// bullet by equal wording first, and then by the Curator's test for near duplicates.
func compare(here, there *playbook.Playbook) *report.Comparison {
	c := &report.Comparison{Version: there.Version(), Here: []string{}, There: []string{}}
	var index similar.Index
	byWording := map[playbook.ContentKey][]playbook.BulletID{} // bullets of there
	for _, b := range there.Sorted() {
		if !b.Shown() {
			continue
		}
		c.Bullets++
		wording := playbook.ContentKeyOf(b.Content)
		byWording[wording] = append(byWording[wording], b.ID)
		index.Put(string(b.ID), b.Content)
	}
	matched := map[playbook.BulletID]bool{}       // bullets of there
	match := func(ids []playbook.BulletID) bool { // reports whether there are any
		for _, id := range ids {
			matched[id] = true
		}
		return len(ids) > 0
	}
	for _, b := range here.Sorted() {
		switch {
		case !b.Shown():
		case match(byWording[playbook.ContentKeyOf(b.Content)]):
			c.Same++
		case match(nearDuplicate(&index, there, b.Content)):
			c.Alike++
		default:
			c.OnlyHere++
			c.Here = append(c.Here, b.Content)
		}
	}
	for _, b := range there.Sorted() {
		if b.Shown() && !matched[b.ID] {
			c.OnlyThere++
			c.There = append(c.There, b.Content)
		}
	}
	c.Here, c.There = c.Here[:min(len(c.Here), report.MaxCompared)], c.There[:min(len(c.There), report.MaxCompared)]
	return c
}

// nearDuplicate returns the bullet of p that is a near duplicate of content, nil if there is none. The index has the bullets of p.
func nearDuplicate(index *similar.Index, p *playbook.Playbook, content string) []playbook.BulletID {
	m, ok := index.Duplicate(content, func(id string) string { return p.Bullet(playbook.BulletID(id)).Content })
	if !ok {
		return nil
	}
	return []playbook.BulletID{playbook.BulletID(m.ID)}
}
