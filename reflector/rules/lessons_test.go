package rules_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook/text"
	"debrief/reflector/rules"
)

// step is one call of a test run. A call whose output begins with "!" failed.
type step struct{ tool, arguments, output string }

// sh is a call of a shell tool.
func sh(command, output string) step {
	arguments, _ := json.Marshal(map[string]string{"command": command})
	return step{"Bash", string(arguments), output}
}

// run returns an execution with one call for each step.
func run(task string, steps ...step) *events.Execution {
	e := &events.Execution{ID: events.Hash(task, fmt.Sprint(steps)), RunID: task, Question: "question of " + task}
	for _, s := range steps {
		c := events.ToolCall{Tool: s.tool, Arguments: s.arguments, Output: s.output, Outcome: events.Success}
		if after, ok := strings.CutPrefix(s.output, "!"); ok {
			c.Output, c.Outcome = after, events.Failure
		}
		if after, ok := strings.CutPrefix(s.output, "?"); ok {
			c.Output, c.Outcome = after, events.Unknown
		}
		e.Steps = append(e.Steps, events.Step{Speaker: "assistant", Calls: []events.ToolCall{c}})
	}
	return e
}

// tasks returns one run of each of n tasks. A "#" in arguments and outputs becomes the number of the task.
func tasks(n int, steps ...step) []*events.Execution {
	var runs []*events.Execution
	for i := range n {
		number := strings.NewReplacer("#", fmt.Sprint(10+i))
		list := make([]step, len(steps))
		for j, s := range steps {
			list[j] = step{s.tool, number.Replace(s.arguments), number.Replace(s.output)}
		}
		runs = append(runs, run(fmt.Sprint("task ", i), list...))
	}
	return runs
}

func learn(runs ...[]*events.Execution) []rules.Lesson {
	return newErrors(slices.Concat(runs...)).Lessons()
}

func newErrors(runs []*events.Execution) *rules.Errors {
	x := rules.NewErrors()
	for _, e := range runs {
		x.Add(e)
	}
	return x
}

func contents(lessons []rules.Lesson) string {
	var all []string
	for _, l := range lessons {
		all = append(all, l.Content)
	}
	return strings.Join(all, "\n")
}

// noModule is the output of a Python program that imports a missing module.
func noModule(name string) string {
	return fmt.Sprintf("!Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    import %s\nModuleNotFoundError: No module named '%[1]s'", name)
}

