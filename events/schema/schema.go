// Package schema describes the messages of Debrief for programs in any language, by a JSON Schema of each message. It derives the schemas
// from the Go types and their tags. The descriptions are the comments of the types. comments.json has them, because a program does not
// contain its comments.
//
// A JSON Schema describes the value of a message, also if its encoding is MessagePack. The keyword x-msgpack names the
// type of MessagePack for values that JSON has not: "timestamp" for times, and "bin" for bytes.
package schema

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// typeComments are the comments of a type.
type typeComments struct {
	Type   string            `json:"type,omitempty"`
	Fields map[string]string `json:"fields,omitempty"` // by the Go name of the field
	Values []value           `json:"values,omitempty"` // constants of a string type
}

// value is a constant.
type value struct {
	Value string `json:"value"`
	Doc   string `json:"doc,omitempty"`
}

//go:embed comments.json
var commentsJSON []byte

// comments returns the comments by type, such as "events.Task". Parsing them at the start of a program would delay all commands.
var comments = sync.OnceValue(func() map[string]typeComments {
	var all map[string]typeComments
	if err := json.Unmarshal(commentsJSON, &all); err != nil {
		panic(fmt.Sprintf("comments.json: %v", err)) // embedded, and a test compares it with the sources
	}
	return all
})

// closedTypes are the string types with no other values than their constants. Validation rejects others. Other string types
// with constants may have further values in messages of newer programs, so their constants are only examples.
var closedTypes = []reflect.Type{reflect.TypeFor[events.Purpose](), reflect.TypeFor[playbook.Gate]()}

// typesOf returns the types of one message.
func typesOf(m *Message) *Types {
	tag := "json"
	if m.Encoding == MessagePack {
		tag = "msgpack"
	}
	return newTypes(Types{tag: tag, strict: m.Strict, required: m.Required, refs: "#/$defs/"})
}

// toolCall is the JSON of a chat.Call, which has its own encoder.
func toolCall() *jsonschema.Schema {
	text := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
	function := &jsonschema.Schema{
		Type: "object", Required: []string{"name", "arguments"}, PropertyOrder: []string{"name", "arguments"},
		Properties: map[string]*jsonschema.Schema{"name": text(), "arguments": {Type: "string", Description: "JSON, as the model wrote it"}},
	}
	return &jsonschema.Schema{
		Type: "object", Description: "A tool call in the form of the OpenAI chat API.", Required: []string{"id", "type", "function"},
		PropertyOrder: []string{"id", "type", "function"},
		Properties:    map[string]*jsonschema.Schema{"id": text(), "type": {Enum: []any{"function"}}, "function": function},
	}
}

// shownBullet is the MessagePack of an events.ShownBullet, which has its own encoder.
func shownBullet() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "array", Description: "A bullet in a prompt: id, wording (the CRC-32C of its text), experiment, and why it is in the prompt.",
		Items: &jsonschema.Schema{Types: []string{"string", "integer"}}, MinItems: new(4),
	}
}

// Of returns the schema of a type.
func (ts *Types) Of(t reflect.Type) *jsonschema.Schema {
	ts.types[t] = true
	s := &jsonschema.Schema{}
	switch {
	case ts.foreign && (t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]()): // any JSON
		return s
	case t == reflect.TypeFor[time.Time]():
		s.Type, s.Format = "string", "date-time"
		ts.markMessagePack(s, "timestamp")
		return s
	case t == reflect.TypeFor[time.Duration]():
		s.Type, s.Description = "integer", "Nanoseconds."
		return s
	case t == reflect.TypeFor[chat.Call]():
		return toolCall()
	case t == reflect.TypeFor[events.ShownBullet]() && ts.tag == "msgpack":
		return shownBullet()
	case t == reflect.TypeFor[events.Turns](): // it has its own decoder
		s.Types = []string{"string", "integer"}
		return s
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		s.Type, s.ContentEncoding = "string", "base64"
		ts.markMessagePack(s, "bin")
		return s
	}
	switch ts.encodingOf(t) {
	case byJSON:
		return s
	case byText:
		s.Type = "string"
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return ts.Of(t.Elem())
	case reflect.Bool:
		s.Type = "boolean"
	case reflect.Float32, reflect.Float64:
		s.Type = "number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.Type = "integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.Type, s.Minimum = "integer", new(float64)
	case reflect.String:
		s.Type = "string"
		ts.describeValues(s, t)
	case reflect.Slice, reflect.Array:
		s.Type, s.Items = "array", ts.Of(t.Elem())
	case reflect.Map:
		s.Type, s.AdditionalProperties = "object", ts.Of(t.Elem())
	case reflect.Struct:
		s.Ref = ts.refs + ts.define(t)
	default:
		panic(fmt.Sprintf("schema: no schema for the type %s", t)) // a test derives all schemas
	}
	return s
}

func (ts *Types) markMessagePack(s *jsonschema.Schema, name string) {
	if ts.tag == "msgpack" {
		s.Extra = map[string]any{"x-msgpack": name}
	}
}

