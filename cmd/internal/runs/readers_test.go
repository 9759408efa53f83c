package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
)

// one returns the only run of a file without problems.
func one(t *testing.T, text string) *events.Execution {
	t.Helper()
	got, report, err := read(t, "f.jsonl", text)
	if err != nil || len(got) != 1 || report.Skipped != 0 {
		t.Fatalf("got %d runs, report %+v, error %v", len(got), report, err)
	}
	return got[0]
}

const claude = `{"type":"system","subtype":"init","session_id":"s-1","model":"m-1","tools":["Bash"],"cwd":"/x"}
{"type":"stream_event","session_id":"s-1","event":{"type":"message_start"}}
{"type":"assistant","session_id":"s-1","parent_tool_use_id":null,"message":{"id":"a","role":"assistant","model":"m-1","content":[{"type":"thinking","thinking":"THE SYSTEM PROMPT"}]}}
{"type":"assistant","session_id":"s-1","message":{"id":"a","role":"assistant","model":"m-1","content":[{"type":"text","text":"I look."}]}}
{"type":"assistant","session_id":"s-1","message":{"id":"a","role":"assistant","model":"m-1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
{"type":"assistant","session_id":"s-1","message":{"id":"a","role":"assistant","model":"m-1","content":[{"type":"tool_use","id":"t2","name":"Read","input":{"file_path":"a"}}]}}
{"type":"user","session_id":"s-1","message":{"role":"user","content":[{"tool_use_id":"t2","type":"tool_result","content":"<tool_use_error>File does not exist.</tool_use_error>"}]}}
{"type":"user","session_id":"s-1","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":[{"type":"text","text":"Error in a name"},{"type":"text","text":"b"}],"is_error":false}]}}
{"type":"assistant","session_id":"s-1","message":{"id":"b","role":"assistant","model":"m-1","content":[{"type":"tool_use","id":"t3","name":"Bash","input":{"command":"rm b"}},{"type":"tool_use","id":"t4","name":"Bash","input":{"command":"cat c"}}]}}
{"type":"user","session_id":"s-1","message":{"role":"user","content":[{"tool_use_id":"t3","type":"tool_result","content":"The user doesn't want to proceed with this tool use.","is_error":true},{"tool_use_id":"t4","type":"tool_result","content":"Exit code 1","is_error":true},{"type":"text","text":"Leave b alone."}]}}
{"type":"assistant","session_id":"s-1","message":{"id":"c","role":"assistant","model":"m-1","content":[{"type":"text","text":"Done."}]}}
`

