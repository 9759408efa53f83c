package history

import (
	"slices"
	"strings"

	"debrief/playbook"
)

// Origin is the source of the content of a bullet: the last operation in the log that set the content. Restores and forget
// changes are skipped, because they bring back earlier content.
type Origin struct {
	Bullet  playbook.BulletID
	Version uint64           // of the operation; 0 if the log has none
	Support []playbook.Cover // with the evidence
	Author  string
}

// HasSource reports whether a person can look up the source: the evidence of an execution, or an edit or import with an
// author.
func (o Origin) HasSource() bool {
	return o.Author != "" && o.Author != Curator ||
		slices.ContainsFunc(o.Support, func(c playbook.Cover) bool { return c.Evidence != nil })
}

// Origins returns the origins of the shown bullets of a state, sorted by id. The log may continue after the state.
func Origins(log Log, p *playbook.Playbook) ([]Origin, error) {
	origins := map[playbook.BulletID]Origin{}
	for b := range p.All() {
		if b.Shown() {
			origins[b.ID] = Origin{Bullet: b.ID}
		}
	}
	err := log.changes(p.Version(), func(c change) error {
		if d := c.last(); d.RestoredVersion != nil || d.Forget != nil {
			return nil
		}
		for _, part := range c {
			for i := range part.Ops {
				op := &part.Ops[i]
				o, isShown := origins[op.Bullet]
				if !isShown || !setsContent(op.Kind) {
					continue
				}
				e := c.event(part, op)
				if op.Kind == playbook.Merge && len(e.Support) == 0 { // no execution requested the merge, so the support of the old content stays
					e.Support = o.Support
				}
				origins[op.Bullet] = Origin{Bullet: op.Bullet, Version: e.Version, Support: e.Support, Author: e.Author}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sorted := make([]Origin, 0, len(origins))
	for _, o := range origins {
		sorted = append(sorted, o)
	}
	slices.SortFunc(sorted, func(a, b Origin) int { return strings.Compare(string(a.Bullet), string(b.Bullet)) })
	return sorted, nil
}

// CountTraced returns the number of shown bullets of a state whose source a person can look up, and the number of the
// others. The log may continue after the state.
func CountTraced(log Log, p *playbook.Playbook) (traced, untraced int, err error) {
	origins, err := Origins(log, p)
	for _, o := range origins {
		if o.HasSource() {
			traced++
		} else {
			untraced++
		}
	}
	return traced, untraced, err
}

// setsContent reports whether an operation sets the content of a bullet.
func setsContent(kind playbook.OpKind) bool {
	switch kind {
	case playbook.Add, playbook.Update, playbook.Merge, playbook.Put:
		return true
	}
	return false
}
