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
	helpRest     = regexp.MustCompile(`(   | [|>&]+( |$)).*`) // the explanation, and shell syntax after the command
	helpCommand  = regexp.MustCompile(`(?m)^  ([a-z][a-z -]*?)(?:  +\S.*)?$`)
)

// TestHelpExamplesAreValid checks that the examples of each --help are valid command lines with valid settings. Files in the
// examples need not exist.
func TestHelpExamplesAreValid(t *testing.T) {
	t.Parallel()
	examples := 0
	for _, name := range []string{"debrief", "generator", "reflector", "curator", "bench"} {
		bin := program(t, name)
		run := func(args ...string) (string, string) {
			cmd := exec.Command(bin, args...)
			cmd.Env = []string{"HOME=" + t.TempDir(), "OPENAI_API_KEY=sk-none", "GOGC=400"} // a short process needs no collection
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil && errs.Len() == 0 {
				t.Errorf("%s %s: %v", name, strings.Join(args, " "), err)
			}
			return out.String(), errs.String()
		}
		help, _ := run("--help")
		helps := []string{""}
		_, commands, _ := strings.Cut(help, helpCommands(name))
		for _, m := range helpCommand.FindAllStringSubmatch(commands, -1) {
			of := strings.Fields(m[1])
			for i := range of { // command groups have a help too
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
				if _, said := run(append(words(line), "--show-config")...); said != "" && !strings.Contains(said, "no such file") {
					t.Errorf("%s %s: %s", name, line, said)
				}
			}
		}
	}
	t.Logf("%d examples", examples)
	if examples < 70 {
		t.Errorf("found %d examples, want more", examples)
	}
}

// helpCommands returns the line before the commands in the help of a program.
func helpCommands(program string) string {
	if program == "debrief" {
		return "\nStart\n"
	}
	return "\nCommands:\n"
}

// words splits a command line and removes quotes.
func words(line string) (all []string) {
	for _, w := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(line, -1) {
		all = append(all, strings.Trim(w, `'"`))
	}
	return all
}
