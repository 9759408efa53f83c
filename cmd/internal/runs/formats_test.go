package runs

import (
	"archive/zip"
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"debrief/events"
	"debrief/events/chat"
)

const (
	codexEvents = `{"type":"thread.started","thread_id":"th-1"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"T"}}
{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"I look."}}
{"type":"item.started","item":{"id":"item_2","type":"command_execution","command":"ls x","aggregated_output":"","exit_code":null,"status":"in_progress"}}
{"type":"item.started","item":{"id":"item_3","type":"mcp_tool_call","server":"s","tool":"find","arguments":{"a":1},"result":null,"error":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"ls x","aggregated_output":"no x\n","exit_code":2,"status":"failed"}}
{"type":"item.completed","item":{"id":"item_3","type":"mcp_tool_call","server":"s","tool":"find","arguments":{"a":1},"result":{"content":[{"type":"text","text":"7"}]},"error":null,"status":"completed"}}
{"type":"item.completed","item":{"id":"item_4","type":"mcp_tool_call","server":"s","tool":"find","arguments":{"a":2},"result":null,"error":{"message":"gone"},"status":"failed"}}
{"type":"item.completed","item":{"id":"item_5","type":"command_execution","command":"rm x","aggregated_output":"","exit_code":null,"status":"declined"}}
{"type":"item.completed","item":{"id":"item_6","type":"file_change","changes":[{"path":"a","kind":"add"}],"status":"completed"}}
{"type":"item.started","item":{"id":"item_7","type":"todo_list","items":[]}}
{"type":"item.completed","item":{"id":"item_8","type":"agent_message","text":"Done."}}
{"type":"turn.completed","usage":{"input_tokens":90,"cached_input_tokens":10,"output_tokens":12}}
`
	geminiLines = `{"sessionId":"g-1","projectHash":"h","startTime":"2031-05-17T10:00:00Z","lastUpdated":"2031-05-17T10:00:00Z","kind":"main"}
{"id":"m1","timestamp":"2031-05-17T10:00:01Z","type":"user","content":[{"text":"q"}]}
{"id":"m2","timestamp":"2031-05-17T10:00:02Z","type":"gemini","content":"","toolCalls":[],"model":"m"}
{"id":"m2","timestamp":"2031-05-17T10:00:02Z","type":"gemini","content":"I look.","model":"m","tokens":{"input":5,"output":2,"cached":1,"thoughts":1,"total":8},"toolCalls":[{"id":"t1","name":"find","args":{"a":1},"status":"error","result":[{"functionResponse":{"id":"t1","name":"find","response":{"error":"gone"}}}]},{"id":"t2","name":"find","args":{"a":2},"status":"executing"}]}
{"id":"m3","timestamp":"2031-05-17T10:00:03Z","type":"gemini","content":"WRONG","model":"m"}
{"$rewindTo":"m3"}
{"$set":{"lastUpdated":"2031-05-17T10:00:09Z","messages":[{"id":"m4","timestamp":"2031-05-17T10:00:04Z","type":"gemini","content":[{"text":"Done."}],"model":"m"}]}}
`
	geminiEvents = `{"type":"init","timestamp":"2031-05-17T10:00:00Z","session_id":"g-2","model":"m"}
{"type":"message","timestamp":"2031-05-17T10:00:01Z","role":"user","content":"q"}
{"type":"message","timestamp":"2031-05-17T10:00:02Z","role":"assistant","content":"I ","delta":true}
{"type":"message","timestamp":"2031-05-17T10:00:02Z","role":"assistant","content":"look.","delta":true}
{"type":"tool_use","timestamp":"2031-05-17T10:00:02Z","tool_name":"find","tool_id":"t1","parameters":{"a":1}}
{"type":"tool_result","timestamp":"2031-05-17T10:00:03Z","tool_id":"t1","status":"error","output":"gone","error":{"type":"T","message":"gone"}}
{"type":"message","timestamp":"2031-05-17T10:00:04Z","role":"assistant","content":"Done.","delta":true}
{"type":"result","timestamp":"2031-05-17T10:00:05Z","status":"success","stats":{"total_tokens":7,"input_tokens":5,"output_tokens":2,"cached":1,"duration_ms":1500}}
`
	atifTrajectory = `{"schema_version":"ATIF-v1.6","session_id":"a-1","agent":{"name":"n","version":"1","model_name":"m"},"steps":[
{"step_id":1,"source":"system","message":"S"},{"step_id":2,"source":"user","message":[{"type":"text","text":"q"}]},
{"step_id":3,"timestamp":"2031-05-17T10:00:01Z","source":"agent","message":"I look.","reasoning_content":"T","tool_calls":[{"tool_call_id":"c1","function_name":"find","arguments":{"a":1}},{"tool_call_id":"c2","function_name":"find","arguments":{"a":2}}],
"observation":{"results":[{"source_call_id":"c2","content":"7"},{"source_call_id":"c1","content":"Error: gone"}]},"metrics":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":1,"cost_usd":0.5}},
{"step_id":4,"timestamp":"2031-05-17T10:00:03Z","source":"agent","message":"Done."}],"final_metrics":{"total_prompt_tokens":9,"total_completion_tokens":3},
"subagent_trajectories":[{"schema_version":"ATIF-v1.7","session_id":"a-2","agent":{"name":"n"},"steps":[{"step_id":1,"source":"user","message":"q2"},{"step_id":2,"source":"agent","message":"a2"}]}]}`
	inspectHead    = `"version":2,"status":"success","eval":{"task":"desk","model":"m"},"results":{"scores":[{"metrics":{"std":{"value":NaN}}}]}`
	inspectFailed  = `{"id":1,"epoch":1,"input":"q","target":"7","messages":[{"role":"system","content":"S"},{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"reasoning","reasoning":"T"},{"type":"text","text":"I look."}],"tool_calls":[{"id":"k1","function":"find","arguments":{"a":1},"type":"function"},{"id":"k2","function":"find","arguments":{"a":2},"type":"function"}]},{"role":"tool","content":"","tool_call_id":"k1","function":"find","error":{"type":"parsing","message":"gone"}},{"role":"tool","content":"","tool_call_id":"k2","function":"find","error":{"type":"approval","message":"no"}},{"role":"assistant","content":"Done."}],"scores":{"match":{"value":"I","answer":"Done.","explanation":"why"}},"model_usage":{"m":{"input_tokens":5,"output_tokens":2,"total_tokens":7}},"total_time":2.5}`
	inspectWorked  = `{"id":"s2","epoch":2,"input":"q2","messages":[{"role":"user","content":"q2"},{"role":"assistant","content":"a2"}],"scores":{"a":{"value":"C"},"b":{"value":0.25}}}`
	inspectStopped = `{"id":3,"epoch":1,"input":"q3","messages":[{"role":"user","content":"q3"},{"role":"assistant","content":"a3"}],"scores":null,"error":{"message":"boom"}}`
)

