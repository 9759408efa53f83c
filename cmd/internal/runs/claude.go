package runs

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
)

// claudeSession builds a run from a session of Claude Code up to a result event, or from a transcript. A result event
// "success" only means that the agent finished; the answer was not verified, so the outcome is unknown. With a result event
// "error" the outcome is failure. Streams contain no event for the prompt, so their runs have no question.
type claudeSession struct {
	steps.Conversation
	messageID string // of the last step of the assistant; each block of the message is a separate event
	agentID   string // of a sub-agent, or "" for the main agent

	// Each event of a message has the tokens of the message so far. So the tokens of a message are added to tokens when the next message
	// begins. A result event has the sum of all messages, which replaces these fields.
	tokens        chat.Usage // of the messages before the current one
	currentTokens chat.Usage // of the current message
	currentID     string     // of the current message; it may have only thinking blocks, which make no step
}

// agentChains has the events of the sub-agents in a file: the id of the first event of the chain, by the id of each event.
type agentChains map[string]string

// claudeSessionOf returns the session and the sub-agent of an event, separated by a NUL. For the main agent it returns the session alone. The
// events of a sub-agent name it in three ways:
//
//   - in a stream they have the id of the tool call that started it;
//   - in transcripts they have its id;
//   - in transcripts of older versions they form a chain, in which each event names the one before it. The id of the first event is
//     the name of the sub-agent.
func claudeSessionOf(v modelapi.Value, chains agentChains) string {
	const maxEvents = 100_000 // in memory; after more, the events of a sub-agent begin another chain
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

// claudeIdentity returns an id of a message that is the same in a copy of the session. It is the id of the message with its time, because
// some proxies use an id for several messages. Without a time it is the id of the event.
func claudeIdentity(v modelapi.Value) string {
	id, at := v.Text("message", "id"), v.Text("timestamp")
	if id != "" && at != "" {
		return id + " " + at
	}
	return cmp.Or(v.Text("uuid"), id)
}

func (c *claudeSession) Add(v modelapi.Value, _ string) {
	call := v.Text("parent_tool_use_id")
	switch {
	case call != "":
		c.agentID = call
	case c.agentID == "" && v.IsTrue("isSidechain"):
		c.agentID = cmp.Or(v.Text("agentId"), v.Text("uuid"), "side")
	}
	kind := v.Text("type")
	ofHarness := v.IsTrue("isMeta") || v.IsTrue("isCompactSummary") // and not of the user
	if ofHarness || !slices.Contains([]string{"system", "user", "assistant", "result"}, kind) {
		return
	}
	c.Session = cmp.Or(v.Text("session_id"), v.Text("sessionId"))
	if c.Started.IsZero() {
		c.Started = v.Time("timestamp")
	}
	item := v.Get("message", "content").Content(modelapi.RoleOf(kind))
	switch kind {
	case "system":
		c.Model = cmp.Or(v.Text("model"), c.Model)
	case "result":
		c.addResultEvent(v)
	case "user":
		c.addUserTurn(&item)
	case "assistant":
		c.addAssistantTurn(v, &item)
	}
}

// syntheticModel is the model name of messages that Claude Code itself adds as the assistant.
const syntheticModel = "<synthetic>"

// addAssistantTurn adds an event of the assistant. It has one block of a message, or all blocks so far.
func (c *claudeSession) addAssistantTurn(v modelapi.Value, item *modelapi.Item) {
	m := v.Get("message")
	id, model := m.Text("id"), m.Text("model")
	if model == syntheticModel {
		return
	}
	c.addUsage(id, steps.Usage(0, m.Get("usage"), 0))
	isSameMessage := id != "" && id == c.messageID
	hasContent := item.Text != "" || len(item.Calls) > 0
	if !isSameMessage && !hasContent { // the message has only thinking blocks so far
		return
	}
	text, repeats := c.cutRepeated(item.Text, isSameMessage)
	c.AddTurn(steps.Turn{Continues: isSameMessage || repeats, At: v.Time("timestamp"), Text: text, Calls: item.Calls})
	c.Identify(claudeIdentity(v))
	c.messageID = id
	c.Model = cmp.Or(c.Model, model)
}

// cutRepeated returns a text without the text of the last step at its beginning, and reports whether it was there. Some recorders write all
// blocks of a message so far in each of its events. isSameMessage means that the text is of the same message as the last step. If it is of
// another one, a step with calls is not repeated.
func (c *claudeSession) cutRepeated(text string, isSameMessage bool) (rest string, repeats bool) {
	if text == "" || len(c.Steps) == 0 {
		return text, false
	}
	last := &c.Steps[len(c.Steps)-1]
	mayRepeat := isSameMessage || len(last.Calls) == 0
	if last.Speaker != "assistant" || last.Text == "" || !mayRepeat || !strings.HasPrefix(text, last.Text) {
		return text, false
	}
	return strings.TrimSpace(text[len(last.Text):]), true
}

// addUsage sets the tokens of the current message. Each of its events has them; those of the last one are complete. An event without an id
// is a message of its own.
func (c *claudeSession) addUsage(id string, u chat.Usage) {
	if id == "" || id != c.currentID {
		c.tokens = c.tokens.Add(c.currentTokens)
		c.currentID = id
	}
	c.currentTokens = u
	if u != (chat.Usage{}) {
		c.currentTokens.Calls = 1
	}
}

// addUserTurn adds results of calls, and the text of the user.
func (c *claudeSession) addUserTurn(item *modelapi.Item) {
	for i := range item.Results {
		item.Results[i].Signs.MarksAll = true // Claude Code marks each call that failed
		c.AddResult(&item.Results[i])
	}
	if item.Text != "" {
		c.User(item.Text)
		c.messageID = "" // the next assistant message is a new turn
	}
}

// addResultEvent adds the last event of a stream.
func (c *claudeSession) addResultEvent(v modelapi.Value) {
	c.Answer = cmp.Or(v.Text("result"), c.Answer)
	subtype := v.Text("subtype")
	c.Outcome = events.Outcome{Label: events.Unknown, Feedback: "result: " + subtype}
	if v.IsTrue("is_error") || strings.HasPrefix(subtype, "error") {
		c.Outcome.Label, c.Outcome.By = events.Failure, sourceClaudeCode
	}
	c.Duration = steps.ValidDuration(v.Number("duration_ms") / 1000)
	c.Usage = steps.Usage(v.Int("num_turns"), v.Get("usage"), v.Number("total_cost_usd"))
}

// harnessAgents begin the ids of sub-agents that Claude Code starts for itself: it compacts the session, suggests the next prompt of
// the user, or answers a question beside the session.
var harnessAgents = []string{"acompact-", "aprompt_suggestion-", "aside_question-"}

// harnessPrompt matches the prompts of sub-agents that Claude Code starts for itself, in versions that give them ordinary ids.
var harnessPrompt = regexp.MustCompile(`(?i)^\s*(?:warmup\s*$|` +
	`(?:your task is to |please )?(?:create|write|provide|generate)\b[^.\n]{0,40}\bsummary of (?:the|this|our|all) (?:\w+ ){0,3}conversation|` +
	`(?:please )?summari[sz]e (?:the|this|our|all) (?:\w+ ){0,3}conversation)`)

// isHarness reports whether the run is of a sub-agent that Claude Code started for itself, and not for a task. The id of the agent shows it.
// In versions that give such agents ordinary ids, the run has a known prompt and one text.
func (c *claudeSession) isHarness() bool {
	if c.agentID == "" {
		return false
	}
	begins := func(prefix string) bool { return strings.HasPrefix(strings.TrimPrefix(c.agentID, "agent-"), prefix) }
	if slices.ContainsFunc(harnessAgents, begins) {
		return true
	}
	isOneText := len(c.Steps) == 1 && c.Steps[0].Speaker == "assistant" && len(c.Steps[0].Calls) == 0
	return isOneText && harnessPrompt.MatchString(c.Question)
}

func (c *claudeSession) End() ([]*steps.Run, error) {
	if c.isHarness() {
		return nil, &NothingError{Reason: "messages of a harness", ofHarness: true}
	}
	c.Usage = cmp.Or(c.Usage, c.tokens.Add(c.currentTokens))
	c.Name = source.Printable(c.Session)
	if c.agentID != "" {
		c.Name += "/" + source.Printable(c.agentID)
	}
	return c.Conversation.End()
}
