package rules

import (
	"path"
	"slices"
	"strings"

	"debrief/events/shell"
	"debrief/playbook/text"
)

// shellTools are the names of tools that take a command line, in lower case and without their server.
var shellTools = text.Set("bash sh shell zsh exec execute execute_bash execute_command execute_shell run_command run_shell run_shell_command " +
	"run_bash run_terminal_cmd run_in_terminal terminal local_shell cmd powershell command bash_tool ipython_bash")

// commandLine returns the command line of a call, or "" for the call of a function. It is an argument of a shell tool, or the whole call
// of an agent that acts by commands, where the tool is the first word.
func commandLine(c *call) string {
	tool, args := strings.ToLower(baseTool(c.Tool)), &c.parsed
	switch {
	case args.fields != nil && shellTools[tool]:
		return commandField(args.fields)
	case args.fields != nil, editors[tool], strings.HasPrefix(strings.TrimLeft(c.Arguments, " \t\r\n"), "{"):
		return ""
	case shellTools[tool] && !runsScript(c.Arguments):
		return c.Arguments
	case isWholeLine(c):
		return c.Arguments
	case shellTools[tool], shell.Known(c.Tool), isScript(c.Tool):
		return c.Tool + " " + c.Arguments
	}
	return ""
}

// runsScript reports whether a shell with these arguments runs a script, as in "bash -c …" and "bash x.sh".
func runsScript(arguments string) bool {
	return strings.HasPrefix(arguments, "-") || strings.HasSuffix(arguments, ".sh")
}

// isScript reports whether the name of a tool is the path of a program or a script.
func isScript(tool string) bool { return strings.Contains(tool, "/") || strings.HasSuffix(tool, ".sh") }

// isWholeLine reports whether the arguments are a command line that contains the tool as its main command. Readers record
// "cd x && python y" as the tool python with the whole line as its arguments.
func isWholeLine(c *call) bool {
	if c.Tool == "" || !strings.Contains(c.Arguments, c.Tool) {
		return false
	}
	commands, _ := shell.Parse(c.Arguments)
	work, _ := shell.MainCommand(commands)
	return work.Program == c.Tool || work.Word == c.Tool
}

// commandField returns the command in the arguments of a shell tool: a text, or a list of words.
func commandField(fields map[string]any) string {
	for _, name := range [...]string{"command", "cmd", "script", "input", "code"} {
		switch v := fields[name].(type) {
		case string:
			if v != "" {
				return v
			}
		case []any:
			var words []string
			for _, w := range v {
				s, _ := w.(string)
				words = append(words, s)
			}
			if len(words) > 2 && shellTools[path.Base(words[0])] { // ["bash", "-lc", "…"]
				return words[len(words)-1]
			}
			return strings.Join(words, " ")
		}
	}
	return ""
}

// shellActs returns the acts of a command line. Filters behind a pipe and changes of the directory are left out.
func shellActs(c *call, line string) []act {
	commands, err := shell.Parse(line)
	if err != nil {
		return nil // the call is compared as a whole
	}
	isLeftOut := func(cmd shell.Command) bool {
		return cmd.Piped || cmd.Program == "" || cmd.Action().Kind&(shell.ChangesDir|shell.Environment) != 0
	}
	// "a; cd x && b" and "a | tail && b" do not show that a worked.
	for i := 1; i < len(commands); i++ {
		if before := commands[i-1]; isLeftOut(before) && (before.Piped || !before.AfterSuccess) {
			commands[i].AfterSuccess = false
		}
	}
	commands = slices.DeleteFunc(commands, isLeftOut)
	var acts []act
	states := statesOf(c, commands)
	for i, cmd := range commands {
		operation := cmd.Action()
		acts = append(acts, act{
			call: c, name: commandName(operation.Name), kind: kindOfCommand(cmd, operation), state: states[i], path: operation.Path,
			arguments: arguments{program: cmd.Word, words: append([]string{}, cmd.Args...), dir: cmd.Dir, text: cmd.Input},
		})
		if n := len(cmd.Writes); n > 0 && cmd.Program != "tee" && states[i] != failed { // tee itself writes
			acts = append(acts, act{call: c, name: commandName(cmd.Program + " >"), kind: shell.Writes, state: states[i], path: cleanPath(cmd.Writes[n-1])})
		}
	}
	return acts
}

// commandName replaces the numbers in a name, which differ from run to run.
func commandName(name string) string {
	if strings.ContainsAny(name, "0123456789") {
		name = digitRuns.ReplaceAllString(name, "<n>")
	}
	return quote(name, maxName)
}

// kindOfCommand returns the kind of a command. Unlike its operation it is idles for "echo done", and a test for the script of a test: "python
// test_a.py" and "./run_tests.sh".
func kindOfCommand(cmd shell.Command, operation shell.Action) kind {
	switch cmd.Program {
	case "echo", "printf", "true", ":", "pwd", "clear":
		return idles
	}
	script := operation.Path
	if strings.Contains(cmd.Word, "/") && operation.Name == path.Base(cmd.Word) {
		script = operation.Name
	}
	if operation.Kind == shell.Runs && script != "" && isTest(script) {
		return shell.Tests
	}
	return operation.Kind
}

// statesOf returns the results of the commands of a call. If the call failed, one command is the failed one and the results of the
// others are unknown, except that a command before "&&" worked.
func statesOf(c *call, commands []shell.Command) []state {
	states := slices.Repeat([]state{stateOf(c)}, len(commands))
	if stateOf(c) != failed {
		return states
	}
	at := failedCommand(commands, c.Output)
	for i := range states {
		if i != at {
			states[i] = unknown
		}
	}
	for i := at - 1; i >= 0 && commands[i+1].AfterSuccess; i-- {
		states[i] = worked
	}
	return states
}

// failedCommand returns the index of the failed command of a line: the one whose name begins a line of the output, else the last one. It
// returns -1 if a change of the directory failed, so that none of them ran.
func failedCommand(commands []shell.Command, output string) int {
	if complains(output, "cd") {
		return -1
	}
	i := slices.IndexFunc(commands, func(cmd shell.Command) bool { return complains(output, cmd.Program) })
	if i < 0 {
		return len(commands) - 1
	}
	return i
}

// complains reports whether a line near the start of the output begins with the name of the program and a colon, also after the name of
// the shell.
func complains(output, program string) bool {
	for line := range strings.Lines(output[:min(len(output), 4<<10)]) {
		before, _, ok := strings.Cut(line, program+": ")
		byShell := strings.HasSuffix(before, "sh: ") || strings.HasSuffix(before, ": line 1: ") // the name of the shell
		if ok && (before == "" || byShell) {
			return true
		}
	}
	return false
}
