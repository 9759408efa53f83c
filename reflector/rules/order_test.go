package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"debrief/events"
)

// Each rule has examples in which it finds something, and similar ones in which it does not.
func TestPatterns(t *testing.T) {
	t.Parallel()
	const did = ": {helpful} of {base.helpful} successful runs that used %s did, {harmful} of {base.harmful} failed ones."
	tests := []struct {
		rule, name string
		calls      []string
		key        string // empty: the rule finds nothing
		text, base string
	}{
		{
			"list-before-read", "a folder, then a file",
			[]string{`ls src => a.py`, `open src/a.py => x`},
			"list-before-read/ls/open .py",
			"Before `open` on .py files, list the folder with `ls`" + fmt.Sprintf(did, "`open` on .py files"), "did/open .py",
		},
		{"list-before-read", "the other way round", []string{`open src/a.py => x`, `ls src => a.py`}, "", "", ""},
		{"list-before-read", "a listing that failed", []string{`ls src => Error`, `open src/a.py => x`}, "", "", ""},
		{"list-before-read", "a lookup is no file", []string{`list_users {} => x`, `get_user {"id":"u1"} => x`}, "", "", ""},
		{
			"read-before-write", "the same file",
			[]string{`open src/a.py => x`, `edit 1:1 => ok`},
			"read-before-write/open .py/edit .py/file",
			"Before `edit` on .py files, read what it is about with `open` on .py files (same file)" + fmt.Sprintf(did, "`edit` on .py files"), "did/edit .py",
		},
		{
			"read-before-write", "the same argument",
			[]string{`get_order {"order_id":"W1"} => x`, `cancel_order {"why":"no","order_id":"W1"} => ok`},
			"read-before-write/get_order/cancel_order/order_id",
			"Before `cancel_order`, read what it is about with `get_order` (same order_id)" + fmt.Sprintf(did, "`cancel_order`"), "did/cancel_order",
		},
		{"read-before-write", "another file", []string{`cat src/a.py => x`, `write_file {"path":"src/b.py"} => ok`}, "", "", ""},
		{"read-before-write", "another order", []string{`get_order {"order_id":"W2"} => x`, `cancel_order {"order_id":"W1"} => ok`}, "", "", ""},
		{
			"related-reads", "three",
			[]string{`get_order {"order_id":"W1"} => x`, `get_order {"order_id":"W2"} => y`, `get_order {"order_id":"W3"} => y`},
			"related-reads/get_order/order_id",
			"Call `get_order` for several order_id, 3 or more, before the first change" + fmt.Sprintf(did, "`get_order`"), "did/get_order",
		},
		{"related-reads", "the same one three times", []string{`get_order {"order_id":"W1"} => x`, `get_order {"order_id":"W1"} => x`, `get_order {"order_id":"W1"} => x`}, "", "", ""},
		{"related-reads", "after a change", []string{`cancel_order {"order_id":"W1"} => x`, `get_order {"order_id":"W1"} => x`, `get_order {"order_id":"W2"} => y`, `get_order {"order_id":"W3"} => y`}, "", "", ""},
		{
			"search-before-read", "a search",
			[]string{`bash {"command":"rg name src"} => src/a.go:1`, `read_file {"path":"src/b.go"} => x`},
			"search-before-read/rg/read_file .go",
			"Before `read_file` on .go files, search with `rg`" + fmt.Sprintf(did, "`read_file` on .go files"), "did/read_file .go",
		},
		{
			"explore", "two searches",
			[]string{`grep -rn a . => x`, `grep -rn b . => y`, `open a.py => z`},
			"explore/grep/arguments",
			"Search with `grep` for several arguments, 2 or more, before the first change" + fmt.Sprintf(did, "`grep`"), "did/grep",
		},
		{"explore", "one search twice", []string{`grep -rn a . => x`, `grep -rn a . => x`}, "", "", ""},
		{
			"grep-then-read", "what it found",
			[]string{`grep -rn name src => src/deep/a.py:3: name`, `open src/deep/a.py => x`},
			"grep-then-read/grep/open .py",
			"Choose what to read with `open` on .py files by what `grep` has found" + fmt.Sprintf(did, "`open` on .py files"), "did/open .py",
		},
		{"grep-then-read", "something else", []string{`grep -rn name src => src/deep/a.py:3: name`, `open src/other.py => x`}, "", "", ""},
		{
			"tests-after-edit", "pytest at the end",
			[]string{`edit_file {"path":"a.py"} => ok`, `bash {"command":"pytest -q"} => Error: 1 failed`},
			"tests-after-edit/edit_file .py/pytest",
			"After the last `edit_file` on .py files, run `pytest`" + fmt.Sprintf(did, "`edit_file` on .py files"), "did/edit_file .py",
		},
		{"tests-after-edit", "edited once more", []string{`edit_file {"path":"a.py"} => ok`, `pytest -q => ok`, `edit_file {"path":"b.py"} => ok`}, "", "", ""},
		{
			"read-tests-first", "a test's file",
			[]string{`cat tests/test_a.py => x`, `pytest -q => ok`},
			"read-tests-first/cat .py test/pytest",
			"Before `pytest`, read the tests with `cat` on .py test files" + fmt.Sprintf(did, "`pytest`"), "did/pytest",
		},
		{"read-tests-first", "another file", []string{`cat src/a.py => x`, `pytest -q => ok`}, "", "", ""},
		{
			"test-first", "it is seen to fail",
			[]string{`python reproduce.py => Error: it fails`, `edit_file {"path":"a.py"} => ok`},
			"test-first/python .py test/edit_file .py",
			"Before the first `edit_file` on .py files, see it fail with `python` on .py test files" + fmt.Sprintf(did, "`edit_file` on .py files"), "did/edit_file .py",
		},
		{"test-first", "only afterwards", []string{`edit_file {"path":"a.py"} => ok`, `python reproduce.py => ok`}, "", "", ""},
		{
			"install-before-run", "one line",
			[]string{`bash {"command":"pip install -e . && pytest"} => ok`, `think {} => x`},
			"install-before-run/pip install/pytest",
			"Before `pytest`, install what it needs with `pip install`" + fmt.Sprintf(did, "`pytest`"), "did/pytest",
		},
		{
			"build-before-test", "make",
			[]string{`make => ok`, `ctest => ok`},
			"build-before-test/make/ctest",
			"Before `ctest`, build with `make`" + fmt.Sprintf(did, "`ctest`"), "did/ctest",
		},
		{"build-before-test", "a build that failed", []string{`make => Error 2`, `ctest => ok`}, "", "", ""},
		{
			"status-before-change", "git",
			[]string{`git status => clean`, `bash {"command":"git add -A && git commit -m x"} => ok`},
			"status-before-change/git status/git add",
			"Before `git add`, look at `git status`" + fmt.Sprintf(did, "`git add`"), "did/git add",
		},
		{"status-before-change", "only after", []string{`git commit -m x => ok`, `git status => clean`}, "", "", ""},
		{
			"list-on-file-error", "a file that is not there",
			[]string{`open scr/a.py => Error: no such file scr/a.py`, `ls . => src`, `open src/a.py => x`},
			"list-on-file-error/open .py/Error: no such file scr%2Fa.py/ls",
			"`open` on .py files answered \"Error: no such file scr/a.py\": look with `ls` for what is there, then call it again, which worked " + tally + ".", "",
		},
		{"list-on-file-error", "it never worked", []string{`open scr/a.py => Error: no such file scr/a.py`, `ls . => src`}, "", "", ""},
		{"list-on-file-error", "another error", []string{`open scr/a.py => Error: busy`, `ls . => src`, `open scr/a.py => x`}, "", "", ""},
		{
			"verify-environment", "a module that is missing",
			[]string{`python main.py => Error: No module named 'numpy'`, `pip list => x`, `python main.py => ok`},
			"verify-environment/python .py/Error: No module named <text>/pip list",
			"`python` on .py files answered \"Error: No module named <text>\": see to the environment with `pip list`, then run it again, which worked " + tally + ".", "",
		},
		{"verify-environment", "a failing program", []string{`python main.py => Error: 1 is not 2`, `pip list => x`, `python main.py => ok`}, "", "", ""},
		{
			"check-precondition", "a lookup",
			[]string{`book {"id":"f1"} => Error: not enough seats on flight 12`, `search_seats {"id":"f1"} => 3`, `book {"id":"f2"} => ok`},
			"check-precondition/book/Error: not enough seats on flight <n>/search_seats",
			"`book` answers \"Error: not enough seats on flight <n>\": check that with `search_seats` before the call, as {helpful} of {base.helpful} successful runs with that answer did, and it worked, and {harmful} of {base.harmful} failed ones.",
			"erred/book/Error: not enough seats on flight <n>",
		},
		{"check-precondition", "too far away", []string{`book {} => Error: not enough`, `think 1 => x`, `think 2 => x`, `think 3 => x`, `think 4 => x`, `search_seats {} => 3`, `book {"a":1} => ok`}, "", "", ""},
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.rule] = covered[tt.rule] || tt.key != ""
		t.Run(tt.rule+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			all := Inspect(executionOf(events.Failure, tt.calls...))
			checkBounds(t, all)
			found := findingsOf(tt.rule, all)
			if tt.key == "" {
				if len(found) > 0 {
					t.Fatalf("got %q, want nothing", keysOf(found))
				}
				return
			}
			if len(found) == 0 || found[0].Key != tt.key || found[0].Text != tt.text || found[0].Base != tt.base || found[0].Vote != events.Harmful {
				t.Fatalf("got %s\nof %q, want key %q, base %q and text\n%s", toJSON(found), keysOf(all), tt.key, tt.base, tt.text)
			}
			if tt.base != "" && !slices.ContainsFunc(all, func(f events.Finding) bool { return f.Key == tt.base && f.CountOnly }) {
				t.Errorf("the base %q is not counted: got %q", tt.base, keysOf(all))
			}
		})
	}
	for _, r := range rules {
		if !covered[r.name] && !slices.Contains([]string{"error", "repeat", "order"}, r.name) { // with tests of their own
			t.Errorf("no test sees rule %q fire", r.name)
		}
	}
}