func looked(calls ...events.ToolCall) []events.Step {
	return []events.Step{{Speaker: "assistant", Text: "I look.", Calls: calls}, {Speaker: "assistant", Text: "Done."}}
}

// stepsOf returns the steps of a run without their times.
func stepsOf(e *events.Execution) []events.Step {
	for i := range e.Steps {
		e.Steps[i].At = events.Step{}.At
	}
	return e.Steps
}

func TestCodexExec(t *testing.T) {
	t.Parallel()
	e := one(t, codexEvents)
	want := []events.Step{
		{Speaker: "assistant", Text: "I look.", Calls: []events.ToolCall{{Tool: "shell", Arguments: `{"command":"ls x"}`, Output: "no x\n", Outcome: events.Failure}}},
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "find", Arguments: `{"a":1}`, Output: "7", Outcome: events.Success}}},
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "find", Arguments: `{"a":2}`, Output: "gone", Outcome: events.Failure}}},
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "shell", Arguments: `{"command":"rm x"}`, Outcome: events.Unknown}}},
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "apply_patch", Arguments: `{"changes":[{"path":"a","kind":"add"}]}`, Outcome: events.Unknown}}},
		{Speaker: "assistant", Text: "Done."},
	}
	if got := stepsOf(e); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if e.Question != "" || e.Answer != "Done." || e.Session != "th-1" || e.Usage != (chat.Usage{Calls: 1, InputTokens: 90, OutputTokens: 12, CachedTokens: 10}) {
		t.Errorf("got question %q, answer %q, session %q, usage %+v", e.Question, e.Answer, e.Session, e.Usage)
	}
	e = one(t, strings.Replace(codexEvents, `{"type":"turn.completed"`, `{"type":"turn.failed","error":{"message":"limit"}}`+"\n"+`{"type":"turn.completed"`, 1))
	if want := (events.Outcome{Label: events.Failure, By: sourceCodex, Feedback: "limit"}); !reflect.DeepEqual(e.Outcome, want) {
		t.Errorf("got outcome %+v, want %+v", e.Outcome, want)
	}
}

