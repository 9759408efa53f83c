package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"debrief/cmd/internal/runs/steps"
	"debrief/events"
)

func read(t *testing.T, name, text string) ([]*events.Execution, Report, error) {
	t.Helper()
	var got []*events.Execution
	report, err := Read(t.Context(), "book", name, strings.NewReader(text), func(e *events.Execution) error {
		got = append(got, e)
		return e.Validate()
	})
	return got, report, err
}

// tau returns a run of tau-bench with this trajectory.
func tau(task, trial, reward, traj string) string {
	return fmt.Sprintf(`{"task_id": %s, "trial": %s, "reward": %s, "info": {}, "traj": [%s]}`, task, trial, reward, traj)
}

const hello = `{"role": "user", "content": "hello"}`

func TestTauBenchResultsBelongToCalls(t *testing.T) {
	t.Parallel()
	const traj = `
{"role": "system", "content": "policy"},
{"role": "user", "content": "book it"},
{"role": "assistant", "content": null, "tool_calls": [
  {"id": "a", "type": "function", "function": {"name": "get", "arguments": "{\"n\": 1}"}},
  {"id": "b", "type": "function", "function": {"name": "book", "arguments": {"n": 2}}}]},
{"role": "tool", "tool_call_id": "b", "name": "book", "content": "Error: sold out"},
{"role": "tool", "tool_call_id": "a", "name": "get", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
{"role": "assistant", "content": "again", "tool_calls": [
  {"id": "a", "type": "function", "function": {"name": "get", "arguments": "{}"}},
  {"id": "c", "type": "function", "function": {"name": "wait", "arguments": "{}"}}]},
{"role": "tool", "tool_call_id": "zzz", "content": "no Error at the start"},
{"role": "assistant", "content": "done"},
{"role": "tool", "name": "late", "content": "orphan"},
{"role": "user", "content": "thanks"}`
	got, report, err := read(t, "dir/some runs.json", "["+tau("7", "2", "1.0", traj)+"]")
	if err != nil || report.Runs != 1 || report.Source != sourceTauBench {
		t.Fatalf("got report %+v, error %v", report, err)
	}
	e := got[0]
	want := []events.Step{
		{Speaker: "assistant", Calls: []events.ToolCall{
			{Tool: "get", Arguments: `{"n": 1}`, Output: "one\n\ntwo", Outcome: events.Success},
			{Tool: "book", Arguments: `{"n":2}`, Output: "Error: sold out", Outcome: events.Failure},
		}},
		{Speaker: "assistant", Text: "again", Calls: []events.ToolCall{
			{Tool: "get", Arguments: `{}`, Output: "no Error at the start", Outcome: events.Success}, // matched by order: no call has the id zzz
			{Tool: "wait", Arguments: `{}`, Outcome: events.Unknown},
		}},
		{Speaker: "assistant", Text: "done"},
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "late", Output: "orphan", Outcome: events.Success}}},
		{Speaker: "user", Text: "thanks"},
	}
	if !reflect.DeepEqual(e.Steps, want) {
		t.Errorf("got  %+v\nwant %+v", e.Steps, want)
	}
	if e.Question != "book it" || e.Answer != "done" || e.Origin.Source != "file/tau-bench" || e.Book != "book" {
		t.Errorf("got question %q, answer %q, origin %+v, book %q", e.Question, e.Answer, e.Origin, e.Book)
	}
	if want := (events.Outcome{Score: 1, Label: events.Success, By: sourceTauBench}); !reflect.DeepEqual(e.Outcome, want) {
		t.Errorf("got outcome %+v, want %+v", e.Outcome, want)
	}
	if e.Origin.Task != "tau-bench/7" {
		t.Errorf("got the task of every trial %q", e.Origin.Task)
	}
	if !strings.HasPrefix(e.RunID, "tau-bench/7/2/") || e.ID != events.ExecutionID("book", "", e.RunID, 0) {
		t.Errorf("got task %q", e.RunID)
	}
}

func TestRewardOutcome(t *testing.T) {
	t.Parallel()
	for reward, want := range map[string]events.Outcome{
		"1":    {Score: 1, Label: events.Success, By: sourceTauBench},
		"0.0":  {Score: 0, Label: events.Failure, By: sourceTauBench},
		"0.25": {Score: 0.25, Label: events.Partial, By: sourceTauBench},
		"null": {Label: events.Unknown},
	} {
		got, _, err := read(t, "x.json", "["+tau("1", "0", reward, hello)+"]")
		if err != nil || !reflect.DeepEqual(got[0].Outcome, want) {
			t.Errorf("reward %s: got %+v, error %v; want %+v", reward, got, err, want)
		}
	}
}

