package runs

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
)

// codexSession builds a run from a rollout file of Codex CLI. Its response items are those of OpenAI's Responses API. A
// rollout does not contain an outcome.
type codexSession struct {
	steps.Conversation
	speaking bool // the last item was of the assistant: the next one of the assistant belongs to the same step
	requests int  // number of model calls
}

// checkCodex notes the problem of a damaged line.
func checkCodex(v modelapi.Value) {
	if v.Text("type") == "response_item" {
		v.Get("payload").WantMessage()
	}
}

func (c *codexSession) Add(v modelapi.Value, _ string) {
	p := v.Get("payload")
	switch kind := v.Text("type"); {
	case kind == "session_meta" && c.Session != "": // a fork begins with the lines of the session it was forked from
	case kind == "session_meta":
		c.Session, c.Started = p.Text("id"), p.Time("timestamp")
	case kind == "turn_context":
		c.Model = cmp.Or(p.Text("model"), c.Model)
	case kind == "event_msg" && p.Text("type") == "token_count":
		if total := p.Get("info", "total_token_usage"); total.IsSet() { // the sum so far
			c.requests++
			c.Usage = steps.Usage(c.requests, total, 0)
		}
	case kind == "response_item":
		c.addItem(p, v.Time("timestamp"))
	} // the other events repeat response items for the screen
}

// addItem adds a response item.
func (c *codexSession) addItem(p modelapi.Value, at time.Time) {
	for _, item := range p.Messages("") {
		switch {
		case item.Role == "user" && isHarnessText(item.Text):
			continue
		case item.Role == "user":
			item.Text = codexRequest(item.Text)
		}
		speaks := item.Role == "assistant" && (item.Text != "" || len(item.Calls) > 0)
		if speaks && c.speaking {
			c.AddTurn(steps.Turn{Continues: true, Text: item.Text, Calls: item.Calls})
		} else {
			durations := codexResults(item.Results)
			for i := range item.Results {
				call := c.AddResult(&item.Results[i])
				c.Steps[call.Step].Calls[call.Call].Duration = durations[i]
			}
			item.Results = nil
			c.AddItem(&item, at)
		}
		if speaks { // the time is no part of the id, because a fork has the same ids with new times
			c.Identify(p.TextOrNumber("call_id", "id"))
		}
		c.speaking = speaks
	}
}

// isHarnessText reports whether Codex added a message as the user.
func isHarnessText(text string) bool {
	tags := []string{"<environment_context>", "<user_instructions>", "<permissions", "<turn_aborted>", "# AGENTS.md instructions"}
	return slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(strings.TrimSpace(text), tag) })
}

// codexRequest returns the user's request without the context that an editor adds before it.
func codexRequest(text string) string {
	if _, request, ok := strings.Cut(text, "\n## My request for Codex:\n"); ok {
		return strings.TrimSpace(request)
	}
	return text
}

// codexHeader matches the lines before the output of a command, in later versions. Earlier ones store the output in JSON.
var codexHeader = regexp.MustCompile(`(?s)^Exit code: (-?\d+)\nWall time: ([0-9.]+) seconds\n(?:Total output lines: \d+\n)?Output:\n`)

// codexResults removes the header or the JSON around the outputs of commands. It sets the signs of the results and returns the durations,
// which are 0 for results without one.
func codexResults(results []modelapi.ToolResult) []time.Duration {
	durations := make([]time.Duration, len(results))
	for i := range results {
		r := &results[i]
		if groups := codexHeader.FindStringSubmatch(r.Output); groups != nil {
			header := groups[0]
			exitCode, wallTime := groups[1], groups[2]
			if code, err := strconv.Atoi(exitCode); err == nil {
				r.Signs.ExitCode = &code
			}
			seconds, _ := strconv.ParseFloat(wallTime, 64)
			durations[i] = steps.ValidDuration(seconds)
			r.Output = r.Output[len(header):]
			continue
		}
		report := modelapi.ParseValue([]byte(r.Output))
		if report.First("output", "content").Kind() == '"' {
			inner := report.ToolResult()
			r.Output, r.Signs.ExitCode = inner.Output, inner.Signs.ExitCode
			if success := report.Mark("success"); success != nil {
				r.Signs.Error = new(!*success)
			}
			durations[i] = steps.ValidDuration(report.Number("metadata", "duration_seconds"))
		}
	}
	return durations
}

