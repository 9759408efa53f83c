package curator

import (
	"debrief/playbook"
	"debrief/playbook/similar"
)

// alike finds bullets that nearly say what a new one would. It follows a playbook: what has changed since the last time is
// indexed anew, and nothing else.
type alike struct {
	index similar.Index
	seen  map[playbook.BulletID]*playbook.Bullet
}

// follow brings the index in line with a state. Bullets of rules are left out: their words change with their counts, and
// their keys tell them apart.
func (a *alike) follow(p *playbook.Playbook) {
	if a.seen == nil {
		a.seen = make(map[playbook.BulletID]*playbook.Bullet, p.Len())
	}
	n := 0
	for b := range p.All() {
		if b.Rule != nil {
			continue
		}
		n++
		old := a.seen[b.ID]
		if old == b {
			continue
		}
		if old == nil || old.Content != b.Content {
			a.index.Put(string(b.ID), b.Content)
		}
		a.seen[b.ID] = b
	}
	if a.index.Len() == n {
		return
	}
	for id := range a.seen {
		if b := p.Bullet(id); b == nil || b.Rule != nil {
			a.index.Drop(string(id))
			delete(a.seen, id)
		}
	}
}

// maxAlike bounds how many bullets are looked at that are alike and yet different.
const maxAlike = 8

// nearlySame is a bullet that nearly says this, and how alike they are. However alike, other numbers, negations or
// identifiers make another rule.
func (d *draft) nearlySame(content string) (playbook.BulletID, float64) {
	if d.alike == nil {
		return "", 0
	}
	if !d.followed {
		d.alike.follow(d.base)
		d.followed = true
	}
	if id, likeness := d.among(&d.alike.index, content); id != "" {
		return id, likeness
	}
	return d.among(&d.news, content)
}

// among looks through one index for bullets that are still as it has them.
func (d *draft) among(index *similar.Index, content string) (playbook.BulletID, float64) {
	var other map[string]bool
	for range maxAlike {
		m, ok := index.Near(content, similar.Nearly, func(id string) bool { return other[id] })
		if !ok {
			return "", 0
		}
		id := playbook.BulletID(m.ID)
		if b := d.get(id); b != nil && similar.Likeness(b.Content, content) >= similar.Nearly && similar.Differ(b.Content, content) == "" {
			return id, m.Likeness
		}
		if other == nil {
			other = map[string]bool{}
		}
		other[m.ID] = true
	}
	return "", 0
}
