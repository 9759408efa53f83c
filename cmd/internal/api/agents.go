package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/outcome"
	"debrief/events/redact"
	"debrief/events/service"
	"debrief/events/window"
	"debrief/generator"
	"debrief/playbook"
)

// agentRoutes are the routes for agents that call their own model.
func agentRoutes() []route {
	contexts := post("/contexts", "createContext", "Build the messages for a model call from the playbook, the history and the query.", http.StatusOK, createContext)
	contexts.scope, contexts.verb = tokens.Context, events.VerbContext
	contexts.max = int64(service.MaxBodyBytes(events.VerbContext))
	contexts.example = example{body: `{"book": "default", "session": "s-1", "query": "Which shelf is highest?"}`}
	reports := post("/executions", "reportExecution", "Report what an agent did. The id of the context tells which bullets its model received.", http.StatusCreated, reportExecution)
	reports.scope = tokens.Report
	reports.verb = events.VerbReport
	reports.idempotent = true
	reports.max = int64(service.MaxBodyBytes(events.VerbReport))
	reports.example = example{body: `{"book": "default", "run_id": "run-17", "task": "order-17", "question": "Which shelf is highest?", "answer": "Shelf 7.", "outcome": true}`}
	feedback := post("/feedback", "giveFeedback", "Record or change the outcome of an execution, also days later.", http.StatusCreated, giveFeedback)
	feedback.scope, feedback.orScope = tokens.Report, tokens.Review
	feedback.verb = events.VerbFeedback
	feedback.idempotent = true
	feedback.waits = true
	feedback.query = []parameter{{name: "wait", kind: "string", doc: fmt.Sprintf("Time to wait for the effect on the playbook, such as 30s, at most %s. Default: do not wait. Nothing is waited for unless execution is a handle.", maxWait)}}
	feedback.max = int64(service.MaxBodyBytes(events.VerbFeedback))
	feedback.example = example{body: `{"book": "default", "execution": "17-ab12cd34", "outcome": {"label": "failure", "feedback": "It is shelf 9."}}`}
	return []route{contexts, reports, feedback}
}

// createContext builds a context.
func createContext(c *call, r *events.ContextRequest) (*events.ContextReply, error) {
	r.Book = cmp.Or(r.Book, events.DefaultBook)
	if err := c.checkBookField(r.Book); err != nil {
		return nil, err
	}
	redact.Fields(r) // so that the model sees the same text that is stored later
	if r.Unstored {
		return nil, invalid("unstored", "only the gateway stores contexts itself; dry_run requests a context without a report")
	}
	r.Caller = c.token.Caller()
	if err := c.leaveControl(&r.Caller); err != nil {
		return nil, err
	}
	return c.handler.agents.Context(c.ctx, r)
}

// leaveControl leaves a request out of the control share, the random part of the sessions that gets no advice, if a header of the request
// asks for that. It returns an error if the token does not permit it.
func (c *call) leaveControl(caller *events.Caller) error {
	switch value := c.header.Get(events.HeaderControl); {
	case value == "":
		return nil
	case value != events.ControlOff:
		return invalid(events.HeaderControl, "must be "+events.ControlOff)
	case !c.token.LeavesControl():
		return forbidden(CodeScope, events.HeaderControl+" requires a token with the scope operate")
	}
	caller.Uncontrolled = true
	return nil
}

// setFeedbackBook sets the book of feedback that names none, and checks the book. The book is that of the rated execution, whose handle is
// unique in all books, or the default book if the execution is not stored, if the token may not rate it, or without a connection.
func (c *call) setFeedbackBook(f *events.FeedbackRequest) error {
	if f.Book == "" {
		found, err := c.bookToRate(f.Execution)
		if err != nil {
			return err
		}
		f.Book = cmp.Or(found, events.DefaultBook)
	}
	return c.checkBookField(f.Book)
}

// bookToRate returns the book of an execution, or "" if the execution is not found or the token may not rate it.
func (c *call) bookToRate(h events.Handle) (playbook.Book, error) {
	if _, _, err := h.Parse(); err != nil || c.handler.conn == nil {
		return "", nil //nolint:nilerr // the backend refuses the handle
	}
	e, err := explain.NewStored(c.handler.conn, nil).Execution(c.ctx, string(h))
	if err != nil || e == nil {
		return "", err
	}
	if !c.token.AllowsBook(e.Book) || !c.token.Caller().MayRate(e.Owner) {
		return "", nil
	}
	return e.Book, nil
}

