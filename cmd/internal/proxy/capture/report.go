package capture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// maxReport is the limit of a report in JSON, in bytes. A NATS server accepts messages of up to 1 MB.
const maxReport = 768 << 10

// newReport returns the report of a run with these calls, in order. It returns nil if no call has a complete reply.
func newReport(r *run, calls []*part) *events.Report {
	answer := lastComplete(calls)
	if answer == nil {
		return nil
	}
	lastCall := calls[len(calls)-1]
	report := &events.Report{
		Caller: r.Caller, Book: r.Book, RunID: string(r.ID), Task: r.Task, User: r.User, Session: r.Session, Turn: r.TurnNumber,
		Answer: answer.Reply.Text, Agent: r.Agent, Model: answer.Model, Started: r.Started, Duration: max(0, lastCall.Ended.Sub(r.Started)),
	}
	if r.Block != nil {
		report.ContextID = r.Block.ContextID
	}
	for _, c := range calls {
		if c.Question != "" {
			report.Question = c.Question
		}
		if c.Complete {
			report.Usage = report.Usage.Add(usage(c))
		}
	}
	report.Steps = withoutAnswer(stepsOf(calls, r.Tail), report.Answer)
	report.Cited = cited(r.Block, report)
	report.Outcome = r.Outcome
	if !report.Outcome.Known() {
		report.Outcome = infer(&ending{
			Question: report.Question, Steps: report.Steps, Finish: answer.Finish, Status: r.Status, EndsComplete: answer == lastCall, Next: r.Next,
		})
	}
	fitReport(report)
	return report
}

// withoutAnswer leaves out the last step if it is only the answer, which the report has in a field of its own.
func withoutAnswer(steps []events.Step, answer string) []events.Step {
	last := len(steps) - 1
	if last >= 0 && len(steps[last].Calls) == 0 && steps[last].Text == answer {
		return steps[:last]
	}
	return steps
}

// cited returns the bullets of the block whose ids the run mentions in square brackets, as the block shows them.
func cited(b *Block, r *events.Report) (ids []playbook.BulletID) {
	if b == nil {
		return nil
	}
	for _, id := range b.Bullets {
		mark := "[" + string(id) + "]"
		if strings.Contains(r.Answer, mark) || slices.ContainsFunc(r.Steps, func(s events.Step) bool { return strings.Contains(s.Text, mark) }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// lastComplete returns the last call with a complete reply, or nil.
func lastComplete(calls []*part) *part {
	for _, c := range slices.Backward(calls) {
		if c.Complete {
			return c
		}
	}
	return nil
}

func usage(c *part) chat.Usage {
	return chat.Usage{Calls: 1, InputTokens: c.Usage.InputTokens, OutputTokens: c.Usage.OutputTokens, CachedTokens: c.Usage.CachedTokens}
}

// stepsOf returns the turns of the assistant, with the results of their calls.
func stepsOf(calls []*part, tail []modelapi.Item) []events.Step {
	c := conversation{seen: map[string]bool{}}
	for _, call := range calls {
		items := call.Items
		if len(c.Steps) > 0 { // the steps have the replies to the calls before, whether or not this call repeats them
			items = slices.DeleteFunc(slices.Clone(items), func(i modelapi.Item) bool { return i.Role == modelapi.RoleAssistant })
		}
		c.add(items)
		if call.Complete {
			before := len(c.Steps)
			c.AddItem(&call.Reply, call.Ended.UTC())
			if len(c.Steps) > before {
				c.Steps[before].Usage = usage(call)
			}
		}
	}
	c.add(tail)
	return c.Steps
}

// conversation assembles the items of a run.
type conversation struct {
	steps.Conversation
	seen map[string]bool // ids of calls with a result
}

// add adds the items of a client.
func (c *conversation) add(items []modelapi.Item) {
	for _, i := range items {
		if i.Role == modelapi.RoleTool {
			i.Text = ""
			i.Results = c.newResults(i.Results)
		}
		c.AddItem(&i, time.Time{})
	}
}

// newResults returns the results that are not in the conversation yet:
//
//   - A result of an open call is new.
//   - A result of a call that had one before is left out.
//   - Another result is new. If calls are open, it belongs to the next one of them.
func (c *conversation) newResults(results []modelapi.ToolResult) (list []modelapi.ToolResult) {
	for _, r := range results {
		isOpen := slices.ContainsFunc(c.Open, func(o steps.OpenCall) bool { return o.ID == r.CallID })
		if !isOpen && c.seen[r.CallID] {
			continue // a concurrent call of the model has sent the same results
		}
		if r.CallID != "" {
			c.seen[r.CallID] = true
		}
		if !isOpen && len(c.Open) > 0 {
			r.CallID = "" // AddItem gives it to the next open call
		}
		list = append(list, r)
	}
	return list
}

// fitReport shortens the texts of a report until it fits into a message. If even short texts do not fit, it leaves out the first
// steps: the last ones lead to the answer.
func fitReport(r *events.Report) {
	for limit := maxText; size(r) > maxReport; {
		switch {
		case limit > minText:
			limit = max(limit/2, minText)
			clipSteps(r.Steps, limit)
		case len(r.Steps) > 0:
			n := (len(r.Steps) + 1) / 2
			r.Steps = r.Steps[n:]
			// "At least", because each round replaces the note, and the rounds before have left out more steps.
			r.Context = fmt.Sprintf("[left out the first steps: at least %d]", n)
		default: // question and answer alone are too large: control characters take six bytes each in JSON
			r.Question, r.Answer = steps.ClipTo(r.Question, maxText), steps.ClipTo(r.Answer, maxText)
			return
		}
	}
}

func clipSteps(list []events.Step, limit int) {
	for i := range list {
		s := &list[i]
		s.Text = steps.ClipTo(s.Text, limit)
		for n := range s.Calls {
			s.Calls[n].Arguments, s.Calls[n].Output = steps.ClipTo(s.Calls[n].Arguments, limit), steps.ClipTo(s.Calls[n].Output, limit)
		}
	}
}

func size(r *events.Report) int {
	data, err := json.Marshal(r)
	if err != nil {
		return 0 // the reporter returns the error
	}
	return len(data)
}
