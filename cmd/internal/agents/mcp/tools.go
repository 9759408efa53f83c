package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"debrief/cmd/internal/api"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// addTools adds the tools.
func (s *session) addTools(server *mcp.Server) {
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	adds := &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)}
	tool(server, &mcp.Tool{
		Name: "playbook_context", Title: "Rules for a task", Annotations: adds,
		Description: "Return the rules of the playbook that apply to a task. Call it before you begin, and keep the context_id for report_run.",
	}, s.context)
	tool(server, &mcp.Tool{
		Name: "playbook_search", Title: "Search the playbook", Annotations: reads,
		Description: "List rules of the playbook whose text contains all of some words.",
	}, s.search)
	tool(server, &mcp.Tool{
		Name: "explain_bullet", Title: "Explain a rule", Annotations: reads,
		Description: "Explain a rule: its votes, its measured effect, its changes, and the runs that it was learned from.",
	}, s.explain)
	tool(server, &mcp.Tool{
		Name: "propose_bullet", Title: "Propose a rule", Annotations: adds,
		Description: "Propose a new rule, or the correction of a wrong one. It has no effect until a person approves it.",
	}, s.propose)
	if s.hooked { // the hooks of the agent report its runs
		return
	}
	tool(server, &mcp.Tool{
		Name: "report_run", Title: "Report a run", Annotations: adds,
		Description: "Report a finished task, so that the playbook learns from it: the question, the tool calls with their outputs, the answer and the outcome.",
	}, s.report)
	tool(server, &mcp.Tool{
		Name: "give_feedback", Title: "Rate a run", Annotations: adds,
		Description: "Record the outcome of your own run later, for example after a test failed or the user objected.",
	}, s.rate)
}

// contextArguments are the arguments of playbook_context.
type contextArguments struct {
	Query   string `json:"query" jsonschema:"the task or question, as the user wrote it"`
	Session string `json:"session,omitempty" jsonschema:"id of the conversation, the same for all its tasks"`
	RunID   string `json:"run_id,omitempty" jsonschema:"your id of this run, the same as in report_run"`
}

// contextResult is the result of playbook_context.
type contextResult struct {
	ContextID events.ID           `json:"context_id"`
	Version   uint64              `json:"playbook_version"`
	Bullets   []playbook.BulletID `json:"bullets"`
}

func (s *session) context(ctx context.Context, a *contextArguments) (any, []string, error) {
	reply, err := api.Post[events.ContextReply](ctx, s.api, "/contexts", nil, &events.ContextRequest{
		Book: s.book, Query: a.Query, Session: a.Session, RunID: a.RunID, Advice: true,
	})
	if err != nil {
		return nil, nil, err
	}
	out := &contextResult{ContextID: reply.ID, Version: reply.Version, Bullets: []playbook.BulletID{}}
	for i := range reply.Shown {
		out.Bullets = append(out.Bullets, reply.Shown[i].ID)
	}
	text := "The playbook has no rule for this task."
	if len(reply.Messages) > 0 {
		text = reply.Messages[0].Text
	}
	return out, []string{text, "context_id for report_run: " + string(reply.ID)}, nil
}

// searchArguments are the arguments of playbook_search. They have the names of the parameters of the API.
type searchArguments struct {
	Q       string `json:"q,omitempty" jsonschema:"a few words that the text of the rule contains; without them all rules"`
	Section string `json:"section,omitempty" jsonschema:"only rules of this section"`
	Limit   int    `json:"limit,omitempty" jsonschema:"maximum number of rules, 1 to 100, 20 if missing"`
	After   string `json:"after,omitempty" jsonschema:"the value next of the result before"`
}

// bullet is a bullet of the API.
type bullet struct {
	ID      playbook.BulletID `json:"id"`
	Section string            `json:"section"`
	Content string            `json:"content"`
	Helpful int               `json:"helpful"`
	Harmful int               `json:"harmful"`
	State   playbook.Status   `json:"state,omitempty"`
	Record  json.RawMessage   `json:"record,omitempty"` // outcomes with and without the bullet, and its lift
}

// line returns the id and the text. Further lines of the text are indented, so that they look neither like a heading nor like a bullet.
func (b *bullet) line() string {
	return fmt.Sprintf("[%s] %s", b.ID, strings.ReplaceAll(b.Content, "\n", "\n  "))
}

// bulletList is a part of the list of bullets.
type bulletList struct {
	Items []bullet `json:"items"`
	Next  string   `json:"next,omitempty"`
}

// Numbers of bullets of a search: the default and the maximum. More would fill the context of a model.
const (
	defaultFound = 20
	maxFound     = 100
)

