package outcome

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"debrief/events/shell"
	"debrief/playbook/text"
)

// Most harnesses record only the text of an output. Text that mentions an error is mostly not from a failure: it is a file, a
// log, a diff or the issue itself. So the forms here detect a failure only by the messages of harnesses and of failing
// programs, at the position where they appear. A call that shows files or records counts as failed only if a program
// complains under its own name, or if the error is all of the output. Precision matters more than recall: a missed failure costs one
// lesson, but a false failure teaches a wrong lesson. text.Pattern compiles a form at its first use.

// exitForms match an exit code that a harness adds to an output. The group is the code.
var exitForms = []func() *regexp.Regexp{
	// Codex: shell_command, then exec_command of the unified shell.
	text.Pattern(`\AExit code: (-?\d+)\nWall time:`),
	text.Pattern(`\A(?:(?:Chunk ID|Wall time|Original token count|Total output lines): [^\n]*\n)*Process exited with code (-?\d+)(?:\n|\z)`),
	// Claude Code, Cursor, Cline and Roo Code: the first line.
	text.Pattern(`(?i)\A(?:Error: |Command (?:executed|failed)[.:] )?\W{0,2}(?:Exit|Return)[ _](?:code|status):? (-?\d+)\W{0,2}(?:\n|\z)`),
	text.Pattern(`(?i)\A(?:rc|exit|exit_?code|return_?code)=(-?\d{1,3})(?:\n|\z)`),
	text.Pattern(`(?i)\A[(\[<]exit(?:ed)?(?: with)?(?: code| status)?:? (-?\d{1,3})[)\]>](?:\n|\z)`),
	// AutoGen.
	text.Pattern(`\Aexitcode: (-?\d+)(?: \(execution [a-z]+\))?(?:\n|\z)`),
	// Gemini CLI: a field of its report.
	text.Pattern(`(?s)\A(?:Command: .*\nDirectory: .*|Output: .*|Stdout: .*)\nExit Code: (-?\d+)(?:\n|\z)`),
	// mini-SWE-agent, and others with a tag.
	text.Pattern(`\A\s*<(?:returncode|return_code|exit_?code|exit_status)>(-?\d+)</`),
	// SWE-agent, with the mark of its environment.
	text.Pattern(`///PROCESS-DONE:(\d+):PROCESS-DONE///\s*\z`),
	// OpenHands, with further lines in brackets after it.
	text.Pattern(`\[(?:The command completed|Command finished) with exit code (-?\d+)\.?\](?:\s*\[[^\n]*\])*\s*\z`),
	text.Pattern(`\n\[[^\n]*exit code: (-?\d+)\]?\s*\z`),
	// Shells and programs that report the status of a child, in the last line.
	text.Pattern(`(?i)(?:\A|\n)[^\w\n]*(?:(?:the )?(?:process|command|script|shell|task|error:? command) )?(?:exit(?:ed)?|completed|finished|failed|returned)(?: with)?(?: non-?zero)?(?: exit)?(?: code| status):? (-?\d{1,3})\W*\z`),
	text.Pattern(`(?i)(?:\A|\n)[^\w\n]*(?:[(\[<] ?exit |exited |exit(?:ed)?[ _](?:code|status)[:=]? ?)(\d{1,3})\W*\z`), // not "exit 1", the last line of a script that is shown
	// Python's subprocess, and Node's child_process.
	text.Pattern(`\n?(?:subprocess\.)?CalledProcessError: Command .* returned non-zero exit status (\d+)\.\s*\z`),
}

// exitCode returns the exit code that a harness added to an output, and the output without it.
func exitCode(text string) (code int, rest string, ok bool) {
	if len(text) > 2*maxEnds { // the forms are at the ends
		text = text[:maxEnds] + "\n" + text[len(text)-maxEnds:]
	}
	for _, form := range exitForms {
		if m := form().FindStringSubmatchIndex(text); m != nil {
			rest = text[:m[0]] + text[m[1]:]
			if _, output, found := strings.Cut(rest, "\nOutput:"); found {
				rest = output
			}
			code, _ = strconv.Atoi(text[m[2]:m[3]]) // digits; too many of them give another code than 0
			return code, rest, true
		}
	}
	return 0, "", false
}

// maxEnds bounds the beginning and the end of an output that are searched for an exit code, in bytes.
const maxEnds = 8 << 10

