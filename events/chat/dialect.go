package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// otherNames has the names that models use in place of the names of the schemas, in the order of preference. Servers without strict
// schemas do not prevent them. The names are in the form of plain. All roles read replies by this table; the parts of requests that
// servers refuse are in the table of package openai.
var otherNames = map[string][]string{
	"reasoning": {"thought", "thoughts", "rationale", "explanation", "analysis"},

	"final_answer": {"answer", "response", "result", "output", "solution", "prediction"},
	"bullet_ids":   {"bulletsused", "usedbullets", "bullets", "citedbullets", "citations"},

	"error_identification": {"error", "erroranalysis", "mistake"},
	"root_cause_analysis":  {"rootcause", "cause"},
	"correct_approach":     {"approach", "rightapproach", "correction"},
	"key_insight": {
		"insight", "keyinsights", "insights", "lesson", "keylesson", "lessonlearned", "lessons", "lessonslearned", "learning", "keylearning",
		"learnings", "extractedlearnings", "furtherinsights", "takeaway", "keytakeaway", "advice",
	},
	"label_suspect": {"suspect", "suspectlabel"},
	"bullet_tags":   {"skilltags", "tags", "votes", "bulletvotes"},
	"tag":           {"vote", "label", "rating"},

	"operations":  {"ops", "changes", "edits", "actions"},
	"type":        {"op", "operation", "action", "kind"},
	"content":     {"text", "newcontent", "newtext"},
	"bullet_id":   {"id", "bullet", "skillid"},
	"source_ids":  {"sources", "bulletids", "skillids", "ids"},
	"keep_id":     {"keep", "bulletid", "id"},
	"reflections": {"reflection", "insights"},
	"reason":      {"justification", "why"},

	"decisions":   {"decision"},
	"explanation": {"reason", "why"},
	"summary":     {"minutes"},
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// plain returns a name without case, "_", "-" and spaces.
func plain(name string) string { return separators.Replace(strings.ToLower(name)) }

// hasPlainForm reports whether plain(name) equals form. Field asks this for each pair of a key and a name, so it must not allocate.
func hasPlainForm(name, form string) bool {
	for _, r := range name {
		if r == '_' || r == '-' || r == ' ' {
			continue
		}
		next, size := utf8.DecodeRuneInString(form)
		if size == 0 || next != unicode.ToLower(r) {
			return false
		}
		form = form[size:]
	}
	return form == ""
}

// Object is a JSON object in a reply.
type Object map[string]json.RawMessage

// parseObject returns a JSON object, or nil for any other value.
func parseObject(raw json.RawMessage) (o Object) {
	_ = json.Unmarshal(raw, &o)
	return o
}

// Field returns the value of a field, or nil. Of the names of the field, the first one with a value counts. present reports whether the
// object has any of them, also without a value. Field ignores case, "_", "-" and spaces in names.
func (o Object) Field(name string) (value json.RawMessage, present bool) {
	keys := slices.Sorted(maps.Keys(o))
	for _, n := range append([]string{plain(name)}, otherNames[name]...) {
		for _, key := range keys {
			if !hasPlainForm(key, n) {
				continue
			}
			present = true
			if FieldText(o[key]) != "" {
				return o[key], true
			}
		}
	}
	return nil, present
}

// Text returns the value of a field as text, see FieldText.
func (o Object) Text(name string) string {
	raw, _ := o.Field(name)
	return FieldText(raw)
}

// has reports whether the object has a field, under one of its names.
func (o Object) has(name string) bool {
	_, present := o.Field(name)
	return present
}

// FieldText returns a JSON value as text: a string without its quotes, null as "", a list of texts joined by commas, and any other value as
// JSON.
func FieldText(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	var s string
	var list []string
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return ""
	case json.Unmarshal(raw, &s) == nil:
		return strings.TrimSpace(s)
	case json.Unmarshal(raw, &list) == nil:
		return strings.Join(list, ", ")
	}
	return string(raw)
}