func (s *session) search(ctx context.Context, a *searchArguments) (any, []string, error) {
	if a.Limit < 0 || a.Limit > maxFound {
		return nil, nil, fmt.Errorf("limit: want a number from 1 to %d, got %d", maxFound, a.Limit)
	}
	query := map[string]string{"state": "shown", "q": a.Q, "section": a.Section, "after": a.After, "limit": strconv.Itoa(cmp.Or(a.Limit, defaultFound))}
	found, err := api.Get[bulletList](ctx, s.api, s.inBook("bullets"), query)
	if err != nil {
		return nil, nil, err
	}
	if len(found.Items) == 0 {
		return found, []string{"No rule has all of these words."}, nil
	}
	var lines strings.Builder
	for i := range found.Items {
		found.Items[i].Record = nil // explain_bullet has it
		fmt.Fprintf(&lines, "%s\n", found.Items[i].line())
	}
	if found.Next != "" {
		fmt.Fprintf(&lines, "There are more: repeat the call with after %s.\n", found.Next)
	}
	return found, []string{lines.String()}, nil
}

// rating is the outcome of a run in the opinion of the agent.
type rating struct {
	Outcome  string   `json:"outcome,omitempty" jsonschema:"success, partial or failure; leave it out if you do not know"`
	Score    *float64 `json:"score,omitempty" jsonschema:"score from 0 to 1, instead of outcome"`
	Feedback string   `json:"feedback,omitempty" jsonschema:"what was right or wrong, for example the message of a failed test"`
}

// asOutcome returns the rating as the outcome of a report or of feedback. It is nil for an empty rating. The API checks the values.
func (r *rating) asOutcome() map[string]any {
	out := map[string]any{}
	if r.Outcome != "" {
		out["label"] = r.Outcome
	}
	if r.Score != nil {
		out["score"] = *r.Score
	}
	if r.Feedback != "" {
		out["feedback"] = r.Feedback
	}
	if len(out) == 0 {
		return nil
	}
	out["by"] = "self-report"
	out["inferred"] = true // the agent's opinion of its own run does not outweigh a report of others
	return out
}

// toolCall is a tool call of a reported run.
type toolCall struct {
	Tool      string `json:"tool"`
	Arguments string `json:"arguments,omitempty" jsonschema:"JSON of the arguments"`
	Output    string `json:"output,omitempty"`
	Failed    bool   `json:"failed,omitempty"`
}

// reportArguments are the arguments of report_run.
type reportArguments struct {
	Question  string              `json:"question" jsonschema:"the task or question, as the user wrote it"`
	Answer    string              `json:"answer" jsonschema:"your final answer"`
	ToolCalls []toolCall          `json:"tool_calls,omitempty" jsonschema:"your tool calls, in their order"`
	Cited     []playbook.BulletID `json:"cited,omitempty" jsonschema:"ids of the rules that you followed"`
	ContextID events.ID           `json:"context_id,omitempty" jsonschema:"context_id of playbook_context"`
	RunID     string              `json:"run_id,omitempty" jsonschema:"your id of this run; a repeated report with it counts once"`
	Session   string              `json:"session,omitempty" jsonschema:"id of the conversation"`
	Task      string              `json:"task,omitempty" jsonschema:"label of the task, the same for all attempts at it"`
	rating
}

func (s *session) report(ctx context.Context, a *reportArguments) (any, []string, error) {
	var steps []map[string]any
	for _, c := range a.ToolCalls {
		call := map[string]any{"tool": c.Tool, "arguments": c.Arguments, "output": c.Output}
		if c.Failed {
			call["outcome"] = events.Failure
		}
		steps = append(steps, map[string]any{"tool_calls": []any{call}})
	}
	body := map[string]any{
		"book": s.book, "question": a.Question, "answer": a.Answer, "steps": steps, "cited": a.Cited, "context_id": a.ContextID,
		"run_id": a.RunID, "session": a.Session, "task": a.Task,
	}
	if o := a.asOutcome(); o != nil {
		body["outcome"] = o
	}
	stored, err := api.Post[events.StoredReply](ctx, s.api, "/executions", nil, body)
	return stored, storedTexts(stored), err
}

// storedTexts describes a stored report or feedback, with its warnings.
func storedTexts(stored *events.StoredReply) []string {
	if stored == nil {
		return nil
	}
	text := fmt.Sprintf("Stored as %s.", stored.Handle)
	if stored.Duplicate {
		text = fmt.Sprintf("Stored before as %s.", stored.Handle)
	}
	return append([]string{text}, stored.Warnings...)
}