// lessonCases are runs that teach one lesson: one case for each shape of a rules.
var lessonCases = []struct {
	name string
	runs []*events.Execution
	want string
}{
	{
		"the file is read first",
		tasks(3, step{"Edit", `{"file_path":"/p/f#.go","old_string":"a"}`, "!File has not been read yet. Read it first before writing to it."},
			step{"Read", `{"file_path":"/p/f#.go"}`, "package f"}, step{"Edit", `{"file_path":"/p/f#.go","old_string":"a"}`, "ok"}),
		"Before `Edit`, call `Read` with the same `file_path`. Otherwise `Edit` can answer \"File has not been read yet.\".",
	},
	{
		"indentation of an argument",
		tasks(2, step{"edit", `{"text":"return x#","line":3}`, "!Your proposed edit has introduced new syntax error(s).\n\nERRORS:\n- E999 IndentationError: unexpected indent"},
			step{"edit", `{"text":"    return x#","line":3}`, "ok"}),
		"If `edit` answers \"E999 IndentationError: unexpected indent\", correct the white space at the start of lines in `text`.",
	},
	{
		"indentation of a text",
		tasks(2, step{"edit", "287:295\nreturn x#\nend_of_edit", "!ERRORS:\n- E999 IndentationError"}, step{"edit", "287:295\n    return x#\nend_of_edit", "ok"}),
		"If `edit` answers \"E999 IndentationError\", correct the white space at the start of lines in the arguments.",
	},
	{
		"white space inside a line",
		tasks(2, step{"find", `{"name":"a  b#","in":"here"}`, "!not found"}, step{"find", `{"name":"a b#","in":"here"}`, "ok"}),
		"If `find` answers \"not found\", correct the white space in `name`.",
	},

	{
		"modules with the names of their packages",
		append(tasks(2, sh("python run.py", noModule("numpy")), sh("pip install -q numpy==1.2", "ok"), sh("python run.py", "ok")),
			run("other", sh("cd /x && python run.py", noModule("requests")), sh("pip install requests && python run.py", "ok"))),
		"If `python` answers \"ModuleNotFoundError: No module named <text>\", install the missing module with `pip install`, then call `python` again.",
	},

	{
		"a list of words as a command",
		tasks(2, step{"shell", `{"command":["bash","-lc","cd /r# && go test ./..."]}`, "!a.go:3:2: no required module provides package example.com/x; to add it:"},
			step{"shell", `{"command":["go","get","example.com/x"]}`, "ok"}, step{"shell", `{"command":["bash","-lc","cd /r# && go test ./..."]}`, "ok"}),
		"If `go test` answers \"<path>:<n>:<n>: no required module provides package <path>;\", install the missing module with `go get`, then call `go test` again.",
	},
	{
		"a missing command",
		tasks(2, sh("jq . f#.json", "!bash: jq: command not found"), sh("apt-get install -y jq", "ok"), sh("jq . f#.json", "ok")),
		"If `jq` answers \"bash: <text>: command not found\", install `jq` with `apt-get install`, then call `jq` again.",
	},
	{
		"another name of the program",
		tasks(2, sh("python run#.py", "!bash: python: command not found"), sh("python3 run#.py", "ok")),
		"If `python` answers \"bash: <text>: command not found\", use `python3` in place of `python`.",
	},
	{
		"a folder",
		tasks(2, sh("pytest tests/a#.py", "!ERROR: file or directory not found: tests/a#.py"), sh("cd backend && pytest tests/a#.py", "ok")),
		"If `pytest` answers \"file or directory not found: <path>\", run it in another folder.",
	},
	{
		"an option",
		tasks(2, sh("pip install x#", "!error: externally-managed-environment"), sh("pip install --break-system-packages x#", "ok")),
		"If `pip install` answers \"error: externally-managed-environment\", add the option `--break-system-packages`.",
	},
	{
		"a listing after a missing file",
		tasks(2, step{"read", `{"path":"src/a#.go"}`, "!ENOENT: no such file or directory, open 'src/a#.go'"}, sh("ls src", "b#.go"),
			step{"read", `{"path":"src/lib/a#.go"}`, "ok"}),
		"If `read` answers \"ENOENT: no such file or directory, open <text>\", call `ls` first, then call `read` again.",
	},
	{
		"a folder that is created",
		tasks(2, step{"write_file", `{"path":"/o/a#","text":"t"}`, "!No such file or directory: '/o/a#'"}, sh("mkdir -p /o", ""), step{"write_file", `{"path":"/o/a#","text":"t"}`, "ok"}),
		"If `write_file` answers \"No such file or directory: <text>\", call `mkdir` first, then call `write_file` again.",
	},
	{
		"an absolute path",
		tasks(2, step{"read", `{"path":"src/a#.go"}`, "!path must be absolute"}, step{"read", `{"path":"/r/src/a#.go"}`, "ok"}),
		"If `read` answers \"path must be absolute\", give `path` as an absolute path.",
	},
	{
		"another name of an argument",
		tasks(2, step{"find", `{"title":"book #"}`, "!unknown field title"}, step{"find", `{"item":"book #"}`, "ok"}),
		"If `find` answers \"unknown field title\", give `item` in place of `title`.",
	},
	{
		"a date in another form, as the only argument",
		tasks(3, step{"find", `{"date":"# May"}`, "!date must be like 2031-05-17"}, step{"find", `{"date":"2031-05-1#"}`, "ok"}),
		"If `find` answers \"date must be like <date>\", give `date` in the form `<n>-<n>-<n>`.",
	},
	{
		"another type",
		tasks(2, step{"seek", `{"line":"#","file":"abc"}`, "!line is invalid"}, step{"seek", `{"line":#,"file":"abc"}`, "ok"}),
		"If `seek` answers \"line is invalid\", give `line` as a number.",
	},
	{
		"another argument",
		tasks(2, step{"get", `{"order":"no #"}`, "!unauthorized request failed"}, step{"get", `{"order":"no #","region":"eu"}`, "ok"}),
		"If `get` answers \"unauthorized request failed\", give `region`.",
	},
	{
		"a number of the error",
		tasks(2, step{"pay", `{"order":"no #","amount":50}`, "!the total is 7#, but paid 50"}, step{"pay", `{"order":"no #","amount":7#}`, "ok"}),
		"If `pay` answers \"the total is <n>, but paid <n>\", make `amount` equal the first number in the error.",
	},
	{
		"an object in the arguments",
		tasks(2, step{"post", `{"url":"no #","headers":{"Accept":"x"}}`, "!415 unsupported type"}, step{"post", `{"url":"no #","headers":{"Accept":"x","Content-Type":"y"}}`, "ok"}),
		"If `post` answers \"415 unsupported type\", give `headers.Content-Type`.",
	},
	{
		"another unit",
		tasks(2, step{"wait", `{"job":"no #","limit":#000}`, "!limit is too large"}, step{"wait", `{"job":"no #","limit":#}`, "ok"}),
		"If `wait` answers \"limit is too large\", divide `limit` by `1000`.",
	},
	{
		"an option in place of another",
		tasks(2, sh("infra apply -y plan#.out", "!Error: invalid value"), sh("infra apply -f plan#.out", "ok")),
		"If `infra` answers \"invalid value\", give the option `-f` in place of `-y`.",
	},
	{
		"an error without known words",
		tasks(2, sh("make release-#", "!*** Nichts zu tun."), sh("cd backend && make release-#", "ok")),
		"If `make` fails, run it in another folder.",
	},
	{
		"two runs, and nothing else changed",
		tasks(2, step{"book", `{"order":"no #"}`, "!the order is locked, failed"}, step{"sign_in", `{}`, "ok"}, step{"book", `{"order":"no #"}`, "ok"}),
		"If `book` answers \"the order is locked, failed\", call `sign_in` first, then call `book` again.",
	},
	{
		"a form of the value",
		tasks(3, step{"get", `{"order":"W#","store":"main"}`, "!unknown key, failed"}, step{"get", `{"order":"#W#","store":"main"}`, "ok"}),
		"If `get` answers \"unknown key, failed\", give `order` in the form `<n>W<n>`.",
	},
	{
		"a temporary error",
		tasks(2, step{"fetch", `{"url":"u#"}`, "!connection timed out"}, step{"fetch", `{"url":"u#"}`, "ok"}),
		"If `fetch` answers \"connection timed out\", call it again with the same arguments. It worked the next time.",
	},
	{
		"a switch",
		tasks(3, step{"deploy", `{"app":"app #"}`, "!confirmation is missing"}, step{"deploy", `{"app":"app #","force":true}`, "ok"}),
		"If `deploy` answers \"confirmation is missing\", set `force` to `true`.",
	},
	{
		"a call that changes the object",
		tasks(3, step{"book", `{"order":"no #"}`, "!the order is locked, failed"}, step{"unlock", `{"order":"no #"}`, "ok"}, step{"book", `{"order":"no #"}`, "ok"}),
		"If `book` answers \"the order is locked, failed\", call `unlock` with the same `order` first, then call `book` again.",
	},
	{
		"a lookup with another value",
		tasks(4, step{"update", `{"order":"no #","method":"m1"}`, "!method unknown, failed"}, step{"get_user", `{"user":"u#"}`, "ok"}, step{"update", `{"order":"no #","method":"m2#"}`, "ok"}),
		"If `update` answers \"method unknown, failed\", call `get_user` first, then call `update` again.",
	},
	{
		"an operation of a tool with several",
		tasks(2, step{"editor", `{"command":"str_replace","path":"/f#","old":"a"}`, "!no match, view the file"}, step{"editor", `{"command":"view","path":"/f#"}`, "b"},
			step{"editor", `{"command":"str_replace","path":"/f#","old":"b"}`, "ok"}),
		"Before `editor str_replace`, call `editor view` with the same `path`. Otherwise `editor str_replace` can answer \"no match …\".",
	},
}