func TestInvalidElementsAreSkipped(t *testing.T) {
	t.Parallel()
	elements := []struct{ json, problem string }{
		{tau("1", "0", "1", hello), ""},
		{`17`, "got a JSON number"},
		{`null`, "unknown format"},
		{`{"task_id": 1, "reward": 1}`, "field traj: "},
		{`{"task_id": 1, "reward": 0.0, "info": {"error": "Rate limit"}, "traj": []}`, "field traj: "},
		{`{"task_id": [], "reward": 1, "traj": [` + hello + `]}`, "field task_id: "},
		{tau("1", "0", "1.5", hello), "field reward: "},
		{tau("1", "0", `"much"`, hello), "field reward: "},
		{tau("1", "0", "1", hello+`, {"role": "narrator"}`), "field traj[1].role: "},
		{tau("1", "0", "1", `{"role": "user", "content": 5}`), "field traj[0].content: "},
		{tau("1", "0", "1", `{"role": "assistant", "tool_calls": [{"id": "x", "function": {}}]}`), "field traj[0].tool_calls[0].function.name: "},
		{`{"task_id": 1,, "traj": [}]`, "invalid JSON at byte 14"},
		{`{"task_id": "` + strings.Repeat("x", 2000) + `"}`, "too large: "},
		{" " + strings.ReplaceAll(tau("1", "0", "1", hello), " ", "\n "), ""}, // twice the same run, by one name
		{tau(`"a/b"`, "0", "1", hello), ""},
	}
	var list []string
	for _, e := range elements {
		list = append(list, e.json)
	}
	var tasks []string
	f := fileReader{Reader: &Reader{Book: "book"}, base: "x", limit: 1000, fn: func(e *events.Execution) error {
		tasks = append(tasks, e.RunID)
		return nil
	}}
	err := f.read(t.Context(), iotest.OneByteReader(strings.NewReader("\ufeff\n["+strings.Join(list, "\n,")+"]\n")))
	report := f.report
	if err != nil || report.Runs != 3 || report.Skipped != len(elements)-3 || tasks[0] != tasks[1] {
		t.Fatalf("got %+v, error %v", report, err)
	}
	if !strings.HasPrefix(tasks[2], "tau-bench/a_b/0/") {
		t.Errorf("got task %q", tasks[2])
	}
	for i, e := range elements {
		got := ""
		for _, p := range report.Problems {
			if p.Index == i {
				got = p.Reason
			}
		}
		if (e.problem == "") != (got == "") || !strings.HasPrefix(got, e.problem) {
			t.Errorf("element %d: got problem %q, want %q", i, got, e.problem)
		}
	}
}

func TestReportLimitsProblems(t *testing.T) {
	t.Parallel()
	_, report, err := read(t, "x.json", "["+strings.Repeat("1,", 5000)+tau("1", "0", "1", hello)+"]")
	if err != nil || report.Skipped != 5000 || len(report.Problems) != maxProblems {
		t.Errorf("got %d skipped, %d problems, error %v", report.Skipped, len(report.Problems), err)
	}
}

