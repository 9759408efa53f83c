package redact

import (
	"reflect"
	"testing"
)

type name string

type step struct {
	Text  string
	Calls []call
	Next  *step
}

type call struct {
	Output string
	Raw    []byte
}

func TestFieldsReachesEveryString(t *testing.T) {
	t.Parallel()
	const text, clean = "password=hunter2", "password=[redacted: password]"
	type event struct {
		ID    string `redact:"-"`
		Name  name
		Known string `redact:"id"`
		Text  string
		List  []string
		Steps []step
		Last  *step
		None  *step
		Count int
	}
	shared := []string{"nothing here"}
	got := event{
		ID: text, Name: text, Known: text, Text: text, List: []string{"x", text}, Count: 1,
		Steps: []step{{Text: text, Calls: []call{{Output: text, Raw: []byte(text)}}, Next: &step{Text: text}}},
		Last:  &step{Text: text, Next: &step{Calls: []call{{Output: text}}}},
	}
	Fields(&got)
	want := event{
		ID: text, Name: clean, Known: ID(text), Text: clean, List: []string{"x", clean}, Count: 1,
		Steps: []step{{Text: clean, Calls: []call{{Output: clean, Raw: []byte(text)}}, Next: &step{Text: clean}}},
		Last:  &step{Text: clean, Next: &step{Calls: []call{{Output: clean}}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// Goroutines may share values without secrets. The race detector checks this.
	done := make(chan struct{})
	go func() { defer close(done); Fields(&event{List: shared}) }()
	Fields(&event{List: shared})
	<-done
}