// reportRequest is a report. It also accepts the messages of a model API, and an outcome that is not an object.
type reportRequest struct {
	events.Report
	request.LooseOutcome
	Outcome  json.RawMessage `json:"outcome,omitempty" doc:"True, false, a score from 0 to 1, a score with its range such as {\"score\": 7, \"range\": [-10, 10]} or \"4/5\", success, partial, failure, 👍, 👎, stars, named scores, or an object with label, score, feedback and by, and inferred if the client derived it from the messages of the run."`
	Messages json.RawMessage `json:"messages,omitempty" doc:"Messages of the run in the form of the OpenAI or the Anthropic API, instead of question, steps and answer. A system message is the system prompt of the agent."`
	Tools    json.RawMessage `json:"tools,omitempty" doc:"Tools of the agent in the form of the OpenAI or the Anthropic API, instead of agent.tools."`
}

// reportExecution stores an execution of an agent.
func reportExecution(c *call, r *reportRequest) (*events.StoredReply, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	book, err := c.setReportBook(&r.Report)
	if err != nil {
		return nil, err
	}
	if r.Report.Outcome, err = c.outcome(book, r.Outcome, &r.LooseOutcome); err != nil {
		return nil, err
	}
	if err := request.SetMessages(&r.Report, r.Messages); err != nil {
		return nil, err
	}
	if err := request.SetTools(&r.Report, r.Tools); err != nil {
		return nil, err
	}
	r.RunID, r.Caller = cmp.Or(r.RunID, key), c.token.Caller()
	redact.Fields(&r.Report)
	stored, err := c.handler.agents.Report(c.ctx, &r.Report)
	if err != nil {
		return nil, err
	}
	if stored.Duplicate {
		c.status = http.StatusOK
	}
	if book != "" && stored.Handle != "" {
		c.location("books", string(book), "executions", string(stored.Handle))
	}
	return stored, nil
}

// setReportBook sets and returns the book of a report: its own, else that of its context, else the default. Without a connection only
// the backend can read the context; then the book stays empty.
func (c *call) setReportBook(r *events.Report) (playbook.Book, error) {
	if r.Book == "" && r.ContextID != "" {
		if c.handler.conn == nil {
			if len(c.token.Books) > 0 {
				return "", invalid("book", fmt.Sprintf("required, because token %q permits only certain playbooks", c.token.Name))
			}
			return "", nil
		}
		found, err := c.bookOfContext(r.ContextID)
		if err != nil {
			return "", err
		}
		r.Book = found
	}
	r.Book = cmp.Or(r.Book, events.DefaultBook)
	return r.Book, c.checkBookField(r.Book)
}

