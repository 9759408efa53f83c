package rules

import (
	"testing"

	"debrief/playbook/text"
)

func TestMissing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		output        string
		program, file bool
	}{
		{"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nModuleNotFoundError: No module named 'yaml'", true, false},
		{"ModuleNotFoundError: No module named 'google.protobuf'; 'google' is not a package", true, false},
		{"/usr/bin/python: No module named pytest", true, false},
		{"ImportError: No module named requests", true, false},
		{"Error: Cannot find module 'express'\nRequire stack:\n- /a/b.js", true, false},
		{"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /a/b.mjs", true, false},
		{"a.go:4:2: no required module provides package example.com/x/y; to add it:\n\tgo get example.com/x/y", true, false},
		{"a.go:3:8: cannot find package \"x/y\" in any of:", true, false},
		{"cannot load such file -- nokogiri (LoadError)", true, false},
		{"Can't locate JSON/XS.pm in @INC (you may need to install the JSON::XS module)", true, false},
		{"Module not found: Error: Can't resolve 'react' in '/a'", true, false},
		{"error[E0432]: unresolved import `serde`", true, false},
		{"bash: jq: command not found", true, false},
		{"/bin/bash: line 1: rg: command not found", true, false},
		{"zsh: command not found: tree", true, false},
		{"/bin/sh: 1: node: not found", true, false},
		{"sh: line 3: tsc: not found", true, false},
		{`exec: "gcc": executable file not found in $PATH`, true, false},
		{"/usr/bin/env: ‘python’: No such file or directory", true, false},
		{"'make' is not recognized as an internal or external command,", true, false},
		{"Error: spawn git ENOENT", true, false},
		{"sudo: pip: command not found", true, false},
		{"cat: a/b.txt: No such file or directory", false, true},
		{"ls: cannot access 'a b': No such file or directory", false, true},
		{"bash: cd: /nowhere: No such file or directory", false, true},
		{"python: can't open file '/x/a.py': [Errno 2] No such file or directory", false, true},
		{"FileNotFoundError: [Errno 2] No such file or directory: 'data/in.csv'", false, true},
		{"Error: ENOENT: no such file or directory, open '/a/package.json'", false, true},
		{"open config.yaml: no such file or directory", false, true},
		{"File a.py not found", false, true},
		{"no such file or directory", false, true},
		{"AssertionError: 1 != 2", false, false},
		{"HTTP 404: not found", false, false},
		{"SyntaxError: invalid syntax", false, false},
		{"", false, false},
	}
	for _, tt := range tests {
		line := text.ErrorLine(tt.output)
		if program, file := missingProgram.MatchString(line), missingFile.MatchString(line) && !missingProgram.MatchString(line); program != tt.program || file != tt.file {
			t.Errorf("%.80q: got %t %t, want %t %t", tt.output, program, file, tt.program, tt.file)
		}
	}
}