// silentCases are runs that teach nothing.
var silentCases = []struct {
	name string
	runs []*events.Execution
}{
	{
		"a module with another name than its package",
		tasks(2, sh("cd /r# && python run.py", noModule("yaml")), sh("pip install PyYAML", "ok"), sh("cd /r# && python run.py", "ok")),
	},
	{
		"commands of an agent that has no other tool",
		tasks(2, step{"python", "cd /r# && python run.py", noModule("yaml")}, step{"pip", "sudo pip3 install PyYAML", "ok"}, step{"python", "cd /r# && python run.py", "ok"}),
	},
	{
		"commands without a directory",
		tasks(2, step{"python", "run#.py", noModule("yaml")}, step{"python", "-m pip install PyYAML", "ok"}, step{"python", "run#.py", "ok"}),
	},
	{
		"an error without known words beside another error", append(tasks(2, sh("make release-#", "!*** Nichts zu tun."), sh("cd backend && make release-#", "ok")),
			tasks(1, sh("make other", "!timed out"))...),
	},
	{
		"two runs, and something else changed",
		tasks(2, step{"book", `{"order":"no #","note":"a"}`, "!rejected"}, step{"sign_in", `{}`, "ok"}, step{"book", `{"order":"no #","note":"b#"}`, "ok"}),
	},
	{"one task only", tasks(1, step{"fetch", `{"url":"u"}`, "!timed out"}, step{"fetch", `{"url":"u"}`, "ok"})},
	{"two runs of one task", append(tasks(1, step{"fetch", `{"url":"u"}`, "!timed out"}, step{"fetch", `{"url":"u"}`, "ok"}),
		tasks(1, step{"fetch", `{"url":"u"}`, "!timed out"}, step{"fetch", `{"url":"u"}`, "ok"}, step{"fetch", `{"url":"u"}`, "ok"})...)},
	{"another value that the error asks for", tasks(3, step{"get", `{"id":"a#","kind":"user"}`, "!id not found"}, step{"get", `{"id":"a#1","kind":"user"}`, "ok"})},
	{"another object", tasks(3, step{"read", `{"path":"a#.go"}`, "!permission denied"}, step{"read", `{"path":"b#.go"}`, "ok"})},
	{"another script", tasks(3, sh("python a#.py", "!ValueError: bad"), sh("python b#.py", "ok"))},
	{"an edit after a failing program", tasks(3, sh("python a#.py", "!ValueError: bad"), step{"Edit", `{"file":"a#.py"}`, "ok"}, sh("python a#.py", "ok"))},
	{"a change of the directory that fails", tasks(3, sh("cd /none# && python a.py", "!bash: cd: /none#: No such file or directory"), sh("cd /r && python a.py", "ok"))},
	{"a search and an edit after a failing program", tasks(3, sh("python a#.py", "!ValueError: bad"), sh("cat a#.py; sed -i s/a/b/ a#.py", "ok"), sh("python a#.py", "ok"))},
	{"a text that was the same after trimming", tasks(3, step{"edit", "return x#", "!IndentationError"}, step{"edit", "return x#", "ok"})},
	{"a user helped", func() []*events.Execution {
		runs := tasks(3, step{"fetch", `{"url":"u#"}`, "!timed out"}, step{"fetch", `{"url":"u#"}`, "ok"})
		for _, e := range runs {
			e.Steps = []events.Step{e.Steps[0], {Speaker: "user", Text: "try again"}, e.Steps[1]}
		}
		return runs
	}()},
	{"a thought in between", tasks(3, step{"book", `{"n":"x#"}`, "!failed"}, step{"think", `{"thought":"hm"}`, ""}, step{"book", `{"n":"x#"}`, "!failed again, differently"})},
	{"a result that is unknown", tasks(3, step{"fetch", `{"url":"u#"}`, "!timed out"}, step{"fetch", `{"url":"u#"}`, "?"})},
	{"an object after a text that is not JSON", tasks(3, step{"get", `{"a":"u#"`, "!invalid arguments"}, step{"get", `{"a":"u#"}`, "ok"})},
	{"most runs have no remedy", append(tasks(2, step{"fetch", `{"url":"u#"}`, "!timed out"}, step{"fetch", `{"url":"u#"}`, "ok"}),
		tasks(3, step{"fetch", `{"url":"v#"}`, "!timed out"})...)},
	{"calls of one step", func() []*events.Execution {
		runs := tasks(3, step{"fetch", `{"url":"u#"}`, "!timed out"}, step{"fetch", `{"url":"u#"}`, "ok"})
		for _, e := range runs {
			e.Steps = []events.Step{{Calls: []events.ToolCall{e.Steps[0].Calls[0], e.Steps[1].Calls[0]}}}
		}
		return runs
	}()},
	{"a call that stands there anyway", append(tasks(3, step{"book", `{"n":"x#"}`, "!rejected"}, step{"check", `{}`, ""}, step{"book", `{"n":"x#"}`, "ok"}),
		tasks(6, step{"book", `{"n":"x#"}`, "ok"}, step{"check", `{}`, ""}, step{"book", `{"n":"y#"}`, "ok"})...)},
	{"runs of an evaluation", func() []*events.Execution {
		runs := tasks(3, step{"fetch", `{"url":"u#"}`, "!timed out"}, step{"fetch", `{"url":"u#"}`, "ok"})
		for _, e := range runs {
			e.Purpose = events.Evaluate
		}
		return runs
	}()},
}

