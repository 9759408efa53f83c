package traces

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
)

// handsSDKSession builds a run from the events of the OpenHands agent SDK, which version 1 uses. A conversation has one event
// in each file or line. It does not contain an outcome.
type handsSDKSession struct{ steps.Conversation }

// isHandsSDK reports whether an object is an event of the SDK. Each has its class in the field kind.
func isHandsSDK(o *source.Object) bool {
	return o.Has("source", "kind") && o.HasAny("llm_message", "tool_call_id", "system_prompt", "timestamp")
}

func (h *handsSDKSession) Add(o *source.Object) error {
	switch o.Text("kind") {
	case "MessageEvent":
		h.AddItems(modelapi.Find(o.Get("llm_message"), ""))
	case "ActionEvent":
		h.addAction(o)
	case "ObservationEvent", "AgentErrorEvent", "UserRejectObservation":
		h.addObservation(o)
	case "SystemPromptEvent":
		h.Omit(source.SystemPrompts, 1)
	default: // states, pauses, condensations
		h.Omit(source.HarnessMessages, 1)
	}
	return nil
}

func (h *handsSDKSession) addAction(o *source.Object) {
	h.Omit(source.ThinkingBlocks, len(source.AsList(o.Get("thinking_blocks"))))
	t := modelapi.ParseContent(modelapi.RoleAssistant, o.Get("thought"))
	tool, action := o.Text("tool_name"), o.Child("action")
	if tool == "finish" && action != nil {
		t.Text = strings.TrimSpace(t.Text + "\n\n" + action.Text("message"))
	} else {
		call := modelapi.ToolCall{ID: o.Text("tool_call_id"), Name: cmp.Or(tool, "unknown"), Arguments: modelapi.ArgumentText(o.Get("action"))}
		if recorded, ok := modelapi.ParseCall(o.Get("tool_call")); ok {
			call.Arguments = withoutRemarks(recorded.Arguments, o)
		}
		t.Calls = []modelapi.ToolCall{call}
	}
	h.AddItem(&t, events.Step{At: steps.ParseTime(o.Get("timestamp"))})
	h.Identify(o.Text("id"))
}

// withoutRemarks returns the arguments of a call without the remarks that the SDK asks the model for and moves into the event. They are
// other words in each call, and no arguments of the tool.
func withoutRemarks(arguments string, event *source.Object) string {
	o := source.AsObject([]byte(arguments))
	if o == nil {
		return arguments
	}
	var b strings.Builder
	for _, f := range o.Fields {
		if (f.Name == "summary" || f.Name == "security_risk") && bytes.Equal(f.Value, event.Get(f.Name)) {
			continue
		}
		name, _ := json.Marshal(f.Name)
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", name, f.Value)
	}
	return "{" + b.String() + "}"
}

func (h *handsSDKSession) addObservation(o *source.Object) {
	r := modelapi.ToolResult{CallID: o.Text("tool_call_id"), Name: o.Text("tool_name"), Failed: new(o.Text("kind") == "AgentErrorEvent")}
	if r.Name == "finish" {
		return
	}
	r.Output = cmp.Or(o.Text("error"), o.Text("rejection_reason"))
	if inner := o.Child("observation"); inner != nil {
		r.Output = modelapi.OutputText(inner.First("content", "output"))
		code := string(inner.Get("exit_code"))
		r.Failed = new(string(inner.Get("is_error")) == "true" || string(inner.Get("timeout")) == "true" || code != "" && code != "0" && code != "-1")
	}
	open := h.AddResult(&r)
	if o.Text("kind") == "UserRejectObservation" { // a person refused the call
		h.Steps[open.Step].Calls[open.Call].Outcome = events.Unknown
	}
}

func (h *handsSDKSession) End() ([]*steps.Run, error) { return asRuns(h.Run()) }
