package runs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
)

// geminiSession builds a run from a session of Gemini CLI. A session is one object with messages. Or it has lines: a head, messages, and changes
// of the head ("$set") or of the messages ("$rewindTo"). The CLI writes a message again under its id when its calls are known. So the messages
// are kept until End, which adds them to the conversation. A session does not contain an outcome.
type geminiSession struct {
	steps.Conversation
	messages []geminiMessage // the last version of each, in the order of their first lines
}

// geminiMessage is the JSON of a message.
type geminiMessage struct {
	id  string
	raw []byte
}

// isGeminiHead reports whether an object is the head of a session, or a whole session.
func isGeminiHead(v modelapi.Value) bool {
	return v.Text("sessionId") != "" && (v.HasAll("projectHash") || v.Kind("messages") == '[') && !v.HasAll("type")
}

// isGeminiRecord reports whether an object belongs to a session.
func isGeminiRecord(v modelapi.Value) bool {
	if isGeminiHead(v) || v.Kind("$set") == '{' || v.Text("$rewindTo") != "" {
		return true
	}
	isMessage := slices.Contains([]string{"user", "gemini", "info", "warning", "error"}, v.Text("type")) &&
		v.Text("id") != "" && v.HasAny("content", "toolCalls")
	isOther := v.HasAny("sessionId", "session_id", "role", "message") // of another recorder
	return isMessage && !isOther
}

// IsEmpty reports whether the session has no message yet.
func (g *geminiSession) IsEmpty() bool { return len(g.messages) == 0 }

// checkGemini notes the problem of a damaged line.
func checkGemini(v modelapi.Value) {
	head, isMessage := geminiHead(v)
	if isMessage && v.Text("$rewindTo") == "" {
		checkGeminiMessage(v)
	}
	for m := range head.Want('[', "messages").Elements() {
		checkGeminiMessage(m)
	}
}

// geminiHead returns the fields of a head or of a change of it. For another object it returns the object, and isMessage is true.
func geminiHead(v modelapi.Value) (head modelapi.Value, isMessage bool) {
	if change := v.Want('{', "$set"); change.IsSet() {
		return change, false
	}
	return v, !isGeminiHead(v)
}

func (g *geminiSession) Add(v modelapi.Value, _ string) {
	if target := v.Text("$rewindTo"); target != "" {
		g.rewind(target)
		return
	}
	head, isMessage := geminiHead(v)
	if isMessage {
		g.put(v)
		return
	}
	g.Session = cmp.Or(head.Text("sessionId"), g.Session)
	if started := head.Time("startTime"); !started.IsZero() {
		g.Started = started
	}
	if updated := head.Time("lastUpdated"); !updated.IsZero() {
		g.Duration = steps.ValidDuration(updated.Sub(g.Started).Seconds())
	}
	for m := range head.Get("messages").Elements() {
		g.put(m)
	}
}

// rewind removes the message with an id and all later ones, because the user went back to the state before it. It removes all messages if none
// has the id.
func (g *geminiSession) rewind(id string) {
	i := slices.IndexFunc(g.messages, func(m geminiMessage) bool { return m.id == id })
	g.messages = g.messages[:max(i, 0)]
}

// checkGeminiMessage notes a problem if a message is damaged.
func checkGeminiMessage(v modelapi.Value) {
	if !v.WantObject() {
		return
	}
	v.WantContent("content")
	v.WantCalls("toolCalls", "name")
}

// put adds a message, or replaces the one with its id.
func (g *geminiSession) put(v modelapi.Value) {
	m := geminiMessage{v.Text("id"), slices.Clone(v.Raw())}
	i := slices.IndexFunc(g.messages, func(old geminiMessage) bool { return old.id != "" && old.id == m.id })
	if i >= 0 {
		g.messages[i] = m
		return
	}
	g.messages = append(g.messages, m)
}

