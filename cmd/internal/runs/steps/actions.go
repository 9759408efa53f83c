package steps

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// textDialect describes agents whose actions stand in their text, and whose results are the next message of the user.
type textDialect struct {
	// action matches an action; its groups are the tool and its argument. Tool is the tool if the first group is empty.
	action *regexp.Regexp
	tool   string
	// argument is the name of the argument if it is plain text. Without a name the argument is JSON or plain text.
	argument string
	// result matches the result; its groups are the exit code and the output.
	result *regexp.Regexp
}

// textDialects lists the dialects. The first one whose result follows an action is used for the whole conversation.
var textDialects = []*textDialect{
	{ // mini-SWE-agent: one fenced block with a command
		action: regexp.MustCompile("(?s)```()(?:mswea_bash_command|bash|sh|shell)[ \t]*\n(.*?)\n?```"), tool: "bash", argument: "command",
		result: regexp.MustCompile(`(?s)^\s*<returncode>(-?\d+)</returncode>\s*(?:<output>\n?(.*?)\n?</output>|(.*))\s*$`),
	},
	{ // CodeAct of OpenHands
		action: regexp.MustCompile(`(?s)<execute_(bash|ipython)>\s*(.*?)\s*</execute_(?:bash|ipython)>`), argument: "command",
		result: regexp.MustCompile(`(?s)^\s*(?:EXECUTION RESULT|OBSERVATION):?()(?: of \[[^\]\n]*\]:)?\n?(.*)$`),
	},
	{ // calls in tags, as some chat templates write them
		action: regexp.MustCompile(`(?s)()<tool_call>\s*(.*?)\s*</tool_call>`),
		result: regexp.MustCompile(`(?s)^\s*<tool_response>()\s*(.*?)\s*</tool_response>\s*$`),
	},
	{ // ReAct
		action: regexp.MustCompile(`(?sm)^Action:[ \t]*([^\n]+?)[ \t]*\nAction Input:[ \t]*(.*?)\s*(?:\nObservation:|\z)`),
		result: regexp.MustCompile(`(?s)^\s*Observation:()[ \t]*\n?(.*)$`),
	},
}

// TextActions converts actions in the text of the assistant to tool calls. It changes nothing if a step has a recorded call.
func (c *Conversation) TextActions() {
	if slices.ContainsFunc(c.Steps, func(s events.Step) bool { return len(s.Calls) > 0 }) {
		return
	}
	d := findDialect(c.Steps)
	if d == nil {
		return
	}
	var steps []events.Step
	c.Answer = ""
	for i := 0; i < len(c.Steps); i++ {
		step := c.Steps[i]
		if step.Speaker == "assistant" {
			step.Calls = d.calls(step.Text)
		}
		if step.Speaker == "assistant" && len(step.Calls) == 0 {
			c.Answer = step.Text
		}
		if n := len(step.Calls); n > 0 && i+1 < len(c.Steps) && c.Steps[i+1].Speaker == "user" {
			if m := d.result.FindStringSubmatch(c.Steps[i+1].Text); m != nil {
				c.setTextResult(&step.Calls[n-1], m) // one result for all actions of a message
				i++
			}
		}
		steps = append(steps, step)
	}
	c.Steps = steps
}

// findDialect returns the dialect of a conversation, or nil.
func findDialect(steps []events.Step) *textDialect {
	for i := range len(steps) - 1 {
		if steps[i].Speaker != "assistant" || steps[i+1].Speaker != "user" {
			continue
		}
		for _, d := range textDialects {
			if d.result.MatchString(steps[i+1].Text) && d.action.MatchString(steps[i].Text) {
				return d
			}
		}
	}
	return nil
}

// calls returns the actions in a text.
func (d *textDialect) calls(text string) (calls []events.ToolCall) {
	for _, m := range d.action.FindAllStringSubmatch(text, -1) {
		call := events.ToolCall{Tool: m[1], Arguments: m[2], Outcome: events.Unknown}
		if call.Tool == "" {
			call.Tool = d.tool
		}
		if call.Tool == "" { // {"name", "arguments"}
			inner, ok := modelapi.ParseValue([]byte(m[2])).Call()
			if !ok {
				continue
			}
			call.Tool, call.Arguments = inner.Name, inner.Arguments
		}
		if d.argument != "" {
			raw, _ := json.Marshal(map[string]string{d.argument: m[2]})
			call.Arguments = string(raw)
		}
		calls = append(calls, call)
	}
	return calls
}

// setTextResult sets the result of a call from the groups of a result.
func (c *Conversation) setTextResult(call *events.ToolCall, m []string) {
	r := modelapi.ToolResult{Output: strings.Join(m[2:], "")}
	if code, err := strconv.Atoi(m[1]); err == nil {
		r.Signs.ExitCode = &code
	}
	c.setResult(call, &r)
}
