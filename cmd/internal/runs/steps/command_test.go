package steps

import "testing"

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
