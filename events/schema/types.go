package schema

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Types derives the JSON Schemas of Go types in one encoding. Structs are definitions, which the schemas refer to.
type Types struct {
	tag    string // "msgpack" or "json": the struct tag with the names
	strict bool   // unknown fields are errors
	// required are the fields that a client must set. It is nil for messages that Debrief writes: their schemas require
	// the fields that each message has.
	required []string
	refs     string // prefix of references
	suffix   string // of the names of definitions
	foreign  bool   // the types are of other packages and may have their own encoders and no comments; see NewReplies

	defs  map[string]*jsonschema.Schema
	names map[string]reflect.Type // the types of defs
	types map[reflect.Type]bool   // all types of the schemas, for a test
}

func newTypes(t Types) *Types {
	t.defs, t.names, t.types = map[string]*jsonschema.Schema{}, map[string]reflect.Type{}, map[reflect.Type]bool{}
	return &t
}

// NewReplies returns the types of replies in a document that describes more than the messages, such as that of the HTTP API: a schema
// requires the fields that each reply has. The tag doc describes a field whose comment this package does not know. A type with its own
// encoder is any JSON, or a string if it encodes as text. refs begins each reference.
func NewReplies(refs string) *Types { return newTypes(Types{tag: "json", foreign: true, refs: refs}) }

// NewRequests is NewReplies for requests: a schema requires no field. suffix ends the names of definitions, which may differ from those of
// replies.
func NewRequests(refs, suffix string) *Types {
	return newTypes(Types{tag: "json", foreign: true, refs: refs, suffix: suffix, required: []string{}})
}

// Definitions returns the definitions of all schemas so far.
func (ts *Types) Definitions() map[string]*jsonschema.Schema { return ts.defs }

// encodingKind is the kind of the encoder of a type.
type encodingKind int

const (
	byFields encodingKind = iota // the default: the type has no encoder
	byJSON
	byText
)

var (
	jsonEncoder = reflect.TypeFor[json.Marshaler]()
	textEncoder = reflect.TypeFor[encoding.TextMarshaler]()
)

// encodingOf returns the kind of the encoder of a type. Types of messages have no own encoders.
func (ts *Types) encodingOf(t reflect.Type) encodingKind {
	switch {
	case !ts.foreign || t.Kind() == reflect.Pointer:
		return byFields
	case t.Implements(jsonEncoder):
		return byJSON
	case t.Implements(textEncoder):
		return byText
	}
	return byFields
}

// definitionName returns the name of a type in definitions. For an instance of a generic type it is the name of the argument before
// that of the type: BulletPage for page[Bullet].
func definitionName(t reflect.Type) string {
	name, argument, ok := strings.Cut(t.Name(), "[")
	if !ok {
		return upper(name)
	}
	argument = strings.TrimSuffix(argument, "]")
	argument = argument[strings.LastIndexAny(argument, "./*")+1:] // without its package
	return upper(argument) + upper(name)
}

// upper returns a name with a capital at its beginning.
func upper(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
