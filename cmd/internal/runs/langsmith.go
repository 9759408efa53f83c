package runs

import (
	"cmp"
	"slices"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events/chat"
)

// langSmithTrace builds a trace from the runs of LangSmith, which are its spans.
type langSmithTrace struct{ recordedTrace }

// Add adds a span.
func (t *langSmithTrace) Add(v modelapi.Value, leadingScore string) {
	t.addRun(v, leadingScore, 0)
}

// addRun adds a run and the runs inside it. A run below maxDepth is added without content, as a span that is no call.
func (t *langSmithTrace) addRun(v modelapi.Value, leadingScore string, depth int) {
	const maxDepth = 50
	if depth > maxDepth {
		t.all = append(t.all, observation{id: v.Text("id")})
		return
	}
	t.all = append(t.all, langSmithRun(v))
	if v.Text("parent_run_id") == "" && depth == 0 {
		t.addRoot(v, leadingScore)
	}
	t.name = cmp.Or(v.Text("trace_id"), t.name, v.Text("id"))
	for child := range v.Get("child_runs").Elements() {
		t.addRun(child, leadingScore, depth+1)
	}
}

// addRoot adds question, answer and outcome of the root.
func (t *langSmithTrace) addRoot(v modelapi.Value, leadingScore string) {
	t.question = langSmithText(v.Get("inputs"), "user", steps.QuestionNames)
	t.answer = langSmithText(v.Get("outputs"), "assistant", append([]string{"result"}, steps.AnswerNames...))
	metadata := v.Get("extra", "metadata")
	t.session = cmp.Or(metadata.Text("session_id"), metadata.Text("thread_id"), metadata.Text("conversation_id"))
	t.user = metadata.Text("user_id")
	for name, stats := range v.Get("feedback_stats").Members() {
		if stats.Kind() == '{' {
			stats = stats.Get("avg")
		}
		t.addScore(&score{name: name.Text(), value: stats, source: sourceLangSmith, leadingScore: leadingScore})
	}
	for f := range v.Get("feedback").Elements() {
		t.addScore(&score{name: f.Text("key"), value: f.First("score", "value"), comment: f.Text("comment"), source: sourceLangSmith, leadingScore: leadingScore})
	}
}

// langSmithText returns the text of inputs or outputs: that of the last message with the role, or else of the first of the fields.
func langSmithText(v modelapi.Value, role modelapi.Role, names []string) string {
	return cmp.Or(lastText(v.Messages(role), role), v.TextOrNumber(names...))
}

// langSmithRun returns a run as an observation.
func langSmithRun(v modelapi.Value) observation {
	out := observation{
		id: v.Text("id"), parent: v.Text("parent_run_id"), failed: v.Text("error") != "" || strings.EqualFold(v.Text("status"), "error"),
		start: v.Time("start_time"), end: v.Time("end_time"),
	}
	inputs, outputs := v.Get("inputs"), v.Get("outputs")
	out.kind = kinds[strings.ToLower(v.Text("run_type"))] // upper case in version 2 of the API
	switch out.kind {
	case modelCall:
		out.input, out.output = inputs.Messages("user"), outputs.Messages("assistant")
		out.usage, out.model = langSmithTokens(v), langSmithModel(v.Get("extra"))
	case toolSpan:
		out.tool = modelapi.ToolCall{Name: cmp.Or(v.Text("name"), "unknown"), Arguments: string(inputs.Raw())}
		if isOnlyMember(inputs, "input") { // may be JSON in a text
			out.tool.Arguments = inputs.Get("input").TextOrJSON()
		}
		out.tool.ID, out.result = toolResult(outputs.Get("output"))
		if out.result == "" && outputs.Kind() == '{' {
			out.tool.ID, out.result = toolResult(outputs)
		}
		out.result = cmp.Or(out.result, v.Text("error"))
	}
	return out
}

// langSmithTokens returns the tokens of a model call. They are in the run, or in its output.
func langSmithTokens(v modelapi.Value) chat.Usage {
	places := []modelapi.Value{v, v.Get("outputs", "llm_output", "token_usage"), v.Get("outputs", "usage_metadata")}
	i := slices.IndexFunc(places, func(place modelapi.Value) bool { return place.Usage() != modelapi.Usage{} })
	return steps.Usage(1, places[max(i, 0)], v.Number("total_cost"))
}

// langSmithModel returns the model of a model call.
func langSmithModel(extra modelapi.Value) (model string) {
	for _, place := range []string{"metadata", "invocation_params"} {
		m := extra.Get(place)
		model = cmp.Or(model, m.Text("ls_model_name"), m.Text("model"), m.Text("model_name"))
	}
	return model
}
