package api

import (
	"bytes"
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
	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
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
	contexts.scope, contexts.verb, contexts.max = tokens.Context, events.VerbContext, int64(service.MaxBodyBytes(events.VerbContext))
	contexts.example = example{body: `{"book": "default", "session": "s-1", "query": "Which shelf is highest?"}`}
	reports := post("/executions", "reportExecution", "Report what an agent did. The id of the context tells which bullets its model received.", http.StatusCreated, reportExecution)
	reports.keyed = true
	reports.scope, reports.verb, reports.max = tokens.Report, events.VerbReport, int64(service.MaxBodyBytes(events.VerbReport))
	reports.example = example{body: `{"book": "default", "run_id": "run-17", "task": "order-17", "question": "Which shelf is highest?", "answer": "Shelf 7.", "outcome": true}`}
	feedback := post("/feedback", "giveFeedback", "Record or change the outcome of an execution, also days later.", http.StatusCreated, giveFeedback)
	feedback.keyed = true
	feedback.also, feedback.waits = tokens.Review, true
	feedback.query = []parameter{{name: "wait", kind: "string", doc: fmt.Sprintf("Time to wait for the effect on the playbook, such as 30s, at most %s. Default: do not wait.", maxWait)}}
	feedback.scope, feedback.verb, feedback.max = tokens.Report, events.VerbFeedback, int64(service.MaxBodyBytes(events.VerbFeedback))
	feedback.example = example{body: `{"book": "default", "execution": "17-ab12cd34", "outcome": {"label": "failure", "feedback": "It is shelf 9."}}`}
	return []route{contexts, reports, feedback}
}

// createContext builds a context.
func createContext(c *call, r *events.ContextRequest) (*events.ContextReply, error) {
	redact.Fields(r) // first, so that the model sees the same text that is stored
	r.Book = cmp.Or(r.Book, events.DefaultBook)
	if err := c.bodyBook(r.Book); err != nil {
		return nil, err
	}
	r.Caller = c.token.Caller()
	return c.handler.agents.Context(c.ctx, r)
}

// bodyBook returns an error if the book of a body is invalid, or if the token does not permit it.
func (c *call) bodyBook(b playbook.Book) error {
	if err := b.Validate(); err != nil {
		return invalid("book", err.Error())
	}
	return c.checkBook(b)
}

// bookOfFeedback sets the book of feedback that names none: that of its execution, which a handle identifies in all books.
func (c *call) bookOfFeedback(f *events.FeedbackRequest) error {
	if f.Book != "" {
		return c.bodyBook(f.Book)
	}
	f.Book = events.DefaultBook
	if _, _, err := f.Execution.Parse(); err != nil || c.handler.conn == nil {
		return c.bodyBook(f.Book)
	}
	e, err := explain.NewStored(c.handler.conn).Execution(c.ctx, string(f.Execution))
	if err != nil {
		return err
	}
	if e != nil && c.token.AllowsBook(e.Book) && c.token.Caller().MayRate(e.Owner) {
		f.Book = e.Book
	}
	return c.bodyBook(f.Book)
}

// reportRequest is a report. It also accepts the messages of a model API, and an outcome that is not an object.
type reportRequest struct {
	events.Report
	looseOutcome
	Outcome  json.RawMessage `json:"outcome,omitempty" doc:"True, false, a score from 0 to 1, a score with its range such as {\"score\": 7, \"range\": [-10, 10]} or \"4/5\", success, partial, failure, 👍, 👎, stars, named scores, or an object with label, score, feedback and by."`
	Messages json.RawMessage `json:"messages,omitempty" doc:"Messages of the run in the form of the OpenAI or the Anthropic API, instead of question, steps and answer."`
}

// reportExecution stores an execution of an agent.
func reportExecution(c *call, r *reportRequest) (*events.StoredReply, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	book, err := c.bookOfReport(&r.Report)
	if err != nil {
		return nil, err
	}
	if r.Report.Outcome, err = c.outcome(book, r.Outcome, &r.looseOutcome); err != nil {
		return nil, err
	}
	if len(r.Messages) > 0 {
		if err := addMessages(&r.Report, r.Messages); err != nil {
			return nil, err
		}
	}
	r.RunID, r.Caller = cmp.Or(r.RunID, key), c.token.Caller()
	redact.Fields(&r.Report)
	stored, err := c.handler.agents.Report(c.ctx, &r.Report)
	if err != nil {
		return nil, err
	}
	c.stored(book, stored)
	return stored, nil
}