func TestGeminiLines(t *testing.T) {
	t.Parallel()
	gone := events.ToolCall{Tool: "find", Arguments: `{"a":1}`, Output: "gone", Outcome: events.Failure}
	for name, tt := range map[string]struct {
		text  string
		calls []events.ToolCall
		usage chat.Usage
	}{
		"session": {geminiLines, []events.ToolCall{gone, {Tool: "find", Arguments: `{"a":2}`, Outcome: events.Unknown}}, chat.Usage{Calls: 1, InputTokens: 5, OutputTokens: 3, CachedTokens: 1}},
		"stream":  {geminiEvents, []events.ToolCall{gone}, chat.Usage{InputTokens: 5, OutputTokens: 2, CachedTokens: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := one(t, tt.text)
			if got, want := stepsOf(e), looked(tt.calls...); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if e.Question != "q" || e.Answer != "Done." || e.Model != "m" || e.Usage != tt.usage || e.Duration <= 0 {
				t.Errorf("got question %q, answer %q, model %q, usage %+v, duration %s", e.Question, e.Answer, e.Model, e.Usage, e.Duration)
			}
			// Two sessions in a file are two runs.
			if got, _, err := read(t, "f", tt.text+tt.text); err != nil || len(got) != 2 {
				t.Errorf("got %d runs, error %v, want 2", len(got), err)
			}
		})
	}
}

