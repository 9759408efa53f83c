package chat

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// SchemaOf is the JSON schema of T, a struct, as servers with strict structured outputs want it: every property is
// required, no other is allowed, and only pointers may be null. Properties keep the order of the fields, in which
// models write them, so reasoning belongs first. A `jsonschema` tag on a field is its description.
//
// Omitempty makes nothing optional. It panics when T cannot be written that way (it is no struct, refers to itself,
// holds a map or an interface): T is known when the program is written, so a test of the caller's sees it.
func SchemaOf[T any]() json.RawMessage {
	s, err := jsonschema.For[T](nil)
	if err == nil && s.Type != "object" {
		err = fmt.Errorf("is no struct")
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

// strict changes s, in place and all the way down, to what strict mode accepts.
func strict(s *jsonschema.Schema) error {
	if s.Items != nil {
		// A Go slice may be null, but a model that may choose null will, where an empty list was meant.
		if len(s.Types) == 2 {
			s.Type, s.Types = "array", nil
		}
		return strict(s.Items)
	}
	if s.Type == "" && len(s.Types) == 0 {
		return fmt.Errorf("a field of any type")
	}
	isObject := s.Type == "object" || len(s.Types) == 2 && s.Types[1] == "object"
	if !isObject {
		return nil
	}
	// The schema of a struct forbids further properties with {"not":{}}; that of a map describes them.
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
