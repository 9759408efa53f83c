package runs

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/spans"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
)

// claudeSession builds a run from a session of Claude Code up to a result event, or from a transcript. A result event
// "success" only means that the agent finished; the answer was not verified, so the outcome is unknown. With a result event
// "error" the outcome is failure. Streams contain no event for the prompt, so their runs have no question.
type claudeSession struct {
	steps.Conversation
	message string // id of the last assistant message; each of its blocks is a separate event
	agent   string // id of a sub-agent, or "" for the main agent

	// tokens are those of the messages before the current one, whose id is measured. A result event has the sum.
	tokens, current chat.Usage
	measured        string
}

// claudeSessions returns a function that returns the session and the sub-agent of an event, separated by a NUL. In a stream, a
// sub-agent is named by the tool call that started it. Transcripts name it, except those of older versions: there the events
// of a sub-agent form a chain, in which each event names the one before it.
func claudeSessions() func(modelapi.Value) string {
	const maxEvents = 100_000
	chains := map[string]string{} // first event of the chain, by event
	return func(v modelapi.Value) string {
		session := v.Text("session_id") + v.Text("sessionId")
		agent := cmp.Or(v.Text("parent_tool_use_id"), v.Text("agentId"))
		if agent == "" && v.IsTrue("isSidechain") {
			id := v.Text("uuid")
			agent = cmp.Or(chains[v.Text("parentUuid")], id, "side")
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

// claudeIdentity returns the id of a message that a copy in another session keeps. Proxies can repeat ids of messages, so the time is
// part of it. Without a time it is the id of the event.
func claudeIdentity(v modelapi.Value) string {
	id, at := v.Text("message", "id"), v.Text("timestamp")
	if id != "" && at != "" {
		return id + " " + at
	}
	return cmp.Or(v.Text("uuid"), id)
}

func checkClaude(v modelapi.Value) { v.Want('{', "message").WantContent("content") }

func (c *claudeSession) Add(v modelapi.Value, _ string) {
	if c.agent == "" && v.IsTrue("isSidechain") || v.Text("parent_tool_use_id") != "" {
		c.agent = cmp.Or(v.Text("parent_tool_use_id"), v.Text("agentId"), v.Text("uuid"), "side")
	}
	kind := v.Text("type")
	if !slices.Contains([]string{"system", "user", "assistant", "result"}, kind) {
		c.Omit(source.LogEvents, 1)
		return
	}
	if v.IsTrue("isMeta") || v.IsTrue("isCompactSummary") {
		c.Omit(source.HarnessMessages, 1)
		return
	}
	c.Session = cmp.Or(v.Text("session_id"), v.Text("sessionId"))
	if c.Started.IsZero() {
		c.Started = v.Time("timestamp")
	}
	said := v.Get("message", "content").Content(modelapi.RoleOf(kind))
	switch kind {
	case "system":
		c.Model = cmp.Or(v.Text("model"), c.Model)
	case "result":
		c.addResultEvent(v)
	case "user":
		c.addUserTurn(&said)
	case "assistant":
		c.addAssistantTurn(v, &said)
	}
}

// syntheticModel is the model name of messages that Claude Code itself adds as the assistant.
const syntheticModel = "<synthetic>"

func (c *claudeSession) addAssistantTurn(v modelapi.Value, said *modelapi.Item) {
	m := v.Get("message")
	id, model := m.Text("id"), m.Text("model")
	if model == syntheticModel {
		c.Omit(source.HarnessMessages, 1)
		return
	}
	c.Omit(source.ThinkingBlocks, said.Omitted.Thoughts)
	c.addUsage(id, steps.Usage(0, m.Get("usage"), 0))
	continued := id != "" && id == c.message
	if !continued && said.Text == "" && len(said.Calls) == 0 { // a thinking block
		return
	}
	if n := len(c.Steps); n > 0 && said.Text != "" { // a message with all blocks so far repeats the text of the step
		if last := &c.Steps[n-1]; last.Speaker == "assistant" && last.Text != "" && (continued || len(last.Calls) == 0) {
			if rest, ok := strings.CutPrefix(said.Text, last.Text); ok {
				continued, said.Text = true, strings.TrimSpace(rest)
			}
		}
	}
	c.AddTurn(continued, events.Step{Text: said.Text, At: v.Time("timestamp")}, said.Calls)
	c.Identify(claudeIdentity(v))
	c.message = id
	c.Model = cmp.Or(c.Model, model)
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

func (c *claudeSession) addUserTurn(said *modelapi.Item) {
	for i := range said.Results {
		said.Results[i].Signs.MarksAll = true
		c.AddResult(&said.Results[i])
	}
	if said.Text != "" {
		c.User(said.Text)
		c.message = "" // the next assistant message is a new turn
	}
}

func (c *claudeSession) addResultEvent(v modelapi.Value) {
	c.Answer = cmp.Or(v.Text("result"), c.Answer)
	subtype := v.Text("subtype")
	c.Outcome = events.Outcome{Label: events.Unknown, Feedback: "result: " + subtype}
	if v.IsTrue("is_error") || strings.HasPrefix(subtype, "error") {
		c.Outcome.Label, c.Outcome.By = events.Failure, sourceClaudeCode
	}
	c.Duration = steps.ValidDuration(v.Number("duration_ms") / float64(time.Second/time.Millisecond))
	c.Usage = steps.Usage(v.Count("num_turns"), v.Get("usage"), v.Number("total_cost_usd"))
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
	c.Usage = cmp.Or(c.Usage, c.tokens.Add(c.current))
	if c.Name = source.Printable(c.Session); c.agent != "" {
		c.Name += "/" + source.Printable(c.agent)
	}
	return c.Conversation.End()
}
