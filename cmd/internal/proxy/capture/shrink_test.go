package capture

import (
	"fmt"
	"strings"
	"testing"

	"debrief/cmd/internal/runs/modelapi"
)

// TestCutSecretsAreNotStored moves a secret over both places at which texts are cut.
func TestCutSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	for shift := 0; shift < len(secret); shift += 2 {
		head := strings.Repeat("a ", (maxText-maxText/4)/2)
		begin := head[:len(head)-shift] + secret + strings.Repeat(" b", maxText)
		end := strings.Repeat("a ", maxText) + secret + strings.Repeat(" b", maxText/8)[:maxText/4-shift]
		for _, text := range []string{begin, end} {
			p := new(part)
			p.setReply(&modelapi.Reply{Text: text, Finish: modelapi.FinishStop}, 200)
			for from := 0; from+8 <= len(secret); from++ {
				if strings.Contains(p.Reply.Text, secret[from:from+8]) {
					t.Errorf("shift %d: %q is stored", shift, secret[from:from+8])
					break
				}
			}
		}
	}
}

// TestShortenedJSONKeepsItsError stores outputs that are cut only because the call has many of them.
func TestShortenedJSONKeepsItsError(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("x", 6<<10)
	failed := fmt.Sprintf(`{"log":%q,"error":"no berth","rest":%q}`, filler, filler)
	item := modelapi.Item{Role: modelapi.RoleTool}
	for i := range 100 {
		item.Results = append(item.Results, modelapi.ToolResult{CallID: fmt.Sprint(i), Output: failed})
	}
	p := &part{Items: []modelapi.Item{newItem(item)}}
	p.shrink()
	for _, r := range p.Items[0].Results {
		if len(r.Output) == len(failed) || r.Signs.Error == nil || !*r.Signs.Error {
			t.Fatalf("got %d bytes with the signs %+v, want a cut output with an error", len(r.Output), r.Signs)
		}
		missing := 0
		if _, note, _ := strings.Cut(r.Output, "[cut "); note != "" {
			_, _ = fmt.Sscan(note, &missing)
		}
		if mark := len(fmt.Sprintf("… [cut %d bytes] …", missing)); len(r.Output)-mark+missing != len(failed) {
			t.Fatalf("got %d bytes, of which %d are said to be missing, want %d in total", len(r.Output), missing, len(failed))
		}
	}
}

// TestManyCallsFitIntoAMessage stores a call whose ids alone are too long for a message.
func TestManyCallsFitIntoAMessage(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("i", 2*maxID)
	reply := modelapi.Item{Role: modelapi.RoleAssistant}
	results := modelapi.Item{Role: modelapi.RoleTool}
	for range 2 * maxParts {
		result := modelapi.ToolResult{CallID: id, Output: id}
		reply.Calls = append(reply.Calls, modelapi.ToolCall{ID: id, Name: id, Arguments: id, Result: &result})
		results.Results = append(results.Results, result)
	}
	p := &part{Question: strings.Repeat("q", maxQuestion), Items: []modelapi.Item{newItem(results)}, Reply: newItem(reply)}
	p.shrink()
	if p.size() > maxCall || len(p.Reply.Calls) != minParts || !strings.Contains(p.Reply.Text, "[left out 4096 calls or results] [left out 3968 calls or results]") {
		t.Errorf("got %d bytes, %d calls, text %q", p.size(), len(p.Reply.Calls), p.Reply.Text)
	}
}
