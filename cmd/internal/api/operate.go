package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/operate"
	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/liveness"
	"debrief/events/streams"
	"debrief/playbook"
)

// operateRoutes are the routes for dead letters, the status, the checks and the settings.
func operateRoutes() []route {
	dead := get("/dead", "listDeadLetters", "List the dead letters of the playbooks that the token permits, oldest first.", listDead)
	dead.query = append([]parameter{
		{name: "role", kind: "string", doc: "Only letters of this role.", values: streams.Roles},
		{name: "book", kind: "string", doc: "Only letters of this playbook."},
		{name: "since", kind: "string", doc: "Only letters since this time, in RFC 3339."},
	}, pageParameters...)
	requeue := post("/dead/{id}/requeue", "requeueDeadLetter", "Publish the event of a dead letter again, under its own id.", http.StatusOK, requeueDead)
	requeue.scope, requeue.optionalBody = tokens.Operate, true
	requeue.example = example{path: map[string]string{"id": "11-ab12cd34"}}
	drop := remove("/dead/{id}", "dropDeadLetter", "Delete a dead letter. Its event is never learned from.", dropDead)
	drop.scope, drop.example = tokens.Operate, example{path: map[string]string{"id": "12-ab12cd34"}}
	status := get("/status", "getStatus", "Return the health of the roles, the streams and the playbooks, with advice.", getStatus)
	status.query = []parameter{{name: "alarm_after", kind: "string", doc: fmt.Sprintf("Report red after this time with waiting work and no success, or 3 x the p95 if longer; default: %s.", liveness.Floor)}}
	letter := get("/dead/{id}", "getDeadLetter", "Return a dead letter with its event.", getDeadLetter)
	letter.example = example{path: map[string]string{"id": "12-ab12cd34"}}
	checks := get("/doctor", "runDoctor", "Check server, streams, durables, clocks, workers and playbooks, with a fix for each finding. It changes nothing.", runDoctor)
	checks.scope, checks.waits = tokens.Operate, true
	settings := get("/settings", "listSettings", "List the settings of the gateway with their origins, without secrets.", listSettings)
	settings.scope, settings.offline = tokens.Operate, true
	return []route{dead, letter, requeue, drop, status, checks, settings}
}

func listDead(c *call) (*Page[operate.LetterRow], error) {
	f := bus.LetterFilter{Role: c.query.Get("role"), Book: playbook.Book(c.query.Get("book"))}
	if f.Book != "" {
		if err := c.checkBookField(f.Book); err != nil {
			return nil, err
		}
	}
	var err error
	if f.Since, err = c.time("since"); err != nil {
		return nil, err
	}
	permitted, err := c.deadLetters(f)
	if err != nil {
		return nil, err
	}
	return paginate(c, permitted, func(l operate.LetterRow) string { return string(l.ID) })
}

// deadLetters returns the dead letters of the playbooks that the token permits.
func (c *call) deadLetters(f bus.LetterFilter) ([]operate.LetterRow, error) {
	all, err := operate.ListLetters(c.ctx, c.handler.conn.DeadLetters, f)
	return slices.DeleteFunc(all, func(l operate.LetterRow) bool { return !c.token.AllowsBook(playbook.Book(l.Book)) }), err
}

// letter returns the dead letter in the path, if the token permits its book.
func (c *call) letter() (*bus.Letter, error) {
	l, err := operate.FindLetter(c.ctx, c.handler.conn.DeadLetters, events.Handle(c.path("id")))
	if err != nil {
		return nil, err
	}
	return l, c.checkPermitted(l.Book)
}

// noFields is a body without fields, which may be missing.
type noFields struct{}

// requeueDead requeues a letter. The status 422 says that only this letter cannot be requeued; after another error no letter can be now.
func requeueDead(c *call, _ *noFields) (*operate.Requeued, error) {
	l, err := c.letter()
	if err != nil {
		return nil, err
	}
	r, err := c.handler.conn.DeadLetters.Requeue(c.ctx, l)
	switch {
	case err == nil:
		return &operate.Requeued{ID: l.Handle(), As: r.Handle, Subject: l.Subject}, nil
	case c.ctx.Err() != nil, errors.As(err, new(*bus.FullError)), bus.IsUnavailable(err):
		return nil, err
	}
	return nil, &statusError{status: http.StatusUnprocessableEntity, code: CodeRefused, text: "not requeued: " + err.Error()}
}

// Dropped is the result of dropping dead letters.
type Dropped struct {
	Dropped int `json:"dropped"`
}

func dropDead(c *call) (*Dropped, error) {
	l, err := c.letter()
	if err != nil {
		return nil, err
	}
	return &Dropped{1}, c.handler.conn.DeadLetters.Drop(c.ctx, l)
}

// Status is the health of Debrief.
type Status struct {
	*doctor.Overview
	Advice []string `json:"advice,omitempty" doc:"What to do."`
}

func getStatus(c *call) (*Status, error) {
	alarm, err := c.duration("alarm_after", 365*24*time.Hour)
	if err != nil {
		return nil, err
	}
	running := c.handler.index.Activity.State().Running
	o, err := doctor.ReadOverview(c.ctx, c.handler.conn, cmp.Or(alarm, liveness.Floor), running...)
	if err != nil {
		return nil, err
	}
	if o.Books, err = c.handler.index.Books.States(c.ctx, c.handler.conn.JetStream()); err != nil {
		return nil, err
	}
	o.Rate()
	// The level is of all playbooks. The rest of the reply does not name those that the token may not read.
	permitted := []doctor.BookState{}
	for _, b := range o.Books {
		if c.token.AllowsBook(b.Book) {
			permitted = append(permitted, b)
		}
	}
	o.Books = permitted
	o.Roles = c.permittedRoles(o.Roles)
	return &Status{o, o.Advice()}, nil
}

// permittedRoles returns the state of the roles without the names of playbooks that the token may not read.
func (c *call) permittedRoles(all map[string]liveness.RoleSummary) map[string]liveness.RoleSummary {
	roles := map[string]liveness.RoleSummary{}
	for role, r := range all {
		if !c.token.AllowsBook(r.Book) {
			r.Book = ""
		}
		roles[role] = r
	}
	return roles
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
		streamsOK := report.Resources(c.ctx, conn)
		reports, err := liveness.CollectReports(c.ctx, conn.NATS())
		if err != nil {
			report.Add("roll call", doctor.Fail, "grant the user to publish "+events.SubjectHealth+" and to subscribe to its inbox", "%v", err)
		}
		report.StoreErrors(liveness.StoreErrors(reports))
		report.Clock(c.ctx, conn.JetStream(), reports, time.Now())
		if streamsOK { // else the following fail only for this reason
			report.Workers(c.ctx, conn, reports)
			report.Playbooks(c.ctx, c.handler.store)
		}
	}
	return &Findings{report.Failed(), report.Checks}, c.ctx.Err()
}

func listSettings(c *call) (*Page[program.Setting], error) {
	return &Page[program.Setting]{Items: append([]program.Setting{}, c.handler.program...)}, nil
}