func TestClaudeCodeStreams(t *testing.T) {
	t.Parallel()
	const result = `{"type":"result","subtype":"success","is_error":false,"duration_ms":1500,"num_turns":4,"result":"All done.","session_id":"s-1","total_cost_usd":0.25,"usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":1,"output_tokens":7}}`
	e := one(t, claude+result)
	want := []events.Step{
		{Speaker: "assistant", Text: "I look.", Calls: []events.ToolCall{
			{Tool: "Bash", Arguments: `{"command":"ls"}`, Output: "Error in a name\n\nb", Outcome: events.Success},
			{Tool: "Read", Arguments: `{"file_path":"a"}`, Output: "<tool_use_error>File does not exist.</tool_use_error>", Outcome: events.Failure},
		}},
		{Speaker: "assistant", Calls: []events.ToolCall{
			{Tool: "Bash", Arguments: `{"command":"rm b"}`, Output: "The user doesn't want to proceed with this tool use.", Outcome: events.Unknown},
			{Tool: "Bash", Arguments: `{"command":"cat c"}`, Output: "Exit code 1", Outcome: events.Failure},
		}},
		{Speaker: "user", Text: "Leave b alone."},
		{Speaker: "assistant", Text: "Done."},
	}
	// The stream does not contain the prompt. A later user message must not become the question.
	if !reflect.DeepEqual(e.Steps, want) {
		t.Errorf("got  %+v\nwant %+v", e.Steps, want)
	}
	if e.Question != "" || e.Answer != "All done." || e.Session != "s-1" || e.Model != "m-1" || e.Duration != 1500*time.Millisecond {
		t.Errorf("got %+v", e)
	}
	if want := (chat.Usage{Calls: 4, InputTokens: 16, OutputTokens: 7, Cost: 0.25, CachedTokens: 5}); e.Usage != want {
		t.Errorf("got usage %+v, want %+v", e.Usage, want)
	}
	if want := (events.Outcome{Label: events.Unknown, Feedback: "result: success"}); !reflect.DeepEqual(e.Outcome, want) {
		t.Errorf("got outcome %+v, want %+v", e.Outcome, want)
	}
	if !strings.HasPrefix(e.RunID, "claude-code/") || e.Origin.Source != "file/claude-code" {
		t.Errorf("got task %q, source %q", e.RunID, e.Origin.Source)
	}

	for subtype, isError := range map[string]bool{"error_max_turns": false, "success": true} {
		e := one(t, claude+fmt.Sprintf(`{"type":"result","subtype":%q,"is_error":%v,"session_id":"s-1"}`, subtype, isError))
		if want := (events.Outcome{Label: events.Failure, Feedback: "result: " + subtype, By: sourceClaudeCode}); !reflect.DeepEqual(e.Outcome, want) || e.Answer != "Done." {
			t.Errorf("got outcome %+v, want %+v; answer %q", e.Outcome, want, e.Answer)
		}
	}
}

func TestClaudeCodeTranscripts(t *testing.T) {
	t.Parallel()
	e := one(t, `{"type":"summary","summary":"x","leafUuid":"y"}
{"type":"user","isMeta":true,"sessionId":"s-2","message":{"role":"user","content":"Caveat: HARNESS"}}
{"type":"user","sessionId":"s-2","timestamp":"2031-05-17T10:00:00Z","message":{"role":"user","content":"fix it"}}
{"type":"assistant","sessionId":"s-2","timestamp":"2031-05-17T10:00:01Z","message":{"id":"a","role":"assistant","model":"m","content":[{"type":"text","text":"on it"}]}}
{"type":"user","sessionId":"s-2","message":{"role":"user","content":"and now?"}}
{"type":"assistant","sessionId":"s-2","message":{"id":"b","role":"assistant","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]}}
{"type":"user","sessionId":"s-2","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"gone","content":"lost"}]}}
`)
	at := time.Date(2031, 5, 17, 10, 0, 1, 0, time.UTC)
	want := []events.Step{
		{Speaker: "assistant", Text: "on it", At: at},
		{Speaker: "user", Text: "and now?"},
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "unknown", Output: "lost", Outcome: events.Success}}},
	}
	if !reflect.DeepEqual(e.Steps, want) || e.Question != "fix it" || !reflect.DeepEqual(e.Outcome, events.Outcome{Label: events.Unknown}) || !e.Started.Equal(at.Add(-time.Second)) {
		t.Errorf("got %+v", e)
	}
}

