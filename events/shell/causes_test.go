package shell

import (
	"strings"
	"testing"
)

func TestFindCause(t *testing.T) {
	t.Parallel()
	tests := []struct {
		output string
		cause  Cause
		name   string
	}{
		{"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nModuleNotFoundError: No module named 'yaml'", MissingModule, "yaml"},
		{"ModuleNotFoundError: No module named 'google.protobuf'; 'google' is not a package", MissingModule, "google.protobuf"},
		{"/usr/bin/python: No module named pytest", MissingModule, "pytest"},
		{"ImportError: No module named requests", MissingModule, "requests"},
		{"Error: Cannot find module 'express'\nRequire stack:\n- /a/b.js", MissingModule, "express"},
		{"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /a/b.mjs", MissingModule, "zod"},
		{"a.go:4:2: no required module provides package example.com/x/y; to add it:\n\tgo get example.com/x/y", MissingModule, "example.com/x/y"},
		{"a.go:3:8: cannot find package \"x/y\" in any of:", MissingModule, "x/y"},
		{"cannot load such file -- nokogiri (LoadError)", MissingModule, "nokogiri"},
		{"Can't locate JSON/XS.pm in @INC (you may need to install the JSON::XS module)", MissingModule, "JSON/XS.pm"},
		{"Module not found: Error: Can't resolve 'react' in '/a'", MissingModule, "react"},
		{"error[E0432]: unresolved import `serde`", MissingModule, "serde"},

		{"bash: jq: command not found", MissingCommand, "jq"},
		{"/bin/bash: line 1: rg: command not found", MissingCommand, "rg"},
		{"zsh: command not found: tree", MissingCommand, "tree"},
		{"/bin/sh: 1: node: not found", MissingCommand, "node"},
		{"sh: line 3: tsc: not found", MissingCommand, "tsc"},
		{`exec: "gcc": executable file not found in $PATH`, MissingCommand, "gcc"},
		{"/usr/bin/env: ‘python’: No such file or directory", MissingCommand, "python"},
		{"'make' is not recognized as an internal or external command,", MissingCommand, "make"},
		{"Error: spawn git ENOENT", MissingCommand, "git"},
		{"sudo: pip: command not found", MissingCommand, "pip"},

		{"cat: a/b.txt: No such file or directory", MissingFile, "a/b.txt"},
		{"ls: cannot access 'a b': No such file or directory", MissingFile, "a b"},
		{"bash: cd: /nowhere: No such file or directory", MissingFile, "/nowhere"},
		{"python: can't open file '/x/a.py': [Errno 2] No such file or directory", MissingFile, "/x/a.py"},
		{"FileNotFoundError: [Errno 2] No such file or directory: 'data/in.csv'", MissingFile, "data/in.csv"},
		{"Error: ENOENT: no such file or directory, open '/a/package.json'", MissingFile, "/a/package.json"},
		{"open config.yaml: no such file or directory", MissingFile, "config.yaml"},
		{"File a.py not found", MissingFile, "a.py"},
		{"no such file or directory", MissingFile, ""},

		{"bash: ./run.sh: Permission denied", PermissionDenied, "./run.sh"},
		{"PermissionError: [Errno 13] Permission denied: '/etc/x'", PermissionDenied, "/etc/x"},
		{"mkdir: cannot create directory '/x': Permission denied", PermissionDenied, "/x"},
		{"npm ERR! Error: EACCES: permission denied, mkdir '/usr/lib/x'", PermissionDenied, "/usr/lib/x"},
		{"chown: changing ownership of '/x': Operation not permitted", PermissionDenied, "/x"},
		{"git@github.com: Permission denied (publickey).", PermissionDenied, "git@github.com"},

		{"ModuleNotFoundError: No module named 'a'\n\nDuring handling of the above exception, another exception occurred:\n\nFileNotFoundError: [Errno 2] No such file or directory: 'b'", MissingFile, "b"},
		{"bash: " + strings.Repeat("x", 500) + ": command not found", MissingCommand, ""},
		{"AssertionError: 1 != 2", UnknownCause, ""},
		{"HTTP 404: not found", UnknownCause, ""},
		{"SyntaxError: invalid syntax", UnknownCause, ""},
		{"", UnknownCause, ""},
	}
	for _, tt := range tests {
		if cause, name := FindCause(tt.output); cause != tt.cause || name != tt.name {
			t.Errorf("%.80q: got %s %q, want %s %q", tt.output, cause, name, tt.cause, tt.name)
		}
	}
}

// Both ends of a long output are read.
func TestFindCauseInLongOutput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line\n", 100_000)
	for _, output := range []string{"bash: jq: command not found\n" + long, long + "bash: jq: command not found"} {
		if cause, name := FindCause(output); cause != MissingCommand || name != "jq" {
			t.Errorf("got %s %q", cause, name)
		}
	}
}

func BenchmarkFindCause(b *testing.B) {
	output := strings.Repeat("tests/test_a.py::test_b PASSED [ 10%]\n", 500) + "ModuleNotFoundError: No module named 'yaml'\n"
	for b.Loop() {
		FindCause(output)
	}
}
