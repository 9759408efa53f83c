package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// leaves returns the commands that run, with their path without the program.
func leaves() map[string]*kong.Node {
	all := map[string]*kong.Node{}
	for _, n := range newProgram().Model().Leaves(false) {
		all[strings.TrimPrefix(n.FullPath(), "debrief ")] = n
	}
	return all
}

// TestEachCommandHasExamplesAndJSON: each command has an example in its help or that of its group, and a flag --json that says
// whether it prints one document or lines.
func TestEachCommandHasExamplesAndJSON(t *testing.T) {
	t.Parallel()
	withoutJSON := map[string]string{
		"help": "prints help", "hook": "prints JSON for the agent", "mcp": "speaks a protocol in JSON", "completion": "prints a script", "playbook export": "prints a file format, also json and jsonl",
	}
	commands := leaves()
	if len(commands) < 50 {
		t.Fatalf("found %d commands", len(commands))
	}
	for path, n := range commands {
		if !strings.Contains(n.Detail, "Examples:\n") {
			t.Errorf("%s: no example: add the tag example, or the method Help with a part 'Examples:'", path)
		}
		i := slices.IndexFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == "json" })
		if withoutJSON[path] != "" {
			if i >= 0 {
				t.Errorf("%s: has --json: remove it from the list of this test", path)
			}
			continue
		}
		if i < 0 {
			t.Errorf("%s: no --json: add the flag, or a reason to withoutJSON", path)
		} else if help := n.Flags[i].Help; !regexp.MustCompile(`one JSON document|JSON lines`).MatchString(help) {
			t.Errorf("%s: --json: %q does not say whether it prints a document or lines", path, help)
		}
	}
}

// TestFlagsHaveOneMeaning: a name has one type in all commands, and each flag has a help text.
func TestFlagsHaveOneMeaning(t *testing.T) {
	t.Parallel()
	types := map[string]string{}
	for path, n := range leaves() {
		for _, f := range n.Flags {
			if strings.TrimSpace(f.Help) == "" {
				t.Errorf("%s --%s: no help", path, f.Name)
			}
			kind := f.Target.Type().String()
			if was, seen := types[f.Name]; seen && was != kind {
				t.Errorf("%s --%s: is %s, and %s in another command", path, f.Name, kind, was)
			}
			types[f.Name] = kind
		}
	}
}

// TestHelpFitsTheTerminal runs --help-all of each command: the lines fit 80 columns, and no default is in quotes.
func TestHelpFitsTheTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program 150 times")
	}
	t.Parallel()
	for path := range leaves() {
		for _, columns := range []int{80, 200} {
			for line := range strings.Lines(help(t, columns, append(strings.Fields(path), "--help-all")...)) {
				line = strings.TrimSuffix(line, "\n")
				if strings.Contains(line, `="`) {
					t.Errorf("%s: a value in quotes: %s", path, line)
				}
				if n := utf8.RuneCountInString(line); n > columns {
					t.Errorf("%s: %d of %d columns: %s", path, n, columns, line)
				}
			}
		}
	}
}

// help runs the program on a terminal of a width.
func help(t *testing.T, columns int, args ...string) string {
	t.Helper()
	bin, err := exec.LookPath("debrief") // package testscript puts it into the path
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("COLUMNS=%d", columns), "HOME=/home/user", "GOGC=400") // as in setUp
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %v: %s", args, err, out.String())
	}
	return out.String()
}