// describeValues adds the constants of a string type.
func (ts *Types) describeValues(s *jsonschema.Schema, t reflect.Type) {
	var all []any
	for _, v := range comments()[typeName(t)].Values {
		all = append(all, v.Value)
	}
	if slices.Contains(closedTypes, t) {
		s.Enum = all
	} else {
		s.Examples = all
	}
}

// typeName returns the name of a type in comments.json.
func typeName(t reflect.Type) string {
	return t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:] + "." + t.Name()
}

// define adds the definition of a struct and returns its name.
func (ts *Types) define(t reflect.Type) string {
	name := definitionName(t) + ts.suffix
	if other := ts.names[name]; other != nil && other != t { // two packages have a type with this name
		name = typeName(t) + ts.suffix
	}
	if ts.defs[name] != nil {
		return name
	}
	ts.names[name] = t
	s := &jsonschema.Schema{Type: "object", Description: sentence(comments()[typeName(t)].Type), Properties: map[string]*jsonschema.Schema{}}
	ts.defs[name] = s // before its fields, which may refer to it
	ts.addFields(s, t)
	if ts.strict {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	return name
}

// addFields adds the fields of a struct, and the fields of its embedded structs.
func (ts *Types) addFields(s *jsonschema.Schema, t reflect.Type) {
	names := map[string]string{} // wire names by Go names
	for f := range t.Fields() {
		if name, _ := ts.fieldName(f); name != "" {
			names[f.Name] = name
		}
	}
	for f := range t.Fields() {
		if f.Anonymous && f.Tag.Get(ts.tag) == "" {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			ts.types[embedded] = true
			ts.addFields(s, embedded)
			continue
		}
		name, always := ts.fieldName(f)
		if name == "" {
			continue
		}
		field := ts.Of(f.Type)
		isRequired := always && ts.required == nil
		isStructPointer := field.Ref != "" && f.Type.Kind() == reflect.Pointer
		if isRequired && ts.foreign && isStructPointer { // a nil pointer is encoded as null
			field = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{field, {Type: "null"}}}
		}
		if isRequired {
			s.Required = append(s.Required, name)
			ts.allowNull(field, f.Type)
		}
		doc := sentence(cmp.Or(f.Tag.Get("doc"), withNames(comments()[typeName(t)].Fields[f.Name], names)))
		doc = strings.TrimSpace(doc + " " + field.Description)
		switch {
		case doc == "":
		case field.Ref != "":
			field = &jsonschema.Schema{AllOf: []*jsonschema.Schema{field}, Description: doc} // other keywords beside $ref are not portable
		default:
			field.Description = doc
		}
		if s.Properties[name] == nil { // else the field shadows a field of an embedded struct before it
			s.PropertyOrder = append(s.PropertyOrder, name)
		}
		s.Properties[name] = field
	}
}

// fieldName returns the name of a field in a message, or "" if the encoding leaves the field out. always is set for a field
// that every message has.
func (ts *Types) fieldName(f reflect.StructField) (name string, always bool) {
	tag := f.Tag.Get(ts.tag)
	name, options, _ := strings.Cut(tag, ",")
	if tag == "-" || !f.IsExported() {
		return "", false
	}
	if name == "" {
		name = f.Name
	}
	return name, !strings.Contains(options, "omit")
}

// allowNull allows the encoding of a missing list, which is null.
func (ts *Types) allowNull(s *jsonschema.Schema, t reflect.Type) {
	k := t.Kind()
	isList := k == reflect.Slice || k == reflect.Map
	if isList || k == reflect.Pointer && s.Type != "" {
		s.Types, s.Type = []string{s.Type, "null"}, ""
	}
}

var goName = regexp.MustCompile(`[.]?\b[A-Z][A-Za-z0-9]*\b`)

// withNames replaces the Go names of fields in a comment with their names in messages.
func withNames(comment string, names map[string]string) string {
	return goName.ReplaceAllStringFunc(comment, func(w string) string {
		if name := names[w]; name != "" {
			return name
		}
		return w
	})
}

// sentence returns a comment on one line, with a full stop.
func sentence(comment string) string {
	comment = strings.Join(strings.Fields(comment), " ")
	if comment != "" && !strings.HasSuffix(comment, ".") {
		comment += "."
	}
	return comment
}

// JSONSchema returns the JSON Schema of the payload.
func (m *Message) JSONSchema() *jsonschema.Schema {
	ts := typesOf(m)
	s := ts.root(m)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title, s.Description = m.Name, m.Description
	s.Defs = ts.defs
	if m.Example != "" {
		s.Examples = []any{json.RawMessage(m.Example)}
	}
	return s
}

// root returns the schema of the payload of a message. Its definitions are in ts.defs.
func (ts *Types) root(m *Message) *jsonschema.Schema {
	switch {
	case m.Encoding == Text:
		return &jsonschema.Schema{Type: "string", Pattern: "^[0-9]+$"}
	case m.payload == nil: // the message is its headers
		return &jsonschema.Schema{}
	}
	s := ts.Of(m.payload)
	if ts.required != nil {
		ts.defs[strings.TrimPrefix(s.Ref, ts.refs)].Required = ts.required
	}
	return s
}
