package api

import "debrief/cmd/internal/api/worth"

// worthRoute compares the sessions of a playbook with those of its control group.
func worthRoute() route {
	r := get("/books/{book}/worth", "getWorth", "Compare the sessions with the playbook with those of its control group: points, failures avoided, tokens, cost and time, each with an interval that holds at all looks.", getWorth)
	r.example = example{path: map[string]string{"book": "default"}}
	return r
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
