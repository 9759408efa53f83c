package api

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/curator/gate"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/similar"
)

// experimentRoutes are the routes that show the evidence on a bullet.
func experimentRoutes() []route {
	ofBullet := map[string]string{"book": "default", "id": "misc-00001"}
	curve := get("/books/{book}/bullets/{id}/experiment", "getBulletExperiment", "Return the evidence that a bullet helps or harms after each version with new outcomes.", getExperiment)
	curve.query, curve.example = limitParameter, example{path: ofBullet, query: "limit=100"}
	alike := get("/books/{book}/bullets/{id}/similar", "listSimilarBullets", "List the bullets with the most similar texts.", listSimilar)
	alike.query, alike.example = limitParameter, example{path: ofBullet, query: "limit=5"}
	return []route{curve, alike}
}

// Experiment is the development of the evidence on a bullet.
type Experiment struct {
	Bullet    playbook.BulletID `json:"bullet_id"`
	Threshold float64           `json:"threshold" doc:"E-value at which the gate decides: 1 divided by the error probability."`
	Outcomes  int               `json:"max_outcomes" doc:"Number of outcomes after which a bullet on probation retires without a result."`
	Points    []EvidencePoint   `json:"points" doc:"Oldest first. If there are more than limit, some in between are left out."`
}

// EvidencePoint is the evidence on a bullet at a version.
type EvidencePoint struct {
	Version    uint64          `json:"version"`
	Time       time.Time       `json:"time"`
	Experiment int             `json:"experiment" doc:"Number of the experiment; a new wording starts a new one."`
	State      playbook.Status `json:"state"`
	Shown      gate.ArmScores  `json:"shown"`
	Withheld   gate.ArmScores  `json:"withheld"`
	Lift       gate.Lift       `json:"lift"`
	Helps      float64         `json:"e_helps" doc:"E-value against the hypothesis that the bullet does not help."`
	Harms      float64         `json:"e_harms" doc:"E-value against the hypothesis that the bullet does no harm."`

	outcomes playbook.Experiment // the fields from Shown on are computed from it
}

func getExperiment(c *call) (*Experiment, error) {
	id, cfg := playbook.BulletID(c.path("id")), gate.Config{}.WithDefaults()
	out := &Experiment{Bullet: id, Threshold: 1 / cfg.Alpha, Outcomes: cfg.MaxOutcomes, Points: []EvidencePoint{}}
	found := false
	err := history.StatesOf(c.handler.index.Logs.Bullet(c.ctx, c.book(), id).History(), id, func(d *playbook.Delta, bullet *playbook.Bullet) {
		if bullet == nil {
			return
		}
		found = true
		e := bullet.CurrentExperiment()
		p := EvidencePoint{Version: d.Version, Time: d.Time, Experiment: e.Number, State: cmp.Or(bullet.Status, playbook.Active), outcomes: e}
		if n := len(out.Points); n == 0 || !p.equals(&out.Points[n-1]) {
			out.Points = append(out.Points, p)
		}
	})
	if err != nil {
		return nil, explain.LogError(err)
	}
	if !found {
		return nil, notFound(fmt.Sprintf("bullet %q: not found in the log", text40(string(id))))
	}
	out.Points = thinOut(out.Points, c.limit())
	for i := range out.Points {
		p := &out.Points[i]
		p.Shown = gate.ArmScores{N: p.outcomes.Shown.Count(), Mean: p.outcomes.Shown.Mean()}
		p.Withheld = gate.ArmScores{N: p.outcomes.Withheld.Count(), Mean: p.outcomes.Withheld.Mean()}
		p.Lift = cfg.Lift(&p.outcomes)
		p.Harms, p.Helps = cfg.Evidence(&p.outcomes)
	}
	return out, nil
}

// equals reports whether two points have the same evidence, at two versions.
func (p *EvidencePoint) equals(o *EvidencePoint) bool {
	return p.Experiment == o.Experiment && p.State == o.State && p.outcomes.Shown == o.outcomes.Shown && p.outcomes.Withheld == o.outcomes.Withheld
}

// thinOut returns at most limit items of a list, evenly spaced, with the first and the last.
func thinOut[T any](all []T, limit int) []T {
	if len(all) <= limit {
		return all
	}
	if limit == 1 {
		return all[len(all)-1:]
	}
	out := make([]T, 0, limit)
	for i := range limit {
		out = append(out, all[i*(len(all)-1)/(limit-1)])
	}
	return out
}

// SimilarItem is a bullet with a similar text.
type SimilarItem struct {
	BulletItem
	Similarity float64 `json:"similarity" doc:"From 0 to 1, by words and by neighbouring characters."`
	Duplicate  bool    `json:"duplicate" doc:"The Curator would take one for a duplicate of the other."`
}

// minSimilarity is the least similarity in a list.
const minSimilarity = 0.3

func listSimilar(c *call) (*Page[SimilarItem], error) {
	items, _, _, err := c.bulletItems("")
	if err != nil {
		return nil, err
	}
	id := playbook.BulletID(c.path("id"))
	i, found := slices.BinarySearchFunc(items, id, func(b BulletItem, id playbook.BulletID) int { return cmp.Compare(b.ID, id) })
	if !found {
		return nil, notFound(fmt.Sprintf("bullet %q: not in the playbook", text40(string(id))))
	}
	text := similar.Prepare(items[i].Content)
	out := &Page[SimilarItem]{Items: []SimilarItem{}}
	for _, b := range items {
		if b.ID == id {
			continue
		}
		if s := text.Similarity(b.Content); s >= minSimilarity {
			out.Items = append(out.Items, SimilarItem{BulletItem: b, Similarity: s})
		}
	}
	slices.SortStableFunc(out.Items, func(a, b SimilarItem) int { return cmp.Compare(b.Similarity, a.Similarity) })
	out.Items = firstItems(out.Items, c.limit())
	for k := range out.Items {
		x := &out.Items[k]
		x.Duplicate = x.Similarity >= similar.DuplicateThreshold && similar.Difference(items[i].Content, x.Content).Kind == similar.Same
	}
	return out, nil
}
