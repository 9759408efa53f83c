package replay

import (
	"debrief/cmd/internal/report"
	"debrief/playbook"
	"debrief/playbook/similar"
)

// compare says which bullets two playbooks have in common, of those that generators get to see. Each is counted with its
// nearest: of equal wording, or on the same thing that a rule counts, first, and then as the Curator tells near duplicates.
func compare(here, there *playbook.Playbook) *report.Comparison {
	c := &report.Comparison{Version: there.Version()}
	var index similar.Index
	wordings, rules := map[playbook.Wording][]playbook.BulletID{}, map[string][]playbook.BulletID{}
	for _, b := range there.Sorted() {
		if !b.Shown() {
			continue
		}
		c.Bullets++
		w := playbook.WordingOf(b.Content)
		wordings[w] = append(wordings[w], b.ID)
		if b.Rule != nil {
			rules[b.Rule.Key] = append(rules[b.Rule.Key], b.ID)
		} else {
			index.Put(string(b.ID), b.Content)
		}
	}
	met := map[playbook.BulletID]bool{}
	meet := func(same []playbook.BulletID) bool {
		for _, id := range same {
			met[id] = true
		}
		return len(same) > 0
	}
	for _, b := range here.Sorted() {
		switch {
		case !b.Shown():
		case meet(wordings[playbook.WordingOf(b.Content)]) || b.Rule != nil && meet(rules[b.Rule.Key]):
			c.Same++
		case b.Rule == nil && meet(alike(&index, there, b.Content)):
			c.Alike++
		default:
			c.OnlyHere, c.Here = c.OnlyHere+1, first(c.Here, b.Content)
		}
	}
	for _, b := range there.Sorted() {
		if b.Shown() && !met[b.ID] {
			c.OnlyThere, c.There = c.OnlyThere+1, first(c.There, b.Content)
		}
	}
	return c
}

// alike is the bullet that nearly says this, if there is one.
func alike(index *similar.Index, p *playbook.Playbook, content string) []playbook.BulletID {
	other := map[string]bool{}
	for range 8 { // that are alike and yet different
		m, ok := index.Near(content, similar.Nearly, func(id string) bool { return other[id] })
		if !ok {
			break
		}
		if id := playbook.BulletID(m.ID); similar.Differ(p.Bullet(id).Content, content) == "" {
			return []playbook.BulletID{id}
		}
		other[m.ID] = true
	}
	return nil
}

// first appends to a list that tells the first of many.
func first(list []string, text string) []string {
	if len(list) < report.MostCompared {
		list = append(list, text)
	}
	return list
}
