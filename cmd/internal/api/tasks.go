package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/service"
	"debrief/events/window"
	"debrief/generator/scoring"
)

// taskRoute is the route that submits tasks.
func taskRoute() route {
	r := post("/books/{book}/tasks", "submitTask", "Submit a task to the generators, and optionally wait for its execution.", http.StatusCreated, submitTask)
	r.scope = tokens.Report
	r.idempotent = true
	r.waits = true
	r.max = 4 << 20
	r.query = []parameter{{name: "wait", kind: "string", doc: fmt.Sprintf("Time to wait for the execution, such as 30s, at most %s. Default: do not wait.", maxWait)}}
	r.example = example{path: map[string]string{"book": "default"}, query: "wait=20s", body: `{"question": "What is six times seven?", "target": "42"}`}
	return r
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
		Record: cmp.Or(r.RunID, key) != "", // to find the answer if the client submits the task again, which needs an id of the client
		Origin: events.Origin{Source: c.token.Caller().Source(), Task: r.Task},
	}
	if err := task.Validate(); err != nil {
		return nil, service.NewError(http.StatusBadRequest, err.Error())
	}
	first, err := c.firstAnswer(c.ctx, task, wait)
	if err != nil || first != nil {
		return first, err
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

// firstAnswer returns the reply for a task that was submitted and answered before, or nil. Such a task is not published again: after a
// long time the server accepts the copy, and a generator would call its model for an answer that does not count. The reply has the
// execution if the caller waits for it.
func (c *call) firstAnswer(ctx context.Context, task *events.Task, wait time.Duration) (*TaskReply, error) {
	id := events.ExecutionID(task.Book, task.Owner, task.ID, 0)
	conn := c.handler.conn
	seq, err := window.New(conn.NATS(), conn.JetStream()).FirstCopy(ctx, task.Book, window.EffectTurn, id)
	if err != nil || seq == 0 {
		return nil, err
	}
	stored, err := conn.Events.Find(ctx, events.StreamExecutions, seq, func(found events.ID) bool { return found == id })
	if errors.Is(err, bus.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	reply := c.duplicate(task)
	reply.Handle = events.NewHandle(seq, id)
	if e, ok := stored.(*events.Execution); ok && wait > 0 {
		reply.Execution = e
		err = c.handler.texts.Fill(ctx, e.Book, e.Version, e.Shown)
	}
	return reply, err
}

// duplicate returns the reply for a task that was submitted before, without its answer.
func (c *call) duplicate(task *events.Task) *TaskReply {
	c.status = http.StatusOK
	c.taskLocation(task)
	return &TaskReply{RunID: task.ID, Duplicate: true}
}

// answerPause is the time between two look-ups of an answer that another request waits for.
const answerPause = 200 * time.Millisecond

// awaitFirst waits for the answer to a task that was submitted before. The generator replies only to the first request. It returns a reply
// without an answer when ctx ends.
func (c *call) awaitFirst(ctx context.Context, task *events.Task, wait time.Duration) (*TaskReply, error) {
	for ctx.Err() == nil {
		first, err := c.firstAnswer(ctx, task, wait)
		if ctx.Err() == nil && (err != nil || first != nil) {
			return first, err
		}
		_ = events.Sleep(ctx, answerPause) // fails only at the end of ctx, which ends the loop
	}
	return c.duplicate(task), nil
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
		return c.awaitFirst(ctx, task, wait)
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
