package steps

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/runs/modelapi"
)

// TestRepeatedCalls checks that a call that is recorded again counts once, and that a client that repeats an id has several calls.
// A message is its text and its calls as id:name:arguments, and :result of a call that the provider ran; a message that begins with = is the
// result of a call.
func TestRepeatedCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		messages []string
		want     []string // tool:arguments=output, with the text of its step before
	}{
		{"with all blocks so far", []string{"1:a:x", "1:a:x 2:b:y", "=1", "=2"}, []string{" a:x=r1 b:y=r2"}},
		{"again and again", []string{"1:a:x", "1:a:x 2:b:y", "1:a:x 2:b:y 3:c:z", "=1", "=2", "=3"}, []string{" a:x=r1 b:y=r2 c:z=r3"}},
		{"with the text", []string{"Look. 1:a:x", "Look. 1:a:x 2:b:y", "=1", "=2"}, []string{"Look. a:x=r1 b:y=r2"}},
		{"after the result", []string{"Look. 1:a:x", "=1", "Look. 1:a:x 2:b:y", "=2"}, []string{"Look. a:x=r1", " b:y=r2"}},
		{"nothing new", []string{"1:a:x", "1:a:x", "=1", "Done."}, []string{" a:x=r1", "Done."}},
		{"nothing new after the result of another call", []string{"1:a:x 2:b:y", "=1", "2:b:y", "=2"}, []string{" a:x=r1 b:y=r2"}},
		{"without a name", []string{"Look. 1::x", "Look. 1::x 2:b:y", "=1", "=2"}, []string{"Look. unknown:x=r1 b:y=r2"}},
		{"without results", []string{"1:a:x", "1:a:x"}, []string{" a:x="}},
		{"a repeated id, other arguments", []string{"1:a:x", "1:a:y", "=1"}, []string{" a:x=", " a:y=r1"}},
		{"a repeated id, each with a result", []string{"1:a:x", "=1", "1:a:x", "=1"}, []string{" a:x=r1", " a:x=r1"}},
		{"run by the provider", []string{"Look. 1:a:x:r1", "Look. 1:a:x:r1 2:b:y", "=2"}, []string{"Look. a:x=r1", " b:y=r2"}},
		{"run by the provider, nothing new", []string{"1:a:x:r1", "1:a:x:r1", "Done."}, []string{" a:x=r1", "Done."}},
		{"run by the provider, first without the result", []string{"1:a:x", "1:a:x:r1 2:b:y", "=2"}, []string{" a:x=r1 b:y=r2"}},
		{"no ids", []string{":a:x", ":a:x"}, []string{" a:x=", " a:x="}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c Conversation
			for _, m := range tt.messages {
				if id, ok := strings.CutPrefix(m, "="); ok {
					c.AddResult(&modelapi.ToolResult{CallID: id, Output: "r" + id})
					continue
				}
				item := modelapi.Item{Role: modelapi.RoleAssistant}
				for _, word := range strings.Fields(m) {
					p := strings.Split(word, ":")
					if len(p) < 3 {
						item.Text = word
						continue
					}
					call := modelapi.ToolCall{ID: p[0], Name: p[1], Arguments: p[2]}
					if len(p) == 4 {
						call.Result = &modelapi.ToolResult{CallID: p[0], Output: p[3]}
					}
					item.Calls = append(item.Calls, call)
				}
				c.AddItem(&item, time.Time{})
			}
			_, err := c.End()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range c.Steps {
				line := s.Text
				for _, call := range s.Calls {
					line += " " + call.Tool + ":" + call.Arguments + "=" + call.Output
				}
				got = append(got, line)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
