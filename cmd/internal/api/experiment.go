package api

import (
	"fmt"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/playbook"
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

func getExperiment(c *call) (*explain.Experiment, error) {
	id := playbook.BulletID(c.path("id"))
	return explain.ExperimentOf(c.handler.index.Logs.Bullet(c.ctx, c.book(), id).History(), id, c.limit())
}

func listSimilar(c *call) (*Page[index.SimilarItem], error) {
	list, err := c.handler.index.Books.Bullets(c.ctx, c.book())
	if err != nil {
		return nil, err
	}
	b, found := list.Find(playbook.BulletID(c.path("id")))
	if !found {
		return nil, notFound(fmt.Sprintf("bullet %q: not in the playbook", clip(c.path("id"))))
	}
	return &Page[index.SimilarItem]{Items: list.Similar(b.Bullet, c.limit())}, nil
}
