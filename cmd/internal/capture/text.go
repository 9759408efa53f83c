package capture

import (
	"bytes"
	"encoding/json"
	"strings"

	"debrief/cmd/internal/modelapi"
	"debrief/events"
)

// A conversation is known by what stays the same while a client works on a turn: the texts of the user and the replies of the model.
// The system prompt may have a clock, reminders move, and old results of tools are cleared. None of them is part of a key.

// lastTurnOf returns the index of the last message of the user that is not only a reminder, or -1.
func lastTurnOf(items []modelapi.Item) int {
	for i := len(items) - 1; i >= 0; i-- {
		if isTurn(&items[i]) {
			return i
		}
	}
	return -1
}

func isTurn(i *modelapi.Item) bool {
	return i.Role == modelapi.RoleUser && (i.Text == "" || modelapi.WithoutReminders(i.Text) != "")
}

// textChain is the hash of a conversation, which grows with each item.
type textChain string

// add returns the hash after one more item.
func (c textChain) add(i *modelapi.Item) textChain {
	switch {
	case i.Role == modelapi.RoleUser && isTurn(i):
		return textChain(events.Hash("user", string(c), withoutSpaces(modelapi.WithoutReminders(i.Text))))
	case i.Role == modelapi.RoleAssistant:
		return textChain(events.Hash(append([]string{"assistant", string(c), replyText(i.Text)}, callParts(modelapi.ClientCalls(i.Calls), false)...)...))
	}
	return c
}

// callParts returns names and arguments of calls, and their ids if they count.
func callParts(calls []modelapi.ToolCall, ids bool) (parts []string) {
	for _, c := range calls {
		if ids {
			parts = append(parts, c.ID)
		}
		parts = append(parts, c.Name, canonicalArguments(c.Arguments))
	}
	return parts
}

// canonicalArguments returns arguments in a form that ignores the spaces of JSON and the order of its keys.
func canonicalArguments(arguments string) string {
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return withoutSpaces(arguments)
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return withoutSpaces(arguments)
	}
	if s := strings.TrimSpace(b.String()); s != "{}" && s != "null" {
		return s
	}
	return ""
}

// replyText returns the text of a reply as it is compared: clients change its spaces and remove the thoughts of a model.
func replyText(text string) string {
	if _, answer, ok := strings.Cut(text, "</think>"); ok && strings.HasPrefix(strings.TrimSpace(text), "<think>") {
		text = answer
	}
	return withoutSpaces(text)
}

func withoutSpaces(s string) string { return strings.Join(strings.Fields(s), "") }

// isRandom reports whether an id was drawn at random: no other call has it. Others count the calls of a conversation, such as
// "functions.find:0" and "call_1".
func isRandom(id string) bool {
	for _, part := range strings.FieldsFunc(id, func(r rune) bool { return !isDigit(r) && !isLetter(r) }) {
		if len(part) >= 8 && strings.ContainsFunc(part, isDigit) && strings.ContainsFunc(part, isLetter) {
			return true
		}
	}
	return false
}

func isDigit(r rune) bool  { return r >= '0' && r <= '9' }
func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
