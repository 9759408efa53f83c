package runs

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// weather is the run that each recording of TestDialects has.
var weather = []events.Step{
	{Speaker: "assistant", Text: "I look.", Calls: []events.ToolCall{
		{Tool: "get_weather", Arguments: `{"city":"Oslo"}`, Output: "cold", Outcome: events.Success},
		{Tool: "get_time", Arguments: `{"zone":"CET"}`, Output: "late", Outcome: events.Failure},
	}},
	{Speaker: "assistant", Text: "Cold."},
}

// TestDialects reads one run in the dialects for which there is no recorded data.
func TestDialects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		source, text string
		usage        chat.Usage
	}{
		"Anthropic request log": {sourceOpenAIChat, `{"request":{"model":"m","system":"S","messages":[{"role":"user","content":"q"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"T"},{"type":"text","text":"I look."},{"type":"tool_use","id":"a","name":"get_weather","input":{"city":"Oslo"}},{"type":"tool_use","id":"b","name":"get_time","input":{"zone":"CET"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"late","is_error":true},{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"cold"}]}]}]},
			"response":{"id":"r","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Cold."}],"usage":{"input_tokens":7,"cache_read_input_tokens":3,"output_tokens":2}},"score":1}`, chat.Usage{InputTokens: 10, OutputTokens: 2, CachedTokens: 3}},
		"OpenAI Responses": {sourceResponses, `{"id":"r","object":"response","model":"m","instructions":"S","input":[{"role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"reasoning","summary":[]},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},{"type":"function_call","call_id":"a","name":"get_weather","arguments":"{\"city\":\"Oslo\"}"},{"type":"function_call","call_id":"b","name":"get_time","arguments":"{\"zone\":\"CET\"}"},
			{"type":"function_call_output","call_id":"a","output":"cold"},{"type":"function_call_output","call_id":"b","output":"{\"error\":\"late\"}"}],
			"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Cold."}]}],"usage":{"input_tokens":10,"output_tokens":2},"score":1}`, chat.Usage{Calls: 1, InputTokens: 10, OutputTokens: 2}},
		"OpenHands SDK": {sourceOpenHands, `{"kind":"SystemPromptEvent","source":"agent","timestamp":"t","system_prompt":{"type":"text","text":"S"}}
{"kind":"MessageEvent","source":"user","timestamp":"t","llm_message":{"role":"user","content":[{"type":"text","text":"q"}]}}
{"kind":"ActionEvent","source":"agent","timestamp":"t","thought":[{"type":"text","text":"I look."}],"action":{"kind":"A","city":"Oslo"},"tool_name":"get_weather","tool_call_id":"a","tool_call":{"id":"a","name":"get_weather","arguments":"{\"city\":\"Oslo\",\"security_risk\":\"LOW\",\"summary\":\"Look at the weather\"}","origin":"completion"},"llm_response_id":"r","security_risk":"LOW","summary":"Look at the weather","thinking_blocks":[]}
{"kind":"ObservationEvent","source":"environment","timestamp":"t","tool_name":"get_weather","tool_call_id":"a","observation":{"kind":"O","content":[{"type":"text","text":"cold"}],"exit_code":0,"is_error":false}}
{"kind":"ActionEvent","source":"agent","timestamp":"t","thought":[],"action":null,"tool_name":"get_time","tool_call_id":"b","tool_call":{"id":"b","name":"get_time","arguments":"{\"zone\":\"CET\"}"}}
{"kind":"AgentErrorEvent","source":"agent","timestamp":"t","tool_name":"get_time","tool_call_id":"b","error":"late"}
{"kind":"ConversationStateUpdateEvent","source":"environment","timestamp":"t","key":"x"}
{"kind":"ActionEvent","source":"agent","timestamp":"t","thought":[],"action":{"kind":"FinishAction","message":"Cold."},"tool_name":"finish","tool_call_id":"c","tool_call":{"id":"c","name":"finish","arguments":"{}"}}
{"kind":"ObservationEvent","source":"environment","timestamp":"t","tool_name":"finish","tool_call_id":"c","observation":{"content":[]}}`, chat.Usage{}},
		"LangSmith": {sourceLangSmith, `{"id":"root","trace_id":"t","run_type":"chain","name":"agent","inputs":{"input":"q"},"outputs":{"output":"Cold."},"start_time":"2031-05-17T10:00:00.000001","feedback_stats":{"correctness":{"n":1,"avg":1.0},"tone":{"n":1,"avg":0}}}
{"id":"l2","trace_id":"t","parent_run_id":"root","run_type":"llm","start_time":"2031-05-17T10:00:09","inputs":{"messages":[[{"lc":1,"type":"constructor","id":["langchain","schema","messages","SystemMessage"],"kwargs":{"content":"S"}},{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"q"}},{"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"],"kwargs":{"content":"I look.","tool_calls":[{"name":"get_weather","args":{"city":"Oslo"},"id":"a"},{"name":"get_time","args":{"zone":"CET"},"id":"b"}]}},{"lc":1,"type":"constructor","id":["langchain","schema","messages","ToolMessage"],"kwargs":{"content":"cold","tool_call_id":"a"}},{"lc":1,"type":"constructor","id":["langchain","schema","messages","ToolMessage"],"kwargs":{"content":"late","tool_call_id":"b","status":"error"}}]]},"outputs":{"generations":[[{"text":"Cold.","message":{"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"],"kwargs":{"content":"Cold."}}}]]},"prompt_tokens":6,"completion_tokens":1,"extra":{"metadata":{"ls_model_name":"m"}}}
{"id":"l1","trace_id":"t","parent_run_id":"root","run_type":"LLM","start_time":"2031-05-17T10:00:01","inputs":{"messages":[[{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"q"}}]]},"outputs":{"generations":[[{"message":{"kwargs":{"content":"I look.","tool_calls":[{"name":"get_weather","args":{"city":"Oslo"},"id":"a"},{"name":"get_time","args":{"zone":"CET"},"id":"b"}]},"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"]}}]],"llm_output":{"token_usage":{"prompt_tokens":4,"completion_tokens":1}}},"extra":{"metadata":{"ls_model_name":"m"}}}
{"id":"x","trace_id":"t","parent_run_id":"root","run_type":"tool","name":"get_weather","start_time":"2031-05-17T10:00:02","end_time":"2031-05-17T10:00:02","inputs":{"input":"{\"city\":\"Oslo\"}"},"outputs":{"output":"cold"}}
{"id":"y","trace_id":"t","parent_run_id":"root","run_type":"tool","name":"get_time","start_time":"2031-05-17T10:00:03","end_time":"2031-05-17T10:00:03","inputs":{"zone":"CET"},"error":"late"}`, chat.Usage{Calls: 2, InputTokens: 10, OutputTokens: 2}},
		"OTLP": {sourceOTel, `{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[
			{"traceId":"t","spanId":"1","name":"chat m","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.request.model","value":{"stringValue":"m"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"10"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":2}},{"key":"gen_ai.system_instructions","value":{"stringValue":"[{\"type\":\"text\",\"content\":\"S\"}]"}}],
			 "events":[{"name":"gen_ai.user.message","attributes":[{"key":"content","value":{"stringValue":"q"}}]},{"name":"gen_ai.choice","attributes":[{"key":"message","value":{"stringValue":"{\"role\":\"assistant\",\"content\":\"I look.\",\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\"}\"}},{\"id\":\"b\",\"function\":{\"name\":\"get_time\",\"arguments\":\"{\\\"zone\\\":\\\"CET\\\"}\"}}]}"}}]}]},
			{"traceId":"t","spanId":"2","name":"execute_tool get_weather","startTimeUnixNano":"2000000000","endTimeUnixNano":"2000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.call.id","value":{"stringValue":"a"}},{"key":"gen_ai.tool.name","value":{"stringValue":"get_weather"}},{"key":"gen_ai.tool.call.result","value":{"stringValue":"cold"}}]},
			{"traceId":"t","spanId":"3","name":"execute_tool get_time","startTimeUnixNano":"2000000001","endTimeUnixNano":"2000000001","status":{"code":2,"message":"late"},"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.call.id","value":{"stringValue":"b"}},{"key":"gen_ai.tool.name","value":{"stringValue":"get_time"}}]},
			{"traceId":"t","spanId":"4","name":"chat m","startTimeUnixNano":"3000000000","endTimeUnixNano":"3000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.output.messages","value":{"stringValue":"[{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"content\":\"Cold.\"}]}]"}}],
			 "events":[{"name":"gen_ai.evaluation.result","attributes":[{"key":"gen_ai.evaluation.name","value":{"stringValue":"correctness"}},{"key":"gen_ai.evaluation.score.value","value":{"doubleValue":1}}]}]},
			{"traceId":"web","spanId":"9","name":"GET /","attributes":[]}]}]}]}`, chat.Usage{Calls: 2, InputTokens: 10, OutputTokens: 2}},
	} {
		got, report, err := read(t, "f", strings.ReplaceAll(tt.text, "\n\t\t\t", ""))
		if err != nil || len(got) != 1 || report.Skipped != 0 || report.Source != tt.source {
			t.Errorf("%s: got %d runs, report %+v, error %v", name, len(got), report, err)
			continue
		}
		e := got[0]
		if tt.source == sourceOpenHands { // one step for each call, no outcome and no model
			if len(e.Steps) == 3 && e.Steps[1].Text == "" {
				e.Steps[0].Calls = append(e.Steps[0].Calls, e.Steps[1].Calls...)
				e.Steps = append(e.Steps[:1], e.Steps[2])
			}
			e.Outcome.Score, e.Model = 1, "m"
		}
		for i := range e.Steps {
			e.Steps[i].At = time.Time{}
			for j := range e.Steps[i].Calls {
				c := &e.Steps[i].Calls[j]
				c.Duration = 0
				if c.Output == `{"error":"late"}` {
					c.Output = "late"
				}
			}
		}
		if !reflect.DeepEqual(e.Steps, weather) || e.Question != "q" || e.Answer != "Cold." || e.Outcome.Score != 1 || e.Usage != tt.usage || e.Model != "m" {
			t.Errorf("%s: got %+v\nwant question q, answer Cold., score 1, model m, usage %+v and the steps of weather: %+v", name, e, tt.usage, weather)
		}
		if tt.source != sourceOpenAIChat && (e.Agent == nil || e.Agent.SystemPrompt == "") {
			t.Errorf("%s: got the agent %+v, want its system prompt", name, e.Agent)
		}
	}
}

