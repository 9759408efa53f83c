package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completers complete the words of a command line in a shell with the script, and print one result on each line. Zsh
// completes only in an interactive session, so its functions for results are replaced.
var completers = map[string]struct{ run, files []string }{
	"bash": {[]string{"--norc", "-c", `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _debrief; printf '%s\n' "${COMPREPLY[@]}"`, "-"}, []string{""}},
	"zsh": {[]string{"-f", "-c", `compdef() { }; compadd() { print -rl -- "${(@P)2}" }; _files() { print files }
		source "$1"; shift; words=("$@"); CURRENT=$#; _debrief`, "-"}, []string{"files"}},
	"fish": {[]string{"--no-config", "-c", `source $argv[1]; cd (dirname $argv[1]); complete -C (string join -- ' ' $argv[2..])`}, []string{"debrief.script"}},
}

// TestCompletionInShells runs the scripts in the shells that this machine has.
func TestCompletionInShells(t *testing.T) {
	if testing.Short() {
		t.Skip("starts shells")
	}
	t.Parallel()
	for shell, completer := range completers {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("this machine has no %s", shell)
			}
			script := filepath.Join(t.TempDir(), "debrief.script")
			if err := os.WriteFile(script, []byte(help(t, 80, "completion", shell)), 0o600); err != nil {
				t.Fatal(err)
			}
			if shell == "zsh" {
				testAutoload(t, path, script)
			}
			for _, row := range []struct {
				line string
				want []string
			}{
				{"debrief playbook sh", []string{"show"}},
				{"debrief playbook re", []string{"rebuild", "refine", "rejected", "remove", "restore", "review"}},
				{"debrief train --order ", []string{"fixed", "seeded"}},
				{"debrief completion ", []string{"bash", "fish", "zsh"}},
				{"debrief version --js", []string{"--json"}},
				{"debrief learn ", completer.files},
			} {
				cmd := exec.Command(path, slices.Concat(completer.run, []string{script}, strings.Split(row.line, " "))...)
				cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(script))
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%s: %v", row.line, err)
				}
				got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
				for i, line := range got { // without the description
					got[i], _, _ = strings.Cut(strings.ReplaceAll(line, "\t", ":"), ":")
				}
				if slices.Sort(got); !slices.Equal(got, row.want) {
					t.Errorf("%s: got %q, want %q", row.line, got, row.want)
				}
			}
		})
	}
}

// testAutoload completes with the script as a file of fpath, as packages install it: zsh calls it by the name of its function.
func testAutoload(t *testing.T, zsh, script string) {
	t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "_debrief"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	const complete = `compadd() { print -rl -- "${(@P)2}" }; fpath=("$1"); autoload -U _debrief; words=(debrief playbook sh); CURRENT=3; _debrief; _debrief`
	cmd := exec.Command(zsh, "-f", "-c", complete, "-", dir)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "show:") != 2 {
		t.Errorf("autoload: got %q, %v, want the command show, twice", out, err)
	}
}

// TestCompletionHidesFlags completes flags of a command that has a hidden one.
func TestCompletionHidesFlags(t *testing.T) {
	t.Parallel()
	if got := help(t, 80, "completion", "bash", "--", "setup", "--u"); got != "--user\n" {
		t.Errorf("got %q, want only --user", got)
	}
}