// bookOfReport returns the book of a report: its own, else that of its context, else the default. It is empty if only the backend can
// read the context.
func (c *call) bookOfReport(r *events.Report) (playbook.Book, error) {
	switch {
	case r.Book != "":
	case r.ContextID == "":
		r.Book = events.DefaultBook
	case c.handler.conn != nil:
		s, err := window.New(c.handler.conn.NATS(), c.handler.conn.JetStream()).Context(c.ctx, r.ContextID)
		switch {
		case errors.Is(err, window.ErrContextNotFound), err == nil && s.Owner != c.token.Owner:
			r.Book = events.DefaultBook
		case err != nil:
			return "", fmt.Errorf("context_id: %w", err)
		default:
			r.Book = s.Book
		}
	case len(c.token.Books) == 0:
		return "", nil
	default:
		return "", invalid("book", fmt.Sprintf("required, because token %q permits only certain playbooks", c.token.Name))
	}
	return r.Book, c.bodyBook(r.Book)
}

// stored sets status and Location of the reply to a report or feedback.
func (c *call) stored(book playbook.Book, s *events.StoredReply) {
	if s.Duplicate {
		c.status = http.StatusOK
	}
	if book != "" && s.Handle != "" {
		c.location("books", string(book), "executions", string(s.Handle))
	}
}

// addMessages sets the fields of a report that it does not have from the messages of its run.
func addMessages(r *events.Report, raw json.RawMessage) error {
	if len(r.Steps) > 0 {
		return invalid("messages", "want either messages or steps")
	}
	if bytes.TrimSpace(raw)[0] != '[' {
		return invalid("messages", "want a list of messages")
	}
	conversation := steps.Conversation{}
	conversation.AddItems(modelapi.Find(raw, ""))
	if _, err := conversation.End(); err != nil {
		return invalid("messages", err.Error())
	}
	r.Question, r.Answer, r.Steps = cmp.Or(r.Question, conversation.Question), cmp.Or(r.Answer, conversation.Answer), conversation.Steps
	return nil
}

// feedbackRequest is a request for feedback. It also accepts an outcome that is not an object.
type feedbackRequest struct {
	events.FeedbackRequest
	looseOutcome
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
	if err := c.bookOfFeedback(f); err != nil {
		return nil, err
	}
	if f.Outcome, err = c.outcome(f.Book, r.Outcome, &r.looseOutcome); err != nil {
		return nil, err
	}
	if c.handler.local != nil {
		f.Outcome.By = cmp.Or(f.Outcome.By, c.token.Name)
	}
	redact.Fields(f)
	f.ID, f.Caller = cmp.Or(f.ID, events.ID(key)), c.token.Caller()
	if wait > 0 && c.handler.conn != nil {
		return c.awaitFeedback(f, wait)
	}
	return c.storeFeedback(f)
}

func (c *call) storeFeedback(f *events.FeedbackRequest) (*FeedbackReply, error) {
	stored, err := c.handler.agents.Feedback(c.ctx, f)
	if err != nil {
		return nil, err
	}
	if stored.Duplicate {
		c.status = http.StatusOK
	}
	c.location("books", string(f.Book), "executions", string(f.Execution))
	return &FeedbackReply{StoredReply: *stored}, nil
}

