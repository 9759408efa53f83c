package chat

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// SchemaOf returns the JSON schema of T, a struct, for servers with strict structured outputs. Every property is
// required, no other property is allowed, and only pointers may be null. Properties keep the order of the fields.
// Models write them in that order, so a field for reasoning should be first. The `jsonschema` tag of a field is its
// description.
//
// Omitempty does not make a field optional. SchemaOf panics for an unsupported T: not a struct, a recursive type, a
// map or an interface. T is a constant of the program, so a test of the caller detects this.
func SchemaOf[T any]() json.RawMessage {
	s, err := jsonschema.For[T](nil)
	if err == nil && s.Type != "object" {
		err = fmt.Errorf("not a struct")
	}
	if err == nil {
		err = strict(s)
	}
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(s)
	}
	if err != nil {
		var t T
		panic(fmt.Sprintf("chat: schema of %T: %v", t, err))
	}
	return raw
}

// strict changes s and its children, in place, to the form that strict mode accepts.
func strict(s *jsonschema.Schema) error {
	if s.Items != nil {
		// A Go slice has the types null and array. But a model that may return null does so instead of an empty list.
		if len(s.Types) == 2 {
			s.Type, s.Types = "array", nil
		}
		return strict(s.Items)
	}
	if s.Type == "" && len(s.Types) == 0 {
		return fmt.Errorf("a field of any type")
	}
	isObject := s.Type == "object" || slices.Contains(s.Types, "object") // a pointer to a struct has the types null and object
	if !isObject {
		return nil
	}
	// The schema of a struct forbids other properties with {"not":{}}. The schema of a map describes them.
	if s.AdditionalProperties == nil || s.AdditionalProperties.Not == nil {
		return fmt.Errorf("a map")
	}
	s.Required = s.PropertyOrder
	for name, property := range s.Properties {
		if err := strict(property); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
