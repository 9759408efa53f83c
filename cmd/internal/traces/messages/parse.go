package messages

import (
	"encoding/json"

	"debrief/cmd/internal/traces/source"
)

// parseMessage decodes a message of a valid text. Most messages have only fields that need no decoder of structures; the others
// take the way of package json, which also finds the errors.
func parseMessage(o *source.Object) (*Message, error) {
	m := &Message{}
	if o.Fields != nil && m.set(o) {
		return m, nil
	}
	m = &Message{}
	return m, source.Decode(o.Raw, m)
}

// set sets the fields of a message. It returns false if a field is unusual.
func (m *Message) set(o *source.Object) bool {
	for _, f := range o.Fields {
		ok := true
		switch f.Name {
		case "role":
			ok = setText(&m.Role, f.Value)
		case "content":
			m.Content = f.Value
		case "name":
			ok = setText(&m.Name, f.Value)
		case "tool_call_id":
			ok = setText(&m.ToolCallID, f.Value)
		case "tool_calls":
			ok = m.setCalls(f.Value)
		case "id", "type", "refusal", "annotations": // of no use here
		default:
			ok = string(f.Value) == "null"
		}
		if !ok {
			return false
		}
	}
	return true
}

func (m *Message) setCalls(raw json.RawMessage) bool {
	if string(raw) == "null" {
		return true
	}
	list, ok := source.Elements(raw)
	if !ok || m.ToolCalls != nil {
		return false
	}
	m.ToolCalls = make([]ToolCall, len(list))
	for i := range list {
		if o := source.AsObject(list[i]); o == nil || !m.ToolCalls[i].set(o) {
			return false
		}
	}
	return true
}

func (t *ToolCall) set(o *source.Object) bool {
	return eachField(o, func(f source.Field) bool {
		switch f.Name {
		case "id":
			return setText(&t.ID, f.Value)
		case "function":
			function := source.AsObject(f.Value)
			return function != nil && t.Function.set(function)
		}
		return f.Name == "type" || string(f.Value) == "null"
	})
}

func (t *function) set(o *source.Object) bool {
	return eachField(o, func(f source.Field) bool {
		switch f.Name {
		case "name":
			return setText(&t.Name, f.Value)
		case "arguments":
			t.Arguments = f.Value
			return true
		}
		return string(f.Value) == "null"
	})
}

// eachField calls set for the fields of an object until it returns false. It reports whether all returned true.
func eachField(o *source.Object, set func(source.Field) bool) bool {
	for _, f := range o.Fields {
		if !set(f) {
			return false
		}
	}
	return true
}

// setText sets a text unless the value is missing or null. It returns false for another type.
func setText(s *string, raw json.RawMessage) bool {
	if len(raw) == 0 || string(raw) == "null" {
		return true
	}
	if raw[0] != '"' {
		return false
	}
	text, err := source.String(raw)
	*s = text
	return err == nil
}