// running matches the report of a command that has not ended.
var running = text.Pattern(`\A(?:(?:Chunk ID|Wall time|Original token count): [^\n]*\n)*Process running with session ID|(?i)\ACommand (?:is )?(?:still )?running\b|\ACommand running in background`)

// colours matches the codes by which a terminal shows colours.
var colours = text.Pattern(`\x1b\[[\d;]*m`)

// toolUseError begins an error that Claude Code itself writes. Older versions do not mark it.
const toolUseError = "<tool_use_error>"

// declined matches the output that Claude Code records, as an error, for a call that a person refused.
var declined = text.Pattern(`\AThe user doesn't want to `)

// editorPrompt matches the shell prompt that SWE-agent's history adds after an observation.
var editorPrompt = text.Pattern(`\n?\(Open file: [^\n]*\)\n\(Current directory: [^\n]*\)\nbash-\$\s*\z`)

var (
	// byHarness matches the first line of a message that a harness puts in place of an output.
	byHarness = text.Pattern(`^(?:` + toolUseError + `|<(?:tool_)?error>|\[Error\b|(?:Status|Result|Outcome): (?:failed|failure|error)$|` +
		`EXECUTION TIMED OUT|COMMAND FAILED TO EXECUTE|BROKEN PIPE ERROR\. RESTARTING|The command .+ was cancelled because it took more than|` + // SWE-agent
		`An error occurred while running the tool|` + // OpenAI Agents SDK
		`I encountered an error while trying to use the tool|` + // CrewAI
		`Encountered error: |` + // LlamaIndex
		`Error (?:executing|calling|invoking|running|using|when|while|in|during|parsing|code)\b|` + // MCP servers, smolagents
		`(?:Tool|Function|Command) (?:execution |call )?(?:failed|error)\b|` +
		`MCP error -?\d+|(?:Input )?[Vv]alidation error\b|\d+ validation errors? for |ToolException\b|Invalid arguments for (?:tool|function) |` +
		`(?:#+ )?\d+ SEARCH/REPLACE blocks? failed to match|` + // aider
		`(?:The )?(?:[Cc]ommand|[Rr]equest|[Oo]peration|[Tt]ool|[Cc]all) (?:was )?timed out\b|[Tt]imed? ?out (?:after|waiting)\b)`)
	// byEditor matches error messages of the editors of SWE-agent and of OpenHands.
	byEditor = text.Pattern(`^(?:Your proposed edit has introduced new syntax error|Your edit was not applied|No replacement was performed|` +
		`File .+ not found\.?$|No file open\b|E(?:rror|RROR): |Usage: \w|Invalid ` + "`" + `\w+` + "`" + ` parameter)`)
	// byProgram matches error messages of programs that do not print their name.
	byProgram = text.Pattern(`^(?:E(?:rror|RROR)|error(?: ?\[\w+\]| [A-Z]+\d+)?|fatal|FATAL|Fatal error|PHP Fatal error|` +
		`Fehler|Erreur|Errore|Erro|Fout|Fel|Błąd|Hata|Ошибка|错误|錯誤|エラー|오류)[:：] ?\S|^curl: \(\d+\) |^npm (?:ERR!|error) \S`)
	// byBuild matches messages of compilers and build tools. In the content of a file or a search they are no error of the call.
	byBuild = text.Pattern(`^(?:FAILURE|[a-z][\w.-]*: (?:fatal )?error|\S+:\d+(?::\d+)?: (?:fatal )?error): \S`)
	// byShell matches the messages of shells that do not know a command.
	byShell = text.Pattern(`^(?:\S+: )?(?:line )?(?:\d+: )?\S+: (?:command not found|not found)$|^zsh: command not found: \S|` +
		`is not recognized as (?:an internal or external command|a name of a cmdlet|the name of a cmdlet)|^\S+: (?:line )?\d+: syntax error\b`)
	// byService matches the first line of the errors of HTTP services and of their clients.
	byService = text.Pattern(`^(?:HTTP(?:/[\d.]+)? (?:[Ee]rror:? )?[45]\d\d\b|(?:HTTP )?[Ee]rror:? [45]\d\d\b|[45]\d\d (?:Client |Server )?Error\b|[Rr]equest failed(?: with status(?: code)?|:) [45]\d\d|rpc error: code = \w+ desc = |` +
		`(?:Client|Server) error '[45]\d\d |[45]\d\d (?:Bad Request|Unauthorized|Forbidden|Not Found|Method Not Allowed|Conflict|Unprocessable|Too Many Requests|Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)|` +
		`(?i:<!doctype html>|<html\b)[^\n]*<title>[45]\d\d\b|<\?xml[^>]*>\s*<Error>)`)
	// singleLine matches an output of one line that is an error message.
	singleLine = text.Pattern(`(?i)^(?:failed to|unable to|could ?n[o']t|cannot|can't|invalid|unknown (?:field|argument|parameter|option|tool|function|command|column|key|property|method|action|flag)|` +
		`unrecognized|unexpected|unsupported|missing (?:required )?\w+|no such \w+|permission denied|access denied|unauthori[sz]ed|forbidden|bad request|not found|internal server error|bad gateway|service unavailable|` +
		`too many requests|rate limit|connection (?:refused|reset|timed out)|syntax error|operation not permitted|not (?:allowed|permitted|authori[sz]ed|supported|implemented))\b|` +
		`^ERROR - \S|^\[ERROR\] \S|^(?:✗|✘|❌|✖).*\b(?:failed|failures?|errors?|invalid|cannot|not found)\b|^(?:(?:connect|read|write|bind|listen|open|spawn|request|getaddrinfo) )?E(?:CONNREFUSED|CONNRESET|TIMEDOUT|NOENT|ACCES|PERM|EXIST|NOTFOUND|ADDRINUSE|PIPE)(?::| \S+[:.]\S)|` +
		`^(?:tool|function|command|file|module|method|endpoint|field|key|column|table|resource|record|path|page|package|class|symbol|variable) not found: \S|` +
		`^[^.?!]{0,80}\b(?:not found|(?:does|do) not exist|doesn't exist|(?:is|are) (?:invalid|not valid|not a valid|required|not allowed|not supported|unavailable|denied)|permission denied|access denied|timed out|no such file or directory|` +
		`already exists|(?:rate|quota) limit exceeded|is not (?:a )?(?:known|recognized|defined))[.!]?$`)

	// complaint matches the rest of an error message that starts with the name of the program or of the shell.
	complaint = text.Pattern(`(?i)^\(\d+\) |not found|no such file|permission denied|can(?:no|')t |could(?: no|n')t |is a directory|not a directory|` +
		`(?:invalid|unrecognized|unknown|illegal|ambiguous) |missing |syntax error|unexpected|failed|\berror\b|too many arguments|refused|timed out|\*\*\* `)
)