// TestAgentsInTraces checks that the model calls inside another agent are a run of their own.
func TestAgentsInTraces(t *testing.T) {
	t.Parallel()
	call := func(id, parent, start, in, out string) string {
		return `{"id":"` + id + `","parentObservationId":"` + parent + `","type":"GENERATION","name":"m","startTime":"2031-05-17T10:00:0` + start + `Z","input":[{"role":"user","content":"` + in + `"}],"output":{"role":"assistant","content":"` + out + `"}}`
	}
	agent := func(id, parent string) string {
		return `{"id":"` + id + `","parentObservationId":"` + parent + `","type":"AGENT","startTime":"2031-05-17T10:00:00Z"}`
	}
	got, _, err := read(t, "f", `{"id":"t","scores":[{"name":"success","value":1}],"observations":[`+strings.Join([]string{
		agent("A", ""), call("1", "A", "1", "q", "plan"), agent("B", "A"), call("2", "B", "2", "sub", "done"), call("3", "A", "3", "q", "end"),
	}, ",")+`]}`)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %d runs, error %v", len(got), err)
	}
	if got[0].Question != "q" || got[0].Answer != "end" || len(got[0].Steps) != 2 || got[0].Outcome.Label != events.Success {
		t.Errorf("main: got %+v", got[0])
	}
	if got[1].Question != "sub" || got[1].Answer != "done" || got[1].Outcome.Known() || !strings.HasPrefix(got[1].RunID, "langfuse/t/B/") {
		t.Errorf("sub-agent: got %+v", got[1])
	}
}

