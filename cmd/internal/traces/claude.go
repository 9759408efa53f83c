package traces

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/spans"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
)

// claudeSession builds a run from a session of Claude Code up to a result event, or from a transcript. A result event
// "success" only means that the agent finished; the answer was not verified, so the outcome is unknown. With a result event
// "error" the outcome is failure. Streams contain no event for the prompt, so their runs have no question.
type claudeSession struct {
	steps.Conversation
	run     events.Execution // the fields that are not part of the conversation
	message string           // id of the last assistant message; each of its blocks is a separate event
	agent   string           // id of a sub-agent, or "" for the main agent

	// tokens are those of the messages before the current one, whose id is measured. A result event has the sum.
	tokens, current chat.Usage
	measured        string
}

// claudeSessions returns a function that returns the session and the sub-agent of an event, separated by a NUL. In a stream, a
// sub-agent is named by the tool call that started it. Transcripts name it, except those of older versions: there the events
// of a sub-agent form a chain, in which each event names the one before it.
func claudeSessions() func(*source.Object) string {
	const maxEvents = 100_000
	chains := map[string]string{} // first event of the chain, by event
	return func(o *source.Object) string {
		session := o.Text("session_id") + o.Text("sessionId")
		agent := cmp.Or(o.Text("parent_tool_use_id"), o.Text("agentId"))
		if agent == "" && string(o.Get("isSidechain")) == "true" {
			id := o.Text("uuid")
			agent = cmp.Or(chains[o.Text("parentUuid")], id, "side")
			if len(chains) == maxEvents {
				clear(chains)
			}
			chains[id] = agent
		}
		if agent == "" {
			return session
		}
		return session + "\x00" + agent
	}
}

// claudeEvent is a line of a stream or a transcript.
type claudeEvent struct {
	SessionID        string          `json:"session_id"`
	SessionIDOfFile  string          `json:"sessionId"`
	Timestamp        json.RawMessage `json:"timestamp"`
	Model            string          `json:"model"` // of the init event
	UUID             string          `json:"uuid"`
	ParentToolUseID  string          `json:"parent_tool_use_id"`
	IsSidechain      bool            `json:"isSidechain"`
	IsMeta           bool            `json:"isMeta"`
	IsCompactSummary bool            `json:"isCompactSummary"`
	Message          struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
		Usage   modelapi.Usage  `json:"usage"`
	} `json:"message"`

	Subtype    string          `json:"subtype"`
	IsError    bool            `json:"is_error"`
	DurationMS float64         `json:"duration_ms"`
	NumTurns   float64         `json:"num_turns"`
	Result     json.RawMessage `json:"result"`
	Cost       float64         `json:"total_cost_usd"`
	Usage      modelapi.Usage  `json:"usage"`
}

// identity returns the id of a message that a copy in another session keeps. Proxies can repeat ids of messages, so the time is part of
// it. Without a time it is the id of the event.
func (l *claudeEvent) identity() string {
	if l.Message.ID != "" && len(l.Timestamp) > 0 {
		return l.Message.ID + " " + string(l.Timestamp)
	}
	return cmp.Or(l.UUID, l.Message.ID)
}

func (c *claudeSession) Add(o *source.Object) error {
	if c.agent == "" && string(o.Get("isSidechain")) == "true" || o.Text("parent_tool_use_id") != "" {
		c.agent = cmp.Or(o.Text("parent_tool_use_id"), o.Text("agentId"), o.Text("uuid"), "side")
	}
	kind := o.Text("type")
	switch kind {
	case "system", "user", "assistant", "result":
	default:
		c.Omit(source.LogEvents, 1)
		return nil
	}
	var l claudeEvent
	if err := source.Decode(o.Raw, &l); err != nil {
		return err
	}
	if l.IsMeta || l.IsCompactSummary {
		c.Omit(source.HarnessMessages, 1)
		return nil
	}
	c.run.Session = cmp.Or(l.SessionID, l.SessionIDOfFile)
	if c.run.Started.IsZero() {
		c.run.Started = steps.ParseTime(l.Timestamp)
	}
	switch kind {
	case "system":
		c.run.Model = cmp.Or(l.Model, c.run.Model)
		return nil
	case "result":
		return c.addResultEvent(&l)
	}
	if _, err := modelapi.ContentText("message.content", l.Message.Content); err != nil {
		return err
	}
	said := modelapi.ParseContent(modelapi.RoleOf(kind), l.Message.Content)
	if kind == "user" {
		c.addUserTurn(&said)
		return nil
	}
	return c.addAssistantTurn(&l, &said)
}

// syntheticModel is the model name of messages that Claude Code itself adds as the assistant.
const syntheticModel = "<synthetic>"