// Crashes: the end of the report of a program that an exception ended.
var (
	pythonTrace  = text.Pattern(`(?m)^(?:Traceback \(most recent call last\):|  File ".+", line \d+)`)
	pythonRaised = text.Pattern(`^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)|^(?:\w+\.)+[A-Z]\w+: `)
	// frames matches the last line of a stack of Node, Java or C#, or the notes of Node and Go after it.
	frames = text.Pattern(`^(?:at (?:async )?\S.*[:(]\S+\)?$|\.\.\. \d+ more$|Node\.js v\d|exit status [1-9]|\}$|note: run with ` + "`" + `RUST_BACKTRACE)`)
	// thrown matches the line of the exception in such a report.
	thrown = text.Pattern(`(?m)^(?:Uncaught )?(?:[\w.$]+\.)?\w*(?:Error|Exception)(?: \[\w+\])?(?::|$)[^\n]*(?:\n(?:[^\n]*\n)?\s+at )|^Exception in thread "|^Unhandled [Ee]xception[.:]|` +
		`^thread '[^']*' (?:\(\d+\) )?panicked at `)
	goPanic = text.Pattern(`(?m)^(?:panic: |fatal error: )[^\n]*\n(?:[^\n]*\n){0,4}?\n?goroutine \d+ \[`)
	// testsFailed matches the last line of test programs that report a failed test: of Go, Python's unittest, pytest.
	testsFailed = text.Pattern(`^FAIL\s+\S+\s+(?:[\d.]+s|\[[a-z ]+\])$|^FAILED \((?:failures|errors)=|^=+ (?:\d+ [a-z]+, )*\d+ (?:failed|errors?)\b.* in [\d.:]+`)
	killed      = text.Pattern(`^(?:Segmentation fault|Killed|Aborted|Bus error|Illegal instruction|Floating point exception)(?: \(core dumped\))?$`)
)

