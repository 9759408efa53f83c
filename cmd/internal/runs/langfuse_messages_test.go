package runs

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"debrief/cmd/internal/runs/modelapi"
)

// expectedSide is what Langfuse's own tests expect of the input or the output of an observation.
type expectedSide struct {
	Success bool
	Data    []map[string]any
}

// sameJSON returns the JSON of a value in one spelling. A text that is JSON is compared as JSON.
func sameJSON(v any) string {
	if s, ok := v.(string); ok {
		var inner any
		if json.Unmarshal([]byte(s), &inner) != nil {
			return s
		}
		v = inner
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// expectedItems returns the texts and calls of expected messages, in order.
func expectedItems(list []map[string]any) (items []string) {
	for _, m := range list {
		if inner, ok := m["json"].(map[string]any); ok && m["role"] == nil {
			if m, ok = inner["message"].(map[string]any); !ok {
				continue
			}
		}
		switch content := m["content"].(type) {
		case string:
			if strings.TrimSpace(content) != "" {
				items = append(items, "text "+sameJSON(content))
			}
		case []any:
			if m["role"] == "tool" {
				items = append(items, "text "+sameJSON(content))
				break
			}
			for _, part := range content {
				p := part.(map[string]any)
				switch p["type"] {
				case "text":
					items = append(items, "text "+sameJSON(p["text"]))
				case "tool_use":
					items = append(items, fmt.Sprintf("call %v %s", p["name"], sameJSON(p["input"])))
				default:
					items = append(items, fmt.Sprintf("unknown %v", p))
				}
			}
		}
		calls, _ := m["tool_calls"].([]any)
		for _, c := range calls {
			c := c.(map[string]any)
			items = append(items, fmt.Sprintf("call %v %s", c["name"], sameJSON(c["arguments"])))
		}
	}
	return items
}

func itemsOf(turns []modelapi.Item) (items []string) {
	for _, t := range turns {
		for _, r := range t.Results {
			items = append(items, "text "+sameJSON(r.Output))
		}
		if t.Text != "" {
			items = append(items, "text "+sameJSON(t.Text))
		}
		for _, c := range t.Calls {
			items = append(items, fmt.Sprintf("call %s %s", c.Name, sameJSON(c.Arguments)))
		}
	}
	return items
}

func textOf(raw json.RawMessage) string {
	_, text := toolResult(modelapi.ParseValue(raw))
	return text
}

// TestLangfuseMessages compares the messages of each observation with those that Langfuse's own tests expect.
func TestLangfuseMessages(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, name := range langfuseNames {
		var file struct {
			Observations []struct {
				ID, Type      string
				Input, Output json.RawMessage
			}
		}
		var want map[string]map[string]expectedSide
		if err := json.Unmarshal(recordedFile(t, "langfuse/"+name+".trace.json"), &file); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(recordedFile(t, "langfuse/"+name+".chatml.json"), &want); err != nil {
			t.Fatal(err)
		}
		for _, o := range file.Observations {
			for side, raw := range map[string]json.RawMessage{"input": o.Input, "output": o.Output} {
				expected := expectedItems(want[o.ID][side].Data)
				if !want[o.ID][side].Success || o.Type == "TOOL" && len(expected) == 0 {
					continue
				}
				if got := itemsOf(modelapi.Find(raw, "")); !reflect.DeepEqual(got, expected) && o.Type != "TOOL" {
					t.Errorf("%s, %s of %s:\ngot  %q\nwant %q", name, side, o.ID, got, expected)
				} else if text := "text " + sameJSON(textOf(raw)); o.Type == "TOOL" && !reflect.DeepEqual(expected, []string{text}) {
					t.Errorf("%s, %s of the tool %s: got %q, want %q", name, side, o.ID, text, expected)
				}
				compared++
			}
		}
	}
	if compared < 30 {
		t.Errorf("compared %d sides, want at least 30", compared)
	}
	t.Logf("%d sides are as expected", compared)
}
