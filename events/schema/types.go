package schema

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Types derives the JSON Schemas of Go types for a document that describes more than the messages, such as that of the HTTP API.
// Structs are definitions, which the schemas refer to. A field without a comment in this package may have the tag doc. A type with its
// own encoder is any JSON, or a string if it encodes as text.
type Types struct{ b *builder }

// NewReplies returns the types of replies: a schema requires the fields that each reply has. Refs begins each reference.
func NewReplies(refs string) *Types {
	return &Types{&builder{
		tag: "json", foreign: true, refs: refs,
		defs: map[string]*jsonschema.Schema{}, names: map[string]reflect.Type{}, types: map[reflect.Type]bool{},
	}}
}

// NewRequests returns the types of requests: a schema requires no field. suffix ends the names of definitions, which may differ from
// those of replies.
func NewRequests(refs, suffix string) *Types {
	t := NewReplies(refs)
	t.b.suffix, t.b.required = suffix, []string{}
	return t
}

// Of returns the schema of a type.
func (t *Types) Of(typ reflect.Type) *jsonschema.Schema { return t.b.schemaOf(typ) }

// Definitions returns the definitions of all schemas so far.
func (t *Types) Definitions() map[string]*jsonschema.Schema { return t.b.defs }

// encodingKind is the kind of the encoder of a type.
type encodingKind int

const (
	ownFields encodingKind = iota // by its fields
	anyEncoding
	textEncoding
)

var (
	jsonEncoder = reflect.TypeFor[json.Marshaler]()
	textEncoder = reflect.TypeFor[encoding.TextMarshaler]()
)

// ownEncoding returns the kind of the encoder of a type. Types of messages have no own encoders.
func (b *builder) ownEncoding(t reflect.Type) encodingKind {
	switch {
	case !b.foreign || t.Kind() == reflect.Pointer:
		return ownFields
	case t.Implements(jsonEncoder):
		return anyEncoding
	case t.Implements(textEncoder):
		return textEncoding
	}
	return ownFields
}

// definitionName returns the name of a type in definitions. For an instance of a generic type it is the name of the argument before
// that of the type: BulletPage for page[Bullet].
func definitionName(t reflect.Type) string {
	name, argument, ok := strings.Cut(t.Name(), "[")
	if !ok {
		return upper(name)
	}
	argument = strings.TrimSuffix(argument, "]")
	argument = strings.TrimLeft(argument[strings.LastIndexAny(argument, "./*")+1:], "*")
	return upper(argument) + upper(name)
}

// upper returns a name with a capital at its beginning.
func upper(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