// TestSubAgentWithoutReply checks that a sub-agent whose model call has no reply is left out, and the other agents of its trace are not.
func TestSubAgentWithoutReply(t *testing.T) {
	t.Parallel()
	got, report, err := read(t, "f", `{"id":"t","observations":[
		{"id":"A","type":"AGENT","startTime":"2031-05-17T10:00:00Z"},
		{"id":"1","parentObservationId":"A","type":"GENERATION","startTime":"2031-05-17T10:00:01Z","input":[{"role":"user","content":"q"}],"output":{"role":"assistant","content":"a"}},
		{"id":"B","parentObservationId":"A","type":"AGENT","startTime":"2031-05-17T10:00:02Z"},
		{"id":"2","parentObservationId":"B","type":"GENERATION","startTime":"2031-05-17T10:00:03Z","level":"ERROR","input":[{"role":"user","content":"sub"},{"role":"user","content":"now"}],"output":null}]}`)
	if err != nil || len(got) != 1 || report.Skipped != 0 {
		t.Fatalf("got %d runs, report %+v, error %v, want the run of the main agent", len(got), report, err)
	}
	if got[0].Question != "q" || got[0].Answer != "a" {
		t.Errorf("got %+v, want the question q and the answer a", got[0])
	}
}

// TestToolSpansWithCallID checks that the span of a tool belongs to the call with its id, whatever its recorder names it, and that a
// second span of the call adds nothing.
func TestToolSpansWithCallID(t *testing.T) {
	t.Parallel()
	chat := `"input":[{"role":"user","content":"q"}],"output":[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"find","arguments":"{\"x\":1}"}}]}]`
	message := func(id, output string) string {
		return `{"content":"` + output + `","type":"tool","name":"find","tool_call_id":"` + id + `"}`
	}
	langfuse := func(spans ...string) string {
		model := `{"id":"1","type":"GENERATION","startTime":"2031-05-17T10:00:01Z",` + chat + `}`
		return `{"id":"t","observations":[` + strings.Join(append([]string{model}, spans...), ",") + `]}`
	}
	observation := func(name, metadata, output string) string {
		return `{"type":"TOOL","name":"` + name + `","startTime":"2031-05-17T10:00:02Z","input":{"x":1},"output":` + output + `,"metadata":` + metadata + `}`
	}
	attributes := func(id string) string { return `{"gen_ai.tool.name":"find","gen_ai.tool.call.id":"` + id + `"}` }
	smith := func(kind, rest string) string {
		return `{"id":"` + kind + `","trace_id":"t","run_type":"` + kind + `","start_time":"2031-05-17T10:00:01",` + rest + `}`
	}
	for name, text := range map[string]string{
		"Langfuse, attributes": langfuse(observation("running tool: find", `{"attributes":`+attributes("c2")+`}`, `"two"`),
			observation("running tool", `{"attributes":`+attributes("c1")+`}`, `"one"`)),
		"Langfuse, attributes as text": langfuse(observation("a", `{"attributes":`+strconv.Quote(attributes("c2"))+`}`, `"two"`),
			observation("b", strconv.Quote(`{"attributes":`+attributes("c1")+`}`), `"one"`)),
		"Langfuse, messages of tools": langfuse(observation("find", "{}", message("c2", "two")), observation("find", "null", message("c1", "one"))),
		"Langfuse, a second span": langfuse(observation("find", `{"attributes":`+attributes("c2")+`}`, `"two"`),
			observation("again: find", `{"attributes":`+attributes("c2")+`}`, `"two"`), observation("find", `{"attributes":`+attributes("c1")+`}`, `"one"`)),
		"Langfuse, attributes of OpenInference": langfuse(
			strings.Replace(observation("a", `{"attributes":{"tool.name":"find","tool_call.id":"c2","openinference.span.kind":"TOOL"}}`, `"two"`), "TOOL", "SPAN", 1),
			strings.Replace(observation("find", `{"attributes":{"tool_call.id":"c1","openinference.span.kind":"TOOL"}}`, `"one"`), "TOOL", "SPAN", 1)),
		"LangSmith": smith("llm", strings.ReplaceAll(strings.ReplaceAll(chat, `"input":`, `"inputs":`), `"output":`, `"outputs":`)) + "\n" +
			smith("tool", `"name":"find","inputs":{"x":1},"outputs":{"output":`+message("c2", "two")+`}`) + "\n" +
			smith("tool", `"name":"find","inputs":{"x":1},"outputs":{"output":`+message("c1", "one")+`}`),
	} {
		got, _, err := read(t, "f", text)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: got %d runs, error %v", name, len(got), err)
			continue
		}
		want := []events.ToolCall{
			{Tool: "find", Arguments: `{"x":1}`, Output: "one", Outcome: events.Success},
			{Tool: "find", Arguments: `{"x":1}`, Output: "two", Outcome: events.Success},
		}
		if len(got[0].Steps) != 1 || !reflect.DeepEqual(got[0].Steps[0].Calls, want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, got[0].Steps, want)
		}
	}
}