func TestInvalidFiles(t *testing.T) {
	t.Parallel()
	one := tau("1", "0", "1", hello)
	tests := []struct {
		name, text, names string
		is                error
		runs              int
	}{
		{"empty", "", "", ErrFormat, 0},
		{"blank", " \n\t", "", ErrFormat, 0},
		{"prose", "hello", "line 1", ErrFormat, 0},
		{"much prose", strings.Repeat("hello\n", 1000), "line 1", ErrFormat, 0},
		{"a list of nothing", "[ ]", "", ErrFormat, 0},
		{"a question alone", "[" + hello + "]", "element 0: ", ErrFormat, 0},
		{"events of a log", `{"type": "summary"}`, "", ErrFormat, 0},
		{"an object of something else", `{"skills": {}}`, "line 1", ErrFormat, 0},
		{"an object that is no JSON", `{skills}`, "line 1", ErrFormat, 0},
		{"more behind an object", "{\n" + `"history": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]} x`, "'x'", nil, 1},
		{"no steps", `{"trajectory": [], "history": []}`, "trajectory, history", ErrFormat, 0},
		{"a broken step", `{"trajectory": [{"action": "ls"}, {"action": 7}]}`, "field trajectory[1].action", ErrFormat, 0},
		{"a truncated object", `{"trajectory": [`, "", io.ErrUnexpectedEOF, 0},
		{"a list cut in an element", "[" + one + `, {"task_id`, "element 1: ", io.ErrUnexpectedEOF, 1},
		{"a list cut behind an element", "[" + one, "element 1: ", io.ErrUnexpectedEOF, 1},
		{"a list cut behind a comma", "[" + one + ",", "element 1: ", io.ErrUnexpectedEOF, 1},
		{"a list with a comma too many", "[" + one + ",]", "element 1: ", nil, 1},
		{"a list without commas", "[" + one + one + "]", "element 1: ", nil, 1},
		{"more behind the list", "[" + one + "] x", "'x'", nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, report, err := read(t, "f.json", tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.names) {
				t.Errorf("got %v, want an error that names %q", err, tt.names)
			}
			if tt.is != nil && !errors.Is(err, tt.is) || tt.is == nil && errors.Is(err, ErrFormat) {
				t.Errorf("got %v, want one that is %v", err, tt.is)
			}
			if report.Runs != tt.runs {
				t.Errorf("got %d runs, want %d", report.Runs, tt.runs)
			}
		})
	}
}