func (g *geminiSession) End() ([]*steps.Run, error) {
	var doc modelapi.Document
	for _, m := range g.messages {
		if v, err := doc.Parse(m.raw); err == nil {
			g.addMessage(v)
		}
	}
	return g.Conversation.End()
}

// addMessage adds a message to the conversation.
func (g *geminiSession) addMessage(v modelapi.Value) {
	kind := v.Text("type")
	if kind != "user" && kind != "gemini" { // info, warning, error
		return
	}
	item := v.Get("content").Content(modelapi.RoleOf(kind))
	item.Text = strings.TrimSpace(item.Text)
	if kind == "user" {
		// The CLI also records a result in its call, which was added before. If the call is still open, the result is only here: the
		// CLI has written the history again.
		item.Results = slices.DeleteFunc(item.Results, func(r modelapi.ToolResult) bool { return !g.IsOpen(r.CallID) })
		g.AddItem(&item, time.Time{})
		return
	}
	g.Model = cmp.Or(v.Text("model"), g.Model)
	if tokens := v.Get("tokens"); tokens.IsSet() {
		u := steps.Usage(1, tokens, 0)
		u.InputTokens += tokens.Int("tool")
		u.OutputTokens += tokens.Int("thoughts")
		g.Usage = g.Usage.Add(u)
	}
	if calls := v.WantCalls("toolCalls", "name"); len(calls) > 0 {
		item.Calls = calls // the content may have the same ones
	}
	before := len(g.Steps)
	g.AddItem(&item, v.Time("timestamp"))
	if len(g.Steps) == before { // a message without text and calls
		return
	}
	g.Identify(v.Text("id"))
	for call := range v.Get("toolCalls").Elements() {
		hasEnded := slices.Contains([]string{"success", "error", "cancelled"}, call.Text("status"))
		if hasEnded || call.HasAll("result") {
			result := call.ToolResult() // the call has its result
			g.AddResult(&result)
		}
	}
}

// geminiStream builds a run from the output of 'gemini --output-format stream-json'.
type geminiStream struct {
	steps.Conversation
	talking bool // the last event was a part of a message of the assistant
}

// isGeminiEvent reports whether an object is an event of the stream.
func isGeminiEvent(v modelapi.Value) bool {
	switch v.Text("type") {
	case "init":
		return v.HasAll("session_id", "model")
	case "message":
		return v.HasAll("role", "timestamp") && v.Kind("content") == '"' && !v.HasAll("id")
	case "tool_use", "tool_result":
		return v.HasAll("tool_id")
	case "result":
		return v.HasAll("status") && v.HasAny("stats", "timestamp") && !v.HasAny("session_id", "sessionId")
	}
	return false
}

func (g *geminiStream) Add(v modelapi.Value, _ string) {
	wasTalking := g.talking
	g.talking = false
	switch v.Text("type") {
	case "init":
		g.Session = v.Text("session_id")
		g.Model = v.Text("model")
		g.Started = v.Time("timestamp")
	case "message":
		if v.Text("role") == "user" {
			g.User(v.Text("content"))
			return
		}
		g.talking = true
		if wasTalking && v.IsTrue("delta") {
			last := &g.Steps[len(g.Steps)-1]
			last.Text += v.Text("content")
			g.Answer = last.Text
			return
		}
		g.AddTurn(steps.Turn{At: v.Time("timestamp"), Text: v.Text("content")})
	case "tool_use":
		call, _ := v.Call()
		g.AddTurn(steps.Turn{Continues: wasTalking, At: v.Time("timestamp"), Calls: []modelapi.ToolCall{call}})
	case "tool_result":
		result := v.ToolResult()
		g.AddResult(&result)
	case "result":
		stats := v.Get("stats")
		g.Usage = steps.Usage(0, stats, 0)
		g.Duration = steps.ValidDuration(stats.Number("duration_ms") / 1000)
		if v.Text("status") == "error" {
			g.Outcome = events.Outcome{Label: events.Failure, By: sourceGemini, Feedback: v.Text("error", "message")}
		}
	}
}
