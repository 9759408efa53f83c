package traces

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// What a command printed is all that most recordings keep of it: no exit code, no separate standard error. Printed text
// that speaks of an error is mostly something else: a file that was shown, a log, a diff, the issue itself. So the rules
// here take a command for failed only on signs that a failing command gives by itself, at the place where it gives
// them, and those that show files only when they complain by name. A failure that is missed costs one lesson, one that
// is made up teaches a wrong one.
var (
	// doneMark is the exit code where SWE-agent's environment wrote one. It settles the matter.
	doneMark = regexp.MustCompile(`///PROCESS-DONE:(\d+):PROCESS-DONE///\s*$`)
	// prompt is the state that SWE-agent's history adds behind an observation.
	prompt = regexp.MustCompile(`\n?\(Open file: [^\n]*\)\n\(Current directory: [^\n]*\)\nbash-\$\s*$`)

	// byEnvironment is what SWE-agent itself says instead of an output.
	byEnvironment = regexp.MustCompile(`^(?:EXECUTION TIMED OUT|COMMAND FAILED TO EXECUTE|BROKEN PIPE ERROR\. RESTARTING|The command .+ was cancelled because it took more than)`)
	// byInterface is what the commands of SWE-agent's interface answer when they did nothing.
	byInterface = regexp.MustCompile(`^(?:Your proposed edit has introduced new syntax error|Your edit was not applied|No replacement was performed|` +
		`File .+ not found\.?$|No file open\b|E(?:rror|RROR): |Usage: \w)`)
	// byProgram is how programs begin to complain that do not give their name.
	byProgram = regexp.MustCompile(`^(?:E(?:rror|RROR)|error|fatal): `)
	// complaint is the rest of a line that begins with the name of the program, or of the shell that did not find it.
	complaint = regexp.MustCompile(`(?i)^\(\d+\) |not found|no such file|permission denied|can(?:no|')t |could(?: no|n')t |is a directory|not a directory|` +
		`(?:invalid|unrecognized|unknown|illegal|ambiguous) |missing |syntax error|unexpected|failed|\berror\b|too many arguments|refused|timed out`)

	trace = regexp.MustCompile(`(?m)^(?:Traceback \(most recent call last\):|  File ".+", line \d+)`)
	// raised is the last line of a Python program that died.
	raised = regexp.MustCompile(`^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)|^(?:\w+\.)+[A-Z]\w+: `)
	exited = regexp.MustCompile(`(?i)^\W*(?:(?:process|command) )?(?:exit(?:ed)?|returned)(?: with)?(?: non-zero)?(?: exit)?(?: code| status)?:? [1-9]\d{0,2}\W*$`)
)

var (
	shells = []string{"sh", "bash", "dash", "zsh", "-bash"}
	// editor has the commands of SWE-agent's interface.
	editor = []string{
		"open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "append", "search_dir", "search_file",
		"find_file", "str_replace_editor", "submit",
	}
	// viewers print text that is not theirs.
	viewers = []string{
		"open", "goto", "scroll_up", "scroll_down", "edit", "insert", "append", "search_dir", "search_file", "find_file",
		"str_replace_editor", "view", "submit", "decompile", "disassemble", "cat", "head", "tail", "less", "more", "nl", "sed", "awk",
		"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "find", "diff", "git", "strings", "xxd", "hexdump", "od", "echo", "printf",
		"curl", "wget", "journalctl", "dmesg", "man",
	}
)

// shellFailed reports whether a command of a shell, or of SWE-agent's interface, says that it failed.
func shellFailed(command, output string) bool {
	output = prompt.ReplaceAllString(output, "")
	if m := doneMark.FindStringSubmatch(output); m != nil {
		return strings.Trim(m[1], "0") != ""
	}
	first, last := ends(output)
	programs := programs(command)
	shows := contains(viewers, programs)
	switch {
	case byEnvironment.MatchString(first), byEnvironment.MatchString(last):
		return true
	case contains(editor, programs) && byInterface.MatchString(first):
		return true
	case slices.Contains(programs, "git") && byProgram.MatchString(first):
		return true
	case complains(first, programs, shows), complains(last, programs, shows):
		return true
	case shows:
		return false
	}
	return byProgram.MatchString(first) || exited.MatchString(last) || raised.MatchString(last) && trace.MatchString(output)
}

// programs are the names of the programs that a command line runs one after the other. Filters behind a pipe are left
// out: what they pass on is still the first program's. Lines after the first are text that the command is given.
func programs(command string) []string {
	line, _, _ := strings.Cut(strings.TrimSpace(command), "\n")
	var names []string
	for _, part := range strings.FieldsFunc(strings.ReplaceAll(line, "&&", ";"), func(r rune) bool { return r == ';' }) {
		for _, word := range strings.Fields(part) {
			if strings.Contains(word, "=") {
				continue // a variable set for the command
			}
			names = append(names, program(word))
			break
		}
	}
	return names
}

// program is the name of a program without its folder and version: "/usr/bin/python3.11" is "python".
func program(word string) string { return strings.TrimRight(path.Base(word), "0123456789.") }

// complains reports whether the line is one of the programs', or a shell's, saying by name what is wrong. In what shows
// other people's text a shell counts only if it speaks of one of the programs.
func complains(line string, programs []string, shows bool) bool {
	name, rest, ok := strings.Cut(line, ": ")
	if !ok || strings.ContainsAny(name, " \t") || !complaint.MatchString(rest) {
		return false
	}
	name = program(name)
	if slices.Contains(programs, name) {
		return true
	}
	return slices.Contains(shells, name) && (!shows || slices.ContainsFunc(programs, func(p string) bool { return strings.Contains(rest, p+":") }))
}

// ends are the first and the last line that are not blank.
func ends(output string) (first, last string) {
	output = strings.TrimSpace(output)
	first, _, _ = strings.Cut(output, "\n")
	return strings.TrimSpace(first), strings.TrimSpace(output[strings.LastIndexByte(output, '\n')+1:])
}

func contains(set, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(set, n) })
}