func TestATIF(t *testing.T) {
	t.Parallel()
	got, report, err := read(t, "trajectory.json", atifTrajectory)
	if err != nil || len(got) != 2 || report.Skipped != 0 || report.Source != sourceATIF {
		t.Fatalf("got %d runs, report %+v, error %v", len(got), report, err)
	}
	e := got[0]
	want := looked(
		events.ToolCall{Tool: "find", Arguments: `{"a":1}`, Output: "Error: gone", Outcome: events.Failure},
		events.ToolCall{Tool: "find", Arguments: `{"a":2}`, Output: "7", Outcome: events.Success},
	)
	if steps := stepsOf(e); !reflect.DeepEqual(steps, want) || e.Question != "q" || e.Answer != "Done." || got[1].Question != "q2" {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
	if e.Model != "m" || e.Session != "a-1" || e.Duration.Seconds() != 2 || e.Usage != (chat.Usage{Calls: 1, InputTokens: 9, OutputTokens: 3}) {
		t.Errorf("got model %q, session %q, duration %s, usage %+v", e.Model, e.Session, e.Duration, e.Usage)
	}
	// A continued trajectory begins with the steps of the one before, and has the question from there.
	continued := strings.NewReplacer("a-1", "a-3", `"source":"user","message":[`, `"source":"user","is_copied_context":true,"message":[`).Replace(atifTrajectory)
	if got, _, err := read(t, "f", continued); err != nil || got[0].Question != "q" || len(got[0].Steps) != 2 {
		t.Errorf("continued: got %+v, error %v", got, err)
	}
	// A sub-agent without a turn is a problem. The other runs stay.
	silent := strings.Replace(atifTrajectory, `,{"step_id":2,"source":"agent","message":"a2"}`, "", 1)
	if got, report, err := read(t, "f", silent); err != nil || len(got) != 1 || report.Skipped != 1 {
		t.Errorf("silent sub-agent: got %d runs, report %+v, error %v, want one run and one problem", len(got), report, err)
	}
	// The text of an agent has the action, and an observation without a call is its result.
	const text = `{"schema_version":"ATIF-v1.2","agent":{"name":"n"},"reward":1,"steps":[{"source":"user","message":"q"},{"source":"agent","message":"` + "```bash\\nls x\\n```" + `","observation":{"results":[{"content":"<returncode>2</returncode>\n<output>\nno x\n</output>"}]}},{"source":"agent","message":"a"}]}`
	if e := one(t, strings.ReplaceAll(text, "\n<", `\n<`)); len(e.Steps) != 2 || len(e.Steps[0].Calls) != 1 || e.Steps[0].Calls[0].Outcome != events.Failure || e.Outcome.Label != events.Success {
		t.Errorf("got %+v", e)
	}
}

// inspectZip writes a log as Inspect does.
func inspectZip(t *testing.T, method uint16) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zstd.ZipMethodWinZip, zstd.ZipCompressor())
	for name, text := range map[string]string{
		"header.json": "{" + inspectHead + "}", "summaries.json": "[]", "samples/1_epoch_1.json": inspectFailed, "samples/s2_epoch_2.json": inspectWorked,
		"samples/3_epoch_1.json": inspectStopped,
	} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestInspect(t *testing.T) {
	t.Parallel()
	whole := "{" + inspectHead + `,"samples":[` + inspectFailed + "," + inspectWorked + "," + inspectStopped + `],"reductions":[]}`
	for name, text := range map[string]string{
		"log": whole, "over lines": strings.ReplaceAll(whole, `,"`, ",\n\""), "zip": inspectZip(t, zip.Deflate), "zip with zstd": inspectZip(t, zstd.ZipMethodWinZip),
		"samples": inspectFailed + "\n" + inspectWorked + "\n" + inspectStopped,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, report, err := read(t, "log.eval", text)
			if err != nil || len(got) != 3 || report.Skipped != 0 {
				t.Fatalf("got %d runs, report %+v, error %v", len(got), report, err)
			}
			runs := map[string]*events.Execution{}
			for _, e := range got {
				runs[e.Question] = e
			}
			e := runs["q"]
			want := looked(
				events.ToolCall{Tool: "find", Arguments: `{"a":1}`, Output: "gone", Outcome: events.Failure},
				events.ToolCall{Tool: "find", Arguments: `{"a":2}`, Output: "no", Outcome: events.Unknown},
			)
			if !reflect.DeepEqual(e.Steps, want) || !reflect.DeepEqual(e.Outcome, events.Outcome{Label: events.Failure, By: "inspect:match", Feedback: "why"}) {
				t.Errorf("got %+v", e)
			}
			if name != "samples" && (e.Origin.Task != "inspect/desk/1" || e.Model != "m") || e.Usage.InputTokens != 5 {
				t.Errorf("got task %q, model %q, usage %+v", e.Origin.Task, e.Model, e.Usage)
			}
			if e := runs["q2"]; e.Outcome.Known() { // two scores, and none leads
				t.Errorf("got outcome %+v", e.Outcome)
			}
			if e := runs["q3"]; !reflect.DeepEqual(e.Outcome, events.Outcome{Label: events.Unknown, Feedback: "boom"}) {
				t.Errorf("got outcome %+v", e.Outcome)
			}
		})
	}
	r := &Reader{Book: "book", LeadingScore: "b"}
	if _, err := r.Read(t.Context(), "f", strings.NewReader(inspectWorked), func(e *events.Execution) error {
		if e.Outcome.Score != 0.25 || e.Outcome.By != "inspect:b" {
			t.Errorf("with a leading score: got outcome %+v", e.Outcome)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestLangfuseShapes reads one call of a tool in the shapes of Gemini and of OpenInference, as Langfuse stores them.
func TestLangfuseShapes(t *testing.T) {
	t.Parallel()
	const (
		ask      = `{"role":"user","parts":[{"text":"q"}]}`
		call     = `{"role":"model","parts":[{"functionCall":{"name":"find","args":{"a":1}}}]}`
		result   = `{"role":"user","parts":[{"function_response":{"name":"find","response":{"result":"7"}}}]}`
		result2  = `{"role":"function","parts":[{"functionResponse":{"name":"find","response":{"result":"7"}}}]}`
		done     = `{"candidates":[{"content":{"role":"model","parts":[{"text":"Done."}]},"finish_reason":1}]`
		agent    = `"type":"SPAN","name":"run","input":"q","output":"Done.","metadata":{"attributes":{"openinference.span.kind":"AGENT"}}`
		toolSpan = `"type":"SPAN","name":"x","parentObservationId":"1","metadata":{"attributes":"{\"openinference.span.kind\":\"TOOL\",\"tool.name\":\"find\",\"input.value\":\"{\\\"a\\\":1}\",\"output.value\":\"7\"}"}`
		listed   = `"llm.input_messages.0.message.role":"user","llm.input_messages.0.message.content":"q","llm.output_messages.0.message.role":"assistant","llm.output_messages.0.message.tool_calls.0.tool_call.function.name":"find","llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments":"{\"a\":1}"`
	)
	generation := func(input, output string) string {
		return `"type":"GENERATION","input":` + input + `,"output":` + output
	}
	want := []events.Step{
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "find", Arguments: `{"a":1}`, Output: "7", Outcome: events.Success}}},
		{Speaker: "assistant", Text: "Done."},
	}
	for name, observations := range map[string][]string{
		"Gemini":         {generation(`{"contents":[`+ask+`]}`, `{"candidates":[{"content":`+call+`}]}`), generation(`{"contents":[`+ask+`,`+call+`,`+result+`]}`, done+`}`)},
		"Gemini, a role": {generation(`{"contents":"q"}`, `{"candidates":[{"content":`+call+`}]}`), generation(`{"contents":[`+ask+`,`+call+`,`+result2+`]}`, done+`}`)},
		"Gemini, SDK":    {generation(`{"contents":"q"}`, done+`,"automatic_function_calling_history":[`+ask+`,`+call+`,`+result+`]}`)},
		"a transcript":   {agent, `"parentObservationId":"1",` + generation(`"developer: Be short.\nuser: q"`, `"None"`), toolSpan, `"parentObservationId":"1",` + generation(`"developer: Be short.\nuser: q\nassistant: None\ntool: 7"`, `"Done."`)},
		"LangChain": {
			generation(`[{"role":"user","content":"q"}]`, `{"role":"assistant","content":"","additional_kwargs":{"tool_calls":[{"id":"c","type":"function","function":{"name":"find","arguments":"{\"a\":1}"}}]}}`),
			`"type":"SPAN","name":"find","input":"{'a': 1}","output":{"type":"tool","content":"7","tool_call_id":"c"}`,
			generation(`[{"role":"user","content":"q"}]`, `{"role":"assistant","content":"Done."}`),
		},
		"attributes alone": {agent, `"type":"SPAN","parentObservationId":"1","metadata":{"attributes":{"openinference.span.kind":"LLM",` + listed + `}}`, toolSpan, `"parentObservationId":"1",` + generation(`"user: q\nassistant: None\ntool: 7"`, `"Done."`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var list []string
			for i, o := range observations {
				list = append(list, fmt.Sprintf(`{"id":"%d","startTime":"2031-05-17T10:00:0%dZ",%s}`, i+1, i, o))
			}
			e := one(t, `{"id":"t","observations":[`+strings.Join(list, ",")+`]}`)
			for i := range e.Steps {
				for j := range e.Steps[i].Calls {
					e.Steps[i].Calls[j].Duration = 0
				}
			}
			if got := stepsOf(e); !reflect.DeepEqual(got, want) || e.Question != "q" || e.Answer != "Done." {
				t.Errorf("got question %q, answer %q, steps %+v", e.Question, e.Answer, got)
			}
		})
	}
}

