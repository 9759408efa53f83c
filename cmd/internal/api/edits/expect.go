// Package edits computes the edits of the operator: changes of single bullets, imports, the promotion of a run, the
// approval and rejection of bullets in quarantine, and the preview of forgetting. The caller submits them to a Curator.
package edits

import (
	"debrief/events"

	book "debrief/playbook"
)

// Expectations returns, for each bullet that the operations change, its section and content before them. A bullet that does not exist has
// neither.
func Expectations(p *book.Playbook, ops []book.Op) []events.Expectation {
	var all []events.Expectation
	done := map[book.BulletID]bool{}
	for _, op := range ops {
		if done[op.Bullet] {
			continue
		}
		done[op.Bullet] = true
		was := events.Expectation{Bullet: op.Bullet}
		if b := p.Bullet(op.Bullet); b != nil {
			was.Section, was.Content = b.Section, b.Content
		}
		all = append(all, was)
	}
	return all
}
