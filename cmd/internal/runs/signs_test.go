package runs

import (
	"strings"
	"testing"

	"debrief/events"
)

// TestOutcomesOfCalls reads a call with the signs of each recorder, and looks at the outcome in the execution.
func TestOutcomesOfCalls(t *testing.T) {
	t.Parallel()
	gemini := func(status, output string) string {
		return `{"sessionId":"s","messages":[{"id":"1","type":"user","content":"q"},{"id":"2","type":"gemini","content":"","toolCalls":[{"name":"run_shell_command","args":{"command":"make"},"status":"` +
			status + `","result":[{"functionResponse":{"name":"run_shell_command","response":{"output":"` + output + `"}}}]}]}]}`
	}
	hands := func(observation string) string {
		return `{"id":1,"timestamp":"t","source":"user","action":"message","args":{"content":"q"}}
{"id":2,"timestamp":"t","source":"agent","action":"run","args":{"command":"make"}}
{"id":3,"timestamp":"t","source":"agent","cause":2,` + observation + `}`
	}
	claude := func(result string) string {
		return `{"type":"assistant","session_id":"s","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"1","name":"Bash","input":{"command":"make"}}]}}
{"type":"user","session_id":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"1",` + result + `}]}}`
	}
	sdk := func(event string) string {
		return `{"kind":"ActionEvent","source":"agent","timestamp":"t","thought":[],"tool_name":"terminal","tool_call_id":"a","tool_call":{"id":"a","name":"terminal","arguments":"{\"command\":\"make\"}"}}
{"source":"environment","timestamp":"t","tool_name":"terminal","tool_call_id":"a",` + event + `}`
	}
	for _, tt := range []struct {
		name, text string
		want       events.Label
	}{
		{"Gemini CLI, success", gemini("success", "x"), events.Success},
		{"Gemini CLI, success with an exit code in the text", gemini("success", `Output: x\nExit Code: 2\n`), events.Failure},
		{"Gemini CLI, error", gemini("error", "x"), events.Failure},
		{"Gemini CLI, cancelled", gemini("cancelled", "Error: x"), events.Unknown},
		{"OpenHands, exit code 0", hands(`"observation":"run","content":"error: x","extras":{"metadata":{"exit_code":0}}`), events.Success},
		{"OpenHands, exit code 2", hands(`"observation":"run","content":"x","extras":{"exit_code":2}`), events.Failure},
		{"OpenHands, still runs", hands(`"observation":"run","content":"x","extras":{"metadata":{"exit_code":-1}}`), events.Unknown},
		{"OpenHands, error", hands(`"observation":"error","content":"x"`), events.Failure},
		{"Claude Code, no mark", claude(`"content":"Error in a name"`), events.Success},
		{"Claude Code, mark", claude(`"content":"x","is_error":true`), events.Failure},
		{"Claude Code, older error", claude(`"content":"<tool_use_error>x</tool_use_error>"`), events.Failure},
		{"Claude Code, refused", claude(`"content":"The user doesn't want to proceed with this tool use.","is_error":true`), events.Unknown},
		{"OpenHands SDK, exit code", sdk(`"kind":"ObservationEvent","observation":{"content":"x","exit_code":2,"is_error":false}`), events.Failure},
		{"OpenHands SDK, time limit", sdk(`"kind":"ObservationEvent","observation":{"content":"x","timeout":true}`), events.Failure},
		{"OpenHands SDK, rejected", sdk(`"kind":"UserRejectObservation","rejection_reason":"no"`), events.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, _, err := readOne(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []events.Label
			for _, s := range e.Steps {
				for _, c := range s.Calls {
					got = append(got, c.Outcome)
				}
			}
			if len(got) != 1 || got[0] != tt.want {
				t.Errorf("got outcomes %v, want %s", got, tt.want)
			}
		})
	}
}

// TestScoreWithoutMeaningIsReported checks that a leading score that cannot be read is named with the accepted forms.
func TestScoreWithoutMeaningIsReported(t *testing.T) {
	t.Parallel()
	langfuse := func(score string) string {
		return `{"id":"t","input":"q","output":"a","observations":[],"scores":[` + score + `]}`
	}
	for _, tt := range []struct{ name, text string }{
		{"Langfuse", langfuse(`{"name":"correctness","value":"so so"}`)},
		{"OpenTelemetry", `{"traceId":"t","spanId":"1","name":"chat","attributes":{"gen_ai.operation.name":"chat","gen_ai.output.messages":"[{\"role\":\"assistant\",\"content\":\"a\"}]"},` +
			`"events":[{"name":"gen_ai.evaluation.result","attributes":{"gen_ai.evaluation.name":"correctness","gen_ai.evaluation.score.label":"so so"}}]}`},
		{"LangSmith", `{"id":"r","trace_id":"t","run_type":"chain","inputs":{"input":"q"},"outputs":{"output":"a"},"feedback":[{"key":"correctness","value":"so so"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, report, _ := readOne(t, tt.text)
			if report.Runs != 0 || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Reason, `score "correctness"`) || !strings.Contains(report.Problems[0].Reason, "want ") {
				t.Errorf("got %d runs, problems %v", report.Runs, report.Problems)
			}
		})
	}
	e, report, err := readOne(t, langfuse(`{"name":"tone","value":"so so"},{"name":"correctness","value":0.5}`))
	if err != nil || e.Outcome.Score != 0.5 || report.Runs != 1 {
		t.Errorf("another score: got %+v, %+v, %v", e, report, err)
	}
}

// TestSourceIsNotOfTheFile checks that a line cannot name the source by which it is trusted.
func TestSourceIsNotOfTheFile(t *testing.T) {
	t.Parallel()
	e, _, err := readOne(t, `{"question":"q","answer":"a","origin":{"source":"agent/ann","task":"t"}}`)
	if err != nil || e.Origin.Source != "file/debrief" || e.Origin.Task != "debrief/t" && e.Origin.Task != "t" {
		t.Errorf("got %+v, %v", e, err)
	}
}

// readOne reads a text with one run. The execution is empty if there is none.
func readOne(t *testing.T, text string) (*events.Execution, Report, error) {
	t.Helper()
	all, report, err := read(t, "x.jsonl", text)
	if len(all) != 1 {
		return &events.Execution{}, report, err
	}
	return all[0], report, err
}
