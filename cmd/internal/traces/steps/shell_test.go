package steps

import "testing"

func TestShellFailed(t *testing.T) {
	t.Parallel()
	const traceback = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\n"
	tests := []struct {
		command, output string
		want            bool
	}{
		// Messages of failed commands.
		{"foo --bar", "bash: foo: command not found", true},
		{"foo --bar", "/bin/bash: line 1: foo: command not found\n(Open file: n/a)\n(Current directory: /x)\nbash-$", true},
		{"cat x.txt", "cat: x.txt: No such file or directory", true},
		{"cat x.txt", "bash: cat: command not found", true},
		{"cd /nowhere && cat x", "bash: cd: /nowhere: No such file or directory", true},
		{"ls a b", "b.txt\nls: cannot access 'a': No such file or directory", true},
		{"PYTHONPATH=. python3 a.py", "python3: can't open file '/x/a.py': [Errno 2] No such file or directory", true},
		{"/usr/bin/python3.11 a.py", "python: can't open file 'a.py': [Errno 2] No such file or directory", true},
		{"python a.py", "some output\n" + traceback + "NameError: name 'x' is not defined\n", true},
		{"python a.py", "  File \"a.py\", line 4\n    def f()\n           ^\nSyntaxError: expected ':'", true},
		{"python a.py", traceback + "requests.exceptions.ConnectTimeout: 10 s", true},
		{"edit 1:1\nx = (", "Your proposed edit has introduced new syntax error(s). Please understand the fixes\n\n1: x = (", true},
		{"edit 1:1", "No file open. Use the open command first.", true},
		{"open a.py", "File a.py not found", true},
		{"create a.py", "Error: File 'a.py' already exists.", true},
		{"str_replace_editor str_replace a.py", "No replacement was performed, old_str `x` did not appear verbatim in /a.py.", true},
		{"git checkout nope", "error: pathspec 'nope' did not match any file(s) known to git", true},
		{"git status", "fatal: not a git repository", true},
		{"curl http://x", "  % Total\n  0 0\ncurl: (6) Could not resolve host: x", true},
		{"curl http://x", "fine\n///PROCESS-DONE:7:PROCESS-DONE///", true},
		{"make all", "cc -c a.c\nmake: *** [all] Error 1", true},
		{"./run.sh", "bash: ./run.sh: Permission denied", true},
		{"sleep 100", "\nEXECUTION TIMED OUT", true},
		{"tox", "some output\n[exit code: 2]", true},
		{"tox", "Command exited with status 127", true},

		{"for f in a b; do cat $f; done", "cat: a: No such file or directory", true},
		{"cd /x || foo", "bash: foo: command not found", true},
		{"set -e\nmake all", "make: *** [all] Error 1", true},
		{"bash -lc 'git status'", "fatal: not a git repository", true},
		{"sudo -u root rm x", "rm: cannot remove 'x': No such file or directory", true},

		// Output that only mentions errors.
		{"cat log", traceback + "NameError: name 'x' is not defined", false},
		{"cat log", "bash: foo: command not found", false},
		{"cat README", "Usage: foo [options]\nError: is printed", false},
		{"cd /x; tail -3 log", traceback + "KeyError: 1", false},
		{"bash -lc 'cat log'", traceback + "KeyError: 1", false},
		{"for f in *.log; do tail $f; done", traceback + "KeyError: 1", false},
		{"edit 1:1\nrm -f x; foo", "foo: No such file or directory", false},
		{"open a.py", "[File: a.py (3 lines total)]\n1:raise ValueError\n2:Traceback (most recent call last):\n3:ValueError: x", false},
		{"grep -rn Error .", "a.py:3: raise KeyError: No such file", false},
		{"git log", "commit 1\n\n    fatal: not a problem", false},
		{"git diff", "diff --git a b\n+SyntaxError: invalid", false},
		{"submit", "diff --git a b\n-Traceback (most recent call last):\n-KeyError: x", false},
		{"curl http://x", "  % Total\nNot found\nAn error occurred", false},
		{"curl http://x", "curl: (6) quoted\n///PROCESS-DONE:0:PROCESS-DONE///", false},
		{"python a.py", traceback + "NameError: caught it\nall done", false},
		{"python a.py", "Warning: _curses.error: setupterm: could not find terminfo database\n\nTrue", false},
		{"python a.py", "Script completed successfully, no errors. Result: True", false},
		{"python a.py", "KeyError: printed without a trace", false},
		{"pytest", "1 failed, 2 passed, exit code 0", false},
		{"search_file x", "No matches found for \"x\" in /a.py", false},
		{"submit 'flag'", "Wrong flag!", false},
		{"rm a.py", "", false},
		{"", "", false},
	}
	for _, tt := range tests {
		if got := ShellFailed(tt.command, tt.output); got != tt.want {
			t.Errorf("%q printed %q: got %v, want %v", tt.command, tt.output, got, tt.want)
		}
	}
}

// A command that changes the directory first is a call of the program that does the work.
func TestCommand(t *testing.T) {
	t.Parallel()
	tests := []struct{ action, tool, arguments string }{
		{"python a.py\n", "python", "a.py"},
		{"python3 a.py && ls", "python3", "a.py && ls"},
		{"cd /repo && python a.py", "python", "cd /repo && python a.py"},
		{"cd /repo\nexport A=1\nmake test", "make", "cd /repo\nexport A=1\nmake test"},
		{"PYTHONPATH=. python3.11 a.py", "python", "PYTHONPATH=. python3.11 a.py"},
		{"sudo apt-get install -y jq", "apt-get", "sudo apt-get install -y jq"},
		{"bash -lc 'cd x && ls'", "ls", "bash -lc 'cd x && ls'"},
		{"for f in *; do cat $f; done", "cat", "for f in *; do cat $f; done"},
		{"cd /repo", "cd", "/repo"},
		{"./run.sh x", "./run.sh", "x"},
		{"ls", "ls", ""},
		{"edit 1:1\nimport os; print('a\nend_of_edit", "edit", "1:1\nimport os; print('a\nend_of_edit"},
		{"edit 'def a(b):' 'def a(c):'", "edit", "'def a(b):' 'def a(c):'"},
		{"submit 'flag{a|b}'", "submit", "'flag{a|b}'"},
		{"Let's see (it works)", "Let's", "see (it works)"},
		{"print(x)", "print(x)", ""},
		{`{"command": "ls"}`, `{"command":`, `"ls"}`},
	}
	for _, tt := range tests {
		call, ok := ParseCommand(tt.action)
		if !ok || call.Tool != tt.tool || call.Arguments != tt.arguments {
			t.Errorf("%q: got %q %q, want %q %q", tt.action, call.Tool, call.Arguments, tt.tool, tt.arguments)
		}
	}
	if _, ok := ParseCommand(" \n"); ok {
		t.Error("got a call of an empty command")
	}
}
