package api

import (
	"fmt"
	"math"
	"strings"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// bulletRoutes are the routes that read bullets.
func bulletRoutes() []route {
	ofBullet := map[string]string{"book": "default", "id": "misc-00001"}
	bullets := get("/books/{book}/bullets", "listBullets", "List the bullets of a playbook.", listBullets)
	bullets.query = append([]parameter{
		{name: "q", kind: "string", doc: "Only bullets that contain each of these words."},
		{name: "section", kind: "string", doc: "Only bullets of this section."},
		{name: "state", kind: "string", doc: "Only bullets in this state; shown is all that generators show.", values: bulletStates},
		{name: "sort", kind: "string", doc: "Order; default: id.", values: index.BulletOrders},
		atParameter,
	}, pageParameters...)
	bullets.example = example{path: map[string]string{"book": "default"}, query: "q=invoice&sort=helpful&limit=10"}
	bullet := get("/books/{book}/bullets/{id}", "getBullet", "Return a bullet with its record in experiments.", getBullet)
	bullet.example = example{path: ofBullet}
	life := get("/books/{book}/bullets/{id}/history", "getBulletHistory", "List the changes of a bullet and its votes, with their support.", getBulletHistory)
	life.query = []parameter{
		{name: "executions", kind: "string", doc: "Also return the stored executions behind the changes: the first of each, or all.", values: []string{string(explain.FirstExecutions), string(explain.AllExecutions)}},
		{name: "votes", kind: "integer", high: math.MaxInt, doc: "Maximum number of events that only change votes or outcomes, the newest; default: all."},
	}
	life.example = example{path: ofBullet, query: "votes=10"}
	evidence := get("/books/{book}/bullets/{id}/evidence", "listBulletEvidence", "List the executions behind a bullet: those that it was learned from, and those that it helped, harmed or had no effect in.", bulletEvidence)
	evidence.query = append([]parameter{
		{name: "role", kind: "string", doc: "Only executions with this role; default: all.", values: evidenceRoles},
	}, pageParameters...)
	evidence.example = example{path: ofBullet, query: "role=learned"}
	curve := get("/books/{book}/bullets/{id}/experiment", "getBulletExperiment", "Return the evidence that a bullet helps or harms after each version with new outcomes.", getExperiment)
	curve.query, curve.example = limitParameter, example{path: ofBullet, query: "limit=100"}
	alike := get("/books/{book}/bullets/{id}/similar", "listSimilarBullets", "List the bullets with the most similar texts.", listSimilar)
	alike.query, alike.example = limitParameter, example{path: ofBullet, query: "limit=5"}
	return []route{bullets, bullet, life, evidence, curve, alike}
}

var bulletStates = []string{index.ShownState, string(playbook.Active), string(playbook.Probation), string(playbook.Candidate), string(playbook.Quarantined), string(playbook.Retired)}

func listBullets(c *call) (*Page[index.BulletItem], error) {
	p, _, err := c.playbook(c.query.Get("at"))
	if err != nil {
		return nil, err
	}
	filter := index.BulletFilter{
		Words: strings.Fields(strings.ToLower(c.query.Get("q"))), Section: c.query.Get("section"), State: c.query.Get("state"), Order: c.query.Get("sort"),
	}
	part, err := paginate(c, filter.Select(p), func(b index.BulletItem) string { return string(b.ID) })
	if err != nil {
		return nil, err
	}
	for i := range part.Items {
		part.Items[i].Record = gate.RowOf(p, part.Items[i].Bullet)
	}
	return part, nil
}

func getBullet(c *call) (*index.BulletItem, error) {
	p, _, err := c.playbook("")
	if err != nil {
		return nil, err
	}
	item := index.FindBullet(p, c.bullet())
	if item == nil {
		return nil, notFound(fmt.Sprintf("bullet %q: not in the playbook; its history may have it", clip(c.path("id"))))
	}
	return item, nil
}

// BulletLife is the history of a bullet.
type BulletLife struct {
	*explain.Bullet
	Omitted int `json:"omitted_votes,omitempty" doc:"Number of older events that only change votes or outcomes, which are left out."`
}

func getBulletHistory(c *call) (*BulletLife, error) {
	votes := c.integer("votes", -1) // -1: no limit
	x, err := c.lineage()
	if err != nil {
		return nil, err
	}
	if extent := explain.Extent(c.query.Get("executions")); extent != "" {
		err = x.Load(c.ctx, c.evidence(), extent)
	}
	if err != nil || votes < 0 {
		return &BulletLife{Bullet: x}, err
	}
	return &BulletLife{Bullet: x, Omitted: x.LimitVotes(votes)}, nil
}

// lineage returns the lineage of the bullet in the path.
func (c *call) lineage() (*explain.Bullet, error) {
	id := c.bullet()
	return explain.BulletOf(c.book(), c.handler.index.Logs.Bullet(c.ctx, c.book(), id), id)
}

// EvidenceItem is an execution behind a bullet.
type EvidenceItem struct {
	history.Supporter
	Stored *events.Execution `json:"stored,omitempty" doc:"The execution; missing if it has expired."`
}

var evidenceRoles = []string{string(history.Learned), string(history.Helped), string(history.Harmed), string(history.NoEffect)}

func bulletEvidence(c *call) (*Page[EvidenceItem], error) {
	x, err := c.lineage()
	if err != nil {
		return nil, err
	}
	role := history.Role(c.query.Get("role"))
	var all []EvidenceItem
	for _, s := range x.Supporters {
		if role == "" || s.Role == role {
			all = append(all, EvidenceItem{Supporter: s})
		}
	}
	part, err := paginate(c, all, func(e EvidenceItem) string { return e.Execution })
	if err != nil {
		return nil, err
	}
	stored := c.evidence()
	for i := range part.Items {
		if part.Items[i].Stored, err = stored.Execution(c.ctx, part.Items[i].Execution); err != nil {
			return nil, err
		}
	}
	return part, nil
}

func getExperiment(c *call) (*explain.Experiment, error) {
	id := c.bullet()
	return explain.ExperimentOf(c.handler.index.Logs.Bullet(c.ctx, c.book(), id).History(), id, c.limit())
}

func listSimilar(c *call) (*Page[index.SimilarItem], error) {
	p, _, err := c.playbook("")
	if err != nil {
		return nil, err
	}
	b := p.Bullet(c.bullet())
	if b == nil {
		return nil, notFound(fmt.Sprintf("bullet %q: not in the playbook", clip(c.path("id"))))
	}
	return &Page[index.SimilarItem]{Items: index.Similar(p, b, c.limit())}, nil
}
