package runs_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"debrief/cmd/internal/runs"
	"debrief/events"
)

// sums holds the numbers of a recording that an independent count must find too.
type sums struct{ runs, succeeded, calls, failed, in, out int }

// counted returns the sums of the runs that the package reads, and the runs.
func counted(t *testing.T, name string) (got sums, all []*events.Execution, report runs.Report) {
	t.Helper()
	report, err := runs.Read(t.Context(), "book", filepath.Base(name), bytes.NewReader(dataFile(t, name)), func(e *events.Execution) error {
		all = append(all, e)
		got.runs++
		if e.Outcome.Label == events.Success {
			got.succeeded++
		}
		got.in += e.Usage.InputTokens
		got.out += e.Usage.OutputTokens
		for _, c := range calls(e) {
			got.calls++
			if c.Outcome.Failed() {
				got.failed++
			}
		}
		return e.Validate()
	})
	if err != nil || report.Skipped != 0 || report.Runs != got.runs {
		t.Fatalf("%s: got report %+v, error %v", name, report, err)
	}
	return got, all, report
}

// parse decodes a file of recorded data without the package.
func parse(t *testing.T, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

func number(v any) int {
	n, _ := v.(float64)
	return int(n)
}

func items(v any) []any {
	list, _ := v.([]any)
	return list
}

func TestTau2DataIsComplete(t *testing.T) {
	t.Parallel()
	var file object
	parse(t, dataFile(t, "tau2/airline-gpt-5.json"), &file)
	var want sums
	var questions []string
	for _, s := range items(file["simulations"]) {
		s := s.(object)
		want.runs++
		if s["reward_info"].(object)["reward"] == 1.0 {
			want.succeeded++
		}
		question := ""
		for _, m := range items(s["messages"]) {
			m := m.(object)
			content, _ := m["content"].(string)
			switch m["role"] {
			case "assistant":
				want.calls += len(items(m["tool_calls"]))
			case "user":
				if question == "" {
					question = content
				}
			case "tool":
				if strings.HasPrefix(content, "Error") || m["error"] == true {
					want.failed++
				}
			}
		}
		questions = append(questions, question)
	}
	got, all, report := counted(t, "tau2/airline-gpt-5.json")
	if got != want || want.runs != 15 || want.succeeded != 9 || want.calls != 180 || report.Source != "tau2" {
		t.Errorf("got %+v, counted %+v, source %s", got, want, report.Source)
	}
	for i, e := range all {
		if e.Question != questions[i] || e.Model != "gpt-4.1-mini-2025-04-14" {
			t.Errorf("run %d: got question %.50q of model %q, want %.50q", i, e.Question, e.Model, questions[i])
		}
		for _, c := range calls(e) {
			if c.Output == "" || c.Outcome == events.Unknown {
				t.Errorf("run %d: call %+v has no result", i, c)
			}
		}
	}
}

func TestCodexDataIsComplete(t *testing.T) {
	t.Parallel()
	const name = "codex/rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"
	want := sums{runs: 1}
	outputs := map[string]string{}
	for line := range bytes.Lines(dataFile(t, name)) {
		var o object
		parse(t, line, &o)
		p := o["payload"].(object)
		switch p["type"] {
		case "function_call":
			want.calls++
		case "function_call_output":
			var result object
			parse(t, []byte(p["output"].(string)), &result)
			outputs[p["call_id"].(string)] = result["output"].(string)
			if result["metadata"].(object)["exit_code"] != 0.0 {
				want.failed++
			}
		case "token_count":
			total := p["info"].(object)["total_token_usage"].(object)
			want.in, want.out = number(total["input_tokens"]), number(total["output_tokens"])
		}
	}
	got, all, report := counted(t, name)
	if got != want || want.calls != 34 || want.in != 536834 || report.Source != "codex" {
		t.Errorf("got %+v, counted %+v, source %s", got, want, report.Source)
	}
	e := all[0]
	if !strings.HasPrefix(e.Question, "Evaluate @packages/services") || !strings.HasPrefix(e.Answer, "**Findings**") || e.Model != "gpt-5-codex" || e.Usage.Calls != 35 {
		t.Errorf("got question %.60q, answer %.60q, model %q, usage %+v", e.Question, e.Answer, e.Model, e.Usage)
	}
	long := 0
	for _, c := range calls(e) {
		if strings.Contains(c.Output, "[cut ") {
			long++
			continue
		}
		found := false
		for _, output := range outputs {
			found = found || output == c.Output
		}
		if !found || c.Tool != "shell" {
			t.Errorf("got tool %q with an output of %d bytes that is not in the file", c.Tool, len(c.Output))
		}
	}
	t.Logf("%d outputs were shortened", long)
}

func TestGeminiDataIsComplete(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gemini/session-2025-10-29T10-36-453aa339.json", "gemini/session-2025-10-29T10-40-359abdd0.json"} {
		var file object
		parse(t, dataFile(t, name), &file)
		want := sums{runs: 1}
		total := 0
		for _, m := range items(file["messages"]) {
			m := m.(object)
			for _, c := range items(m["toolCalls"]) {
				want.calls++
				if c.(object)["status"] != "success" {
					want.failed++
				}
			}
			if tokens, ok := m["tokens"].(object); ok {
				want.in += number(tokens["input"])
				want.out += number(tokens["output"]) + number(tokens["thoughts"])
				total += number(tokens["total"])
			}
		}
		got, all, report := counted(t, name)
		if got != want || want.calls == 0 || total != want.in+want.out || report.Source != "gemini-cli" {
			t.Errorf("%s: got %+v, counted %+v, total %d, source %s", name, got, want, total, report.Source)
		}
		if first := strings.TrimSpace(items(file["messages"])[0].(object)["content"].(string)); all[0].Question != first || all[0].Session != file["sessionId"] {
			t.Errorf("%s: got question %q, session %q", name, all[0].Question, all[0].Session)
		}
	}
}

