package api

import (
	"debrief/cmd/internal/executions"
	"debrief/events"
	"debrief/playbook"
)

// curveRoutes are the routes that show the development of results.
func curveRoutes() []route {
	r := get("/books/{book}/curve", "getCurve", "Return accuracy, tokens and cost of the executions per version of the playbook and per day, with and without its context.", getCurve)
	r.query = pageParameters[:1]
	r.example = example{path: map[string]string{"book": "default"}, query: "limit=30"}
	return []route{r}
}

func getCurve(c *call) (*executions.Curve, error) {
	limit, err := c.limit()
	if err != nil {
		return nil, err
	}
	stream, err := c.handler.conn.JetStream().Stream(c.ctx, events.StreamExecutions)
	if err != nil {
		return nil, err
	}
	return c.handler.index.Curve(playbook.Book(c.path["book"]), limit, stream.CachedInfo().State.LastSeq), nil
}