// objectWith returns the object that has a field, or nil. In a list it is the last such element. Else it is the first one of these:
//
//   - raw, if it has the field under exactly this name
//   - the value of a field of raw, or the JSON text in it, if that has the field under exactly this name
//   - raw, if it has the field under another one of its names
//
// In inner objects the other names do not count, because inner objects have fields of many names.
func objectWith(raw json.RawMessage, field string) Object {
	if field == "" || len(raw) == 0 {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, item := range slices.Backward(list) {
			if o := parseObject(item); o.has(field) {
				return o
			}
		}
		return nil
	}
	o := parseObject(raw)
	if o[field] != nil {
		return o
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		inner := o[key]
		var text string
		if json.Unmarshal(inner, &text) == nil {
			inner = json.RawMessage(text)
		}
		if nested := parseObject(inner); nested[field] != nil {
			return nested
		}
	}
	if o.has(field) {
		return o
	}
	return nil
}

// MissingError reports a readable reply without a required field. Ask asks for the field once more. If it is missing again, Ask returns
// the value of the reply without it.
type MissingError struct{ Field string }

func (e *MissingError) Error() string { return fmt.Sprintf("%q is missing or empty", e.Field) }

// ParseObject returns the JSON object of a reply that has a required field, under one of its names. Models wrap JSON in thoughts, prose,
// code fences and JSON texts, and omit quotes, commas and brackets. Small errors are repaired. The last complete object with the field is the
// reply, because a model writes its draft first. A list with one object is accepted as that object. A reply that the length limit truncated
// is never repaired, because the repair would invent the missing end.
//
// If no object has the field, ParseObject returns a *MissingError together with the object that is most probably the reply: a fenced one
// before others, then the longest. An empty field requires none. Errors are written for the model to read.
func ParseObject(r Reply, field string) (Object, error) {
	reply, values, err := readValues(r, field)
	if err != nil || reply != nil {
		return reply, err
	}
	if slices.ContainsFunc(values, value.isObject) { // a list counts only without objects beside it
		values = slices.DeleteFunc(values, func(v value) bool { return !v.isObject() })
	}
	raw, err := best(r, values, errors.New("there is no JSON object in the answer"))
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) == nil { // there are only lists
		if len(items) != 1 || parseObject(items[0]) == nil {
			return nil, fmt.Errorf("the answer is a JSON list of %d, want one JSON object", len(items))
		}
		raw = items[0]
	}
	if field != "" {
		err = &MissingError{field}
	}
	return parseObject(raw), err
}

// ParseList returns a list of items from a reply. The list is in a field of the object (see ParseObject), or the reply is a JSON list, or
// the items are all objects in the reply that have the field itemField. If the reply is an object that has no list, but the field
// reasoning, ParseList returns a *MissingError.
func ParseList(r Reply, field, itemField string) ([]json.RawMessage, error) {
	reply, values, err := readValues(r, field)
	if err != nil {
		return nil, err
	}
	if reply != nil {
		return reply.list(field, itemField)
	}
	var items []json.RawMessage
	for i := range values {
		if v := &values[i]; v.isObject() && parseObject(v.raw).has(itemField) {
			items = append(items, v.raw)
			v.recordRepair(r)
		}
	}
	if len(items) > 0 {
		return items, nil
	}
	raw, err := best(r, values, errors.New("there is neither a JSON object nor a list in the answer"))
	switch {
	case err != nil:
		return nil, err
	case raw[0] == '[':
		err = json.Unmarshal(raw, &items)
		return items, err
	case parseObject(raw).has("reasoning"):
		return nil, &MissingError{field}
	}
	return nil, fmt.Errorf("reply has neither %q nor %q", field, "reasoning")
}

// list returns the items of a list in a field. A list as a JSON text, and a single item with the field itemField in place of a list, are
// accepted too.
func (o Object) list(field, itemField string) (items []json.RawMessage, err error) {
	raw, _ := o.Field(field)
	if raw == nil {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if parseObject(raw).has(itemField) {
		return []json.RawMessage{raw}, nil
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return items, nil
}