// TestToolsOfProviders checks that calls which the provider executes have their results, and that items of the Responses API and
// messages without a type are one run.
func TestToolsOfProviders(t *testing.T) {
	t.Parallel()
	type call = events.ToolCall
	for name, tt := range map[string]struct {
		text string
		want []call
	}{
		"Anthropic": {`{"request":{"model":"m","system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"q"}]},
"response":{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}},
{"type":"mcp_tool_use","id":"mcptoolu_2","name":"roll","server_name":"s","input":{"n":2}},{"type":"mcp_tool_result","tool_use_id":"mcptoolu_2","is_error":false,"content":[{"type":"text","text":"7"}]},{"type":"text","text":"a"}],"stop_reason":"end_turn"}}`, []call{
			{Tool: "web_search", Arguments: `{"query":"x"}`, Output: `{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}`, Outcome: events.Failure},
			{Tool: "roll", Arguments: `{"n":2}`, Output: "7", Outcome: events.Success},
		}},
		"Responses": {`{"id":"resp_1","object":"response","status":"completed","error":null,"model":"m","input":"q","output":[{"id":"rs_1","type":"reasoning","summary":[]},{"id":"mcp_1","type":"mcp_call","server_label":"s","name":"roll","arguments":"{\"n\":2}","output":"7","error":null},
{"id":"mcp_2","type":"mcp_call","server_label":"s","name":"roll","arguments":"{}","output":null,"error":{"type":"mcp_protocol_error","code":-32602,"message":"n is missing"}},{"id":"ci_1","type":"code_interpreter_call","status":"completed","code":"print(7)","container_id":"c","outputs":[{"type":"logs","logs":"7"}]},
{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]}]}`, []call{
			{Tool: "roll", Arguments: `{"n":2}`, Output: "7", Outcome: events.Success},
			{Tool: "roll", Arguments: `{}`, Output: "n is missing", Outcome: events.Failure},
			{Tool: "code_interpreter", Arguments: "print(7)", Output: "7", Outcome: events.Success},
		}},
		"items": {`[{"role":"user","content":"q"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}","status":"completed"},{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"Error: no"}]},
{"type":"custom_tool_call","call_id":"call_2","name":"patch","input":"x"},{"type":"custom_tool_call_output","call_id":"call_2","output":"ok"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}]`, []call{
			{Tool: "f", Arguments: `{}`, Output: "Error: no", Outcome: events.Failure}, {Tool: "patch", Arguments: "x", Output: "ok", Outcome: events.Success},
		}},
	} {
		e := one(t, strings.ReplaceAll(tt.text, "\n", ""))
		var got []call
		for _, s := range e.Steps {
			got = append(got, s.Calls...)
		}
		if !reflect.DeepEqual(got, tt.want) || e.Question != "q" || e.Answer != "a" {
			t.Errorf("%s: got question %q, answer %q, calls %+v\nwant %+v", name, e.Question, e.Answer, got, tt.want)
		}
	}
}

