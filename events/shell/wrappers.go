package shell

import (
	"slices"
	"strings"
)

// wrapper describes a program that runs the command after it.
type wrapper struct {
	subcommand string // the program runs a command only with this word before it: poetry run pytest
	values     string // options that are followed by a value
	words      int    // words between the options and the command
	unless     string // options with which it does not run the command
	assigns    bool   // variables may stand before the command
}

// wrappers are programs by name.
var wrappers = map[string]wrapper{
	"sudo":     {values: "-u -g -h -p -C -T -U -r -t -D -R --user --group", assigns: true},
	"doas":     {values: "-u -C"},
	"env":      {values: "-u -C -S --unset --chdir", assigns: true},
	"time":     {values: "-o -f"},
	"timeout":  {values: "-s -k --signal --kill-after", words: 1},
	"nohup":    {},
	"exec":     {values: "-a"},
	"nice":     {values: "-n"},
	"ionice":   {values: "-c -n"},
	"stdbuf":   {values: "-i -o -e"},
	"setsid":   {},
	"unbuffer": {},
	"xvfb-run": {values: "-n -s -e -f -w -p --server-args"},
	"npx":      {values: "-p --package", unless: "-c --call"},
	"bunx":     {},
	"uvx":      {values: "--from --with --python -p"},
	"builtin":  {},
	"command":  {unless: "-v -V"},
	"poetry":   {subcommand: "run"},
	"pipenv":   {subcommand: "run"},
	"pdm":      {subcommand: "run", values: "-p"},
	"hatch":    {subcommand: "run"},
	"rye":      {subcommand: "run"},
	"bundle":   {subcommand: "exec"},
	"uv":       {subcommand: "run", values: "--with --python -p --extra --group --package --project --directory --env-file --with-requirements"},
	"conda":    {subcommand: "run", values: "-n -p --name --prefix --cwd"},
	"mamba":    {subcommand: "run", values: "-n -p --name --prefix --cwd"},
}

// unwrap returns the words of a command without wrappers. A wrapper without a command stays.
func unwrap(words []string) []string {
	for {
		rest := unwrapOnce(words)
		if len(rest) == 0 || len(rest) == len(words) {
			return words
		}
		words = rest
	}
}

// unwrapOnce returns the words after one wrapper, or all words if the first one is not a wrapper.
func unwrapOnce(words []string) []string {
	w, ok := wrappers[base(words[0])]
	if !ok {
		return words
	}
	rest := words[1:]
	if w.subcommand != "" {
		if len(rest) < 2 || rest[0] != w.subcommand {
			return words
		}
		rest = rest[1:]
	}
	rest, ok = skipOptions(rest, w)
	if !ok {
		return words
	}
	for w.assigns && len(rest) > 0 && isAssignment(rest[0]) {
		rest = rest[1:]
	}
	return rest[min(w.words, len(rest)):]
}

// skipOptions returns the words after the options of a wrapper. It returns false if an option excludes a command.
func skipOptions(words []string, w wrapper) ([]string, bool) {
	values, unless := strings.Fields(w.values), strings.Fields(w.unless)
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		option := words[0]
		words = words[1:]
		switch {
		case option == "--":
			return words, true
		case slices.Contains(unless, option):
			return nil, false
		case slices.Contains(values, option):
			words = words[min(1, len(words)):]
		}
	}
	return words, true
}

// isAssignment reports whether a word is name=value.
func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// IsShell reports whether a program is a shell. The name "-bash" is that of a login shell.
func IsShell(program string) bool {
	switch program {
	case "sh", "bash", "-bash", "dash", "zsh", "ksh", "ash", "fish":
		return true
	}
	return false
}

// Script returns the script of a command that is a shell with a script, such as sh -c 'script' and bash -o pipefail -lc 'script'.
func Script(word string, args []string) (script string, ok bool) {
	if !IsShell(ProgramName(word)) {
		return "", false
	}
	hasScript := false // an option says that the first argument is a script
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			return a, hasScript
		}
		isLong := a[1] == '-'
		if !isLong && strings.HasSuffix(a, "o") || slices.Contains([]string{"-O", "+O", "--rcfile", "--init-file"}, a) {
			i++ // skip the value of the option
		}
		if a[0] == '-' && !isLong && strings.Contains(a, "c") {
			hasScript = true
		}
	}
	return "", false
}
