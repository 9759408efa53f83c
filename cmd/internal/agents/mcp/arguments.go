package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"debrief/events"
	"debrief/playbook/text"
)

// schemas caches the schemas of the arguments by their type, because each request over HTTP has another server.
var schemas sync.Map

// schemaOf returns the schema of the arguments of a tool.
func schemaOf[In any]() *jsonschema.Schema {
	t := reflect.TypeFor[In]()
	if s, ok := schemas.Load(t); ok {
		return s.(*jsonschema.Schema)
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", t, err)) // a test calls each tool
	}
	schemas.Store(t, s)
	return s
}

// decodeArguments decodes the arguments of a call into a pointer to a zero value. An error names the argument and the accepted ones, so that a
// model can repeat the call.
func decodeArguments(raw json.RawMessage, s *jsonschema.Schema, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	unknown, err := events.DecodeKnown(raw, into)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	if len(unknown) > 0 {
		object, accepted := objectOf(s, unknown[0])
		return fmt.Errorf("argument %s: unknown: %saccepts %s", text.Line(unknown[0], 200), object, names(accepted))
	}
	var given any
	if err := json.Unmarshal(raw, &given); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return checkRequired(s, given, "")
}

// checkRequired returns an error for a required field that a value, or an object in it, does not have. path is that of the value, "" for the
// arguments.
func checkRequired(s *jsonschema.Schema, value any, path string) error {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if err := checkRequired(s.Items, item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range s.PropertyOrder {
			given, ok := find(value, name)
			at := strings.TrimPrefix(path+"."+name, ".")
			if !ok && slices.Contains(s.Required, name) {
				object := "the tool"
				if path != "" {
					object = path
				}
				return fmt.Errorf("argument %s: required: %s accepts %s", at, object, names(s))
			}
			if err := checkRequired(s.Properties[name], given, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// objectOf returns the schema of the object with the field of a path such as tool_calls[0].tol, and the words that name the object.
func objectOf(s *jsonschema.Schema, path string) (object string, of *jsonschema.Schema) {
	object = "the tool "
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		name, _, isList := strings.Cut(part, "[")
		field := s.Properties[name]
		if field != nil && isList {
			field = field.Items
		}
		if field == nil { // another spelling of the name
			break
		}
		object, s = "an item of "+name+" ", field
	}
	return object, s
}

// names lists the names of an object for a sentence, in their order.
func names(s *jsonschema.Schema) string {
	all := slices.Clone(s.PropertyOrder)
	for i, name := range all {
		if slices.Contains(s.Required, name) {
			all[i] += " (required)"
		}
	}
	return strings.Join(all, ", ")
}

// find returns the value of a name of an object, in any spelling that the decoder accepts.
func find(object map[string]any, name string) (value any, ok bool) {
	plain := strings.NewReplacer("_", "", "-", "")
	for given, value := range object {
		if strings.EqualFold(plain.Replace(given), plain.Replace(name)) {
			return value, true
		}
	}
	return nil, false
}