// rateArguments are the arguments of give_feedback.
type rateArguments struct {
	Execution events.Handle `json:"execution" jsonschema:"handle of the run, as report_run returned it"`
	ID        events.ID     `json:"id,omitempty" jsonschema:"your id of this feedback; repeated feedback with it counts once"`
	rating
}

func (s *session) rate(ctx context.Context, a *rateArguments) (any, []string, error) {
	body := map[string]any{"book": s.book, "execution": a.Execution, "id": a.ID}
	if o := a.asOutcome(); o != nil {
		body["outcome"] = o
	}
	stored, err := api.Post[events.StoredReply](ctx, s.api, "/feedback", nil, body)
	return stored, storedTexts(stored), err
}

// bulletArguments are the arguments of explain_bullet.
type bulletArguments struct {
	ID playbook.BulletID `json:"id" jsonschema:"id of the rule, such as misc-00012"`
}

// explanation is the result of explain_bullet. It has codes and ids, but no text of a run or of a person.
type explanation struct {
	bullet
	LearnedFrom []string          `json:"learned_from"` // handles of executions, the newest maxListed
	Changes     []explainedChange `json:"changes"`      // the newest maxListed
}

// explainedChange is a change of a bullet.
type explainedChange struct {
	Version uint64          `json:"version"`
	Time    string          `json:"time"`
	Kind    playbook.OpKind `json:"kind"`
	Author  string          `json:"author,omitempty"`
	Code    playbook.Reason `json:"code,omitempty"`
}

const maxListed = 20 // maximum number of runs and of changes in an explanation

func (s *session) explain(ctx context.Context, a *bulletArguments) (any, []string, error) {
	b, err := s.shownBullet(ctx, a.ID)
	if err != nil {
		return nil, nil, err
	}
	life, err := api.Get[api.BulletLife](ctx, s.api, s.inBook("bullets", string(a.ID), "history"), map[string]string{"votes": "0"})
	if err != nil {
		return nil, nil, err
	}
	out := &explanation{bullet: *b, LearnedFrom: []string{}, Changes: []explainedChange{}}
	for i := range life.Supporters {
		if r := &life.Supporters[i]; r.Role == history.Learned && !r.Forgotten {
			out.LearnedFrom = append(out.LearnedFrom, r.Execution)
		}
	}
	for i := range life.Events {
		e := &life.Events[i]
		out.Changes = append(out.Changes, explainedChange{
			Version: e.Version, Time: e.Time.UTC().Format(time.RFC3339), Kind: e.Kind, Author: e.Author, Code: e.Code,
		})
	}
	out.LearnedFrom = out.LearnedFrom[max(0, len(out.LearnedFrom)-maxListed):]
	out.Changes = out.Changes[max(0, len(out.Changes)-maxListed):]
	return out, []string{indented(out)}, nil
}

// shownBullet returns an active bullet. It refuses any other, whose text may not enter a prompt.
func (s *session) shownBullet(ctx context.Context, id playbook.BulletID) (*bullet, error) {
	b, err := api.Get[bullet](ctx, s.api, s.inBook("bullets", string(id)), nil)
	if err != nil {
		return nil, err
	}
	if b.State != playbook.Active {
		return nil, &api.Error{Problem: api.Problem{
			Status: 404, Code: api.CodeNotFound, Field: "id", Detail: fmt.Sprintf("bullet %q is %s: agents see only active bullets", b.ID, b.State),
		}}
	}
	return b, nil
}

// proposeArguments are the arguments of propose_bullet: an api.ProposalRequest, described for a model.
type proposeArguments struct {
	Content  string            `json:"content" jsonschema:"text of the rule, one sentence, with its condition"`
	When     string            `json:"when,omitempty" jsonschema:"condition under which the text holds, if it is not in the text"`
	Section  string            `json:"section,omitempty" jsonschema:"section of the playbook"`
	Replaces playbook.BulletID `json:"replaces,omitempty" jsonschema:"id of the rule that the text corrects"`
	Reason   string            `json:"reason,omitempty" jsonschema:"reason, for the person who decides"`
}

func (s *session) propose(ctx context.Context, a *proposeArguments) (any, []string, error) {
	reply, err := api.Post[api.EditReply](ctx, s.api, s.inBook("proposals"), nil, api.ProposalRequest(*a))
	if err != nil {
		return nil, nil, err
	}
	text := "The proposal waits for a person."
	if len(reply.Added) > 0 {
		text = fmt.Sprintf("The proposal waits for a person as %s.", reply.Added[0])
	}
	return reply, []string{text}, nil
}
