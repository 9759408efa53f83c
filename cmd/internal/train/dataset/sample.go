package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// maxName limits an id, an evaluator and the name of a session, in bytes.
const maxName = 256

// task returns the task of a sample in JSON. A sample without an id gets one, which begins with place.
func (o *Options) task(raw []byte, place string) (events.Task, error) {
	var t events.Task
	if !utf8.Valid(raw) {
		return t, errors.New("invalid UTF-8")
	}
	v, err := new(modelapi.Document).Parse(raw)
	if err != nil {
		return t, err
	}
	if !v.WantObject() {
		return t, v.Problem()
	}
	for _, f := range []struct {
		name     string
		to       *string
		anyValue bool // an object or a list is allowed: its JSON is the text
	}{
		{"id", &t.ID, false},
		{"question", &t.Question, false},
		{"context", &t.Context, true},
		{"target", &t.Target, true},
		{"evaluator", &t.Evaluator, false},
		{"session", &t.Session, false},
	} {
		value := o.value(v, f.name)
		if kind := value.Kind(); !f.anyValue && (kind == '{' || kind == '[') {
			return t, fmt.Errorf("%s: want text, got an object or a list", o.nameOf(f.name))
		}
		*f.to = value.TextOrJSON()
	}
	if strings.TrimSpace(t.Question) == "" && o.Fields["question"] == "" { // the samples of ACE ask with their context
		t.Question, t.Context = t.Context, ""
	}
	if strings.TrimSpace(t.Context) == strings.TrimSpace(t.Question) { // the model needs the text once
		t.Context = ""
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

// value returns the value of a field, or a missing value. A mapped name is the name of a field, or else a path: "input.text" is the field
// text of the object input.
func (o *Options) value(v modelapi.Value, name string) modelapi.Value {
	path, mapped := o.Fields[name]
	if !mapped {
		return v.First(slices.DeleteFunc(slices.Clone(fields[name]), o.isMapped)...)
	}
	for {
		if member := v.Get(path); !member.IsMissing() {
			return member
		}
		first, rest, nested := strings.Cut(path, ".")
		if !nested {
			return modelapi.Value{}
		}
		v, path = v.Get(first), rest
	}
}

// isMapped reports whether one of our fields is mapped to a name in the file.
func (o *Options) isMapped(theirs string) bool {
	for _, name := range o.Fields {
		if name == theirs {
			return true
		}
	}
	return false
}

// nameOf returns the name of a field in the file.
func (o *Options) nameOf(name string) string {
	if mapped := o.Fields[name]; mapped != "" {
		return fmt.Sprintf("%q (our %s)", mapped, name)
	}
	return name
}
