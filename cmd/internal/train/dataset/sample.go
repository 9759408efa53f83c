package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events"
)

// maxName limits an id, an evaluator and the name of a session, in bytes.
const maxName = 256

// task returns the task for the bytes of a sample. Place is a part of the id of a sample without one.
func (o *Options) task(raw []byte, place string) (events.Task, error) {
	var t events.Task
	if !utf8.Valid(raw) {
		return t, errors.New("invalid UTF-8")
	}
	raw = bytes.Trim(raw, " \t\r\n") // not empty, see Reader.next
	if raw[0] != '{' && json.Valid(raw) {
		return t, fmt.Errorf("want a JSON object, got %s", kindOf(raw))
	}
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err != nil {
		return t, fmt.Errorf("invalid JSON: %w", err)
	}
	for _, f := range []struct {
		name     string
		to       *string
		anyValue bool // objects and lists are allowed
	}{
		{"id", &t.ID, false},
		{"question", &t.Question, false},
		{"context", &t.Context, true},
		{"target", &t.Target, true},
		{"evaluator", &t.Evaluator, false},
		{"session", &t.Session, false},
	} {
		var err error
		if *f.to, err = o.text(obj, f.name, f.anyValue); err != nil {
			return t, err
		}
	}
	if strings.TrimSpace(t.Question) == "" && o.Fields["question"] == "" { // the samples of ACE ask with their context
		t.Question, t.Context = t.Context, ""
	}
	if strings.TrimSpace(t.Question) == "" {
		return t, fmt.Errorf("%s: missing", o.nameOf("question"))
	}
	if o.Evaluator != "" {
		t.Evaluator = o.Evaluator
	}
	if t.ID == "" {
		t.ID = place + "-" + events.ShortID(events.Hash(t.Question, t.Context, t.Target))
	}
	for _, f := range []struct{ name, text string }{{"id", t.ID}, {"session", t.Session}, {"evaluator", t.Evaluator}} {
		if len(f.text) > maxName || strings.ContainsFunc(f.text, unicode.IsControl) {
			return t, fmt.Errorf("%s: want at most %d bytes of printable text", o.nameOf(f.name), maxName)
		}
	}
	if o.Check != nil {
		if err := o.Check(t.Evaluator); err != nil {
			return t, err
		}
	}
	return t, t.Validate()
}

// text returns the value of a field as text, "" if it is missing. A value that is not a string becomes compact JSON.
// It returns an error for an object or a list, unless anyValue is set.
func (o *Options) text(obj map[string]json.RawMessage, name string, anyValue bool) (string, error) {
	var raw json.RawMessage
	if path, mapped := o.Fields[name]; mapped {
		raw = find(obj, path)
	} else {
		for _, alias := range fields[name] {
			raw = obj[alias]
			if isSet(raw) {
				break
			}
		}
	}
	switch {
	case !isSet(raw):
		return "", nil
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case !anyValue && (raw[0] == '{' || raw[0] == '['):
		return "", fmt.Errorf("%s: want text, got %s", o.nameOf(name), kindOf(raw))
	}
	var text bytes.Buffer
	err := json.Compact(&text, raw)
	return text.String(), err
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// find returns the value of the field with the name path. If there is none, path is split at its dots: "input.text" is the field text
// of the object input. It returns nil if there is no such field.
func find(obj map[string]json.RawMessage, path string) json.RawMessage {
	for {
		if raw, ok := obj[path]; ok {
			return raw
		}
		first, rest, nested := strings.Cut(path, ".")
		if !nested {
			return nil
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(obj[first], &inner) != nil {
			return nil
		}
		obj, path = inner, rest
	}
}

// nameOf returns the name of a field in the file.
func (o *Options) nameOf(name string) string {
	if mapped := o.Fields[name]; mapped != "" {
		return fmt.Sprintf("%q (our %s)", mapped, name)
	}
	return name
}

// kindOf describes a JSON value by its first byte.
func kindOf(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}
