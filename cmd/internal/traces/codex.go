package traces

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
)

// codexSession builds a run from a rollout file of Codex CLI. Its response items are those of OpenAI's Responses API. A
// rollout does not contain an outcome.
type codexSession struct {
	steps.Conversation
	run      events.Execution // the fields that are not part of the conversation
	speaking bool             // the last item was of the assistant: the next one belongs to the same step
	requests int              // model calls
}

// codexUsage is the sum of the tokens so far.
type codexUsage struct {
	Info struct {
		Total struct {
			Input  float64 `json:"input_tokens"`
			Output float64 `json:"output_tokens"`
		} `json:"total_token_usage"`
	} `json:"info"`
}

func (c *codexSession) Add(o *source.Object) error {
	p := o.Child("payload")
	switch kind := o.Text("type"); {
	case p == nil:
		c.Omit(source.LogEvents, 1)
	case kind == "session_meta" && c.run.Session != "": // a fork begins with the lines of the session it was forked from
		c.Omit(source.LogEvents, 1)
	case kind == "session_meta":
		c.run.Session, c.run.Started = p.Text("id"), steps.ParseTime(p.Get("timestamp"))
	case kind == "turn_context":
		c.run.Model = cmp.Or(p.Text("model"), c.run.Model)
	case kind == "event_msg" && p.Text("type") == "token_count":
		var u codexUsage
		if json.Unmarshal(p.Raw, &u) == nil && p.Has("info") {
			c.requests++
			c.run.Usage = chat.Usage{Calls: c.requests, InputTokens: steps.ValidCount(u.Info.Total.Input), OutputTokens: steps.ValidCount(u.Info.Total.Output)}
		}
	case kind == "response_item":
		c.addItem(p, steps.ParseTime(o.Get("timestamp")))
	default: // the other events repeat response items for the screen
		c.Omit(source.LogEvents, 1)
	}
	return nil
}

// addItem adds a response item.
func (c *codexSession) addItem(p *source.Object, at time.Time) {
	for _, t := range modelapi.Find(p.Raw, "") {
		switch {
		case t.Role == "user" && isHarnessText(t.Text):
			c.Omit(source.HarnessMessages, 1)
			continue
		case t.Role == "user":
			t.Text = codexRequest(t.Text)
		case t.Role == "assistant" && (t.Text != "" || len(t.Calls) > 0) && c.speaking:
			c.continueStep(&t)
			c.identify(p)
			continue
		}
		c.speaking = t.Role == "assistant" && (t.Text != "" || len(t.Calls) > 0)
		durations := codexResults(t.Results)
		for i := range t.Results {
			open := c.AddResult(&t.Results[i])
			c.Steps[open.Step].Calls[open.Call].Duration = durations[i]
		}
		t.Results = nil
		c.AddItem(&t, events.Step{At: at})
		if c.speaking {
			c.identify(p)
		}
	}
}

// identify adds the ids of an item of the assistant. A fork has new times, and the ids of the provider.
func (c *codexSession) identify(item *source.Object) {
	c.Identify(cmp.Or(item.Text("call_id"), item.Text("id")))
}

// continueStep adds the text and the calls of an assistant to the last step.
func (c *codexSession) continueStep(t *modelapi.Item) {
	c.AddTurn(true, events.Step{Text: t.Text}, t.Calls)
}

// isHarnessText reports whether Codex added a message as the user.
func isHarnessText(text string) bool {
	for _, tag := range []string{"<environment_context>", "<user_instructions>", "<permissions", "<turn_aborted>", "# AGENTS.md instructions"} {
		if strings.HasPrefix(strings.TrimSpace(text), tag) {
			return true
		}
	}
	return false
}

// codexRequest returns the user's request without the context that an editor adds before it.
func codexRequest(text string) string {
	if _, request, ok := strings.Cut(text, "\n## My request for Codex:\n"); ok {
		return strings.TrimSpace(request)
	}
	return text
}

// codexHeader matches the lines before the output of a command, in later versions.
var codexHeader = regexp.MustCompile(`(?s)^Exit code: (-?\d+)\nWall time: ([0-9.]+) seconds\n(?:Total output lines: \d+\n)?Output:\n`)

// codexResults replaces the outputs of commands by their text, marks the failures, and returns the durations.
func codexResults(results []modelapi.ToolResult) []time.Duration {
	durations := make([]time.Duration, len(results))
	for i := range results {
		r := &results[i]
		var report struct {
			Output   *string `json:"output"`
			Content  *string `json:"content"`
			Success  *bool   `json:"success"`
			Metadata struct {
				ExitCode float64 `json:"exit_code"`
				Seconds  float64 `json:"duration_seconds"`
			} `json:"metadata"`
		}
		if m := codexHeader.FindStringSubmatch(r.Output); m != nil {
			r.Failed = new(m[1] != "0")
			seconds, _ := strconv.ParseFloat(m[2], 64)
			durations[i] = steps.ValidDuration(seconds)
			r.Output = r.Output[len(m[0]):]
		} else if strings.HasPrefix(r.Output, "{") && json.Unmarshal([]byte(r.Output), &report) == nil && (report.Output != nil || report.Content != nil) {
			r.Output = *cmp.Or(report.Output, report.Content)
			r.Failed = new(report.Metadata.ExitCode != 0 || report.Success != nil && !*report.Success)
			durations[i] = steps.ValidDuration(report.Metadata.Seconds)
		}
	}
	return durations
}

func (c *codexSession) End() ([]*steps.Run, error) {
	r, err := c.Run()
	if err != nil {
		return nil, err
	}
	r.Name = source.Printable(c.run.Session)
	r.Session, r.Started, r.Usage, r.Model = source.Shorten(c.run.Session, 256), c.run.Started, c.run.Usage, c.run.Model
	return []*steps.Run{r}, nil
}