// codexExec builds a run from the output of 'codex exec --json'. It does not contain the prompt.
type codexExec struct{ steps.Conversation }

// isCodexEvent reports whether an object is an event of 'codex exec --json'.
func isCodexEvent(v modelapi.Value) bool {
	switch v.Text("type") {
	case "item.started", "item.updated", "item.completed":
		return v.HasAll("item")
	case "thread.started", "turn.started", "turn.completed", "turn.failed":
		return true
	}
	return false
}

func (c *codexExec) Add(v modelapi.Value, _ string) {
	switch kind := v.Text("type"); kind {
	case "thread.started":
		c.Session = v.Text("thread_id")
	case "turn.completed":
		c.Usage = c.Usage.Add(steps.Usage(1, v.Get("usage"), 0))
	case "turn.failed":
		c.Outcome = events.Outcome{Label: events.Failure, By: sourceCodex, Feedback: v.Text("error", "message")}
	case "item.started", "item.completed":
		c.addItem(v.Get("item"), kind == "item.completed")
	}
}

// addItem adds an item that has started or is done. The item of a call has the call and, when it is done, its result.
func (c *codexExec) addItem(item modelapi.Value, done bool) {
	call, isCall := codexCall(item)
	switch kind := item.Text("type"); {
	case isCall:
		c.addCall(item, &call, done)
	case kind == "agent_message" && done:
		c.AddTurn(steps.Turn{Text: item.Text("text")})
		c.identify(item)
	case kind == "user_message" && done:
		c.User(item.Text("text"))
	} // the others are thoughts, and messages that are not complete
}

// addCall adds the call of an item once, and its result when it is done.
func (c *codexExec) addCall(item modelapi.Value, call *modelapi.ToolCall, done bool) {
	if !c.IsOpen(call.ID) {
		last := len(c.Steps) - 1
		continuesText := last >= 0 && c.Steps[last].Speaker == "assistant" && len(c.Steps[last].Calls) == 0
		c.AddTurn(steps.Turn{Continues: continuesText, Calls: []modelapi.ToolCall{*call}})
	}
	if !done {
		return
	}
	if item.HasAny("aggregated_output", "exit_code", "result", "error", "status") {
		result := item.ToolResult()
		c.AddResult(&result)
	}
	c.identify(item)
}

// identify adds the id of an item. The items of each thread have the same numbers, so the thread is part of the id.
func (c *codexExec) identify(item modelapi.Value) {
	if id := item.Text("id"); c.Session != "" && id != "" {
		c.Identify(c.Session + "/" + id)
	}
}

// codexCall returns the call of an item. It reports false for an item that is not a call.
func codexCall(item modelapi.Value) (modelapi.ToolCall, bool) {
	builtIn, ok := codexTools[item.Text("type")]
	if !ok { // of an MCP server, or of the client
		call, isCall := item.Call()
		return call, isCall && item.Text("tool") != ""
	}
	return modelapi.ToolCall{
		ID: item.Text("id"), Name: builtIn.tool,
		Arguments: `{"` + builtIn.argument + `":` + cmp.Or(item.Get(builtIn.argument).Compact(), "null") + "}",
	}, true
}

// codexTools has the built-in tools by the type of their items. Of an item, the member with the name argument is the only argument.
var codexTools = map[string]struct{ tool, argument string }{
	"command_execution": {"shell", "command"},
	"file_change":       {"apply_patch", "changes"},
	"web_search":        {"web_search", "query"},
}
