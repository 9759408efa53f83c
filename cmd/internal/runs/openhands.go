package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
)

// handsSession builds a run from the events of OpenHands ("hands" in this package): actions of the agent, and observations, which are their
// results.
type handsSession struct {
	steps.Conversation
	requests map[string]bool // ids of the model's responses; each of their events repeats the usage
	last     steps.OpenCall  // the last call: an observation without an id is its result
}

// handsTools maps actions to the names of the agent's tools, for events that do not name them.
var handsTools = map[string]string{
	"run": "execute_bash", "run_ipython": "execute_ipython_cell", "edit": "str_replace_editor", "read": "str_replace_editor", "write": "write",
	"browse": "browse", "browse_interactive": "browser", "call_tool_mcp": "mcp", "delegate": "delegate",
}

// checkHands notes the problem of a damaged event.
func checkHands(v modelapi.Value) {
	for _, name := range []string{"action", "source", "observation"} {
		v.Want('"', name)
	}
}

func (h *handsSession) Add(v modelapi.Value, _ string) {
	action, speaker := v.Text("action"), v.Text("source")
	isOfUser := speaker == "user" || speaker == "" && h.Question == ""
	switch {
	case v.Text("observation") != "":
		h.addObservation(v)
	case action == "message" && isOfUser:
		h.User(handsText(v))
	case action == "message", action == "finish", action == "reject":
		h.addUsage(v)
		h.AddTurn(steps.Turn{At: v.Time("timestamp"), Text: handsText(v)})
		h.identify(v)
	case handsTools[action] != "":
		h.addAction(v, handsTools[action])
	} // the others are thoughts, and events of the harness, such as change_agent_state, recall and system
}

// identify adds the id of an event. A trajectory numbers its events, so its time is part of the id.
func (h *handsSession) identify(v modelapi.Value) {
	if v.HasAll("id", "timestamp") {
		h.Identify(v.TextOrNumber("id") + " " + v.Text("timestamp"))
	}
}

// handsArgs returns the arguments of an event; in older outputs they are fields of the event.
func handsArgs(v modelapi.Value) modelapi.Value {
	if args := v.Get("args"); args.Kind() == '{' {
		return args
	}
	return v
}

// handsText returns the text of a message, which is in the arguments or in the event itself.
func handsText(v modelapi.Value) string {
	return cmp.Or(handsArgs(v).FirstText("content", "final_thought", "thought"), v.Get("content").Output(), v.Get("message").Output(), v.Text("thought"))
}

// addAction adds a tool call. Its arguments are those in the model's response. If the event has no response with the call, they are the
// fields of the action.
func (h *handsSession) addAction(v modelapi.Value, tool string) {
	h.addUsage(v)
	about := v.Get("tool_call_metadata")
	id := about.Text("tool_call_id")
	call := modelapi.ToolCall{ID: cmp.Or(id, v.TextOrNumber("id")), Name: cmp.Or(about.Text("function_name"), tool)}
	for _, item := range about.Get("model_response").Messages("assistant") {
		for _, recorded := range item.Calls {
			if recorded.ID == id {
				call.Name, call.Arguments = recorded.Name, recorded.Arguments
			}
		}
	}
	args := handsArgs(v)
	if call.Arguments == "" {
		call.Arguments = handsArguments(args)
	}
	h.AddTurn(steps.Turn{At: v.Time("timestamp"), Text: args.Text("thought"), Calls: []modelapi.ToolCall{call}})
	h.identify(v)
	h.last = h.Open[len(h.Open)-1]
}

// handsFields are the fields of actions that the agent chooses.
var handsFields = []string{
	"command", "code", "path", "content", "url", "browser_actions", "name", "arguments", "inputs", "agent", "start", "end", "is_input",
}

// handsArguments returns the fields of an action that the agent chose, as JSON. A field that is empty or false is the default.
func handsArguments(args modelapi.Value) string {
	chosen := map[string]json.RawMessage{}
	for _, name := range handsFields {
		v := args.Get(name)
		isDefault := !v.IsSet() || string(v.Raw()) == `""` || v.Kind() == 'f'
		if !isDefault {
			chosen[name] = v.Raw()
		}
	}
	raw, _ := json.Marshal(chosen)
	return string(raw)
}

// addObservation adds an observation to the call with its id, or to the last call if the observation has no id. It ignores an
// observation without an open call.
func (h *handsSession) addObservation(v modelapi.Value) {
	id := v.Text("tool_call_metadata", "tool_call_id")
	found := -1 // index of the last open call that fits
	for i, c := range h.Open {
		isCall := c.ID == id
		if id == "" {
			isCall = c == h.last
		}
		if isCall {
			found = i
		}
	}
	if found < 0 {
		return // such as a change of the agent's state
	}
	result := v.ToolResult()
	result.Signs.Error = new(v.Text("observation") == "error")
	h.Close(found, &result)
}

// addUsage adds the tokens of the model's response in an event, once for each response.
func (h *handsSession) addUsage(v modelapi.Value) {
	response := v.Get("tool_call_metadata", "model_response")
	id := response.Text("id")
	if response.Kind() != '{' || h.requests[id] {
		return
	}
	if h.requests == nil {
		h.requests = map[string]bool{}
	}
	h.requests[id] = true
	h.Model = cmp.Or(h.Model, response.Text("model"))
	h.Usage = h.Usage.Add(steps.Usage(1, response.Get("usage"), 0))
}

