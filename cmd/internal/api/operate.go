package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/operate"
	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/train/replay"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/liveness"
	"debrief/events/service"
	"debrief/events/streams"
	"debrief/events/window"
	"debrief/generator/scoring"
	"debrief/playbook"
)

// operateRoutes are the routes for tasks, runs, dead letters, the status and the tokens.
func operateRoutes() []route {
	task := post("/books/{book}/tasks", "submitTask", "Submit a task to the generators, and optionally wait for its execution.", http.StatusCreated, submitTask)
	task.scope = tokens.Report
	task.idempotent = true
	task.waits = true
	task.max = 4 << 20
	task.query = []parameter{{name: "wait", kind: "string", doc: fmt.Sprintf("Time to wait for the execution, such as 30s, at most %s. Default: do not wait.", maxWait)}}
	task.example = example{path: map[string]string{"book": "default"}, query: "wait=20s", body: `{"question": "What is six times seven?", "target": "42"}`}
	runs := get("/runs", "listRuns", "List the runs of train, newest first.", listRuns)
	runs.query = pageParameters
	run := get("/runs/{id}", "getRun", "Return the progress of a run.", getRun)
	run.example = example{path: map[string]string{"id": "run-1"}}
	dead := get("/dead", "listDeadLetters", "List the dead letters of the playbooks that the token permits, oldest first.", listDead)
	dead.query = append([]parameter{
		{name: "role", kind: "string", doc: "Only letters of this role.", values: streams.Roles},
		{name: "book", kind: "string", doc: "Only letters of this playbook."},
		{name: "since", kind: "string", doc: "Only letters since this time, in RFC 3339."},
	}, pageParameters...)
	requeue := post("/dead/{id}/requeue", "requeueDeadLetter", "Publish the event of a dead letter again, under its own id.", http.StatusOK, requeueDead)
	requeue.scope = tokens.Operate
	requeue.optionalBody = true
	requeue.example = example{path: map[string]string{"id": "11-ab12cd34"}}
	drop := remove("/dead/{id}", "dropDeadLetter", "Delete a dead letter. Its event is never learned from.", dropDead)
	drop.scope, drop.example = tokens.Operate, example{path: map[string]string{"id": "12-ab12cd34"}}
	status := get("/status", "getStatus", "Return the health of the roles, the streams and the playbooks, with advice.", getStatus)
	status.query = []parameter{{name: "alarm_after", kind: "string", doc: fmt.Sprintf("Report red after this time with waiting work and no success, or 3 x the p95 if longer; default: %s.", liveness.Floor)}}
	list := get("/tokens", "listTokens", "List the names, scopes and playbooks of the tokens.", listTokens)
	list.scope, list.query = tokens.Operate, pageParameters
	return []route{task, runs, run, compareRoute(), dead, requeue, drop, status, list}
}

// TaskRequest is a task for the generators.
type TaskRequest struct {
	RunID      string         `json:"run_id,omitempty" doc:"Id of the run: a task that is sent again with the same id counts once; default: the Idempotency-Key, else a random id."`
	Task       string         `json:"task,omitempty" doc:"Label of the task, the same for all attempts at it."`
	User       string         `json:"user,omitempty" doc:"Person that the agent works for."`
	Session    string         `json:"session,omitempty" doc:"Name of the conversation."`
	Question   string         `json:"question"`
	Context    string         `json:"context,omitempty" doc:"Background of the question."`
	Target     string         `json:"target,omitempty" doc:"Reference answer for the evaluator. It is never in a prompt of a generator."`
	Evaluator  string         `json:"evaluator,omitempty" doc:"Evaluator of the answer; default: exact."`
	Purpose    events.Purpose `json:"purpose,omitempty"`
	Playbook   *uint64        `json:"playbook,omitempty" doc:"Version to use; default: the newest."`
	MinVersion uint64         `json:"min_version,omitempty" doc:"Oldest acceptable version."`
}

// TaskReply is a submitted task.
type TaskReply struct {
	RunID     string            `json:"run_id" doc:"Id of the run."`
	Handle    events.Handle     `json:"handle,omitempty" doc:"Handle of the execution, if it was waited for."`
	Trace     string            `json:"trace,omitempty" doc:"Id of the trace of the task."`
	Execution *events.Execution `json:"execution,omitempty" doc:"The execution, if it was waited for."`
	Duplicate bool              `json:"duplicate,omitempty" doc:"The run id was submitted before; the task is answered once. Handle is that of the first execution, if it is stored."`
}

func submitTask(c *call, r *TaskRequest) (*TaskReply, error) {
	wait, err := c.duration("wait", maxWait)
	if err != nil {
		return nil, err
	}
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	if err := scoring.Check(r.Evaluator); err != nil {
		return nil, invalid("evaluator", err.Error())
	}
	task := &events.Task{
		Book: c.book(), ID: cmp.Or(r.RunID, key, string(events.NewID())), Owner: c.token.Owner, User: r.User, Session: r.Session,
		Question: r.Question, Context: r.Context, Target: r.Target, Evaluator: r.Evaluator,
		Purpose: r.Purpose, Playbook: r.Playbook, MinVersion: r.MinVersion, Created: time.Now().UTC(),
		Origin: events.Origin{Source: c.token.Caller().Source(), Task: r.Task},
	}
	if err := task.Validate(); err != nil {
		return nil, service.NewError(http.StatusBadRequest, err.Error())
	}
	first, err := c.firstAnswer(task)
	if err != nil {
		return nil, err
	}
	if first != "" {
		c.status = http.StatusOK
		c.taskLocation(task)
		return &TaskReply{RunID: task.ID, Handle: first, Duplicate: true}, nil
	}
	if wait > 0 {
		return c.awaitTask(task, wait)
	}
	receipt, err := c.handler.conn.Publish(c.ctx, task, bus.PublishOptions{})
	if err != nil {
		return nil, err
	}
	if receipt.Duplicate {
		c.status = http.StatusOK
	}
	c.taskLocation(task)
	return &TaskReply{RunID: task.ID, Trace: receipt.Trace, Duplicate: receipt.Duplicate}, nil
}