// awaitFeedback stores feedback and waits until a version covers it.
func (c *call) awaitFeedback(f *events.FeedbackRequest, wait time.Duration) (*FeedbackReply, error) {
	f.ID = cmp.Or(f.ID, events.NewID()) // known before it is stored
	event, err := generator.NewFeedback(f)
	if err != nil {
		return nil, err
	}
	e, err := explain.NewStored(c.handler.conn).Execution(c.ctx, string(f.Execution))
	switch {
	case err != nil:
		return nil, err
	case e == nil || e.Book != f.Book || !f.Caller.MayRate(e.Owner):
		return nil, executionNotFound(f.Execution)
	case e.Purpose == events.Evaluate:
		return nil, &statusError{status: http.StatusConflict, code: CodeConflict, text: fmt.Sprintf("execution %s: made for evaluation, which is never learned from", f.Execution)}
	}
	if err := generator.ScoreFeedback(event, e); err != nil {
		return nil, err
	}
	effect, err := request.NewFeedbackResult(c.ctx, c.handler.books.store, event, e)
	if err != nil {
		return nil, err
	}
	if effect.Duplicate {
		c.status = http.StatusOK
		return &FeedbackReply{StoredReply: events.StoredReply{Duplicate: true}, Effect: effect}, nil
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
	if model := (*request.ModelError)(nil); err != nil && errors.As(context.Cause(ctx), &model) {
		return nil, &statusError{status: http.StatusServiceUnavailable, code: CodeUnavailable, text: fmt.Sprintf("feedback not applied yet: %v; it is stored as %s and is applied after that is fixed", model, out.Handle)}
	}
	return out, err
}

// looseOutcome has the fields of an outcome that a body may also have itself, without an object.
type looseOutcome struct {
	Score    json.RawMessage `json:"score,omitempty" doc:"Score of the outcome, instead of an object in outcome."`
	Range    json.RawMessage `json:"range,omitempty" doc:"Range of the score: [low, high]. Default: [0, 1]."`
	Label    json.RawMessage `json:"label,omitempty" doc:"Label of the outcome, instead of an object in outcome."`
	Feedback json.RawMessage `json:"feedback,omitempty" doc:"What the person said, also as text or comment."`
	Comment  json.RawMessage `json:"comment,omitempty" doc:"The same as feedback."`
	Text     json.RawMessage `json:"text,omitempty" doc:"The same as feedback."`
	// Violation is a field of the body, so that it is refused and not ignored.
	Violation json.RawMessage `json:"violation,omitempty" doc:"True if the run broke a rule that no score outweighs: suspends the bullets behind it. Needs the scope review."`
}

// outcome returns the outcome of a body: of its field outcome and of its own fields. Without one it is zero. The leading score is that
// of the book.
func (c *call) outcome(b playbook.Book, raw json.RawMessage, l *looseOutcome) (events.Outcome, error) {
	own := map[string]json.RawMessage{}
	for name, v := range map[string]json.RawMessage{"score": l.Score, "range": l.Range, "label": l.Label, "feedback": l.Feedback, "comment": l.Comment, "text": l.Text, "violation": l.Violation} {
		if len(v) > 0 {
			own[name] = v
		}
	}
	first, err := c.decodeOutcome(b, "outcome", raw)
	if err != nil || len(own) == 0 {
		return first, err
	}
	raw, err = json.Marshal(own)
	if err != nil {
		return first, invalid("outcome", err.Error())
	}
	second, err := c.decodeOutcome(b, "outcome", raw)
	switch {
	case err != nil:
		return first, err
	case first.Violation || second.Violation:
		first.Violation = true
	case first.Label != "" && second.Label != "" && (first.Label != second.Label || first.Score != second.Score):
		return first, invalid("outcome", "contradicts score or label of the body: send one of them")
	case first.Label == "":
		first.Score, first.Label = second.Score, second.Label
	}
	first.Feedback = cmp.Or(first.Feedback, second.Feedback)
	return first.Complete(), nil
}

// decodeOutcome decodes one value. Fields that are not part of an outcome become warnings, or errors if the client asks for
// strict decoding.
func (c *call) decodeOutcome(b playbook.Book, field string, raw json.RawMessage) (events.Outcome, error) {
	decoder := outcome.Decoder{Violations: c.token.Allows(tokens.Review)}
	if c.handler.conn != nil {
		decoder.Leading = func() (string, error) { return c.handler.books.store.LeadingScore(c.ctx, b) }
	}
	d, err := decoder.Decode(raw)
	if errors.As(err, new(*outcome.LookupError)) {
		return events.Outcome{}, err
	}
	if errors.Is(err, outcome.ErrViolation) {
		return events.Outcome{}, &statusError{status: http.StatusForbidden, code: CodeScope, text: fmt.Sprintf("%s.%s: token %q does not have it", field, err, c.token.Name)}
	}
	if err != nil {
		return events.Outcome{}, invalid(field, err.Error())
	}
	if strict, _ := c.boolean("strict"); strict && len(d.Ignored) > 0 {
		return events.Outcome{}, invalid(field+"."+d.Ignored[0], "unknown field")
	}
	for _, name := range d.Ignored {
		c.unknown = append(c.unknown, field+"."+name)
	}
	d.Inferred = false // a client reports what it knows
	return d.Outcome, nil
}