// TestActionsInText reads conversations whose actions stand in the text of the assistant.
func TestActionsInText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		action, result string
		want           events.ToolCall
	}{
		"fenced":  {"I look.\n\n```bash\nls x\n```", "<returncode>2</returncode>\n<output>\nno x\n</output>", events.ToolCall{Tool: "bash", Arguments: `{"command":"ls x"}`, Output: "no x", Outcome: events.Failure}},
		"CodeAct": {"I look. <execute_bash>\nls x\n</execute_bash>", "OBSERVATION:\nx\n[Command finished with exit code 0]", events.ToolCall{Tool: "bash", Arguments: `{"command":"ls x"}`, Output: "x\n[Command finished with exit code 0]", Outcome: events.Success}},
		"tags":    {"<tool_call>\n{\"name\":\"ls\",\"arguments\":{\"path\":\"x\"}}\n</tool_call>", "<tool_response>\nError: no x\n</tool_response>", events.ToolCall{Tool: "ls", Arguments: `{"path":"x"}`, Output: "Error: no x", Outcome: events.Failure}},
		"ReAct":   {"Thought: look.\nAction: ls\nAction Input: {\"path\":\"x\"}", "Observation: x", events.ToolCall{Tool: "ls", Arguments: `{"path":"x"}`, Output: "x", Outcome: events.Success}},
	} {
		text := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
		e := one(t, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":`+text(tt.action)+`},{"role":"user","content":`+text(tt.result)+`},{"role":"assistant","content":"done"}]}`)
		want := []events.Step{{Speaker: "assistant", Text: tt.action, Calls: []events.ToolCall{tt.want}}, {Speaker: "assistant", Text: "done"}}
		if !reflect.DeepEqual(e.Steps, want) || e.Answer != "done" {
			t.Errorf("%s: got %+v", name, e.Steps)
		}
	}
	// A conversation about code is not changed.
	e := one(t, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"Run:\n`+"```bash\\nls\\n```"+`"},{"role":"user","content":"It works."},{"role":"assistant","content":"Good."}]}`)
	if len(e.Steps) != 3 || e.Steps[0].Calls != nil {
		t.Errorf("got %+v", e.Steps)
	}
}

func FuzzDialects(f *testing.F) {
	fuzz(f,
		`{"id":"t","scores":[{"name":"success","value":1}],"observations":[{"id":"1","type":"GENERATION","startTime":"2031-05-17T10:00:00Z","input":"[{\"role\":\"user\",\"content\":\"q\"}]","output":{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}],"role":"model"}}},{"id":"2","parentObservationId":"1","type":"TOOL","name":"f","output":"x","level":"ERROR"}]}`,
		`{"id":"l","trace_id":"t","run_type":"llm","inputs":{"messages":[[{"lc":1,"type":"constructor","id":["HumanMessage"],"kwargs":{"content":"q"}}]]},"outputs":{"generations":[[{"text":"a"}]]},"child_runs":[{"id":"x","run_type":"tool","inputs":{"input":"{}"},"error":"e"}]}`,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","spanId":"1","startTimeUnixNano":"1","status":{"code":2},"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.prompt.0.content","value":{"stringValue":"q"}},{"key":"x","value":{"arrayValue":{"values":[{"kvlistValue":{"values":[]}}]}}}],"events":[{"name":"gen_ai.choice","attributes":[]}]}]}]}]}`,
		`{"openinference.span.kind":"LLM","llm.input_messages.0.message.role":"user","llm.input_messages.0.message.contents.0.message_content.text":"q","output.value":"a"}`,
		`{"object":"response","input":"q","output":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}]}`,
		`{"type":"session_meta","timestamp":"t","payload":{"id":"x"}}`+"\n"+`{"type":"response_item","timestamp":"t","payload":{"type":"function_call","call_id":"a","name":"shell","arguments":"{}"}}`+"\n"+`{"type":"response_item","timestamp":"t","payload":{"type":"function_call_output","call_id":"a","output":"{\"output\":\"x\",\"metadata\":{\"exit_code\":1}}"}}`,
		`{"type":"response_item","timestamp":"","payload":{"type":"_call"}}`,
		`{"sessionId":"s","messages":[{"type":"user","content":"q"},{"type":"gemini","content":"","toolCalls":[{"name":"f","status":"error","result":[{"functionResponse":{"response":{"error":"e"}}}]}]}]}`,
		`{"history":[{"action":"message","source":"user","content":"q"},{"action":"run","command":"ls","id":1,"source":"agent"},{"observation":"run","content":"x","exit_code":1}],"instruction":"i","success":true}`,
		`{"task_id":"1","trial":0,"messages":[{"role":"assistant","content":"hi","tool_calls":[{"id":"a","name":"f","arguments":{}}]},{"role":"tool","id":"a","content":"x","error":true}],"reward_info":{"reward":1}}`,
		`{"simulations":[{"task_id":"1","messages":[{"role":"assistant","content":"a"}],"termination_reason":"user_stop"}],"x":1}`,
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"<tool_call>{\"name\":\"f\"}</tool_call>"},{"role":"user","content":"<tool_response>x</tool_response>"}],"info":{"submission":"d"}}`,
	)
}