func TestLessons(t *testing.T) {
	t.Parallel()
	for _, test := range lessonCases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := contents(learn(test.runs)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestNoLessons(t *testing.T) {
	t.Parallel()
	for _, test := range silentCases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := contents(learn(test.runs)); got != "" {
				t.Errorf("got %s, want no lesson", got)
			}
		})
	}
}

// check reports a lesson whose text breaks a limit.
func check(t *testing.T, l rules.Lesson) {
	t.Helper()
	if l.Section != rules.Section || len(l.Content) > rules.MaxContent || l.Error == nil {
		t.Errorf("invalid lesson: %+v", l)
	}
	if clean := text.Quote(l.Content, rules.MaxContent, strings.NewReplacer()); clean != l.Content {
		t.Errorf("content is not clean: %q", l.Content)
	}
}

// TestEvidenceSaysThatTasksAreCountedUpToALimit checks the evidence of an error in more tasks than are counted.
func TestEvidenceSaysThatTasksAreCountedUpToALimit(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{3: "in 3 (3 tasks)", 40: "in 40 (at least 16 tasks)"} {
		lessons := learn(tasks(n, step{"export", `{"report":"r#","format":"pdf"}`, "!format pdf is not supported"}, step{"export", `{"report":"r#","format":"xlsx"}`, "ok"}))
		if len(lessons) != 1 || !strings.Contains(lessons[0].Evidence, want) {
			t.Errorf("%d tasks: got %+v, want evidence with %q", n, lessons, want)
		}
	}
}
