package steps

import (
	"errors"
	"strings"

	"debrief/events"
	"debrief/events/shell"
)

// ParseCommand returns a shell command as a call. The tool is the first word, and the arguments are the text behind it. If another program
// does the work, as in "cd x && python y" and "A=1 python y", the tool is that program, and the arguments are the whole line. It returns false
// if the command is empty.
func ParseCommand(action string) (events.ToolCall, bool) {
	action = strings.TrimSpace(action)
	tool, arguments := action, ""
	if end := strings.IndexAny(action, " \t\r\n"); end >= 0 {
		tool, arguments = action[:end], action[end+1:] // of the white space behind the tool, only one character: the rest may indent the text of an edit
	}
	if !shell.IsEditor(tool) {
		if program := otherProgram(action, tool); program != "" {
			tool, arguments = program, action
		}
	}
	return events.ToolCall{Tool: tool, Arguments: arguments, Outcome: events.Unknown}, tool != ""
}

// otherProgram returns the program that does the work of a shell command, or "" if the first word does it or the text is no command.
func otherProgram(action, firstWord string) string {
	commands, err := shell.Parse(action)
	if errors.Is(err, shell.ErrSyntax) {
		return ""
	}
	work, ok := shell.MainCommand(commands)
	if !ok || work.Word == firstWord || !isName(work.Program, action) {
		return ""
	}
	return work.Program
}

// isName reports whether a program can be the name of a tool. If a text is not a command, such as "Let's see", the parser can return a
// program that is not in the text, or that contains spaces.
func isName(program, action string) bool {
	return program != "" && strings.Contains(action, program) && !strings.ContainsAny(program, " \t\r\n'\"")
}