func TestReadStopsOnErrors(t *testing.T) {
	t.Parallel()
	list := "[" + tau("1", "0", "1", hello) + "," + tau("2", "0", "1", hello) + "]"
	full := errors.New("full")
	report, err := Read(t.Context(), "book", "f", strings.NewReader(list), func(*events.Execution) error { return full })
	if !errors.Is(err, full) || report.Runs != 0 || !strings.Contains(err.Error(), "element 0") {
		t.Errorf("got %+v, %v", report, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	report, err = Read(ctx, "book", "f", strings.NewReader(list), func(*events.Execution) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || report.Runs != 1 {
		t.Errorf("got %+v, %v", report, err)
	}
	broken := errors.New("disk")
	_, err = Read(t.Context(), "book", "f", io.MultiReader(strings.NewReader(list[:90]), iotest.ErrReader(broken)), func(*events.Execution) error { return nil })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestIDsDependOnContent(t *testing.T) {
	t.Parallel()
	id := func(name, text string) string {
		got, _, err := read(t, name, text)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0].RunID
	}
	one := "[" + tau("1", "0", "1", hello) + "]"
	if a, b := id("a/f.json", one), id("b/f.json", strings.ReplaceAll(one, " ", "\n")); a != b {
		t.Errorf("the same run in another spelling: got %q and %q", a, b)
	}
	if a, b := id("a/f.json", one), id("b/f.json", "["+tau("1", "0", "1", hello+`,{"role":"assistant","content":"a"}`)+"]"); a == b {
		t.Errorf("two runs in files of one name are both %q", a)
	}
	if a, b := id("a.json", one), id("renamed.json", one); a != b {
		t.Errorf("the same run in a renamed file: got %q and %q", a, b)
	}
	long := strings.Repeat("é", 300)
	if a := id("f.json", "["+tau(`"`+long+`"`, "0", "1", hello)+"]"); len(a) > 256 {
		t.Errorf("got the id %q of %d bytes", a, len(a))
	}
}

func TestSWEAgentTrajectoryWithHistory(t *testing.T) {
	t.Parallel()
	const history = `"history": [
{"role": "system", "content": "SETTING"},
{"role": "user", "content": "ISSUE:\ndemo\nINSTRUCTIONS: x", "is_demo": true},
{"role": "assistant", "content": "demo", "action": "ls", "is_demo": true, "tool_calls": [{"id": "d", "function": {"name": "demo"}}]},
{"role": "user", "content": "We're solving this.\nISSUE:\nIt breaks.\n\nBadly.\n\nINSTRUCTIONS:\nNow go."},
{"role": "assistant", "content": "look\n` + "```" + `ls` + "```" + `", "thought": "look", "action": "ls", "tool_calls": [{"id": "1", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}]},
{"role": "tool", "content": "a.py\n(Open file: n/a)\n(Current directory: /x)\nbash-$", "tool_call_ids": ["1"]},
{"role": "assistant", "content": "run", "thought": "run", "action": "python a.py"},
{"role": "user", "content": "Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'x'\n(Open file: n/a)\n(Current directory: /x)\nbash-$"},
{"role": "assistant", "content": "hm"},
{"role": "user", "content": "go on"}]`
	const trajectory = `"trajectory": [
{"action": "ls\n", "observation": "a.py", "thought": "look", "execution_time": 0.25},
{"action": "python a.py", "observation": "Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'x'", "response": "run", "thought": "", "execution_time": -1},
{"action": "", "observation": "Exited", "thought": "give up"}]`
	const info = `"info": {"exit_status": "submitted", "submission": "diff", "model_stats": {"instance_cost": 1.5, "tokens_sent": 100, "tokens_received": 20, "api_calls": 3}}`

	got, report, err := read(t, "dir/x-1.traj", "{"+trajectory+","+history+","+info+"}")
	if err != nil || !reflect.DeepEqual(report, Report{Source: sourceSWEAgent, Runs: 1}) {
		t.Fatalf("got %+v, error %v", report, err)
	}
	e := got[0]
	if e.Agent == nil || e.Agent.SystemPrompt != "SETTING" {
		t.Errorf("got the agent %+v, want its system prompt", e.Agent)
	}
	crash := "Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'x'"
	want := []events.Step{
		{Speaker: "assistant", Text: "look", Calls: []events.ToolCall{{Tool: "bash", Arguments: `{"command":"ls"}`, Output: "a.py", Outcome: events.Success, Duration: 250 * time.Millisecond}}},
		{Speaker: "assistant", Text: "run", Calls: []events.ToolCall{{Tool: "python", Arguments: "a.py", Output: crash, Outcome: events.Failure}}},
		{Speaker: "assistant", Text: "give up"},
		{Speaker: "user", Text: "Exited"},
	}
	if !reflect.DeepEqual(e.Steps, want) {
		t.Errorf("got  %+v\nwant %+v", e.Steps, want)
	}
	if e.Question != "It breaks.\n\nBadly." || e.Answer != "diff" || !strings.HasPrefix(e.RunID, "swe-agent/") {
		t.Errorf("got question %q, answer %q, task %q", e.Question, e.Answer, e.RunID)
	}
	if want := (events.Outcome{Label: events.Unknown, Feedback: "exit status: submitted"}); !reflect.DeepEqual(e.Outcome, want) {
		t.Errorf("got outcome %+v, want %+v", e.Outcome, want)
	}
	if u := e.Usage; u.Calls != 3 || u.InputTokens != 100 || u.OutputTokens != 20 || u.Cost != 1.5 {
		t.Errorf("got usage %+v", u)
	}

	got, _, err = read(t, "x-1.traj", "{"+history+"}")
	if err != nil {
		t.Fatal(err)
	}
	e = got[0]
	const state = "\n(Open file: n/a)\n(Current directory: /x)\nbash-$"
	want = []events.Step{
		{Speaker: "assistant", Text: "look", Calls: []events.ToolCall{{Tool: "bash", Arguments: `{"command":"ls"}`, Output: "a.py" + state, Outcome: events.Success}}},
		{Speaker: "assistant", Text: "run", Calls: []events.ToolCall{{Tool: "python", Arguments: "a.py", Output: crash + state, Outcome: events.Failure}}},
		{Speaker: "assistant", Text: "hm"},
		{Speaker: "user", Text: "go on"},
	}
	if !reflect.DeepEqual(e.Steps, want) {
		t.Errorf("history alone: got  %+v\nwant %+v", e.Steps, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("[" + tau("1", "0", "1", hello) + "," + tau("1", "1", "0.5", `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"Error"}`) + "]"))
	f.Add([]byte(`{"trajectory":[{"action":"ls -l","observation":"x","execution_time":1}],"history":[{"role":"user","content":"q"}]}`))
	f.Add([]byte(`[1, "a\"]", {"x": [}, ]`))
	f.Add([]byte("\xef\xbb\xbf[[[[\"\\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		runs := 0
		report, err := Read(t.Context(), "book", "fuzz.json", strings.NewReader(string(data)), func(e *events.Execution) error {
			runs++
			if err := e.Validate(); err != nil {
				t.Errorf("not valid: %v", err)
			}
			for _, s := range e.Steps {
				for _, c := range s.Calls {
					if c.Tool == "" || c.Outcome == "" || len(c.Output) > steps.MaxOutput+64 {
						t.Errorf("call %+v", c)
					}
				}
			}
			return nil
		})
		if runs != report.Runs || (err == nil) && runs == 0 || len(report.Problems) > report.Skipped {
			t.Errorf("%d runs, report %+v, error %v", runs, report, err)
		}
	})
}