// TestSubAgentsAreRuns checks that the events of sub-agents are runs of their own: named by a tool call in streams, by their id
// in transcripts, or by their chain in older transcripts, also when two of them are interleaved.
func TestSubAgentsAreRuns(t *testing.T) {
	t.Parallel()
	event := func(kind, more, text string) string {
		return fmt.Sprintf(`{"type":%q,"sessionId":"s",%s"message":{"id":%q,"role":%q,"content":[{"type":"text","text":%q}]}}`, kind, more, text, kind, text) + "\n"
	}
	for name, text := range map[string]string{
		"stream": event("user", "", "q") + event("assistant", "", "m1") +
			event("user", `"parent_tool_use_id":"A",`, "qa") + event("user", `"parent_tool_use_id":"B",`, "qb") +
			event("assistant", `"parent_tool_use_id":"A",`, "a1") + event("assistant", `"parent_tool_use_id":"B",`, "b1") + event("assistant", "", "m2"),
		"transcript": event("user", "", "q") + event("assistant", "", "m1") +
			event("user", `"isSidechain":true,"agentId":"A",`, "qa") + event("user", `"isSidechain":true,"agentId":"B",`, "qb") +
			event("assistant", `"isSidechain":true,"agentId":"A",`, "a1") + event("assistant", `"isSidechain":true,"agentId":"B",`, "b1") + event("assistant", "", "m2"),
		"chains": event("user", "", "q") + event("assistant", "", "m1") +
			event("user", `"isSidechain":true,"uuid":"A","parentUuid":null,`, "qa") + event("user", `"isSidechain":true,"uuid":"B","parentUuid":null,`, "qb") +
			event("assistant", `"isSidechain":true,"uuid":"A2","parentUuid":"A",`, "a1") + event("assistant", `"isSidechain":true,"uuid":"B2","parentUuid":"B",`, "b1") + event("assistant", "", "m2"),
	} {
		got, report, err := read(t, "f", text)
		var runs []string
		for _, e := range got {
			run := e.Session + " " + e.Question
			for _, s := range e.Steps {
				run += " " + s.Text
			}
			runs = append(runs, run)
		}
		want := []string{"s q m1 m2", "s qa a1", "s qb b1"}
		if err != nil || report.Skipped != 0 || !slices.Equal(runs, want) {
			t.Errorf("%s: got %q, report %+v, error %v, want %q", name, runs, report, err, want)
		}
	}
}

// TestInterleavedSessions checks that interleaved sessions are separate runs, and that events after a result start a new run.
func TestInterleavedSessions(t *testing.T) {
	t.Parallel()
	say := func(session, text string) string {
		return fmt.Sprintf(`{"type":"assistant","session_id":%q,"message":{"id":%q,"content":[{"type":"text","text":%q}]}}`, session, text, text) + "\n"
	}
	end := func(session string) string {
		return fmt.Sprintf(`{"type":"result","subtype":"success","session_id":%q}`, session) + "\n"
	}
	got, _, err := read(t, "f", say("a", "1")+say("b", "2")+say("a", "3")+end("a")+say("a", "4")+say("b", "5"))
	var told []string
	for _, e := range got {
		text := e.Session
		for _, s := range e.Steps {
			text += s.Text
		}
		told = append(told, text)
	}
	if want := []string{"a13", "b25", "a4"}; err != nil || !reflect.DeepEqual(told, want) {
		t.Errorf("got %q, error %v, want %q", told, err, want)
	}
}

