package shell

import (
	"slices"
	"strings"
)

// wrapper describes a program that runs the command behind it.
type wrapper struct {
	values  string // options that are followed by a value
	words   int    // words between the options and the command
	unless  string // options with which it does not run the command
	assigns bool   // variables may stand before the command
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
}

// runners run the command behind a subcommand: poetry run pytest.
var runners = map[string]struct{ subcommand, values string }{
	"poetry": {"run", ""},
	"pipenv": {"run", ""},
	"pdm":    {"run", "-p"},
	"hatch":  {"run", ""},
	"rye":    {"run", ""},
	"bundle": {"exec", ""},
	"uv":     {"run", "--with --python -p --extra --group --package --project --directory --env-file --with-requirements"},
	"conda":  {"run", "-n -p --name --prefix --cwd"},
	"mamba":  {"run", "-n -p --name --prefix --cwd"},
}

// unwrap returns the words of a command without wrappers, and the variables that the wrappers set. A wrapper without a
// command stays.
func unwrap(words []string) (command, env []string) {
	for {
		rest, more := unwrapOnce(words)
		if len(rest) == 0 || len(rest) == len(words) {
			return words, env
		}
		words, env = rest, append(env, more...)
	}
}

// unwrapOnce returns the words behind one wrapper, or all words if the first one is not a wrapper.
func unwrapOnce(words []string) (rest, env []string) {
	name := base(words[0])
	if r, ok := runners[name]; ok && len(words) > 2 && words[1] == r.subcommand {
		rest, _ = skipOptions(words[2:], wrapper{values: r.values})
		return rest, nil
	}
	w, ok := wrappers[name]
	if !ok {
		return words, nil
	}
	rest, ok = skipOptions(words[1:], w)
	if !ok {
		return words, nil
	}
	for w.assigns && len(rest) > 0 && isAssignment(rest[0]) {
		env, rest = append(env, rest[0]), rest[1:]
	}
	return rest[min(w.words, len(rest)):], env
}

// skipOptions returns the words behind the options of a wrapper. It returns false if an option excludes a command.
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

// shells run a script that is an argument.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true}

// scriptOf returns the script of sh -c 'script' and bash -o pipefail -lc 'script'.
func scriptOf(c Command) (string, bool) {
	if !shells[c.Program] {
		return "", false
	}
	found := false
	for i := 0; i < len(c.Args); i++ {
		a := c.Args[i]
		switch {
		case len(a) < 2 || a[0] != '-' && a[0] != '+':
			return a, found
		case a == "-o" || a == "+o" || a == "-O" || a == "+O" || a == "--rcfile" || a == "--init-file" || strings.HasSuffix(a, "o") && a[1] != '-':
			found = found || a[1] != '-' && strings.Contains(a, "c")
			i++
		case a[0] == '-' && a[1] != '-' && strings.Contains(a, "c"):
			found = true
		}
	}
	return "", false
}
