package integration

import (
	"bytes"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	helpExamples = regexp.MustCompile(`(?s)Examples?:\n(.*?)\n(Flags|Commands|Arguments)`)
	helpRest     = regexp.MustCompile(`(   | [|>&]+( |$)).*`) // what it is for, and what is no part of the command
	helpCommand  = regexp.MustCompile(`(?m)^  ([a-z][a-z -]*?)(?:  +\S.*)?$`)
)

// TestEveryExampleOfTheHelpIsUnderstood: what a --help shows to type is a command line that the program takes, with
// settings that can be. The files that an example names need not be there.
func TestEveryExampleOfTheHelpIsUnderstood(t *testing.T) {
	t.Parallel()
	examples := 0
	for _, name := range []string{"debrief", "generator", "reflector", "curator"} {
		bin := program(t, name)
		run := func(args ...string) (string, string) {
			cmd := exec.Command(bin, args...)
			cmd.Env = []string{"HOME=" + t.TempDir(), "OPENAI_API_KEY=sk-none"}
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil && errs.Len() == 0 {
				t.Errorf("%s %s: %v", name, strings.Join(args, " "), err)
			}
			return out.String(), errs.String()
		}
		help, _ := run("--help")
		helps := []string{""}
		_, commands, _ := strings.Cut(help, "\nCommands:\n")
		for _, m := range helpCommand.FindAllStringSubmatch(commands, -1) {
			of := strings.Fields(m[1])
			for i := range of { // what groups commands has a help too
				if c := strings.Join(of[:i+1], " "); !slices.Contains(helps, c) {
					helps = append(helps, c)
				}
			}
		}
		for _, of := range helps {
			help, _ := run(append(strings.Fields(of), "--help")...)
			m := helpExamples.FindStringSubmatch(help)
			if m == nil {
				continue
			}
			for line := range strings.Lines(m[1]) {
				line, ours := strings.CutPrefix(strings.TrimSpace(line), name+" ")
				if !ours {
					continue
				}
				examples++
				line = helpRest.ReplaceAllString(line, "")
				args := append([]string{"config"}, words(line)...)
				if name != "debrief" {
					args = append(words(line), "--show-config")
				}
				if _, said := run(args...); said != "" && !strings.Contains(said, "no such file") {
					t.Errorf("%s %s: %s", name, line, said)
				}
			}
		}
	}
	t.Logf("%d examples", examples)
	if examples < 70 {
		t.Errorf("got %d examples, want more: are they found?", examples)
	}
}

// words are those of a command line, without the quotes around those that have some.
func words(line string) (all []string) {
	for _, w := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(line, -1) {
		all = append(all, strings.Trim(w, `'"`))
	}
	return all
}