// firstAnswer returns the handle of the stored execution of a task that was submitted and answered before, or "". Such a task is not
// published again: after a long time the server accepts the copy, and a generator would call its model for an answer that does not count.
func (c *call) firstAnswer(task *events.Task) (events.Handle, error) {
	id := events.ExecutionID(task.Book, task.Owner, task.ID, 0)
	conn := c.handler.conn
	seq, err := window.New(conn.NATS(), conn.JetStream()).FirstCopy(c.ctx, task.Book, window.EffectTurn, id)
	if err != nil || seq == 0 {
		return "", err
	}
	_, err = conn.Events.Find(c.ctx, events.StreamExecutions, seq, func(found events.ID) bool { return found == id })
	if errors.Is(err, bus.ErrNotFound) {
		return "", nil
	}
	return events.NewHandle(seq, id), err
}

// taskLocation sets the Location of a task: the list of its executions.
func (c *call) taskLocation(task *events.Task) {
	c.location("books", string(task.Book), "executions")
	c.reply.Set("Location", c.reply.Get("Location")+"?run="+url.QueryEscape(task.ID))
}

// awaitTask submits a task and waits for its execution.
func (c *call) awaitTask(task *events.Task, wait time.Duration) (*TaskReply, error) {
	ctx, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	ctx, stop := request.WithModelCheck(ctx, c.handler.conn, events.RoleGenerator)
	defer stop()
	e, reply, err := request.Task(ctx, c.handler.conn, task, bus.PublishOptions{})
	var model *request.ModelError
	switch {
	case err != nil && errors.As(context.Cause(ctx), &model):
		return nil, &statusError{status: http.StatusServiceUnavailable, code: CodeUnavailable, text: fmt.Sprintf("no answer: %v; the task is stored as %q and is answered after that is fixed", model, task.ID)}
	case errors.Is(err, bus.ErrDuplicate):
		c.status = http.StatusOK
		c.taskLocation(task)
		return &TaskReply{RunID: task.ID, Duplicate: true}, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &statusError{status: http.StatusGatewayTimeout, code: CodeTimeout, text: fmt.Sprintf("no answer in %s: the task is stored as %q and will be answered when a generator runs and its model answers", wait, task.ID)}
	case err != nil:
		return nil, err
	}
	if err := c.handler.texts.Fill(c.ctx, e.Book, e.Version, e.Shown); err != nil {
		return nil, err
	}
	c.location("books", string(task.Book), "executions", string(reply.Handle))
	return &TaskReply{RunID: task.ID, Handle: reply.Handle, Trace: reply.Trace, Execution: e}, nil
}

// duration returns a parameter that is a duration up to limit. A missing parameter is 0.
func (c *call) duration(name string, limit time.Duration) (time.Duration, error) {
	text := c.query.Get(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > limit {
		return 0, invalid(name, fmt.Sprintf("want a duration up to %s, such as 30s, got %.40q", limit, text))
	}
	return d, nil
}

func listRuns(c *call) (*Page[replay.RunState], error) {
	all, err := replay.ListRuns(c.ctx, c.handler.conn.JetStream())
	if err != nil {
		return nil, err
	}
	permitted := slices.DeleteFunc(all, func(r replay.RunState) bool { return !c.token.AllowsBook(r.Book) })
	return paginate(c, permitted, func(r replay.RunState) string { return string(r.Book) })
}

func getRun(c *call) (*replay.RunState, error) {
	b := playbook.Book(c.path("id")) // a run has the name of its playbook
	if err := b.Validate(); err != nil {
		return nil, invalid("id", err.Error())
	}
	if err := c.checkPermitted(b); err != nil {
		return nil, err
	}
	return replay.ReadRun(c.ctx, c.handler.conn.JetStream(), b)
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
	advice := o.Advice() // on all playbooks; the reply has only the permitted ones
	permitted := []doctor.BookState{}
	for _, b := range o.Books {
		if c.token.AllowsBook(b.Book) {
			permitted = append(permitted, b)
		}
	}
	o.Books = permitted
	return &Status{o, advice}, nil
}

// TokenItem is a token without its hash.
type TokenItem struct {
	Name   string          `json:"name"`
	Scopes []tokens.Scope  `json:"scopes"`
	Books  []playbook.Book `json:"books" doc:"Playbooks that it permits; empty: all."`
	// Proxies has the addresses of the proxies whose persons have this access.
	Proxies []string `json:"proxies,omitempty" doc:"Addresses of proxies that name a person in X-Debrief-Person; missing: the token is that of one caller."`
}

func listTokens(c *call) (*Page[TokenItem], error) {
	all := []TokenItem{}
	for _, t := range c.handler.tokens.List() {
		all = append(all, newTokenItem(t))
	}
	return paginate(c, all, func(t TokenItem) string { return t.Name })
}
