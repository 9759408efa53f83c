package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"debrief/events/bus/bustest"
)

func TestMain(m *testing.M) {
	testscript.Main(scripts{m}, map[string]func(){"bench": main})
}

// scripts runs the tests with Prepare, but not the program: package testscript starts this binary as either.
type scripts struct{ *testing.M }

// Run implements testscript.TestingM.
func (s scripts) Run() int {
	bustest.Prepare()
	return s.M.Run()
}

// TestScripts runs each command: testdata/script/*.txtar. A script starts in an empty directory.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":    exitCode,
			"oneline": oneLine,
		},
	})
}

// exitCode runs a program and checks its exit code: exit 2 bench gateway --nope.
func exitCode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exit code program [args...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var ended interface{ ExitCode() int }
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// oneLine checks that the first line of standard error matches, and that only a pointer to the help follows it.
func oneLine(ts *testscript.TestScript, _ bool, args []string) {
	line, rest, _ := strings.Cut(strings.TrimSuffix(ts.ReadFile("stderr"), "\n"), "\n")
	if rest != "" && !regexp.MustCompile(`^See 'bench[a-z ]* --help'\.$`).MatchString(rest) {
		ts.Fatalf("more than one line: %s", rest)
	}
	if !strings.HasPrefix(line, "bench: ") || !regexp.MustCompile(args[0]).MatchString(line) {
		ts.Fatalf("%q does not match %s", line, args[0])
	}
}
