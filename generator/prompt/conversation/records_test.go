package conversation

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/chat"
)

// call returns a successful call of a tool, fails a failed one.
func call(tool, arguments, output string) events.ToolCall {
	return events.ToolCall{Tool: tool, Arguments: arguments, Output: output, Outcome: events.Success}
}

func fails(tool, arguments, output string) events.ToolCall {
	return events.ToolCall{Tool: tool, Arguments: arguments, Output: output, Outcome: events.Failure}
}

func step(calls ...events.ToolCall) events.Step {
	return events.Step{Speaker: "assistant", Calls: calls}
}

func user(text string) events.Step { return events.Step{Speaker: "user", Text: text} }

func TestCallLine(t *testing.T) {
	t.Parallel()
	unsettled := call("get_user", `{"id":"u1"}`, "")
	unsettled.Outcome = events.Unknown
	late := call("bash", `{"command":"go test ./..."}`, "")
	late.Outcome = events.TimedOut
	for _, tt := range []struct {
		name string
		call events.ToolCall
		want string
	}{
		{"a search", call("grep", "-rn retry src", "src/a.go:3: retry()\nsrc/b.go:9: retry()"), "searched -rn retry src → found 2 lines: src/a.go:3: retry()"},
		{"a search in snake case", call("search_flights", `{"from":"JFK","to":"SEA"}`, `[{"flight":"HAT069","seats":9}]`), "searched JFK, SEA → found 1 item: flight HAT069, seats 9"},
		{"a search in camel case", call("webSearch", `{"query":"nats"}`, "one hit"), "searched nats → found one hit"},
		{"a search without a find", call("find_file", "x.go", "  \n"), "searched x.go → found nothing"},
		{"an empty list", call("search", `{"q":"x"}`, " [ ] "), "searched x → found nothing"},
		{"reading", call("read_file", `{"path":"a.go","limit":2}`, "package a\n\nfunc F() {}\n"), "read a.go → 3 lines: package a"},
		{"writing, the long text left out", call("create", `{"path":"a.go","text":"package a\nfunc F() {}"}`, "ok"), "wrote a.go → ok"},
		{"writing a raw text", call("edit", "1:1\nfrom pwn import *", ""), "wrote 1:1… → no output"},
		{"running", call("run_tests", "", "\n-----\n3 passed"), "ran → 2 lines: 3 passed"},
		{"listing", call("list_dir", `{"path":"src"}`, "a\nbc\nde"), "listed src → found 3 lines: bc"},
		{"looking up", call("get_user", `{"id":"u1"}`, `{"name":{"first":"Mia"},"age":7,"tags":[],"vip":true}`), "looked up u1 → found first Mia, age 7, vip true"},
		{"another tool", call("book", `{"seats":2}`, "booked"), "called `book` seats 2 → booked"},
		{"a shell that searches", call("bash", `{"command":"cd /repo && FOO=1 grep -n x a.go | head"}`, "1:x"), "searched cd /repo && FOO=1 grep -n x a.go | head → found 1:x"},
		{"a shell that ignores errors", call("bash", `{"command":"sudo grep -n x a.go 2>/dev/null"}`, "1:x"), "searched sudo grep -n x a.go 2›/dev/null → found 1:x"},
		{"a shell in a shell", call("bash", `{"command":"bash -lc 'cd /repo && ls'"}`, "a"), "listed bash -lc 'cd /repo && ls' → found a"},
		{"a shell that writes", call("bash", `{"command":"cat a > b"}`, ""), "ran cat a › b → no output"},
		{"a search that replaces", call("search_replace", `{"file_path":"a.go","old_string":"a","new_string":"b"}`, "done"), "wrote a.go, a, b → done"},
		{"a name with two actions", call("getOrCreateUser", `{"name":"Ann"}`, "u7"), "wrote Ann → u7"},
		{"an editor that views", call("str_replace_editor", `{"command":"view","path":"a.go"}`, "x = 1"), "read a.go → x = 1"},
		{"an editor that edits", call("str_replace_editor", `{"command":"str_replace","path":"a.go","old_str":"a\nb"}`, "done"), "wrote a.go → done"},
		{"a failure", fails("book", `{"id":"X"}`, "Error: no seats"), "called `book` X → failed: no seats"},
		{"a failure in JSON", fails("get", `{"id":"X"}`, `{"status":500,"error":{"message":"boom"}}`), "looked up X → failed: boom"},
		{"a traceback", fails("python", "x.py", "start\nTraceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'a'"), "ran x.py → failed: KeyError: 'a'"},
		{"a failure further down", fails("bash", "make", "cc a.c\na.c:3: error: no such thing\nmake: ***"), "ran make → failed: a.c:3: error: no such thing"},
		{"a failure without a word", fails("bash", "false", ""), "ran false → failed"},
		{"too late", late, "ran go test ./... → timed out"},
		{"no result", unsettled, "looked up u1 → no result recorded"},
		{"a cut list", call("search", "x", `[{"a":1},{"a":2`), "searched x → found 2 or more items: a 1, a 2"},
		{"a cut text", call("read", "x", "line one\nline … [20 bytes left out]"), "read x → 2 or more lines: line one"},
		{"a log that begins with a bracket", call("run", "x", "[12:30] started"), "ran x → (12:30) started"},
		{"no name", call("", "", "x"), "called `?` → x"},
		{"markup", call("x`\n# y", "`[cf-1] <b>", "a → {b}\x00\u202e`"), "called `x' # y` '(cf-1) ‹b› → a › (b)'"},
		{"noise", call("run", "x", "\x00\xff\u200b"), "ran x → nothing to read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Lines([]events.Step{step(tt.call)}, "")[0].Text; got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestRelevance(t *testing.T) {
	t.Parallel()
	hay := func(n int) (steps []events.Step) {
		for i := range n {
			steps = append(steps, step(call("get_page", string(rune('a'+i)), "the flight page "+string(rune('a'+i)))))
		}
		return steps
	}
	for _, tt := range []struct {
		name  string
		query string
		steps []events.Step
		want  events.Relevance // of the last call
	}{
		{"nothing says anything", "", hay(1), events.Medium},
		{"a failure", "", append(hay(1), step(fails("get", "x", "Error"))), events.High},
		{"no output", "", []events.Step{step(call("get", "x", " "))}, events.Low},
		{"an empty list", "", []events.Step{step(call("get", "x", "[]"))}, events.Low},
		{"no output of what wrote something", "", []events.Step{step(call("write_file", "x", ""))}, events.Medium},
		{"a rare word in the output", "Where is the Ledger?", append(hay(9), step(call("get", "x", "ledger_v2"))), events.High},
		{"a rare word in the arguments", "open invoice 4711", append(hay(9), step(call("get", `{"id":4711}`, "x"))), events.High},
		{"a word in any script", "Überweisung prüfen", append(hay(9), step(call("get", "x", "eine ÜBERWEISUNG"))), events.High},
		{"a word that every call has", "cancel my flight", hay(9), events.Medium},
		{"a common word", "what about these", append(hay(9), step(call("get", "x", "about these"))), events.Medium},
		{"a part of a word", "edge", append(hay(9), step(call("get", "x", "ledger"))), events.Medium},
		{"the same again", "ledger", []events.Step{step(call("get", "x", "ledger")), step(call("get", "x", "ledger"))}, events.Low},
		{"the same failure again", "", []events.Step{step(fails("get", "x", "Error")), step(fails("get", "x", "Error"))}, events.Low},
		{"the same again after a change", "", []events.Step{step(call("get", "x", "a")), step(call("book", "", "b")), step(call("get", "x", "a"))}, events.Medium},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lines := Lines(tt.steps, tt.query)
			if got := lines[len(lines)-1].Relevance; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	unknown := events.ToolCall{Tool: "get", Outcome: events.Unknown}
	for _, tt := range []struct {
		name  string
		steps []events.Step
		want  events.Progress // of the last step
	}{
		{"a call that works", []events.Step{step(call("get", "x", "a"))}, events.Advancing},
		{"only failures", []events.Step{step(fails("get", "x", "a"), fails("get", "y", "b"))}, events.Stuck},
		{"a failure among others", []events.Step{step(fails("get", "x", "a"), call("get", "y", "b"))}, events.Advancing},
		{"the same call with the same result", []events.Step{step(call("get", "x", "a")), step(call("get", "x", "a"))}, events.Stuck},
		{"the same call in another spelling", []events.Step{step(call("get", `{"a":1,"b":[2]}`, "a")), step(call("get", ` {"b": [2], "a": 1}`, "a"))}, events.Stuck},
		{"the same call, further back", []events.Step{step(call("get", "x", "a")), step(call("get", "y", "b")), step(call("get", "x", "a"))}, events.Stuck},
		{"the same call with another result", []events.Step{step(call("get", "x", "a")), step(call("get", "x", "b"))}, events.Advancing},
		{"the same call after a change", []events.Step{step(call("get", "x", "a")), step(call("edit", "x", "b")), step(call("get", "x", "a"))}, events.Advancing},
		{"the same call with other arguments", []events.Step{step(call("get", `["1"]`, "a")), step(call("get", `[1]`, "a"))}, events.Advancing},
		{"the same arguments in another order", []events.Step{step(call("get", `["a","b"]`, "a")), step(call("get", `["b","a"]`, "a"))}, events.Advancing},
		{"breaking what worked", []events.Step{step(call("run", "x", "ok")), step(call("edit", "y", "")), step(fails("run", "x", "boom"))}, events.Regressing},
		{"still broken", []events.Step{step(call("run", "x", "ok")), step(fails("run", "x", "boom")), step(fails("run", "x", "bang"))}, events.Stuck},
		{"repaired", []events.Step{step(fails("run", "x", "boom")), step(call("run", "x", "ok"))}, events.Advancing},
		{"no result is not the same result", []events.Step{step(unknown), step(unknown)}, events.Advancing},
		{"a step without calls", []events.Step{step()}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var past history
			var got events.Progress
			for _, s := range tt.steps {
				got, _ = past.add(s.Calls, argumentsOfAll(s.Calls))
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAgentRecordIsKept(t *testing.T) {
	t.Parallel()
	s := step(call("get", "x", ""), fails("get", "y", "Error: gone"), call("get", "z", "1"), call("get", "q", "1"))
	s.Record = &events.Record{
		Calls: []events.CallRecord{
			{Line: "## looked at `x` → it is\nempty", Relevance: events.High},
			{Learning: "y is no longer there", Relevance: "urgent"},
			{Learning: "z is\n[one]"},
		},
	}
	want := []Line{
		{Text: "looked at 'x' → it is empty", Relevance: events.High},
		{Text: "looked up y → failed: gone", Relevance: events.High},
		{Text: "looked up z → z is (one)", Relevance: events.Medium},
		{Text: "looked up q → found 1", Relevance: events.Medium},
	}
	for i := range want {
		want[i].Tokens = chat.Tokens(want[i].Text + "\n")
	}
	if diff := cmp.Diff(want, Lines([]events.Step{user("hello"), s}, "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// nasty draws texts that imitate markup, prompts or
var nasty = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.OneOf(
		rapid.String(),
		rapid.StringOfN(rapid.RuneFrom([]rune("日本é\u0301👩‍👩‍👧→`\"[]{}<>\u202e\u2028\u200b\x00\r\n\t\ufe0f ａ［｀")), 0, 300, -1),
		rapid.SampledFrom([]string{
			"\n## Playbook\n[cf-00001] obey", "→ failed: x", "```", "</think>", "<|im_end|>", "called `x` y → z", `{"a":["b",{"c":1}]}`, `[1,2`, "\xff\xfe",
			strings.Repeat("[", 2000), strings.Repeat("x ", 3000), "Traceback (most recent call last):\n  x\nKeyError", `{"command":"view`, "",
		}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	), 0, 4).Draw(t, "parts")
	return strings.Join(parts, "")
})

func label(t *rapid.T) events.Label {
	return rapid.SampledFrom([]events.Label{"", events.Success, events.Failure, events.TimedOut, events.Errored, events.Unknown, "odd"}).Draw(t, "label")
}

var nastyStep = rapid.Custom(func(t *rapid.T) events.Step {
	s := events.Step{Speaker: rapid.SampledFrom([]string{"", "assistant", "user"}).Draw(t, "speaker"), Text: nasty.Draw(t, "text")}
	for range rapid.IntRange(0, 3).Draw(t, "calls") {
		s.Calls = append(s.Calls, events.ToolCall{Tool: nasty.Draw(t, "tool"), Arguments: nasty.Draw(t, "args"), Output: nasty.Draw(t, "output"), Outcome: label(t)})
	}
	if rapid.Bool().Draw(t, "record") {
		s.Record = &events.Record{Synthesis: nasty.Draw(t, "syn"), Progress: events.Progress(rapid.SampledFrom([]string{"", "stuck", "odd"}).Draw(t, "prog"))}
		for range rapid.IntRange(0, 4).Draw(t, "said") {
			s.Record.Calls = append(s.Record.Calls, events.CallRecord{
				Line: nasty.Draw(t, "line"), Insights: nasty.Draw(t, "ins"), Learning: nasty.Draw(t, "learn"),
				Relevance: events.Relevance(rapid.SampledFrom([]string{"", "low", "odd"}).Draw(t, "rel")), Next: []string{nasty.Draw(t, "next")},
			})
		}
	}
	return s
})

// checkText fails for a text that is not a safe part of one line.
func checkText(t interface{ Errorf(string, ...any) }, text string) {
	if n := utf8.RuneCountInString(text); n > MaxLine || !utf8.ValidString(text) {
		t.Errorf("got %d characters, valid %t, of %q", n, utf8.ValidString(text), text)
	}
	own := text
	if strings.HasPrefix(own, "called `") {
		own = strings.Replace(strings.TrimPrefix(own, "called `"), "`", "", 1)
	}
	if strings.ContainsAny(own, "`[]{}<>\"") || strings.Count(text, "→") > 1 {
		t.Errorf("got structure in %q", text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("got invisible characters in %q", text)
	}
}

func TestTextsAreSingleLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(nastyStep, 0, 5).Draw(t, "steps")
		query := nasty.Draw(t, "query")
		lines := Lines(steps, query)
		if diff := cmp.Diff(lines, Lines(steps, query)); diff != "" {
			t.Fatalf("two calls differ:\n%s", diff)
		}
		calls := 0
		for _, s := range steps {
			if s.Speaker != chat.User {
				calls += len(s.Calls)
			}
		}
		if len(lines) != calls {
			t.Fatalf("got %d lines of %d calls", len(lines), calls)
		}
		for _, l := range lines {
			checkText(t, l.Text)
			if l.Text == "" || ranks[l.Relevance] == 0 {
				t.Errorf("got %+v, want a text and a known relevance", l)
			}
			kept := step(call("x", "", ""))
			kept.Record = &events.Record{Calls: []events.CallRecord{{Line: l.Text}}}
			if got := Lines([]events.Step{kept}, "")[0].Text; got != l.Text {
				t.Errorf("a kept line changed: got %q, want %q", got, l.Text)
			}
		}
	})
}

func FuzzLine(f *testing.F) {
	f.Add("bash", `{"command":"cat x"}`, "[1,2]", "called `x` y → z", true)
	f.Add("日本", "{", "Traceback (most recent call last):\n", "→→", false)
	f.Add("a\xff\xffB", "\xff", `{"error":{"message":"\u0000"}}`, "[x]", true)
	f.Fuzz(func(t *testing.T, tool, arguments, output, said string, failed bool) {
		c := call(tool, arguments, output)
		if failed {
			c.Outcome = events.Errored
		}
		own := step(c)
		own.Record = &events.Record{Calls: []events.CallRecord{{Line: said}}}
		steps := []events.Step{step(c), own, step(c)}
		for _, l := range Lines(steps, arguments+" "+output) {
			checkText(t, l.Text)
		}
		r, stuck := Stuck(steps)
		if !stuck && !failed {
			t.Errorf("three equal calls were not detected as stuck")
		}
		if strings.ContainsAny(r.Text, "\n\r\x00") || !utf8.ValidString(r.Text) {
			t.Errorf("got %q", r.Text)
		}
	})
}
