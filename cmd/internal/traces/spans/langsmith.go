package spans

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
)

// LangSmithTrace builds a trace from the runs of LangSmith, which are its spans.
type LangSmithTrace struct{ trace recordedTrace }

// langSmithUsage has the tokens of a model call.
type langSmithUsage struct {
	Prompt     float64         `json:"prompt_tokens"`
	Completion float64         `json:"completion_tokens"`
	Cost       json.RawMessage `json:"total_cost"` // a number or a text
}

// Add adds a span. An error skips only this span.
func (t *LangSmithTrace) Add(o *source.Object) error {
	t.addRun(o, 0)
	return nil
}

func (t *LangSmithTrace) addRun(o *source.Object, depth int) {
	const maxDepth = 50
	if depth > maxDepth {
		t.trace.all = append(t.trace.all, observation{id: o.Text("id"), omitted: source.Omissions{}})
		return
	}
	t.trace.all = append(t.trace.all, langSmithRun(o))
	if o.Text("parent_run_id") == "" && depth == 0 {
		t.addRoot(o)
	}
	t.trace.name = cmp.Or(o.Text("trace_id"), t.trace.name, o.Text("id"))
	for _, raw := range source.AsList(o.Get("child_runs")) {
		if child := source.AsObject(raw); child != nil {
			t.addRun(child, depth+1)
		}
	}
}

// addRoot adds question, answer and outcome of the root.
func (t *LangSmithTrace) addRoot(o *source.Object) {
	t.trace.question = langSmithText(o.Get("inputs"), "user")
	t.trace.answer = langSmithText(o.Get("outputs"), "assistant")
	t.trace.omitted = source.Omissions{}
	if extra := o.Child("extra"); extra != nil {
		if metadata := extra.Child("metadata"); metadata != nil {
			t.trace.session = cmp.Or(metadata.Text("session_id"), metadata.Text("thread_id"), metadata.Text("conversation_id"))
		}
	}
	if stats := o.Child("feedback_stats"); stats != nil {
		for _, f := range stats.Fields {
			value := f.Value
			if s := source.AsObject(f.Value); s != nil {
				value = s.Get("avg")
			}
			t.addScore(f.Name, value, "")
		}
	}
	for _, raw := range source.AsList(o.Get("feedback")) {
		if f := source.AsObject(raw); f != nil {
			t.addScore(f.Text("key"), f.First("score", "value"), f.Text("comment"))
		}
	}
}

func (t *LangSmithTrace) addScore(name string, value json.RawMessage, comment string) {
	outcome, ok := scoreOutcome(name, value, comment, SourceLangSmith)
	if ok && t.trace.outcome == (events.Outcome{}) {
		t.trace.outcome = outcome
		return
	}
	t.trace.omitted.Add(source.OtherScores, 1)
}

// langSmithText returns the text in inputs or outputs: the last message, or a field with a text.
func langSmithText(raw json.RawMessage, role modelapi.Role) string {
	if text := lastText(modelapi.Find(raw, role), role); text != "" {
		return text
	}
	o := source.AsObject(raw)
	if o == nil {
		return ""
	}
	names := steps.QuestionNames
	if role == "assistant" {
		names = append([]string{"result"}, steps.AnswerNames...)
	}
	return source.TextField(o, names)
}

func langSmithRun(o *source.Object) observation {
	out := observation{
		id: o.Text("id"), parent: o.Text("parent_run_id"), name: o.Text("name"), failed: o.Text("error") != "" || strings.EqualFold(o.Text("status"), "error"),
		start: langSmithTime(o.Get("start_time")), end: langSmithTime(o.Get("end_time")), omitted: source.Omissions{},
	}
	switch strings.ToLower(o.Text("run_type")) { // upper case in version 2 of the API
	case "llm":
		out.kind = modelCall
		out.input, out.output = modelapi.Find(o.Get("inputs"), "user"), modelapi.Find(o.Get("outputs"), "assistant")
		out.usage, out.model = langSmithTokens(o), langSmithModel(o)
	case "tool":
		out.kind = toolSpan
		out.tool = modelapi.ToolCall{Name: cmp.Or(o.Text("name"), "unknown"), Arguments: langSmithArguments(o.Child("inputs"))}
		if outputs := o.Child("outputs"); outputs != nil {
			if out.tool.ID, out.result = toolResult(outputs.Get("output")); out.result == "" {
				out.tool.ID, out.result = toolResult(outputs.Raw)
			}
		}
		out.result = cmp.Or(out.result, o.Text("error"))
	}
	return out
}

// langSmithArguments returns the arguments of a tool, which may be JSON in the field input.
func langSmithArguments(inputs *source.Object) string {
	if inputs == nil {
		return ""
	}
	if v := inputs.Get("input"); v != nil && len(inputs.Fields) == 1 {
		return modelapi.ArgumentText(v)
	}
	return string(inputs.Raw)
}

// langSmithTokens returns the tokens of a model call: of the run, else of its output.
func langSmithTokens(o *source.Object) chat.Usage {
	var u langSmithUsage
	_ = json.Unmarshal(o.Raw, &u)
	if outputs := o.Child("outputs"); outputs != nil && u.Prompt+u.Completion == 0 {
		if reported := outputs.Child("llm_output"); reported != nil {
			_ = json.Unmarshal(reported.Get("token_usage"), &u)
		}
		var metadata struct {
			Input  float64 `json:"input_tokens"`
			Output float64 `json:"output_tokens"`
		}
		if json.Unmarshal(outputs.Get("usage_metadata"), &metadata) == nil && u.Prompt+u.Completion == 0 {
			u.Prompt, u.Completion = metadata.Input, metadata.Output
		}
	}
	cost, _ := strconv.ParseFloat(modelapi.ArgumentText(u.Cost), 64)
	return chat.Usage{Calls: 1, InputTokens: steps.ValidCount(u.Prompt), OutputTokens: steps.ValidCount(u.Completion), Cost: steps.ValidCost(cost)}
}

func langSmithModel(o *source.Object) string {
	extra := o.Child("extra")
	if extra == nil {
		return ""
	}
	for _, name := range []string{"metadata", "invocation_params"} {
		if m := extra.Child(name); m != nil {
			if model := cmp.Or(m.Text("ls_model_name"), m.Text("model"), m.Text("model_name")); model != "" {
				return model
			}
		}
	}
	return ""
}

// langSmithTime parses milliseconds since 1970, or a time with or without a zone; without one it is UTC.
func langSmithTime(raw json.RawMessage) time.Time {
	text := modelapi.ArgumentText(raw)
	if t, err := time.Parse("2006-01-02T15:04:05.999999999", text); err == nil {
		return t
	}
	if ms, err := strconv.ParseFloat(text, 64); err == nil && ms > 0 && ms < 1e15 {
		return time.UnixMilli(int64(ms)).UTC()
	}
	return steps.ParseTime(raw)
}

// End returns the runs of the trace.
func (t *LangSmithTrace) End() ([]*steps.Run, error) { return t.trace.runs() }
