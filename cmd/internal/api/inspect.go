package api

import (
	"time"

	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/operate"
	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/liveness"
)

// inspectRoutes are the routes that show dead letters, checks and settings.
func inspectRoutes() []route {
	letter := get("/dead/{id}", "getDeadLetter", "Return a dead letter with its event.", getDeadLetter)
	letter.example = example{path: map[string]string{"id": "12-ab12cd34"}}
	checks := get("/doctor", "runDoctor", "Check server, streams, durables, clocks, workers and playbooks, with a fix for each finding. It changes nothing.", runDoctor)
	checks.scope, checks.waits = tokens.Operate, true
	settings := get("/settings", "listSettings", "List the settings of the gateway with their origins, without secrets.", listSettings)
	settings.scope, settings.offline = tokens.Operate, true
	return []route{letter, checks, settings}
}

func getDeadLetter(c *call) (*operate.LetterDetails, error) {
	l, err := c.letter()
	if err != nil {
		return nil, err
	}
	return operate.ShowLetter(c.ctx, c.handler.conn.DeadLetters, l)
}

// Findings are the results of the checks.
type Findings struct {
	Failed int            `json:"failed" doc:"Number of failed checks."`
	Checks []doctor.Check `json:"checks"`
}

func runDoctor(c *call) (*Findings, error) {
	conn, report := c.handler.conn, new(doctor.Report)
	report.Server(conn.NATS(), "")
	if report.JetStream(c.ctx, conn.JetStream()) {
		allStreams := report.Resources(c.ctx, conn)
		reports, err := liveness.CollectReports(c.ctx, conn.NATS())
		if err != nil {
			report.Add("roll call", doctor.Fail, "grant the user to publish "+events.SubjectHealth+" and to subscribe to its inbox", "%v", err)
		}
		report.StoreErrors(liveness.StoreErrors(reports))
		report.Clock(c.ctx, conn.JetStream(), reports, time.Now())
		if allStreams { // else the following fail only for this reason
			report.Workers(c.ctx, conn, reports)
			report.Playbooks(c.ctx, c.handler.store)
		}
	}
	return &Findings{report.Failed(), report.Checks}, c.ctx.Err()
}

func listSettings(c *call) (*Page[program.Setting], error) {
	return &Page[program.Setting]{Items: append([]program.Setting{}, c.handler.program...)}, nil
}
