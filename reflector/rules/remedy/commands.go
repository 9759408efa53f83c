package remedy

import (
	"encoding/json"
	"strings"

	"debrief/events"
	"debrief/events/shell"
)

// shellTools are the names of tools that take a command line, in lower case and without their server.
var shellTools = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq("bash sh shell zsh exec execute execute_bash execute_command execute_shell run_command run_shell " +
		"run_shell_command run_bash run_terminal_cmd run_in_terminal terminal local_shell cmd powershell command bash_tool ipython_bash container.exec") {
		m[w] = true
	}
	return m
}()

// isShell reports whether a program is a shell: its arguments are not a command line, but options and files.
func isShell(program string) bool {
	switch program {
	case "sh", "bash", "zsh", "dash", "ksh":
		return true
	}
	return false
}

// commandLine returns the command line of a call, or "". It is an argument of a shell tool, or the whole call of an
// agent that acts by commands, where the tool is the first word.
func commandLine(c *events.ToolCall) string {
	tool := strings.ToLower(c.Tool[strings.LastIndex(c.Tool, "__")+1:])
	tool = strings.TrimLeft(tool, "_")
	if strings.HasPrefix(strings.TrimLeft(c.Arguments, " \t\r\n"), "{") {
		if !shellTools[tool] {
			return ""
		}
		return commandField(c.Arguments)
	}
	switch {
	case shellTools[tool] && !isShell(tool):
		return c.Arguments
	case isWholeLine(c):
		return c.Arguments
	case shell.Known(c.Tool), strings.HasPrefix(c.Tool, "./"), strings.HasSuffix(c.Tool, ".sh"):
		return c.Tool + " " + c.Arguments
	}
	return ""
}

// isWholeLine reports whether the arguments are a command line whose work is done by the tool. Readers record "cd x &&
// python y" so: the tool is python, and the arguments are the whole line.
func isWholeLine(c *events.ToolCall) bool {
	if !strings.Contains(c.Arguments, c.Tool) {
		return false
	}
	commands, err := shell.Parse(c.Arguments)
	main, ok := shell.MainCommand(commands)
	return err == nil && ok && (main.Program == c.Tool || main.Word == c.Tool)
}

// commandField returns the command in the arguments of a shell tool: a text, or a list of words.
func commandField(arguments string) string {
	var fields map[string]json.RawMessage
	if len(arguments) > 2*shell.MaxInput || json.Unmarshal([]byte(arguments), &fields) != nil {
		return ""
	}
	for _, name := range [...]string{"command", "cmd", "script", "input", "code"} {
		var line string
		if json.Unmarshal(fields[name], &line) == nil && line != "" {
			return line
		}
		var words []string
		if json.Unmarshal(fields[name], &words) == nil && len(words) > 0 {
			if len(words) > 2 && isShell(shell.ProgramName(words[0])) { // ["bash", "-lc", "…"]
				return words[len(words)-1]
			}
			return strings.Join(words, " ")
		}
	}
	return ""
}

// shellActs returns the acts of a command line. Filters behind a pipe and changes of the directory are left out. If
// the call failed, one command is the failed one and the results of the others are unknown, except that a command
// before "&&" worked.
func shellActs(c *events.ToolCall, line string) []act {
	commands, err := shell.Parse(line)
	if err != nil {
		return nil // the call is compared as a whole
	}
	var acts []act
	var conditions []shell.Condition
	for _, cmd := range commands {
		action := cmd.Action()
		if cmd.Piped || action.Kind&(shell.ChangesDir|shell.Environment) != 0 || cmd.Program == "" {
			continue
		}
		a := act{call: c, name: actionName(action.Name), effect: effectOfKind(cmd, action), packages: action.Packages, state: stateOf(c)}
		a.arguments = arguments{decoded: true, program: cmd.Word, words: append([]string{}, cmd.Args...), dir: cmd.Dir, text: cmd.Input}
		acts = append(acts, a)
		conditions = append(conditions, cmd.When)
	}
	if stateOf(c) == failed {
		attribute(acts, conditions, c.Output)
	}
	return acts
}

// actionName returns the name of a command's action. The parts that differ from run to run are replaced; most names have
// none.
func actionName(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz -") == "" && len(name) <= maxName {
		return name
	}
	return quote(replaceVarying(name), maxName)
}

// attribute sets the states of the commands of a failed line. The failed command is the one whose name begins a line of
// the output, else the last one.
func attribute(acts []act, conditions []shell.Condition, output string) {
	at := len(acts) - 1
	if complains(output, "cd") {
		at = -1 // none of them ran
	}
	for i := range acts {
		program, _, _ := strings.Cut(acts[i].name, " ")
		if at >= 0 && complains(output, program) {
			at = i
			break
		}
	}
	for i := range acts {
		if i != at {
			acts[i].state = unknown
		}
	}
	for i := at - 1; i >= 0 && conditions[i+1] == shell.OnSuccess; i-- {
		acts[i].state = worked
	}
}

// complains reports whether a line near the start of the output begins with the name of the program and a colon, also
// after the name of the shell.
func complains(output, program string) bool {
	output = output[:min(len(output), 4<<10)]
	mark := program + ": "
	for i := strings.Index(output, mark); i >= 0; {
		before := output[:i]
		if i == 0 || strings.HasSuffix(before, "\n") || strings.HasSuffix(before, "sh: ") || strings.HasSuffix(before, ": line 1: ") {
			return true
		}
		next := strings.Index(output[i+1:], mark)
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return false
}

func effectOfKind(cmd shell.Command, action shell.Action) effect {
	var e effect
	k := action.Kind
	if k&(shell.Reads|shell.Lists|shell.Searches|shell.InspectsVCS|shell.Verifies) != 0 {
		e |= reads
	}
	if k&(shell.Writes|shell.Edits) != 0 || len(cmd.Writes) > 0 {
		e |= writes
	}
	if k&shell.Installs != 0 {
		e |= installs
	}
	switch cmd.Program {
	case "echo", "printf", "true", ":", "pwd", "clear":
		if e&writes == 0 {
			e |= idles
		}
	}
	return e
}
