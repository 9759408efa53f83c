package api

import (
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Quarantined is a bullet in quarantine, with what a person needs to decide.
type Quarantined struct {
	*history.Quarantined
	Replaced  string               `json:"replaced,omitempty" doc:"Text of the bullet that it replaces if a person approves it."`
	Contested string               `json:"contested,omitempty" doc:"Text of the bullet that it contradicts."`
	Nearest   *index.NearestBullet `json:"nearest,omitempty" doc:"The bullet with the most similar text, if any is similar."`
	Example   *explain.Example     `json:"example,omitempty" doc:"The newest stored execution that it was learned from."`
}

func listReview(c *call) (*Page[Quarantined], error) {
	list, err := c.handler.index.Books.Review(c.ctx, c.book())
	if err != nil {
		return nil, err
	}
	all := make([]Quarantined, len(list))
	for i, q := range list {
		all[i].Quarantined = q
	}
	part, err := paginate(c, all, func(q Quarantined) string { return string(q.ID) })
	if err != nil || len(part.Items) == 0 {
		return part, err
	}
	texts, err := c.handler.index.Books.Texts(c.ctx, c.book())
	if err != nil {
		return nil, err
	}
	content := func(id playbook.BulletID) string {
		if b := texts.Playbook.Bullet(id); b != nil {
			return b.Content
		}
		return ""
	}
	stored := explain.NewStored(c.handler.conn)
	for i := range part.Items {
		q := &part.Items[i]
		q.Replaced, q.Contested = content(q.Replaces), content(q.Contests)
		q.Nearest = texts.Nearest(q.Bullet)
		if q.Example, err = stored.NewestExample(c.ctx, q.Evidence, c.token.Sees); err != nil {
			return nil, err
		}
	}
	return part, nil
}
