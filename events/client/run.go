package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// Run is one run of an agent: a context before the model is called, and a report after it. The caller fills Answer, and Outcome if
// it knows one, and calls Report once. A run is used by one goroutine at a time.
type Run struct {
	// Messages are for the model: the context, or only the query if Debrief could not be reached. If the request sets Advice, they are the
	// advice without the query, and empty without advice.
	Messages []chat.Message
	// Context is the reply of the service. Its zero value means that Debrief could not be reached.
	Context events.ContextReply
	// Degraded is the reason if Debrief could not be reached, before or after the run. The agent works on without Debrief.
	Degraded error

	Answer  string         // the agent's answer
	Outcome events.Outcome // how the run went; the zero value is unknown, and feedback may follow later
	Steps   []events.Step  // of the agent, oldest first; Tool appends to it
	Handle  events.Handle  // names the stored execution, for feedback; set by Report if Debrief has stored it

	client  *Client
	request events.ContextRequest
	// reportID identifies the report of a run without a context. With a context it is empty, because the id of the context identifies the
	// report. It differs from request.RunID, which all runs of a session share.
	reportID string
	started  time.Time
}

const defaultAdviceTimeout = 150 * time.Millisecond

// Run requests a context and starts a run. If Debrief cannot be reached within AdviceTimeout, the run has only the query, and Degraded says why. The
// error is that of a request that can never succeed, such as an empty query or an invalid token.
func (c *Client) Run(ctx context.Context, r *events.ContextRequest) (*Run, error) {
	run := &Run{client: c, request: *r, started: time.Now()}
	run.request.RunID = cmp.Or(r.RunID, r.Session, string(events.NewID())) // one name for the session and its sub-agents
	limited, cancel := context.WithTimeout(ctx, cmp.Or(c.AdviceTimeout, defaultAdviceTimeout))
	defer cancel()
	reply, err := c.Context(limited, &run.request)
	switch {
	case err == nil:
		run.Context = *reply
		run.Messages = reply.Messages
	case temporary(err):
		run.Degraded = err
		run.reportID = string(events.NewID())
		if !r.Advice {
			run.Messages = []chat.Message{{Speaker: chat.User, Text: r.Query}}
		}
	default:
		return nil, err
	}
	return run, nil
}

// SubAgent requests a context for a sub-agent and starts its run; see Client.Run. The sub-agent is in the same group of the control share,
// unless its request names another session.
func (r *Run) SubAgent(ctx context.Context, request *events.ContextRequest) (*Run, error) {
	named := *request
	named.RunID = r.request.RunID
	return r.client.Run(ctx, &named)
}

// Tool appends a tool call to the steps. Arguments and output that are not strings are stored as JSON. A nil failure means that
// the call succeeded. The text of failure is stored as the output if output is nil, and not stored otherwise: Debrief learns from
// the output, so output should contain the error message.
func (r *Run) Tool(name string, arguments, output any, failure error) {
	call := events.ToolCall{Tool: name, Arguments: asText(arguments), Output: asText(output), Outcome: events.Success}
	if failure != nil {
		call.Outcome = events.Failure
		call.Output = cmp.Or(call.Output, failure.Error())
	}
	r.Steps = append(r.Steps, events.Step{Speaker: chat.Assistant, Calls: []events.ToolCall{call}})
}

// Report stores the run. A failure of the agent (a non-nil failure) is a failed outcome, unless Outcome is known. If Debrief cannot
// be reached, Report returns nil and Degraded says why. A second Report of the same run counts once.
func (r *Run) Report(ctx context.Context, failure error) error {
	outcome := r.Outcome
	if failure != nil && !outcome.Known() {
		outcome = events.Outcome{Label: events.Failure, Feedback: failure.Error()}
	}
	report := &events.Report{
		Caller: r.request.Caller, Book: r.request.Book, ContextID: r.Context.ID, RunID: r.reportID, User: r.request.User, Session: r.request.Session,
		Question: r.request.Query, Context: r.request.Context, Steps: r.Steps, Answer: r.Answer, Outcome: outcome,
		Started: r.started, Duration: time.Since(r.started),
	}
	stored, err := r.client.Report(ctx, report)
	switch {
	case err == nil:
		r.Handle = stored.Handle
		return nil
	case temporary(err):
		r.Degraded = cmp.Or(r.Degraded, err)
		return nil
	}
	return err
}

// temporary reports whether the agent should go on without Debrief.
func temporary(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Unavailable()
}

// asText returns a string as it is, nothing for nil, and other values as JSON.
func asText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