// bookOfContext returns the book of a context, or "" if the context is not found or has another owner.
func (c *call) bookOfContext(id events.ID) (playbook.Book, error) {
	s, err := window.New(c.handler.conn.NATS(), c.handler.conn.JetStream()).Context(c.ctx, id)
	switch {
	case errors.Is(err, window.ErrContextNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("context_id: %w", err)
	case s.Owner != c.token.Owner:
		return "", nil
	}
	return s.Book, nil
}

// feedbackRequest is a request for feedback. It also accepts an outcome that is not an object.
type feedbackRequest struct {
	events.FeedbackRequest
	request.LooseOutcome
	Outcome json.RawMessage `json:"outcome,omitempty" doc:"True, false, a score from 0 to 1, a score with its range such as {\"score\": 7, \"range\": [-10, 10]} or \"4/5\", success, partial, failure, 👍, 👎, stars, named scores, or an object with label, score, feedback and by."`
}

// FeedbackReply is stored feedback.
type FeedbackReply struct {
	events.StoredReply
	Effect *request.FeedbackResult `json:"effect,omitempty" doc:"Effect on the playbook, if it was waited for."`
}

// giveFeedback stores the outcome of an execution.
func giveFeedback(c *call, r *feedbackRequest) (*FeedbackReply, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	wait, err := c.duration("wait", maxWait)
	if err != nil {
		return nil, err
	}
	f := &r.FeedbackRequest
	if f.Execution == "" {
		return nil, invalid("execution", "required: the id of a response, a run, a session or the handle of an execution")
	}
	namesBook := f.Book != ""
	if err := c.setFeedbackBook(f); err != nil {
		return nil, err
	}
	if f.Outcome, err = c.outcome(f.Book, r.Outcome, &r.LooseOutcome); err != nil {
		return nil, err
	}
	if c.handler.commandToken != nil { // a command of Debrief makes this request itself, so the person who runs the command rates
		f.Outcome.By = cmp.Or(f.Outcome.By, c.token.Name)
	}
	redact.Fields(f)
	f.ID, f.Caller = cmp.Or(f.ID, events.ID(key)), c.token.Caller()
	_, _, err = f.Execution.Parse()
	isHandle := err == nil
	if isHandle && wait > 0 && c.handler.conn != nil {
		return c.awaitFeedback(f, wait)
	}
	out, err := c.storeFeedback(f)
	var missing interface{ NotFound() bool }
	if !namesBook && !isHandle && errors.As(err, &missing) && missing.NotFound() { // an id of a response, a run or a session is that of one playbook
		return nil, notFound(err.Error() + `; the request names no playbook: if the run is in another one, name it with "book", or --book on the command line`)
	}
	return out, err
}

// storeFeedback stores feedback, and sets the status and the Location of the reply.
func (c *call) storeFeedback(f *events.FeedbackRequest) (*FeedbackReply, error) {
	stored, err := c.handler.agents.Feedback(c.ctx, f)
	if err != nil {
		return nil, err
	}
	if stored.Duplicate {
		c.status = http.StatusOK
	}
	f.Execution = cmp.Or(stored.Execution, f.Execution)
	c.locateFeedback(f)
	return &FeedbackReply{StoredReply: *stored}, nil
}

// locateFeedback sets the Location of the reply to feedback: the execution that the feedback is on.
func (c *call) locateFeedback(f *events.FeedbackRequest) {
	c.location("books", string(f.Book), "executions", string(f.Execution))
}

// awaitFeedback stores feedback and waits until a version covers it. It reads the log of the playbook before it stores the feedback, so that
// it can tell the effect of this feedback from that of an earlier copy.
func (c *call) awaitFeedback(f *events.FeedbackRequest, wait time.Duration) (*FeedbackReply, error) {
	f.ID = cmp.Or(f.ID, events.NewID()) // the event that this waits for needs the id
	event, err := generator.NewFeedback(f)
	if err != nil {
		return nil, err
	}
	e, err := explain.NewStored(c.handler.conn, nil).Execution(c.ctx, string(f.Execution))
	switch {
	case err != nil:
		return nil, err
	case e == nil || e.Book != f.Book || !f.Caller.MayRate(e.Owner):
		return nil, executionNotFound(f.Execution)
	case e.Purpose == events.Evaluate:
		return nil, conflict(fmt.Sprintf("execution %s: made for evaluation, which is never learned from", f.Execution))
	}
	if err := generator.ScoreFeedback(event, e); err != nil {
		return nil, err
	}
	effect, err := request.NewFeedbackResult(c.ctx, c.handler.store, event, e)
	if err != nil {
		return nil, err
	}
	if effect.Duplicate {
		c.status = http.StatusOK
		c.locateFeedback(f)
		return &FeedbackReply{StoredReply: events.StoredReply{Handle: effect.Handle, Duplicate: true}, Effect: effect}, nil
	}
	out, err := c.storeFeedback(f)
	if err != nil {
		return nil, err
	}
	out.Effect = effect
	if err := effect.SetStored(&out.StoredReply); err != nil {
		return nil, err
	}
	ctx, stop := request.WithModelCheck(c.ctx, c.handler.conn, events.RoleReflector, events.RoleCurator)
	defer stop()
	err = effect.Wait(ctx, c.handler.conn.Consumers, wait)
	var model *request.ModelError
	if err != nil && errors.As(context.Cause(ctx), &model) {
		return nil, &statusError{status: http.StatusServiceUnavailable, code: CodeUnavailable, text: fmt.Sprintf("feedback not applied yet: %v; it is stored as %s and is applied after that is fixed", model, out.Handle)}
	}
	return out, err
}

// outcome returns the outcome of a body: the field outcome, which is raw, merged with the loose fields. Without both it is zero. Of several
// named scores, the leading one becomes the score; see outcome.Decoder.
func (c *call) outcome(b playbook.Book, raw json.RawMessage, l *request.LooseOutcome) (events.Outcome, error) {
	return l.Merge(raw, func(raw json.RawMessage) (events.Outcome, error) { return c.decodeOutcome(b, raw) })
}

// decodeOutcome decodes one value. Fields that are not part of an outcome become warnings, or errors if the client asks for
// strict decoding. Errors name the field outcome.
func (c *call) decodeOutcome(b playbook.Book, raw json.RawMessage) (events.Outcome, error) {
	const field = "outcome"
	decoder := outcome.Decoder{Reviews: c.token.Allows(tokens.Review)}
	if c.handler.conn != nil {
		decoder.Leading = func() (string, error) { return c.handler.store.LeadingScore(c.ctx, b) }
	}
	d, err := decoder.Decode(raw)
	if errors.As(err, new(*outcome.LookupError)) {
		return events.Outcome{}, err
	}
	if errors.Is(err, outcome.ErrViolation) || errors.Is(err, outcome.ErrJudge) { // err begins with the name of the inner field
		return events.Outcome{}, forbidden(CodeScope, fmt.Sprintf("%s.%s: token %q does not have the scope %q", field, err, c.token.Name, tokens.Review))
	}
	if err != nil {
		return events.Outcome{}, invalid(field, err.Error())
	}
	if c.boolean("strict") && len(d.Ignored) > 0 {
		return events.Outcome{}, invalid(field+"."+d.Ignored[0], "unknown field")
	}
	for _, name := range d.Ignored {
		c.unknown = append(c.unknown, field+"."+name)
	}
	return d.Outcome, nil
}
