package chat

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

type verdict struct {
	Reasoning string `json:"reasoning"`
	Tags      []tag  `json:"bullet_tags,omitempty"`
	Note      *string
	hidden    int
}

type tag struct {
	ID  string `json:"id"`
	Tag string `json:"tag" jsonschema:"helpful, harmful or neutral"`
}

func TestSchemaIsStrict(t *testing.T) {
	t.Parallel()
	_ = verdict{}.hidden // stays out of the schema
	const want = `{"type":"object",
		"properties":{
			"reasoning":{"type":"string"},
			"bullet_tags":{"type":"array","items":{"type":"object",
				"properties":{"id":{"type":"string"},"tag":{"type":"string","description":"helpful, harmful or neutral"}},
				"required":["id","tag"],"additionalProperties":false}},
			"Note":{"type":["null","string"]}},
		"required":["reasoning","bullet_tags","Note"],"additionalProperties":false}`
	if diff := cmp.Diff(valueOf(t, want), valueOf(t, string(SchemaOf[verdict]()))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSchemaOfUnsupportedTypePanics(t *testing.T) {
	t.Parallel()
	type loop struct{ Next *struct{ Loop []any } }
	for name, schema := range map[string]func(){
		"a list":       func() { SchemaOf[[]string]() },
		"a map":        func() { SchemaOf[struct{ M map[string]int }]() },
		"an interface": func() { SchemaOf[loop]() },
		"a function":   func() { SchemaOf[struct{ F func() }]() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("got a schema, want a panic")
				}
			}()
			schema()
		})
	}
}