// handsOutput parses a line of an output of the evaluation or of the resolver. The field success or test_result.report.resolved has the
// outcome. If the line is damaged, handsOutput notes the problem.
func handsOutput(v *record) ([]*steps.Run, error) {
	if v.Get("history").Len() == 0 {
		v.Note("history", "is empty")
		return nil, nil
	}
	h := &handsSession{}
	for event := range v.Get("history").Elements() {
		if event.Kind() != '[' {
			h.addChecked(event)
			continue
		}
		for e := range event.Elements() { // in older outputs an element has an action and its observation
			h.addChecked(e)
		}
	}
	h.Question = cmp.Or(h.Question, v.Want('"', "instruction").Text())
	h.Outcome = handsOutcome(v.Value)
	metrics := v.Get("metrics")
	if h.Usage == (chat.Usage{}) {
		h.Usage = steps.Usage(metrics.Get("costs").Len(), metrics.Get("accumulated_token_usage"), 0)
	}
	h.Usage = h.Usage.Add(steps.Usage(0, modelapi.Value{}, metrics.Number("accumulated_cost")))
	h.Name = source.Printable(v.TextOrNumber("instance_id"))
	h.Task = h.Name
	runs, err := h.End()
	h.IDs = nil // also in runs, which points to h.Run: equal lines are attempts, and not copies of one session
	return runs, err
}

// addChecked adds an event, or notes a problem if it is damaged.
func (h *handsSession) addChecked(event modelapi.Value) {
	if event.WantObject() {
		checkHands(event)
		h.Add(event, "")
	}
}

// handsOutcome returns the outcome of a line of an output.
func handsOutcome(v modelapi.Value) events.Outcome {
	verdict := cmp.Or(v.Mark("success"), v.Get("test_result", "report").Mark("resolved"))
	out := events.Outcome{Label: events.Unknown, Feedback: v.Get("error").Output()}
	if verdict == nil {
		return out
	}
	out.By, out.Feedback = sourceOpenHands, cmp.Or(v.Get("result_explanation").Output(), out.Feedback)
	out.Label = events.Failure
	if *verdict {
		out.Label = events.Success
	}
	return out.Complete()
}

// handsSDKSession builds a run from the events of the OpenHands agent SDK, which version 1 uses. Each event has its class in the field
// kind. A conversation is a folder with one event in each file, or a file with one event in each line. It does not contain an outcome.
type handsSDKSession struct{ steps.Conversation }

// checkHandsSDK notes the problem of a damaged event.
func checkHandsSDK(v modelapi.Value) {
	if message := v.Want('{', "llm_message"); message.IsSet() {
		message.WantMessage()
	}
}

func (h *handsSDKSession) Add(v modelapi.Value, _ string) {
	switch v.Text("kind") {
	case "MessageEvent":
		h.AddItems(v.Get("llm_message").Messages(""))
	case "ActionEvent":
		h.addAction(v)
	case "ObservationEvent", "AgentErrorEvent", "UserRejectObservation":
		h.addObservation(v)
	case "SystemPromptEvent":
		h.AddSystemPrompt(v.Get("system_prompt").Content(modelapi.RoleSystem).Text)
		h.SetTools(v.Get("tools").Tools())
	} // the others are states, pauses, condensations
}

// addAction adds an action of the agent: its thought and its call. The action finish has the answer.
func (h *handsSDKSession) addAction(v modelapi.Value) {
	item := v.Get("thought").Content(modelapi.RoleAssistant)
	call, _ := v.Call()
	if call.Name == "finish" && v.Kind("action") == '{' {
		item.Text = strings.TrimSpace(item.Text + "\n\n" + v.Text("action", "message"))
	} else {
		if recorded, ok := v.Get("tool_call").Call(); ok {
			call.Arguments = withoutRemarks(recorded.Arguments, v)
		}
		item.Calls = []modelapi.ToolCall{call}
	}
	h.AddItem(&item, v.Time("timestamp"))
	h.Identify(v.Text("id"))
}

// withoutRemarks returns the arguments of a call without the remarks that the SDK asks the model for. Remarks are no arguments of the tool,
// and their words differ between equal calls. The SDK copies each remark into the event. It does not copy an argument of the same name.
func withoutRemarks(arguments string, event modelapi.Value) string {
	v := modelapi.ParseValue([]byte(arguments))
	if v.Kind() != '{' {
		return arguments
	}
	var members []string
	for name, value := range v.Members() {
		key := name.Text()
		mayBeRemark := key == "summary" || key == "security_risk"
		if mayBeRemark && bytes.Equal(value.Raw(), event.Get(key).Raw()) {
			continue
		}
		members = append(members, string(name.Raw())+":"+string(value.Raw()))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// addObservation adds the result of a call. An ObservationEvent has it in the field observation, the other events have it themselves.
func (h *handsSDKSession) addObservation(v modelapi.Value) {
	kind := v.Text("kind")
	r := v.ToolResult()
	if r.Name == "finish" { // addAction has added the answer, and no call
		return
	}
	if inner := v.Get("observation"); inner.Kind() == '{' {
		result := inner.ToolResult()
		r.Output, r.Signs = result.Output, result.Signs
		r.Signs.Error = new(inner.IsTrue("is_error"))
	} else {
		r.Signs.Error = new(kind == "AgentErrorEvent")
	}
	if kind == "UserRejectObservation" {
		r.Signs.Status = "rejected"
	}
	h.AddResult(&r)
}
