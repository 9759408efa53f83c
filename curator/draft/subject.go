package draft

import (
	"cmp"

	"debrief/playbook"
	"debrief/playbook/similar"
)

// SubjectBullet is a bullet in a group on one subject.
type SubjectBullet struct {
	ID      playbook.BulletID `json:"id"`
	State   playbook.Status   `json:"state"`
	Content string            `json:"content"`
}

// SameSubject returns the groups of bullets that are perhaps one rule in other words, or that contradict each other. See
// similar.SameSubject.
func SameSubject(bullets []*playbook.Bullet) [][]SubjectBullet {
	all := [][]SubjectBullet{} // not null in JSON
	for _, group := range similar.SameSubject(bullets, ruleOf) {
		var subject []SubjectBullet
		for _, b := range group {
			subject = append(subject, SubjectBullet{ID: b.ID, State: cmp.Or(b.Status, playbook.Active), Content: b.Content})
		}
		all = append(all, subject)
	}
	return all
}

func ruleOf(b *playbook.Bullet) similar.Rule { return similar.Rule{When: b.When, Content: b.Advice()} }