func TestOpenHandsDataIsComplete(t *testing.T) {
	t.Parallel()
	var list []object
	parse(t, dataFile(t, "openhands/runtime-trajectory-basic.json"), &list)
	want := sums{runs: 1}
	seen := map[any]bool{}
	for _, e := range list {
		if e["action"] == "edit" || e["action"] == "run" {
			want.calls++
		}
		if call, ok := e["tool_call_metadata"].(object); ok {
			response := call["model_response"].(object)
			if !seen[response["id"]] {
				seen[response["id"]] = true
				want.in += number(response["usage"].(object)["prompt_tokens"])
				want.out += number(response["usage"].(object)["completion_tokens"])
			}
		}
	}
	got, all, report := counted(t, "openhands/runtime-trajectory-basic.json")
	if got != want || want.calls != 1 || want.in != 8132 || report.Source != "openhands" {
		t.Errorf("got %+v, counted %+v, source %s", got, want, report.Source)
	}
	if c := calls(all[0])[0]; c.Tool != "str_replace_editor" || !strings.HasPrefix(c.Arguments, `{"command": "create"`) || !strings.HasPrefix(c.Output, "--- /workspace/game_2048.py") {
		t.Errorf("got %.200q", c)
	}
	if !strings.HasPrefix(all[0].Question, "Please create a simple 2048") || !strings.HasPrefix(all[0].Answer, "I've created a simple implementation") {
		t.Errorf("got question %.60q, answer %.60q", all[0].Question, all[0].Answer)
	}

	var output object
	parse(t, dataFile(t, "openhands/evaluation-output-first.jsonl"), &output)
	want = sums{runs: 1}
	for _, e := range items(output["history"]) {
		e := e.(object)
		if e["action"] == "run" || e["action"] == "run_ipython" {
			want.calls++
		}
		if code, ok := e["exit_code"].(float64); ok && code != 0 {
			want.failed++
		}
	}
	if output["success"] == true {
		want.succeeded++
	}
	got, all, _ = counted(t, "openhands/evaluation-output-first.jsonl")
	if got != want || want.calls != 3 || want.succeeded != 1 {
		t.Errorf("got %+v, counted %+v", got, want)
	}
	e := all[0]
	if e.Question != output["instruction"] || e.Usage.Cost != output["metrics"].(object)["accumulated_cost"] || e.Usage.Calls != 4 {
		t.Errorf("got question %.60q, usage %+v", e.Question, e.Usage)
	}
	if c := calls(e); c[0].Tool != "execute_bash" || c[0].Arguments != `{"command":"touch LICENSE"}` || !strings.HasPrefix(c[1].Output, "MIT License has been added") {
		t.Errorf("got %+v", c)
	}
}