func TestOpenAIChat(t *testing.T) {
	t.Parallel()
	const (
		ask    = `{"role":"system","content":"POLICY"},{"role":"user","content":"q"}`
		called = `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"get","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"{\"error\":\"no such id\"}"}`
		reply  = `{"role":"assistant","content":"a"}`
	)
	whole := `{"messages":[` + ask + `,` + called + `,` + reply + `]`
	tests := []struct {
		name, text, place string
		outcome           events.Outcome
	}{
		{"an object", whole + `}`, "", events.Outcome{Label: events.Unknown}},
		{"over several lines", strings.ReplaceAll(whole, `{"role"`, "{\n\"role\"") + "}\n", "", events.Outcome{Label: events.Unknown}},
		{"a list of messages", `[` + ask + `,` + called + `,` + reply + `]`, "", events.Outcome{Label: events.Unknown}},
		{"a message a line", strings.ReplaceAll(ask+`,`+called+`,`+reply, "},{\"role", "}\n{\"role"), "", events.Outcome{Label: events.Unknown}},
		{"a list of objects", `[` + whole + `,"id":7,"reward":0.5}]`, "/7", events.Outcome{Score: 0.5, Label: events.Partial, By: sourceOpenAIChat}},
		{"a function call", strings.ReplaceAll(strings.ReplaceAll(whole, `"tool_calls":[{"id":"c","type":"function","function":{"name":"get","arguments":"{}"}}]`, `"function_call":{"name":"get","arguments":"{}"}`), `"tool","tool_call_id":"c"`, `"function","name":"get"`) + `}`, "", events.Outcome{Label: events.Unknown}},
		{"a request and its response", `{"request":{"model":"m","messages":[` + ask + `,` + called + `]},"response":{"id":"r/1","choices":[{"message":` + reply + `},{"message":{"role":"assistant","content":"OTHER"}}]}}`, "/r_1", events.Outcome{Label: events.Unknown}},
		{"choices beside messages", `{"messages":[` + ask + `,` + called + `],"choices":[{"message":` + reply + `}],"score":0}`, "", events.Outcome{Label: events.Failure, By: sourceOpenAIChat}},
		{"an outcome in a word", whole + `,"id":"x","outcome":"success","reward":0}`, "/x", events.Outcome{Score: 1, Label: events.Success, By: sourceOpenAIChat}},
		{"an outcome in full", whole + `,"outcome":{"score":0,"label":"failure","feedback":"late","by":"ann"}}`, "", events.Outcome{Label: events.Failure, Feedback: "late", By: "ann"}},
		{"right or wrong", whole + `,"outcome":true}`, "", events.Outcome{Score: 1, Label: events.Success, By: sourceOpenAIChat}},
		{"in the metadata", whole + `,"metadata":{"id":"y","score":1,"more":[]}}`, "/y", events.Outcome{Score: 1, Label: events.Success, By: sourceOpenAIChat}},
	}
	want := []events.Step{
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "get", Arguments: "{}", Output: `{"error":"no such id"}`, Outcome: events.Failure}}},
		{Speaker: "assistant", Text: "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := one(t, tt.text)
			if !reflect.DeepEqual(e.Steps, want) || e.Question != "q" || e.Answer != "a" || !reflect.DeepEqual(e.Outcome, tt.outcome) {
				t.Errorf("got %+v", e)
			}
			if id, _, _ := strings.Cut(strings.TrimPrefix(e.RunID, "openai-chat"+tt.place), "/"); id != "" || e.Origin.Source != "file/openai-chat" {
				t.Errorf("got task %q, source %q", e.RunID, e.Origin.Source)
			}
		})
	}
	for field, problem := range map[string]string{
		`"score":87`:              "field score: ",
		`"outcome":"purple"`:      "field outcome: ",
		`"reward":[]`:             "field reward: ",
		`"metadata":{"score":-2}`: "field metadata: field score: ",
	} {
		_, report, err := read(t, "f", whole+"}\n"+whole+","+field+"}\n")
		if err != nil || len(report.Problems) != 1 || report.Problems[0].Line != 2 || !strings.HasPrefix(report.Problems[0].Reason, problem) {
			t.Errorf("%s: got %+v, error %v", field, report, err)
		}
	}
}