// isError reports whether a text has the form of an error message.
func (o *toolOutput) isError(output string) bool {
	first, last := firstAndLastLine(output)
	switch {
	case byHarness().MatchString(first):
		return o.isCommand || !o.showsContent || isShort(output) // a longer page or file may quote a harness
	case o.isCommand && byHarness().MatchString(last):
		return true
	case slices.ContainsFunc(o.programs, shell.IsEditor) && byEditor().MatchString(first):
		return true
	case slices.Contains(o.programs, "git") && byProgram().MatchString(first): // git also shows content, but its own errors count
		return true
	case o.isComplaint(first), o.isComplaint(last):
		return true
	case o.showsContent && o.isCommand:
		return false
	case o.showsContent:
		return isShort(output) && (byProgram().MatchString(first) || byService().MatchString(first) || pythonRaised().MatchString(first))
	}
	if byProgram().MatchString(first) || byBuild().MatchString(first) || byService().MatchString(first) || byShell().MatchString(first) || byShell().MatchString(last) {
		return true
	}
	if isCrash(output, last) {
		return true
	}
	isLine := !strings.Contains(output, "\n") && len(output) < 200
	return isLine && (singleLine().MatchString(output) || pythonRaised().MatchString(output))
}

// isShort reports whether an output is so short that an error message is all of it.
func isShort(output string) bool { return len(output) < 400 && strings.Count(output, "\n") < 3 }

// isCrash reports whether an output ends with the report of an exception that ended a program.
func isCrash(output, last string) bool {
	return pythonRaised().MatchString(last) && pythonTrace().MatchString(output) ||
		frames().MatchString(last) && thrown().MatchString(output) ||
		goPanic().MatchString(output) ||
		strings.HasPrefix(output, "panic: ") ||
		killed().MatchString(last) || testsFailed().MatchString(last) ||
		strings.HasPrefix(last, "Exception in thread ")
}

// isComplaint reports whether the line is an error message that starts with the name of one of the programs or of a shell.
// If the output may be the content of a file, a message of a shell counts only if it names a program.
func (o *toolOutput) isComplaint(line string) bool {
	name, rest, ok := strings.Cut(line, ": ")
	if !ok || strings.ContainsAny(name, " \t") || !complaint().MatchString(rest) {
		return false
	}
	name = shell.ProgramName(name)
	if slices.Contains(o.programs, name) {
		return true
	}
	if !o.isCommand { // the programs behind such a call are not known
		return !o.showsContent && shell.Known(name)
	}
	namesProgram := slices.ContainsFunc(o.programs, func(p string) bool { return strings.Contains(rest, p+":") })
	return shell.IsShell(name) && (!o.showsContent || namesProgram)
}

var (
	// harmless matches words of failure that say that there was none.
	harmless = text.Pattern(`(?i)\b(?:0|no|zero|without(?: any)?) (?:errors?|failures?|failed|warnings?|exceptions?|problems?|issues?)\b|\b(?:errors?|failures?|failed)\W{1,3}0\b`)
	// doubt matches a word of failure.
	doubt = text.Pattern(`(?i)\b(?:err|errors?|fail(?:ed|ure|ures|s)?|exceptions?|traceback|panic|invalid|denied|refused|unauthori[sz]ed|forbidden|unable|could ?n[o']t|cannot|can't|not found|not exist|no such|` +
		`unknown|unrecognized|unsupported|missing|timed out|time-?out|not allowed|not permitted|aborted|rejected|crash(?:ed)?|` +
		`fehler|fehlgeschlagen|ungültig|erreur|échec|introuvable|errore?s?|fall[oó]|inválid[oa]|erro|falha|fout|mislukt|fel|błąd|hata)\b|` +
		`ошибк|не найден|错误|錯誤|失败|失敗|无效|找不到|エラー|오류|실패`)
)

// isDoubtful reports whether a text has a word of failure where an error message would be: in its first or last lines.
func isDoubtful(output string) bool {
	const lines, length = 3, 600
	first := strings.Split(text.Prefix(output, length), "\n")
	last := strings.Split(output[max(0, len(output)-length):], "\n")
	return isDoubtfulText(strings.Join(first[:min(lines, len(first))], "\n")) || isDoubtfulText(strings.Join(last[max(0, len(last)-lines):], "\n"))
}

func isDoubtfulText(s string) bool { return doubt().MatchString(harmless().ReplaceAllString(s, "")) }

// firstAndLastLine returns the first and the last line that are not blank.
func firstAndLastLine(output string) (first, last string) {
	output = strings.TrimSpace(output)
	first, _, _ = strings.Cut(output, "\n")
	return strings.TrimSpace(first), strings.TrimSpace(output[strings.LastIndexByte(output, '\n')+1:])
}