// Each rule has a category, a unique name and the fields that its kind of rule needs.
func TestRulesAreComplete(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	count := map[string]int{}
	for _, r := range rules {
		if names[r.name] || strings.Contains(r.name, "/") {
			t.Errorf("rule %q: the name is a duplicate or contains a slash", r.name)
		}
		names[r.name] = true
		count[r.category]++
		if r.confidence < minConfidence+unknownPenalty || r.confidence > 100 || r.section == "" || r.limit < 1 {
			t.Errorf("rule %q: %+v", r.name, r)
		}
		if r.find == nil && (r.first == 0 || r.text == "" || r.about == onReads == (r.when != nil)) {
			t.Errorf("rule %q lacks kinds, text or relation", r.name)
		}
	}
	if want := map[string]int{"error handling": 5, "order": 1, "file operations": 3, "code navigation": 3, "testing": 3, "shell": 3}; !reflect.DeepEqual(count, want) {
		t.Errorf("got %v, want %v", count, want)
	}
}

// A pattern in a run with an unknown outcome has too little confidence for a bullet, since it is not comparable.
func TestUnknownOutcomeLowersConfidence(t *testing.T) {
	t.Parallel()
	calls := []string{`get_order {"order_id":"W1"} => x`, `cancel_order {"order_id":"W1"} => Error: not allowed`, `cancel_order {"order_id":"W1","why":"x"} => ok`}
	for label, want := range map[events.Label]float64{events.Success: 0.8, events.Failure: 0.8, events.Unknown: 0.65, events.Partial: 0.65} {
		found := Inspect(executionOf(label, calls...))
		if got := findingsOf("read-before-write", found); len(got) != 1 || got[0].Confidence != want {
			t.Errorf("%s: got %s, want confidence %v", label, toJSON(got), want)
		}
		if got := findingsOf("error", found); len(got) != 1 || got[0].Confidence < 0.7 {
			t.Errorf("%s: got %s, want an error sure enough for a bullet", label, toJSON(got))
		}
		if got := findingsOf("did", found); (len(got) > 0) != (label == events.Success || label == events.Failure) {
			t.Errorf("%s: got counts %q", label, keysOf(got))
		}
		for _, f := range found {
			if !f.CountOnly && f.Confidence < 0.6 {
				t.Errorf("%s: confidence %v of %s", label, f.Confidence, f.Key)
			}
		}
	}
}