// TestDamagedFields checks that a field of another type is an error that names it, and that it costs only its own record.
func TestDamagedFields(t *testing.T) {
	t.Parallel()
	const good = `{"question":"good","answer":"a"}`
	for text, want := range map[string]string{
		strings.Replace(inspectWorked, `"content":"q2"`, `"content":2`, 1):                                                                "field messages[0].content: got a JSON number",
		strings.Replace(inspectWorked, `"role":"user"`, `"role":"narrator"`, 1):                                                           `field messages[0].role: got "narrator"`,
		strings.Replace(inspectWorked, `{"a":{"value":"C"},"b":{"value":0.25}}`, `{"a":7}`, 1):                                            "field scores.a: got a JSON number, want an object",
		strings.Replace(inspectWorked, `{"a":{"value":"C"},"b":{"value":0.25}}`, `[]`, 1):                                                 "field scores: got a JSON list, want an object",
		strings.Replace(inspectWorked, `"b":{"value":0.25}`, `"correct":{"value":[1]}`, 1):                                                "field scores.correct: ",
		strings.ReplaceAll(strings.Replace(atifTrajectory, `"source":"system"`, `"source":"narrator"`, 1), "\n", ""):                      `field steps[0].source: got "narrator"`,
		strings.ReplaceAll(strings.Replace(atifTrajectory, `"function_name":"find"`, `"function_name":7`, 1), "\n", ""):                   "field steps[2].tool_calls[0].function_name: is missing",
		strings.ReplaceAll(strings.Replace(atifTrajectory, `"results":[`, `"results":{"x":[`, 1), "\n", ""):                               "invalid JSON at byte",
		strings.Replace(strings.Split(geminiLines, "\n")[3], `"name":"find"`, `"name":7`, 1):                                              "field toolCalls[0].name: is missing",
		`{"question":"q","answer":"a","correct":true,"run_id":[1]}`:                                                                       "field run_id: want a number or a string",
		`{"type":"item.completed","item":7}`:                                                                                              "field item: got a JSON number",
		`{"id":"t","observations":[7]}`:                                                                                                   "field observations[0]: want an object",
		`{"type":"assistant","sessionId":"s","message":{"role":"assistant","content":7}}`:                                                 "field message.content: got a JSON number",
		`{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":7}}`:                                 "field payload.content: got a JSON number",
		`{"source":"agent","action":7,"id":1}`:                                                                                            "field action: got a JSON number",
		`{"kind":"MessageEvent","source":"user","timestamp":"t","llm_message":7}`:                                                         "field llm_message: got a JSON number",
		`{"task_id":1,"messages":[],"reward_info":{"reward":"x"}}`:                                                                        "field reward_info.reward: got a JSON string",
		`{"trajectory":[{"action":"ls"}],"info":7}`:                                                                                       "field info: got a JSON number",
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"request":7}`:                                     "field request: got a JSON number",
		`{"history":[{"action":"message","source":"user","args":{"content":"q"}},{"action":7}],"instruction":"i","metrics":{"costs":[]}}`: "field history[1].action: got a JSON number",
	} {
		got, report, err := read(t, "f", text+"\n"+good)
		if err != nil || len(report.Problems) == 0 || report.Problems[0].Line != 1 || !strings.HasPrefix(report.Problems[0].Reason, want) {
			t.Errorf("%.120s: got problems %v, error %v, want %q", text, report.Problems, err, want)
		}
		if len(got) != 1 || got[0].Question != "good" {
			t.Errorf("%.120s: got %d runs, want the other one", text, len(got))
		}
	}
}

func FuzzCodexExec(f *testing.F) { fuzz(f, codexEvents) }

func FuzzGemini(f *testing.F) { fuzz(f, geminiLines, geminiEvents) }

func FuzzATIF(f *testing.F) { fuzz(f, atifTrajectory) }

func FuzzInspect(f *testing.F) {
	fuzz(f, inspectFailed, "{"+inspectHead+`,"samples":[`+inspectWorked+","+inspectStopped+"]}")
}

// TestOTelAgentWithTheQuestion reads a trace whose model calls have no messages: the span of the agent has the question and the answer.
func TestOTelAgentWithTheQuestion(t *testing.T) {
	t.Parallel()
	attributes := func(pairs ...string) string {
		var list []string
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, pairs[i], pairs[i+1]))
		}
		return `"attributes":[` + strings.Join(list, ",") + `]`
	}
	list := []string{
		`{"traceId":"t","spanId":"1","name":"invoke_agent","startTimeUnixNano":"1",` + attributes("gen_ai.operation.name", "invoke_agent",
			"gen_ai.input.messages", `[{"role":"user","parts":[{"type":"text","content":"q"}]}]`, "gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"Done."}]}]`) + `}`,
		`{"traceId":"t","spanId":"2","parentSpanId":"1","name":"chat m","startTimeUnixNano":"2",` + attributes("gen_ai.operation.name", "chat", "gen_ai.request.model", "m") + `}`,
		`{"traceId":"t","spanId":"3","parentSpanId":"1","name":"execute_tool find","startTimeUnixNano":"3",` + attributes("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "find",
			"gen_ai.tool.call.arguments", `{"a":1}`, "gen_ai.tool.call.result", "7") + `}`,
	}
	e := one(t, `{"resourceSpans":[{"scopeSpans":[{"spans":[`+strings.Join(list, ",")+`]}]}]}`)
	if e.Question != "q" || e.Answer != "Done." || len(e.Steps) != 1 || e.Steps[0].Calls[0].Output != "7" {
		t.Errorf("got question %q, answer %q, steps %+v", e.Question, e.Answer, stepsOf(e))
	}
}
