package rules

import (
	"testing"

	"debrief/playbook/text"
)

func TestCauses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		output string
		cause  cause
		name   string
	}{
		{"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nModuleNotFoundError: No module named 'yaml'", missingModule, "yaml"},
		{"ModuleNotFoundError: No module named 'google.protobuf'; 'google' is not a package", missingModule, "google.protobuf"},
		{"/usr/bin/python: No module named pytest", missingModule, "pytest"},
		{"ImportError: No module named requests", missingModule, "requests"},
		{"Error: Cannot find module 'express'\nRequire stack:\n- /a/b.js", missingModule, "express"},
		{"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /a/b.mjs", missingModule, "zod"},
		{"a.go:4:2: no required module provides package example.com/x/y; to add it:\n\tgo get example.com/x/y", missingModule, "example.com/x/y"},
		{"a.go:3:8: cannot find package \"x/y\" in any of:", missingModule, "x/y"},
		{"cannot load such file -- nokogiri (LoadError)", missingModule, "nokogiri"},
		{"Can't locate JSON/XS.pm in @INC (you may need to install the JSON::XS module)", missingModule, "JSON/XS.pm"},
		{"Module not found: Error: Can't resolve 'react' in '/a'", missingModule, "react"},
		{"error[E0432]: unresolved import `serde`", missingModule, "serde"},

		{"bash: jq: command not found", missingCommand, "jq"},
		{"/bin/bash: line 1: rg: command not found", missingCommand, "rg"},
		{"zsh: command not found: tree", missingCommand, "tree"},
		{"/bin/sh: 1: node: not found", missingCommand, "node"},
		{"sh: line 3: tsc: not found", missingCommand, "tsc"},
		{`exec: "gcc": executable file not found in $PATH`, missingCommand, "gcc"},
		{"/usr/bin/env: ‘python’: No such file or directory", missingCommand, "python"},
		{"'make' is not recognized as an internal or external command,", missingCommand, "make"},
		{"Error: spawn git ENOENT", missingCommand, "git"},
		{"sudo: pip: command not found", missingCommand, "pip"},

		{"cat: a/b.txt: No such file or directory", missingFile, "a/b.txt"},
		{"ls: cannot access 'a b': No such file or directory", missingFile, "a b"},
		{"bash: cd: /nowhere: No such file or directory", missingFile, "/nowhere"},
		{"python: can't open file '/x/a.py': [Errno 2] No such file or directory", missingFile, "/x/a.py"},
		{"FileNotFoundError: [Errno 2] No such file or directory: 'data/in.csv'", missingFile, "data/in.csv"},
		{"Error: ENOENT: no such file or directory, open '/a/package.json'", missingFile, "/a/package.json"},
		{"open config.yaml: no such file or directory", missingFile, "config.yaml"},
		{"File a.py not found", missingFile, "a.py"},
		{"no such file or directory", missingFile, ""},

		{"AssertionError: 1 != 2", unknownCause, ""},
		{"HTTP 404: not found", unknownCause, ""},
		{"SyntaxError: invalid syntax", unknownCause, ""},
		{"", unknownCause, ""},
	}
	for _, tt := range tests {
		if cause, name := causeOf(text.ErrorLine(tt.output)); cause != tt.cause || name != tt.name {
			t.Errorf("%.80q: got %d %q, want %d %q", tt.output, cause, name, tt.cause, tt.name)
		}
	}
}