// The outcome of the run decides the vote, not the errors of its tools.
func TestVoteIgnoresRecoveredErrors(t *testing.T) {
	t.Parallel()
	calls := []string{
		`open scr/a.py => Error: no such file`, `ls . => src`, `open src/a.py => x`, `edit 1:1 => Error: syntax`, `edit 1:2 => ok`,
		`book {} => Error: not available`, `search_seats {} => 1`, `book {"id":2} => ok`, `pytest => Error: 2 failed`, `pytest -q => ok`,
	}
	for label, want := range map[events.Label]events.Vote{events.Success: events.Helpful, events.Failure: events.Harmful, events.Unknown: events.Neutral} {
		found := Inspect(executionOf(label, calls...))
		if len(found) < 8 {
			t.Errorf("%s: got %q, want more", label, keysOf(found))
		}
		for _, f := range found {
			if f.Vote != want {
				t.Errorf("%s: %s votes %s, want %s", label, f.Key, f.Vote, want)
			}
		}
	}
}

// Every text of the trace tries to be a placeholder, the end of a quotation or a line.
func TestHostileNamesStayQuoted(t *testing.T) {
	t.Parallel()
	for _, s := range append(hostile, "`x` {helpful} %[1]s %d", "get_{base.helpful}\n## X") {
		args := toJSON(map[string]string{"path": s, s: s, "command": s})
		var calls []events.ToolCall
		for _, tool := range []string{"get_" + s, "read_file", "bash", "search_" + s, "write_file", "book_" + s, "edit", "pytest", "calculate"} {
			calls = append(calls, events.ToolCall{Tool: tool, Arguments: args, Output: "Error: not available " + s, Outcome: events.Failure},
				events.ToolCall{Tool: tool, Arguments: args, Output: s}, events.ToolCall{Tool: tool, Arguments: s, Output: s})
		}
		e := &events.Execution{Outcome: events.Outcome{Label: events.Success}, Steps: []events.Step{{Calls: calls}}}
		found := Inspect(e)
		checkBounds(t, found)
		checkBounds(t, FirstDifference(CallNames(e, maxCalls), CallNames(executionOf(events.Failure, `get_x {} => y`), maxCalls), maxCalls))
		for _, f := range found {
			if strings.Contains(f.Text, "%!") || strings.Contains(f.Text, "EXTRA") {
				t.Errorf("got %q", f.Text)
			}
		}
	}
}

// The rules see which tools were called on which objects, and ignore ids, times and texts.
func TestIrrelevantDetailsChangeNothing(t *testing.T) {
	t.Parallel()
	run := func(id, words string) []string {
		e := executionOf(events.Success,
			fmt.Sprintf(`get_order {"order_id":"W%s"} => %s`, id, words), fmt.Sprintf(`cancel_order {"order_id":"W%s"} => Error: order W%s not available at 12:0%s`, id, id, id),
			fmt.Sprintf(`calculate {"x":"%s"} => 1`, words), fmt.Sprintf(`cancel_order {"order_id":"W%s","note":"%s"} => ok`, id, words))
		for i := range e.Steps {
			e.Steps[i].Text = words
		}
		return keysOf(Inspect(e))
	}
	if a, b := run("1001", "one"), run("2002", "other words"); !slices.Equal(a, b) {
		t.Errorf("got\n%q\nand\n%q", a, b)
	}
}
