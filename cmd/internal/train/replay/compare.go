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
	wordings := map[playbook.ContentKey][]playbook.BulletID{}
	for _, b := range there.Sorted() {
		if !b.Shown() {
			continue
		}
		c.Bullets++
		w := playbook.ContentKeyOf(b.Content)
		wordings[w] = append(wordings[w], b.ID)
		index.Put(string(b.ID), b.Content)
	}
	matched := map[playbook.BulletID]bool{}
	match := func(same []playbook.BulletID) bool {
		for _, id := range same {
			matched[id] = true
		}
		return len(same) > 0
	}
	for _, b := range here.Sorted() {
		switch {
		case !b.Shown():
		case match(wordings[playbook.ContentKeyOf(b.Content)]):
			c.Same++
		case match(nearDuplicate(&index, there, b.Content)):
			c.Alike++
		default:
			c.OnlyHere, c.Here = c.OnlyHere+1, appendLimited(c.Here, b.Content)
		}
	}
	for _, b := range there.Sorted() {
		if b.Shown() && !matched[b.ID] {
			c.OnlyThere, c.There = c.OnlyThere+1, appendLimited(c.There, b.Content)
		}
	}
	return c
}

// nearDuplicate returns the bullet that is a near duplicate of content, if there is one.
func nearDuplicate(index *similar.Index, p *playbook.Playbook, content string) []playbook.BulletID {
	skip := map[string]bool{}
	for range 8 { // similar bullets with another meaning
		m, ok := index.Nearest(content, similar.DuplicateThreshold, func(id string) bool { return skip[id] })
		if !ok {
			break
		}
		if id := playbook.BulletID(m.ID); similar.Difference(p.Bullet(id).Content, content).Kind == similar.Same {
			return []playbook.BulletID{id}
		}
		skip[m.ID] = true
	}
	return nil
}

// appendLimited appends to a list that holds at most report.MaxCompared texts.
func appendLimited(list []string, text string) []string {
	if len(list) < report.MaxCompared {
		list = append(list, text)
	}
	return list
}
