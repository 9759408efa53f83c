package api

import (
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/worth"
	"debrief/events"
)

// resultRoutes are the routes that show the development of results.
func resultRoutes() []route {
	curve := get("/books/{book}/curve", "getCurve", "Return accuracy, tokens and cost of the executions per version of the playbook and per day.", getCurve)
	curve.query = limitParameter
	curve.example = example{path: map[string]string{"book": "default"}, query: "limit=30"}
	health := get("/books/{book}/health", "getHealth", "Return the numbers that show whether a playbook still fits its tasks, for each day with a change, with alarms.", getHealth)
	health.query = limitParameter
	health.example = example{path: map[string]string{"book": "default"}, query: "limit=30"}
	value := get("/books/{book}/worth", "getWorth", "Compare the sessions with the playbook with those of its control group: points, failures avoided, tokens, cost and time, each with an interval that holds at all looks.", getWorth)
	value.example = example{path: map[string]string{"book": "default"}}
	return []route{curve, health, value}
}

func getHealth(c *call) (*explain.Health, error) {
	days, err := c.handler.index.Logs.Health(c.ctx, c.book(), time.Now())
	if err != nil {
		return nil, err
	}
	if len(days) == 0 {
		return nil, index.ErrBookNotFound
	}
	return &explain.Health{Book: c.book(), Now: days[len(days)-1], Days: days[max(0, len(days)-c.limit()):]}, nil
}

// lastExecution returns the last sequence of the stream of executions, or the error of checkBook. The index may be behind it.
func (c *call) lastExecution() (uint64, error) {
	if err := c.checkBook(); err != nil {
		return 0, err
	}
	stream, err := c.handler.conn.JetStream().Stream(c.ctx, events.StreamExecutions)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.LastSeq, nil
}

func getCurve(c *call) (*index.Curve, error) {
	last, err := c.lastExecution()
	if err != nil {
		return nil, err
	}
	return c.handler.index.Executions.Curve(c.book(), c.limit(), last), nil
}

func getWorth(c *call) (*worth.Report, error) {
	p, _, err := c.playbook("")
	if err != nil {
		return nil, err
	}
	last, err := c.lastExecution()
	if err != nil {
		return nil, err
	}
	a := p.Admission()
	executions := c.handler.index.Executions
	if c.handler.commandToken != nil { // the index of a command does not follow the stream
		if err := executions.Read(c.ctx); err != nil {
			return nil, err
		}
	}
	return executions.Worth(c.book(), a.ControlShare(), last), nil
}
