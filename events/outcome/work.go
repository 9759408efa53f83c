package outcome

import (
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/shell"
)

// Evaluators of the work on a program: the outcome of their last run is the outcome of the work.
const (
	ByTests = "tests"
	ByBuild = "build"
)

// OfWork returns the outcome of a run that worked on a program, from the commands in its steps. The last command that ran tests decides,
// or without one the last build. Their exit codes are verdicts of programs of the user, not guesses, so the outcome is not marked
// as inferred. A commit that worked is an inferred success. Without any of these the label is unknown, and marked as inferred.
func OfWork(steps []events.Step) events.Outcome {
	var tests, builds, commit events.Label
	for call, commands := range commandsOf(steps) {
		for i, c := range commands {
			a := c.Action()
			switch {
			case !decides(commands, i, call.Outcome):
			case a.Kind&shell.Tests != 0:
				tests = call.Outcome
			case a.Kind&shell.Builds != 0:
				builds = call.Outcome
			case a.Name == "git commit" && call.Outcome == events.Success:
				commit = events.Success
			}
		}
	}
	o := events.Outcome{Label: events.Unknown, Inferred: true}
	switch {
	case tests != "":
		o = events.Outcome{Label: tests, By: ByTests}
	case builds.Failed(): // a build that works says little about the task
		o = events.Outcome{Label: builds, By: ByBuild}
	case commit != "":
		o = events.Outcome{Label: commit, Inferred: true, Feedback: "the work was committed"}
	case builds != "":
		o = events.Outcome{Label: builds, Inferred: true, Feedback: "the program was built"}
	}
	if o.Label.Failed() {
		o.Label = events.Failure
	}
	return o.Complete()
}

// Reverts reports whether a run took back changes under version control, with a command that worked.
func Reverts(steps []events.Step) bool {
	for call, commands := range commandsOf(steps) {
		if call.Outcome == events.Success && slices.ContainsFunc(commands, reverts) {
			return true
		}
	}
	return false
}

// reverts reports whether a command takes back commits or all changes of files. Single files are often restored in the middle of work.
func reverts(c shell.Command) bool {
	if c.Program != "git" {
		return false
	}
	args := slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return strings.HasPrefix(a, "-") && a != "--hard" && a != "--" })
	line := strings.Join(args, " ")
	isRevert := (line == "revert" || strings.HasPrefix(line, "revert ")) && !slices.ContainsFunc(c.Args, endsRevert)
	isHardReset := strings.HasPrefix(line, "reset ") && slices.Contains(args, "--hard")
	isRestore := slices.Contains([]string{"restore .", "restore -- ."}, line) && changesFiles(c.Args)
	return isRevert || isHardReset || isRestore || slices.Contains([]string{"checkout .", "checkout -- ."}, line)
}

// endsRevert reports whether an option of git revert gives up a revert that has begun, or a part of it.
func endsRevert(arg string) bool {
	return arg == "--abort" || arg == "--quit" || arg == "--skip"
}

// changesFiles reports whether git restore with these arguments changes files: with --staged alone it only unstages them.
func changesFiles(args []string) bool {
	var staged, worktree bool
	for _, a := range args {
		isShort := strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--")
		staged = staged || a == "--staged" || isShort && strings.Contains(a, "S")
		worktree = worktree || a == "--worktree" || isShort && strings.Contains(a, "W")
	}
	return worktree || !staged
}

// decides reports whether the outcome of a command line is the verdict of command i in it. A line works only if all its commands joined by
// && worked, and it fails by its last command. A filter after a pipe hides how the command ended, unless the shell has pipefail.
func decides(commands []shell.Command, i int, outcome events.Label) bool {
	rest := commands[i+1:]
	areJoined, areFilters := true, true // all of the rest
	for _, c := range rest {
		areJoined = areJoined && c.AfterSuccess && !c.Piped
		areFilters = areFilters && c.Piped
	}
	switch {
	case outcome == events.Success:
		return areJoined
	case !outcome.Failed() || !areFilters:
		return false
	case len(rest) == 0 || outcome == events.TimedOut: // a filter only waits for the command
		return true
	}
	return hasPipefail(commands[:i]) && !slices.ContainsFunc(rest, failsByItself)
}

// hasPipefail reports whether the commands of a shell leave it with the option pipefail.
func hasPipefail(commands []shell.Command) bool {
	has := false
	for _, c := range commands {
		i := slices.Index(c.Args, "pipefail")
		if c.Program == "set" && i > 0 {
			has = strings.HasPrefix(c.Args[i-1], "-") // "+o" unsets it
		}
	}
	return has
}

// failsByItself reports whether a filter may fail although the command before it works, or make it fail: a search without a match, and
// head, which stops reading.
func failsByItself(c shell.Command) bool {
	return slices.Contains([]string{"grep", "egrep", "fgrep", "rg", "ag", "ack", "head"}, c.Program)
}

// commandsOf yields the calls of a run that are command lines, in order, with their commands.
func commandsOf(steps []events.Step) func(yield func(*events.ToolCall, []shell.Command) bool) {
	return func(yield func(*events.ToolCall, []shell.Command) bool) {
		for i := range steps {
			for j := range steps[i].Calls {
				call := &steps[i].Calls[j]
				line := commandLine(call)
				if line == "" {
					continue
				}
				commands, _ := shell.Parse(line) // the commands before an error are valid
				if !yield(call, commands) {
					return
				}
			}
		}
	}
}
