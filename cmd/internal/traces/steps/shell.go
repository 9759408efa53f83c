package steps

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/shell"
)

// Most recordings contain only the output of a command, without the exit code and without a separate standard error. Output
// that mentions an error is mostly not from a failure: it is a file, a log, a diff or the issue itself. So the rules here
// detect a failure only by the messages of failing programs, at the position where they appear in the output. A program
// that prints files has failed only if a line starts with its name. Precision matters more than recall: a missed failure
// costs one lesson, a false one teaches a wrong lesson.
var (
	// doneMark matches the exit code that SWE-agent's environment may add. If it is there, it decides alone.
	doneMark = regexp.MustCompile(`///PROCESS-DONE:(\d+):PROCESS-DONE///\s*$`)
	// prompt matches the shell prompt that SWE-agent's history adds after an observation.
	prompt = regexp.MustCompile(`\n?\(Open file: [^\n]*\)\n\(Current directory: [^\n]*\)\nbash-\$\s*$`)

	// byEnvironment matches messages of SWE-agent in place of an output.
	byEnvironment = regexp.MustCompile(`^(?:EXECUTION TIMED OUT|COMMAND FAILED TO EXECUTE|BROKEN PIPE ERROR\. RESTARTING|The command .+ was cancelled because it took more than)`)
	// byInterface matches error messages of the commands of SWE-agent's interface.
	byInterface = regexp.MustCompile(`^(?:Your proposed edit has introduced new syntax error|Your edit was not applied|No replacement was performed|` +
		`File .+ not found\.?$|No file open\b|E(?:rror|RROR): |Usage: \w)`)
	// byProgram matches error messages of programs that do not print their name.
	byProgram = regexp.MustCompile(`^(?:E(?:rror|RROR)|error|fatal): `)
	// complaint matches the rest of an error message that starts with the name of the program or of the shell.
	complaint = regexp.MustCompile(`(?i)^\(\d+\) |not found|no such file|permission denied|can(?:no|')t |could(?: no|n')t |is a directory|not a directory|` +
		`(?:invalid|unrecognized|unknown|illegal|ambiguous) |missing |syntax error|unexpected|failed|\berror\b|too many arguments|refused|timed out`)

	trace = regexp.MustCompile(`(?m)^(?:Traceback \(most recent call last\):|  File ".+", line \d+)`)
	// raised matches the last line of a Python traceback.
	raised = regexp.MustCompile(`^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)|^(?:\w+\.)+[A-Z]\w+: `)
	exited = regexp.MustCompile(`(?i)^\W*(?:(?:process|command) )?(?:exit(?:ed)?|returned)(?: with)?(?: non-zero)?(?: exit)?(?: code| status)?:? [1-9]\d{0,2}\W*$`)
)

var (
	shells = []string{"sh", "bash", "dash", "zsh", "-bash"}
	// editor lists the commands of SWE-agent's interface.
	editor = []string{
		"open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "append", "search_dir", "search_file",
		"find_file", "str_replace_editor", "submit",
	}
	// viewers lists programs that print files or other text, which may contain error messages.
	viewers = []string{
		"open", "goto", "scroll_up", "scroll_down", "edit", "insert", "append", "search_dir", "search_file", "find_file",
		"str_replace_editor", "view", "submit", "decompile", "disassemble", "cat", "head", "tail", "less", "more", "nl", "sed", "awk",
		"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "find", "diff", "git", "strings", "xxd", "hexdump", "od", "echo", "printf",
		"curl", "wget", "journalctl", "dmesg", "man",
	}
)

// ShellFailed reports whether the output is that of a failed command of a shell or of SWE-agent's interface.
func ShellFailed(command, output string) bool {
	output = prompt.ReplaceAllString(output, "")
	if m := doneMark.FindStringSubmatch(output); m != nil {
		return strings.Trim(m[1], "0") != ""
	}
	first, last := firstAndLastLine(output)
	programs := programs(command)
	shows := contains(viewers, programs)
	switch {
	case byEnvironment.MatchString(first), byEnvironment.MatchString(last):
		return true
	case contains(editor, programs) && byInterface.MatchString(first):
		return true
	case slices.Contains(programs, "git") && byProgram.MatchString(first):
		return true
	case isComplaint(first, programs, shows), isComplaint(last, programs, shows):
		return true
	case shows:
		return false
	}
	return byProgram.MatchString(first) || exited.MatchString(last) || raised.MatchString(last) && trace.MatchString(output)
}

// programs returns the names of the programs that a command line runs in sequence. It leaves out filters after a pipe,
// because their output comes from the first program. The text that an editor command writes is not parsed.
func programs(command string) []string {
	command = strings.TrimSpace(command)
	if first, _, _ := strings.Cut(command, " "); slices.Contains(editor, first) {
		command, _, _ = strings.Cut(command, "\n")
	}
	commands, _ := shell.Parse(command) // the commands before an error are valid
	var names []string
	for _, c := range commands {
		if !c.Piped {
			names = append(names, c.Program)
		}
	}
	return names
}

// ParseCommand returns a shell command as a call. The tool is the first word, and the arguments are the text behind it. If the
// first word does not do the work, as in "cd x && python y" and "A=1 python y", the tool is the program that does, and the
// arguments are the whole line. It returns false if the command is empty.
func ParseCommand(action string) (events.ToolCall, bool) {
	action = strings.TrimSpace(action)
	tool, arguments := action, ""
	if end := strings.IndexAny(action, " \t\r\n"); end >= 0 {
		tool, arguments = action[:end], action[end+1:] // further white space may be the indentation of an edit
	}
	if !slices.Contains(editor, tool) {
		commands, err := shell.Parse(action)
		if work, ok := shell.MainCommand(commands); ok && work.Word != tool && isName(work.Program, action) && !errors.Is(err, shell.ErrSyntax) {
			tool, arguments = work.Program, action
		}
	}
	return events.ToolCall{Tool: tool, Arguments: arguments, Outcome: events.Unknown}, tool != ""
}

// isName reports whether a program can be the name of a tool. Text that is not a command, such as "Let's see", gives words
// that are not in the text, or that contain spaces.
func isName(program, action string) bool {
	return program != "" && strings.Contains(action, program) && !strings.ContainsAny(program, " \t\r\n'\"")
}

// isComplaint reports whether the line is an error message that starts with the name of one of the programs or of a shell.
// If shows is true, the output may be the content of a file; then a message of a shell counts only if it names a program.
func isComplaint(line string, programs []string, shows bool) bool {
	name, rest, ok := strings.Cut(line, ": ")
	if !ok || strings.ContainsAny(name, " \t") || !complaint.MatchString(rest) {
		return false
	}
	name = shell.ProgramName(name)
	if slices.Contains(programs, name) {
		return true
	}
	return slices.Contains(shells, name) && (!shows || slices.ContainsFunc(programs, func(p string) bool { return strings.Contains(rest, p+":") }))
}

// firstAndLastLine returns the first and the last line that are not blank.
func firstAndLastLine(output string) (first, last string) {
	output = strings.TrimSpace(output)
	first, _, _ = strings.Cut(output, "\n")
	return strings.TrimSpace(first), strings.TrimSpace(output[strings.LastIndexByte(output, '\n')+1:])
}

// contains reports whether set contains any of names.
func contains(set, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(set, n) })
}