func TestMiniSWEAgentDataIsComplete(t *testing.T) {
	t.Parallel()
	const name = "mini-swe-agent/local.traj.json"
	var list []object
	parse(t, dataFile(t, name), &list)
	want := sums{runs: 1}
	for _, m := range list {
		content := m["content"].(string)
		if m["role"] == "assistant" {
			want.calls += strings.Count(content, "```mswea_bash_command")
		}
		if strings.Contains(content, "<returncode>") && !strings.Contains(content, "<returncode>0<") {
			want.failed++
		}
	}
	got, all, _ := counted(t, name)
	if got != want || want.calls != 2 {
		t.Errorf("got %+v, counted %+v", got, want)
	}
	c := calls(all[0])
	if all[0].Question != "Blah blah blah" || c[0].Arguments != `{"command":"echo 'hello world'"}` || c[0].Output != "hello world" || c[0].Outcome != events.Success || c[1].Outcome != events.Unknown {
		t.Errorf("got question %q, calls %+v", all[0].Question, c)
	}
}

func TestOTelDataIsComplete(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]sums{
		"otel/openinference_client_span_tool_calls.json": {runs: 1, calls: 1, in: 97, out: 52},
		"otel/otel_genai_client_span_tool_calls.json":    {runs: 1, calls: 1, in: 97, out: 52},
	} {
		got, all, report := counted(t, name)
		if got != want || report.Source != "otel" {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		e := all[0]
		c := calls(e)[0]
		if e.Question != "Weather in Paris?" || e.Answer != "The weather in Paris is currently rainy with a temperature of 57°F." || e.Model != "gpt-4-0613" ||
			c.Tool != "get_weather" || c.Output != "rainy, 57°F" || strings.ReplaceAll(c.Arguments, " ", "") != `{"location":"Paris"}` {
			t.Errorf("%s: got question %q, answer %q, call %+v", name, e.Question, e.Answer, c)
		}
	}

	const name = "otel/vercel-ai-sdk-spans.json"
	var spans []object
	parse(t, dataFile(t, name), &spans)
	var want sums
	for _, s := range spans {
		a := s["attributes"].(object)
		if _, ok := a["ai.response.finishReason"]; !ok {
			continue
		}
		want.runs++
		want.in += number(a["ai.usage.promptTokens"]) + number(a["ai.usage.inputTokens"])
		want.out += number(a["ai.usage.completionTokens"]) + number(a["ai.usage.outputTokens"])
	}
	got, all, _ := counted(t, name)
	if got != want || want.runs != 8 {
		t.Errorf("got %+v, counted %+v", got, want)
	}
	for _, e := range all {
		if e.Question == "" || e.Answer == "" {
			t.Errorf("%s: got question %q, answer %q", e.RunID, e.Question, e.Answer)
		}
	}
}

func TestClaudeCodeDataIsComplete(t *testing.T) {
	t.Parallel()
	const name = "claude-code/full-session-two.jsonl"
	want := sums{runs: 1}
	usage := map[any]object{}
	for line := range bytes.Lines(dataFile(t, name)) {
		var o object
		parse(t, line, &o)
		m, ok := o["message"].(object)
		if !ok || o["isMeta"] == true {
			continue
		}
		if u, ok := m["usage"].(object); ok {
			usage[m["id"]] = u
		}
		for _, part := range items(m["content"]) {
			switch p := part.(object); {
			case p["type"] == "tool_use":
				want.calls++
			case p["type"] == "tool_result" && p["is_error"] == true && !strings.HasPrefix(p["content"].(string), "The user doesn't want to "):
				want.failed++
			}
		}
	}
	for _, u := range usage {
		want.in += number(u["input_tokens"]) + number(u["cache_read_input_tokens"]) + number(u["cache_creation_input_tokens"])
		want.out += number(u["output_tokens"])
	}
	got, _, report := counted(t, name)
	if got != want || want.calls == 0 || want.out == 0 || report.Source != "claude-code" {
		t.Errorf("got %+v, counted %+v, source %s", got, want, report.Source)
	}
}
