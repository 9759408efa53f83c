package outcome_test

import (
	"encoding/json"
	"testing"

	"debrief/events"
	"debrief/events/outcome"
)

// ran returns a step with a command line and how it ended.
func ran(line string, ended events.Label) events.Step {
	args, _ := json.Marshal(map[string]string{"command": line})
	return events.Step{Calls: []events.ToolCall{{Tool: "Bash", Arguments: string(args), Outcome: ended}}}
}

func TestOfWork(t *testing.T) {
	t.Parallel()
	const good, bad = events.Success, events.Failure
	for name, test := range map[string]struct {
		steps    []events.Step
		label    events.Label
		by       string
		inferred bool
	}{
		"nothing ran":                {nil, events.Unknown, "", true},
		"tests passed":               {[]events.Step{ran("go test ./...", good)}, good, "tests", false},
		"tests in a directory":       {[]events.Step{ran("cd api && npm test", good)}, good, "tests", false},
		"the last tests decide":      {[]events.Step{ran("pytest -q", bad), ran("pytest -q", good)}, good, "tests", false},
		"tests failed at the end":    {[]events.Step{ran("pytest -q", good), ran("pytest -q", bad), ran("git commit -am x", good)}, bad, "tests", false},
		"tests timed out":            {[]events.Step{ran("make test", events.TimedOut)}, bad, "tests", false},
		"a filter hides the end":     {[]events.Step{ran("go test ./... | tail -5", good)}, events.Unknown, "", true},
		"a failure is forgiven":      {[]events.Step{ran("go test ./... || true", good)}, events.Unknown, "", true},
		"another command follows":    {[]events.Step{ran("pytest; echo done", good)}, events.Unknown, "", true},
		"a pipe that fails":          {[]events.Step{ran("set -o pipefail; pytest | tee log", bad)}, bad, "tests", false},
		"a filter that fails":        {[]events.Step{ran("go test ./... | grep FAIL", bad)}, events.Unknown, "", true},
		"a search with pipefail":     {[]events.Step{ran("set -euo pipefail; go test ./... | grep FAIL", bad)}, events.Unknown, "", true},
		"pipefail is off":            {[]events.Step{ran("set +o pipefail; go test ./... | tee log", bad)}, events.Unknown, "", true},
		"pipefail among options":     {[]events.Step{ran("set -euo pipefail && cd api && go test ./... | tee log", bad)}, bad, "tests", false},
		"tests in a pipe timed out":  {[]events.Step{ran("go test ./... | tail -5", events.TimedOut)}, bad, "tests", false},
		"tests at the end of a pipe": {[]events.Step{ran("yes | npm test", bad)}, bad, "tests", false},
		"tests before a commit":      {[]events.Step{ran("go test ./... && git commit -m x", good)}, good, "tests", false},
		"that failed at the commit":  {[]events.Step{ran("go test ./... && git commit -m x", bad)}, events.Unknown, "", true},
		"a commit":                   {[]events.Step{ran("git commit -m 'fix: x'", good)}, good, "", true},
		"a commit that was refused":  {[]events.Step{ran("git commit -m x", bad)}, events.Unknown, "", true},
		"a build works":              {[]events.Step{ran("go build ./...", good)}, good, "", true},
		"a build fails":              {[]events.Step{ran("cargo build", bad)}, bad, "build", false},
		"tests after a failed build": {[]events.Step{ran("cargo build", bad), ran("cargo test", good)}, good, "tests", false},
		"a tool that is no shell":    {[]events.Step{{Calls: []events.ToolCall{{Tool: "go_test", Arguments: `{"pattern": "pytest"}`, Outcome: good}}}}, events.Unknown, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := outcome.OfWork(test.steps)
			if got.Label != test.label || got.By != test.by || got.Inferred != test.inferred {
				t.Errorf("got %s by %q, inferred %t; want %s by %q, %t", got.Label, got.By, got.Inferred, test.label, test.by, test.inferred)
			}
		})
	}
}

func TestReverts(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"git revert --no-edit HEAD": true, "git reset --hard HEAD~1": true, "git checkout -- .": true, "git restore .": true, "cd x && git reset --hard": true,
		"git checkout main": false, "git reset HEAD a.go": false, "git restore a.go": false, "git log --grep revert": false, "echo git revert": false,
		"git restore --staged .": false, "git restore -S .": false, "git restore --staged --worktree .": true, "git restore -SW -- .": true,
		"git revert --abort": false, "git revert --quit": false, "git revert --skip": false, "git revert --continue": true,
	} {
		if got := outcome.Reverts([]events.Step{ran(line, events.Success)}); got != want {
			t.Errorf("%s: got %t, want %t", line, got, want)
		}
	}
	if outcome.Reverts([]events.Step{ran("git revert HEAD", events.Failure)}) {
		t.Error("a revert that failed: got true, want false")
	}
}
