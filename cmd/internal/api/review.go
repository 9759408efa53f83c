package api

import (
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/curator/gate"
	"debrief/playbook"
	"debrief/playbook/history"
)

// reviewRoutes are the routes that show what the gate decides, and what a person must decide.
func reviewRoutes() []route {
	inBook := map[string]string{"book": "default"}
	review := get("/books/{book}/review", "listReview", "List the bullets in quarantine with their reasons.", listReview)
	review.query, review.example = pageParameters, example{path: inBook}
	state := get("/books/{book}/gate", "getGate", "Return the mode of the gate, the records of the bullets that are nearest to a decision, and the latest decisions.", getGate)
	state.query = limitParameter
	state.example = example{path: inBook}
	return []route{review, state}
}

// Quarantined is a bullet in quarantine, with what a person needs to decide.
type Quarantined struct {
	*history.Quarantined
	Replaced  string               `json:"replaced,omitempty" doc:"Text of the bullet that it replaces if a person approves it."`
	Contested string               `json:"contested,omitempty" doc:"Text of the bullet that it contradicts."`
	Nearest   *index.NearestBullet `json:"nearest,omitempty" doc:"The bullet with the most similar text, if any is similar."`
	Example   *explain.Example     `json:"example,omitempty" doc:"The newest stored execution that it was learned from."`
}

func listReview(c *call) (*Page[Quarantined], error) {
	p, _, err := c.playbook("")
	if err != nil {
		return nil, err
	}
	list, err := c.handler.index.Logs.Quarantine(c.ctx, c.book(), p)
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
	nearest := index.Nearest(p)
	content := func(id playbook.BulletID) string {
		if b := p.Bullet(id); b != nil {
			return b.Content
		}
		return ""
	}
	stored := c.evidence()
	for i := range part.Items {
		q := &part.Items[i]
		q.Replaced, q.Contested = content(q.Replaces), content(q.Contests)
		q.Nearest = nearest(q.Bullet)
		if q.Example, err = stored.NewestExample(c.ctx, q.Evidence, c.token.Sees); err != nil {
			return nil, err
		}
	}
	return part, nil
}

// GateState is the state of the gate, with the first bullets and decisions of each list.
type GateState struct {
	*explain.Gate
	Total        int `json:"total_bullets" doc:"Number of bullets that are shown or on probation."`
	TotalWaiting int `json:"total_waiting" doc:"Number of candidates."`
	Probation    int `json:"probation" doc:"Number of bullets on probation."`
}

func getGate(c *call) (*GateState, error) {
	limit := c.limit()
	p, label, err := c.playbook("")
	if err != nil {
		return nil, err
	}
	decisions, err := c.handler.index.Logs.Decisions(c.ctx, c.book())
	if err != nil {
		return nil, err
	}
	g := explain.GateAt(c.book(), p, label, decisions, gate.Config{}, limit) // all bullets; those after the first limit have no lift
	out := &GateState{Gate: g, Total: len(g.Bullets), TotalWaiting: len(g.Waiting)}
	for _, b := range g.Bullets {
		if b.Status == playbook.Probation {
			out.Probation++
		}
	}
	g.Bullets = firstItems(g.Bullets, limit)
	g.Waiting = firstItems(g.Waiting, limit)
	g.Decisions = firstItems(g.Decisions, limit)
	return out, nil
}
