package console

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/playbook"
)

// TestLinesOfAContext checks that each bullet is a part of its message, and the lines between bullets are one.
func TestLinesOfAContext(t *testing.T) {
	t.Parallel()
	p := &executionPage{
		Execution: explain.Execution{Execution: &events.Execution{Question: "region: West\n\nWhat is due?", Shown: []events.ShownBullet{{ID: "b-1"}}, Cited: []playbook.BulletID{"b-1"}}},
		Context: &generator.RebuiltContext{Messages: []chat.Message{
			{Speaker: chat.System, Text: "Advice:\n- [b-1] Ask.\n\nEnd"},
			{Speaker: chat.User, Text: "region: West\n\nWhat is due?"},
			{Speaker: chat.Assistant, Text: "7"},
		}},
	}
	for i, want := range [][]line{
		{{Text: "Advice:"}, {Text: "- [b-1] Ask.", Bullet: "b-1", Cited: true}, {Text: "\nEnd"}},
		{{Text: "region: West\n\nWhat is due?"}},
		{{Text: "7"}},
	} {
		if got := p.Lines(i); !reflect.DeepEqual(got, want) {
			t.Errorf("message %d: got %+v, want %+v", i, got, want)
		}
	}
}

// TestTextOfOnlySpaces submits an edit whose text has only spaces.
func TestTextOfOnlySpaces(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	for _, path := range []string{"/books/default/bullets/inv-00001/edit", "/books/default/review/inv-00005/edit"} {
		got := post(t, in.guarded, path, url.Values{"content": {" \n"}}, in.as("admin"))
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, "text of the bullet is required") {
			t.Errorf("%s: got status %d: %s", path, got.status, got.body)
		}
	}
}

// TestDoubtedOutcomes shows the doubted execution of the seed with the reason, and no other.
func TestDoubtedOutcomes(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	var page string
	for deadline := time.Now().Add(time.Minute); !strings.Contains(page, "the list is older than the question") && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		page = get(t, in.open, "/books/default/executions?doubted=true").body
	}
	if n := strings.Count(page, "doubted: "); n != 1 || strings.Count(page, `class="lead excerpt text"`) != 1 {
		t.Errorf("got %d doubted executions: %s", n, page)
	}
}
