// Package client lets a Go agent learn with Debrief: it requests contexts, and reports executions and feedback. The same methods
// work over NATS and over HTTP.
//
//	c, err := client.FromEnv()
//	run, err := c.Run(ctx, &events.ContextRequest{Query: "Where is the globe?"})
//	run.Answer = yourModel(run.Messages)
//	err = run.Report(ctx, nil)
//	fmt.Println(run.Handle, run.Degraded) // Degraded is the reason if Debrief could not be reached
//	// … later …
//	_, err = c.Feedback(ctx, &events.FeedbackRequest{Execution: run.Handle, Outcome: events.Outcome{Label: events.Success}})
//
// Another module imports it from a checkout: go mod edit -require debrief@v0.0.0 -replace debrief=/path/to/checkout.
//
// Run goes on without advice if Debrief cannot be reached. Context and Report are its two requests, for agents that decide themselves.
// The client does not read playbooks: use GET /api/v1/books/BOOK/bullets, or deltalog.Load with a connection to the streams.
//
// A report or feedback that failed because the service was unavailable is sent again, up to three times within 12 seconds and the deadline
// of ctx. That is safe: a report without an id gets one before it is sent, and the service counts equal ids once. A request for a
// context is sent once, because the agent waits for the reply, and can work without it.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// Client sends requests to a Debrief service. Make one with FromEnv, HTTP or NATS. It is safe for concurrent use; set its fields
// before the first request.
type Client struct {
	// Book is the playbook of requests that name none. Empty leaves the choice to the service.
	Book playbook.Book
	// AdviceTimeout is the time that Run waits for a context. 0 is 150 ms, as in the gateway.
	AdviceTimeout time.Duration
	// Trace returns the trace context (W3C traceparent) to send with a request, "" for none. Nil sends none.
	Trace func(context.Context) string

	transport transport
	delay     time.Duration // before the first repetition
}

// transport sends one request and returns the JSON of the reply.
type transport interface {
	send(ctx context.Context, r *message) ([]byte, error)
}

// message is a request as the transports send it.
type message struct {
	verb   string
	book   playbook.Book
	caller events.Caller
	trace  string
	body   []byte
}

// defaultDelay is the delay before the first repetition of a request. Each further one is twice as long.
const defaultDelay = 200 * time.Millisecond

// attempts is the maximum number of times that a request is sent.
const attempts = 3

// replyTimeout bounds a request with its repetitions, also if the deadline of the context is later: an agent waits for it. The service replies
// within ten seconds.
const replyTimeout = 12 * time.Second

// Context returns a context for the agent's model. An empty book is events.DefaultBook.
func (c *Client) Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	withBook := *r
	withBook.Book = cmp.Or(r.Book, c.Book)
	return request[events.ContextReply](ctx, c, events.VerbContext, withBook.Book, r.Caller, &withBook)
}

// Report stores an execution and returns its handle. Without a run id or the id of a context, it gets a random run id. With a context, an empty
// book stands for the book of the context over HTTP, and for the book of the client over NATS. Without a known context a report needs a question, and the reply
// has a warning: the bullets in the prompt are unknown and get no votes. Debrief still learns from the run.
func (c *Client) Report(ctx context.Context, r *events.Report) (*events.StoredReply, error) {
	withID := *r
	withID.Outcome = r.Outcome.Complete() // the service refuses a label that contradicts the score
	book := cmp.Or(r.Book, c.Book)
	if r.ContextID == "" {
		withID.RunID = cmp.Or(r.RunID, string(events.NewID()))
		withID.Book = book
	}
	return request[events.StoredReply](ctx, c, events.VerbReport, book, r.Caller, &withID)
}

// Feedback stores the outcome of an execution. Without an id, it gets a random one. An empty book is that of the client. If that is empty too,
// the execution may be of any book over HTTP, and of events.DefaultBook over NATS.
func (c *Client) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	withID := *r
	withID.ID = cmp.Or(r.ID, events.NewID())
	withID.Book = cmp.Or(r.Book, c.Book)
	withID.Outcome = r.Outcome.Complete()
	return request[events.StoredReply](ctx, c, events.VerbFeedback, withID.Book, r.Caller, &withID)
}

// request sends a request and decodes the reply.
func request[T any](ctx context.Context, c *Client, verb string, book playbook.Book, caller events.Caller, r any) (*T, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	m := &message{verb: verb, book: book, caller: caller, body: body}
	if c.Trace != nil {
		m.trace = c.Trace(ctx)
	}
	reply, err := c.send(ctx, m)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(reply, out); err != nil {
		return nil, fmt.Errorf("%s: reply of the service: %w", verb, err)
	}
	return out, nil
}

// send sends a request until it is answered or refused, up to attempts times.
func (c *Client) send(ctx context.Context, m *message) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	delay := c.delay
	for n := 1; ; n++ {
		reply, err := c.transport.send(ctx, m)
		if err == nil {
			return reply, nil
		}
		failed, ok := errors.AsType[*Error](err)
		mayRepeat := ok && failed.Unavailable() && m.verb != events.VerbContext
		if !mayRepeat || n == attempts {
			return nil, err
		}
		wait := max(failed.Delay, delay)
		if until, _ := ctx.Deadline(); time.Until(until) < wait {
			return nil, err
		}
		if events.Sleep(ctx, wait+rand.N(wait/4+1)) != nil { // at random, so that clients do not all return at once
			return nil, err
		}
		delay *= 2
	}
}

// Error is the error reply of the service, or the failure to reach it.
type Error struct {
	Verb  string        // context, execution or feedback
	Code  int           // HTTP status; 0 without a reply
	Text  string        // names the invalid field, or the next step
	Delay time.Duration // until the request may be sent again; 0 is unknown
	Err   error         // of the transport; nil if the service replied
}

func (e *Error) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("%s: %s", e.Verb, e.Text)
	}
	return fmt.Sprintf("%s: %s (status %d)", e.Verb, e.Text, e.Code)
}

func (e *Error) Unwrap() error { return e.Err }

// Invalid reports that the request is invalid: it fails again if it is sent again.
func (e *Error) Invalid() bool {
	switch e.Code {
	case 0:
		return errors.Is(e.Err, errAddress)
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return e.Code >= 400 && e.Code < 500
}

// NotFound reports that the object of the request is unknown or has expired.
func (e *Error) NotFound() bool { return e.Code == http.StatusNotFound }

// Unavailable reports a temporary failure: no reply, or a status that permits another attempt.
func (e *Error) Unavailable() bool {
	switch e.Code {
	case 0:
		return !errors.Is(e.Err, errAddress)
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// RetryAfter returns the delay that the service asks for, or 0.
func (e *Error) RetryAfter() time.Duration { return e.Delay }