// TestAttemptsOfChatLogs checks that lines with the same task_id are attempts at one task, although their questions differ.
func TestAttemptsOfChatLogs(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]`
	for _, line := range []string{`{"task_id":7,` + messages + `}`, `{` + messages + `,"metadata":{"task_id":"7"}}`} {
		if e := one(t, line); e.Origin.Task != "openai-chat/7" {
			t.Errorf("%s: got task %q, want openai-chat/7", line, e.Origin.Task)
		}
	}
}

// TestExecutionWithItsAgent reads a line of 'debrief submit --json' that describes the agent. ATIF also has the fields agent and steps.
func TestExecutionWithItsAgent(t *testing.T) {
	t.Parallel()
	e := one(t, `{"question":"q","agent":{"system_prompt":"Look first.","tools":[{"name":"find","description":"Finds."}]},"steps":[{"text":"hm","tool_calls":[{"tool":"find","output":"4"}]}],"outcome":"failure"}`)
	if e.Origin.Source != "file/debrief" || e.Agent == nil || e.Agent.SystemPrompt != "Look first." || len(e.Agent.Tools) != 1 || len(e.Steps) != 1 {
		t.Errorf("got source %q, agent %+v and steps %+v", e.Origin.Source, e.Agent, e.Steps)
	}
}

func TestExecutionsWrittenByHand(t *testing.T) {
	t.Parallel()
	e := one(t, `{"task_id":"berth/7","question":"q","answer":"4","target":"4","shown":[{"id":"b-1","content":"x"}],"cited":["b-1"],"manifest":{"exposures":[{"bullet_id":"b-1","arm":1}]},"steps":[{"text":"hm","tool_calls":[{"tool":"find","output":"4"},{"tool":"find","outcome":"timeout","duration_ns":-5}]},{"speaker":"user","text":"yes"}],"outcome":"success","usage":{"calls":-3,"cost":1}}`)
	want := []events.Step{
		{Speaker: "assistant", Text: "hm", Calls: []events.ToolCall{{Tool: "find", Output: "4", Outcome: events.Success}, {Tool: "find", Outcome: events.TimedOut}}},
		{Speaker: "user", Text: "yes"},
	}
	if !reflect.DeepEqual(e.Steps, want) || !reflect.DeepEqual(e.Outcome, events.Outcome{Score: 1, Label: events.Success}) || e.Usage != (chat.Usage{Cost: 1}) {
		t.Errorf("got %+v", e)
	}
	if e.Shown != nil || e.Cited != nil || e.Manifest != nil || e.Origin.Task != "berth_7" || !strings.HasPrefix(e.RunID, "debrief/berth_7/") {
		t.Errorf("got %+v", e)
	}

	// An execution of Debrief keeps its id, so that it can be found where it is stored.
	id := events.ExecutionID("book", "", "a/b", 2)
	line, err := json.Marshal(events.Execution{
		ID: id, RunID: "a/b", Book: "book", User: "ann", Session: "s-17", Question: "q", Answer: "a", Outcome: events.Outcome{Score: 0, Label: events.Unknown},
		Origin: events.Origin{Round: 2, Run: "r"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := one(t, string(line)); e.ID != id || e.RunID != "a/b" || e.User != "ann" || e.Session != "s-17" {
		t.Errorf("got id %s of run %q, user %q, session %q, want %s", e.ID, e.RunID, e.User, e.Session, id)
	}

	for text, problem := range map[string]string{
		`{"question":"q","steps":[]}`:                                                                      "fields steps, answer: ",
		`{"question":"q","steps":[{"speaker":"narrator"}]}`:                                                "steps[0].speaker: ",
		`{"question":"q","steps":[{"tool_calls":[{}]}]}`:                                                   "steps[0].tool_calls[0].tool: ",
		`{"question":"q","steps":[{"tool_calls":[{"tool":"x","outcome":"so-so"}]}]}`:                       `steps[0].tool_calls[0].outcome: got "so-so", want success, partial, failure, `,
		`{"question":"q","answer":"a","outcome":2}`:                                                        "field outcome: ",
		`{"question":"q","answer":"a","purpose":"fun"}`:                                                    "purpose: ",
		`{"question":7,"answer":"a"}`:                                                                      "field question: ",
		`{"question":"q","answer":"a","id":"AAAAAAAAAAAAAAAAAAAAAA"}`:                                      "field run_id: ",
		`{"question":"q","answer":"a","id":"AAAAAAAAAAAAAAAAAAAAAA","run_id":"t","origin":{"round":1e9}}`:  "field origin.round: ",
		`{"question":"q","answer":"a","id":"AAAAAAAAAAAAAAAAAAAAAA","run_id":"t","origin":{"round":1000}}`: "field origin.round: ",
	} {
		_, report, _ := read(t, "f", text)
		if len(report.Problems) != 1 || !strings.HasPrefix(report.Problems[0].Reason, problem) {
			t.Errorf("%s: got %+v", text, report.Problems)
		}
	}
}

func TestInvalidLinesAreSkipped(t *testing.T) {
	t.Parallel()
	line := func(q string) string { return fmt.Sprintf(`{"question":%q,"answer":"a"}`, q) }
	text := "\n" + line("1") + "\r\n\n" + `{"question":"torn` + "\n" + "\x00\x00/junk" + line("2") + "\n" + line(strings.Repeat("x", 2000)) + "\n17\n" +
		`{"type":"note"}` + "\n" + `{"other":1}` + "\n" + line("3") + "\n" + `{"question":"half`
	var got []string
	f := fileReader{Reader: &Reader{Book: "book"}, base: "x", limit: 1000, fn: func(e *events.Execution) error { got = append(got, e.Question); return nil }}
	if err := f.read(t.Context(), strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1", "3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []Problem{
		{Place: source.Place{Line: 4}, Reason: "invalid JSON at byte 17: unexpected end"},
		{Place: source.Place{Line: 5}, Reason: "invalid JSON at byte 0"},
		{Place: source.Place{Line: 6}, Reason: "too large: 2029 bytes, limit 1000"},
		{Place: source.Place{Line: 7}, Reason: "got a JSON number, want an object"},
		{Place: source.Place{Line: 9}, Reason: `unknown format: no supported recording has the fields "other"`},
		{Place: source.Place{Line: 11}, Reason: "invalid JSON at byte 17: unexpected end"},
	}
	if !reflect.DeepEqual(f.report.Problems, want) || f.report.Skipped != len(want) {
		t.Errorf("got  %+v\nwant %+v", f.report.Problems, want)
	}
}

func TestUnfinishedRunsAreBounded(t *testing.T) {
	t.Parallel()
	say := func(session, text string) string {
		return fmt.Sprintf(`{"type":"assistant","session_id":%q,"message":{"content":%q}}`, session, text) + "\n"
	}
	read := func(limit int, text string) (told []string, r Report) {
		f := fileReader{Reader: &Reader{Book: "book"}, limit: limit, fn: func(e *events.Execution) error {
			told = append(told, fmt.Sprintf("%s:%d", e.Session, len(e.Steps)))
			return nil
		}}
		if err := f.read(t.Context(), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		return told, f.report
	}

	// A run that is too large is skipped up to its end.
	large := strings.Repeat(say("a", strings.Repeat("x", 500)), 4)
	told, r := read(2000, say("b", "1")+large+`{"type":"result","session_id":"a"}`+"\n"+say("a", "2")+say("b", "3"))
	if want := []string{"b:2", "a:1"}; !reflect.DeepEqual(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
	if len(r.Problems) != 1 || r.Problems[0].Line != 2 || !strings.Contains(r.Problems[0].Reason, "too large") {
		t.Errorf("got %+v", r.Problems)
	}

	// The run without a line for longest is ended if the memory or the number of runs reaches the limit.
	told, r = read(1400, say("c", "1")+say("b", strings.Repeat("x", 500))+say("a", strings.Repeat("x", 500))+say("c", "2")+say("a", "3")+say("b", "4"))
	if want := []string{"b:1", "c:2", "a:2", "b:1"}; !reflect.DeepEqual(told, want) || r.Skipped != 0 {
		t.Errorf("got %q, report %+v, want %q", told, r, want)
	}
	var many strings.Builder
	for i := range maxOpen {
		many.WriteString(say(fmt.Sprint("s", i), "1"))
	}
	told, _ = read(maxRun, many.String()+say("s0", "2")+say("new", "3")+say("s0", "4"))
	if len(told) != maxOpen+1 || told[0] != "s1:1" || told[1] != "s0:3" {
		t.Errorf("got %q", told)
	}
}

// TestIDsOfRunsInParts checks that the id of a run depends on its content and not on its white space.
func TestIDsOfRunsInParts(t *testing.T) {
	t.Parallel()
	a := one(t, claude)
	if b := one(t, strings.ReplaceAll(claude, `,"session_id"`, ` , "session_id"`)); a.ID != b.ID {
		t.Errorf("spelled in another way: got %q and %q", a.RunID, b.RunID)
	}
	if b := one(t, "["+strings.ReplaceAll(strings.TrimSpace(claude), "\n", ",\n")+"]"); a.ID != b.ID || !reflect.DeepEqual(a.Steps, b.Steps) {
		t.Errorf("in a list: got %q and %q", a.RunID, b.RunID)
	}
	if b := one(t, strings.ReplaceAll(claude, "Done.", "done.")); a.ID == b.ID {
		t.Errorf("two runs of one session are both %q", a.RunID)
	}
}

func fuzz(f *testing.F, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		runs := 0
		sink := fileReader{Reader: &Reader{Book: "book"}, base: "fuzz", limit: 10_000, fn: func(e *events.Execution) error {
			runs++
			if err := e.Validate(); err != nil {
				t.Errorf("not valid: %v", err)
			}
			for _, s := range e.Steps {
				for _, c := range s.Calls {
					if c.Tool == "" || c.Outcome == "" || len(c.Output) > steps.MaxOutput+64 || c.Duration < 0 {
						t.Errorf("call %+v", c)
					}
				}
			}
			return nil
		}}
		err := sink.read(t.Context(), strings.NewReader(string(data)))
		r := sink.report
		if runs != r.Runs || err == nil && runs == 0 || len(r.Problems) > r.Skipped || len(sink.openRuns) > 0 && err == nil {
			t.Errorf("%d runs, report %+v, %d open, error %v", runs, r, len(sink.openRuns), err)
		}
	})
}

func FuzzClaudeCode(f *testing.F) {
	fuzz(f, claude, `{"type":"user","sessionId":"x","message":{"content":"q"}}`+"\n"+`{"type":"result","session_id":"x","duration_ms":-1e300,"total_cost_usd":1e308}`)
}

func FuzzOpenAIChat(f *testing.F) {
	fuzz(f, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]},{"role":"tool","content":"{\"error\":1}"}],"score":0.5,"metadata":{"id":1}}`,
		`{"request":{"messages":[{"role":"assistant"}]},"response":{"choices":[{"message":{"role":"assistant","content":"a"}}]}}`,
		`[{"role":"user","content":[{"text":"q"}]},{"role":"assistant","content":"a"}]`)
}

func FuzzExecutions(f *testing.F) {
	fuzz(f, `{"id":"AAAAAAAAAAAAAAAAAAAAAA","run_id":"t","answer":"a","outcome":{"score":1},"origin":{"round":1}}`,
		`{"question":"q","steps":[{"tool_calls":[{"tool":"x","outcome":"error","duration_ns":5}]}],"outcome":0.5}`)
}

// TestLinesOfAnyLength checks lines of about the size of the reader's buffer, with reads of different sizes.
func TestLinesOfAnyLength(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(65_400, 65_600), rapid.IntRange(130_900, 131_200)), 1, 6).Draw(t, "sizes")
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\n\n \n"}).Draw(t, "end")
		var text strings.Builder
		for i, n := range sizes {
			fmt.Fprintf(&text, `{"question":"%d","answer":"%s"}`+end, i, strings.Repeat("x", n))
		}
		whole := text.String()
		if rapid.Bool().Draw(t, "no end") {
			whole = strings.TrimRight(whole, "\r\n ")
		}
		var r io.Reader = strings.NewReader(whole)
		if rapid.Bool().Draw(t, "in halves") {
			r = iotest.HalfReader(r)
		}
		var got []int
		report, err := Read(context.Background(), "book", "f", r, func(e *events.Execution) error {
			if e.Question != fmt.Sprint(len(got)) {
				t.Errorf("got run %q, want %d", e.Question, len(got))
			}
			got = append(got, len(e.Answer))
			return nil
		})
		if err != nil || report.Skipped != 0 || !slices.Equal(got, sizes) {
			t.Errorf("got %v, report %+v, error %v; want %v", got, report, err, sizes)
		}
	})
}
