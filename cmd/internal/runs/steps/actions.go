package steps

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// textDialect describes agents that write actions in their text, and get the results as the next message of the user. In the expressions, a
// group () is a value that the dialect does not have.
type textDialect struct {
	// action matches an action. Its groups are the tool and the argument.
	action *regexp.Regexp
	// tool is the tool of an action whose first group is empty. If tool is empty too, the argument is JSON with the name of the tool.
	tool string
	// argument is the name under which the call gets the argument. If it is empty, the argument is the whole text of the arguments.
	argument string
	// result matches the result. Its first group is the exit code. The others are alternatives for the output.
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

// ParseTextActions converts actions in the text of the assistant to tool calls. It changes nothing if a step has a call already.
func (c *Conversation) ParseTextActions() {
	if slices.ContainsFunc(c.Steps, func(s events.Step) bool { return len(s.Calls) > 0 }) {
		return
	}
	d := findDialect(c.Steps)
	if d == nil {
		return
	}
	var steps []events.Step
	var ids []string
	before := pad(c.ids, len(c.Steps))
	c.Answer = ""
	for i := 0; i < len(c.Steps); i++ {
		step, id := c.Steps[i], before[i]
		if step.Speaker == "assistant" {
			step.Calls = d.calls(step.Text)
			if len(step.Calls) == 0 {
				c.Answer = step.Text
			}
		}
		hasNext := i+1 < len(c.Steps) && c.Steps[i+1].Speaker == "user"
		if n := len(step.Calls); n > 0 && hasNext {
			if groups := d.result.FindStringSubmatch(c.Steps[i+1].Text); groups != nil {
				c.setTextResult(&step.Calls[n-1], groups) // it is the result of all actions, so the last one gets it
				i++                                       // the message of the user is no step
				id += before[i]
			}
		}
		steps, ids = append(steps, step), append(ids, id)
	}
	c.Steps = steps
	if len(c.ids) > 0 {
		c.ids = ids
	}
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

// calls returns the actions in a text as calls.
func (d *textDialect) calls(text string) (calls []events.ToolCall) {
	for _, groups := range d.action.FindAllStringSubmatch(text, -1) {
		argument := groups[2]
		call := events.ToolCall{Tool: cmp.Or(groups[1], d.tool), Arguments: argument, Outcome: events.Unknown}
		if call.Tool == "" { // {"name", "arguments"}
			inner, ok := modelapi.ParseValue([]byte(argument)).Call()
			if !ok {
				continue
			}
			call.Tool, call.Arguments = inner.Name, inner.Arguments
		}
		if d.argument != "" {
			raw, _ := json.Marshal(map[string]string{d.argument: argument})
			call.Arguments = string(raw)
		}
		calls = append(calls, call)
	}
	return calls
}

// setTextResult sets the result of a call from the groups of textDialect.result.
func (c *Conversation) setTextResult(call *events.ToolCall, groups []string) {
	r := modelapi.ToolResult{Output: strings.Join(groups[2:], "")}
	if code, err := strconv.Atoi(groups[1]); err == nil {
		r.Signs.ExitCode = &code
	}
	c.setResult(call, &r)
}