func (c *claudeSession) addAssistantTurn(l *claudeEvent, said *modelapi.Item) error {
	m := &l.Message
	if m.Model == syntheticModel {
		c.Omit(source.HarnessMessages, 1)
		return nil
	}
	c.Omit(source.ThinkingBlocks, said.Omitted.Thoughts)
	c.addUsage(m.ID, steps.Tokens(m.Usage))
	continued := m.ID != "" && m.ID == c.message
	if !continued && said.Text == "" && len(said.Calls) == 0 { // a thinking block
		return nil
	}
	if n := len(c.Steps); n > 0 && said.Text != "" { // a message with all blocks so far repeats the text of the step
		if last := &c.Steps[n-1]; last.Speaker == "assistant" && last.Text != "" && (continued || len(last.Calls) == 0) {
			if rest, ok := strings.CutPrefix(said.Text, last.Text); ok {
				continued, said.Text = true, strings.TrimSpace(rest)
			}
		}
	}
	c.AddTurn(continued, events.Step{Text: said.Text, At: steps.ParseTime(l.Timestamp)}, said.Calls)
	c.Identify(l.identity())
	c.message = m.ID
	c.run.Model = cmp.Or(c.run.Model, m.Model)
	return nil
}

// addUsage adds the tokens of a message. Each of its events repeats them; the last one is complete.
func (c *claudeSession) addUsage(id string, u chat.Usage) {
	if id == "" || id != c.measured {
		c.tokens, c.measured = c.tokens.Add(c.current), id
	}
	c.current = u
	if u != (chat.Usage{}) {
		c.current.Calls = 1
	}
}

// declinedPrefix begins the tool error with which Claude Code reports that a person refused the call.
const declinedPrefix = "The user doesn't want to "

func (c *claudeSession) addUserTurn(said *modelapi.Item) {
	for i := range said.Results {
		r := &said.Results[i]
		open := c.AddResult(r)
		call := &c.Steps[open.Step].Calls[open.Call]
		switch {
		case r.Marked() && strings.HasPrefix(r.Output, declinedPrefix):
			call.Outcome = events.Unknown
		case r.Marked() || strings.HasPrefix(r.Output, "<tool_use_error>"):
			call.Outcome = events.Failure
		default: // Claude Code marks each error
			call.Outcome = events.Success
		}
	}
	if said.Text != "" {
		c.User(said.Text)
		c.message = "" // the next assistant message is a new turn
	}
}

func (c *claudeSession) addResultEvent(l *claudeEvent) error {
	if answer, err := modelapi.ContentText("result", l.Result); err == nil && answer != "" {
		c.Answer = answer
	}
	c.run.Outcome = events.Outcome{Label: events.Unknown, Feedback: "result: " + l.Subtype}
	if l.IsError || strings.HasPrefix(l.Subtype, "error") {
		c.run.Outcome.Label, c.run.Outcome.By = events.Failure, sourceClaudeCode
	}
	c.run.Duration = steps.ValidDuration(l.DurationMS / float64(time.Second/time.Millisecond))
	c.run.Usage = chat.Usage{
		Calls:        steps.ValidCount(l.NumTurns),
		InputTokens:  l.Usage.InputTokens,
		OutputTokens: l.Usage.OutputTokens,
		Cost:         steps.ValidCost(l.Cost),
	}
	return nil
}

// harnessAgents begin the ids of sub-agents that Claude Code starts for itself: it compacts the session, suggests the next prompt of
// the user, or answers a question beside the session.
var harnessAgents = []string{"acompact-", "aprompt_suggestion-", "aside_question-"}

// harnessPrompt matches the prompts of sub-agents that Claude Code starts for itself, in versions that give them ordinary ids.
var harnessPrompt = regexp.MustCompile(`(?i)^\s*(?:warmup\s*$|` +
	`(?:your task is to |please )?(?:create|write|provide|generate)\b[^.\n]{0,40}\bsummary of (?:the|this|our|all) (?:\w+ ){0,3}conversation|` +
	`(?:please )?summari[sz]e (?:the|this|our|all) (?:\w+ ){0,3}conversation)`)

// isHarness reports whether the run is a call of Claude Code itself, and no task: by the id of the agent, or by its form, which is one
// prompt and one text of a sub-agent.
func (c *claudeSession) isHarness() bool {
	if c.agent == "" {
		return false
	}
	byID := func(prefix string) bool { return strings.HasPrefix(strings.TrimPrefix(c.agent, "agent-"), prefix) }
	if slices.ContainsFunc(harnessAgents, byID) {
		return true
	}
	return len(c.Steps) == 1 && c.Steps[0].Speaker == "assistant" && len(c.Steps[0].Calls) == 0 && harnessPrompt.MatchString(c.Question)
}

func (c *claudeSession) End() ([]*steps.Run, error) {
	if c.isHarness() {
		return nil, &spans.NothingError{Kind: source.HarnessMessages, Count: len(c.Steps) + 1}
	}
	r, err := c.Run()
	if err != nil {
		return nil, err
	}
	r.Name = source.Printable(c.run.Session)
	if c.agent != "" {
		r.Name += "/" + source.Printable(c.agent)
	}
	r.Session, r.Started, r.Duration = source.Shorten(c.run.Session, 256), c.run.Started, c.run.Duration
	r.Usage, r.Model = cmp.Or(c.run.Usage, c.tokens.Add(c.current)), c.run.Model
	if c.run.Outcome.Label != "" {
		r.Outcome = c.run.Outcome
	}
	return []*steps.Run{r}, nil
}
