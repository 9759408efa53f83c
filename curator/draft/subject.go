package draft

import (
	"cmp"

	"debrief/playbook"
	"debrief/playbook/similar"
)

// Subject has bullets on one subject. Only a model or a person can tell whether they say the same.
type Subject struct {
	Bullets       []SubjectBullet `json:"bullets"`
	Contradiction string          `json:"contradiction,omitempty" doc:"Why two bullets perhaps contradict each other. Without it the bullets are perhaps one rule in other words."`
}

// SubjectBullet is the text of a bullet on a subject.
type SubjectBullet struct {
	ID      playbook.BulletID `json:"id"`
	State   playbook.Status   `json:"state"`
	Content string            `json:"content"`
}

// SameSubject returns the bullets that are perhaps one rule in other words, then the pairs that perhaps contradict each other, each in the
// given order. See similar.SameSubject.
func SameSubject(bullets []*playbook.Bullet) []Subject {
	found := similar.SameSubject(bullets, func(b *playbook.Bullet) similar.Rule { return similar.Rule{When: b.When, Content: b.Advice()} })
	all := make([]Subject, len(found)) // not null in JSON
	for i, f := range found {
		all[i].Contradiction = f.Contradiction
		for _, b := range f.Items {
			all[i].Bullets = append(all[i].Bullets, SubjectBullet{ID: b.ID, State: cmp.Or(b.Status, playbook.Active), Content: b.Content})
		}
	}
	return all
}
