package shell

import (
	"regexp"
	"strings"
	"sync"
)

// Cause is the cause of a failure that an installation, another path or other rights can remedy.
type Cause uint8

const (
	UnknownCause     Cause = iota
	MissingModule          // a module or package of a programming language
	MissingCommand         // a program
	MissingFile            // a file or directory
	PermissionDenied       // rights to a file or an operation
)

func (c Cause) String() string {
	switch c {
	case MissingModule:
		return "missing module"
	case MissingCommand:
		return "missing command"
	case MissingFile:
		return "missing file"
	case PermissionDenied:
		return "permission denied"
	}
	return "unknown"
}

// causePatterns find the cause in one line, the most specific pattern first. Group 1 is the name of the missing object
// if the message has one.
var causePatterns = sync.OnceValue(func() []causePattern {
	var list []causePattern
	for _, p := range []struct {
		cause       Cause
		hint        string // lower case; the expression runs only on a line with this text
		expressions []string
	}{
		{MissingModule, "no module named", []string{`No module named ['"]?([\w.\-]+)`}},
		{MissingModule, "cannot find", []string{`Cannot find (?:module|package) ['"]([^'"]+)['"]`, `cannot find package ['"]?([\w./\-@]+)`, `cannot find module providing package ([\w./\-@]+)`}},
		{MissingModule, "required module", []string{`no required module provides package ([\w./\-]+)`}},
		{MissingModule, "cannot load such file", []string{`cannot load such file -- ([^\s(]+)`}},
		{MissingModule, "can't locate", []string{`Can't locate ([\w/.:]+) in @INC`}},
		{MissingModule, "module not found", []string{`Module not found: Error: Can't resolve ['"]([^'"]+)['"]`}},
		{MissingModule, "unresolved import", []string{`unresolved import ['"` + "`" + `]([\w:]+)`}},
		{MissingModule, "does not exist", []string{`error: package ([\w.]+) does not exist`}},
		{MissingCommand, "command not found", []string{`command not found: (\S+)`, `([^\s:'"]+)['"]?: command not found`}},
		{MissingCommand, "executable file not found", []string{`exec: "([^"]+)": executable file not found`, `executable file not found`}},
		{MissingCommand, "not recognized", []string{`['"]([^'"]+)['"] is not recognized as an internal or external command`, `[Tt]he term ['"]([^'"]+)['"] is not recognized`}},
		{MissingCommand, ": not found", []string{`^(?:/\S*/)?(?:da|ba|a|z|k)?sh: (?:(?:line )?\d+: )?([^\s:]+): not found$`}},
		{MissingCommand, "no such file or directory", []string{`^(?:/usr/bin/)?env: ['"‘]?([^\s:'"’]+)['"’]?: No such file or directory`}},
		{MissingCommand, "spawn", []string{`spawn (\S+) ENOENT`}},
		{MissingFile, "enoent", []string{`ENOENT: no such file or directory, \w+ ['"]([^'"]+)['"]`, `ENOENT`}},
		{MissingFile, "no such file or directory", []string{
			`No such file or directory: b?['"]([^'"]+)['"]`, `['"‘]([^'"’]+)['"’]: \[Errno 2\] No such file or directory`,
			`['"‘]([^'"‘’]+)['"’]: [Nn]o such file or directory`, `(?:open|stat|lstat|chdir|mkdir|remove|unlink|readlink) ([^\s:]+): no such file or directory`,
			`([^\s:]+): (?:\[Errno 2\] )?No such file or directory`, `[Nn]o such file or directory`,
		}},
		{MissingFile, "filenotfounderror", []string{`FileNotFoundError: .*?['"]([^'"]+)['"]`, `FileNotFoundError`}},
		{MissingFile, "not found", []string{`^File ['"]?([^'"\s]+)['"]? not found`}},
		{MissingFile, "does not exist", []string{`(?:[Ff]ile|[Pp]ath|[Dd]irectory):? ['"]?([^'"\s]+)['"]? does not exist`}},
		{PermissionDenied, "eacces", []string{`EACCES: permission denied, \w+ ['"]([^'"]+)['"]`, `EACCES`}},
		{PermissionDenied, "permission denied", []string{
			`[Pp]ermission denied: ['"]([^'"]+)['"]`, `['"‘]([^'"‘’]+)['"’]: [Pp]ermission denied`, `([^\s:(]+): [Pp]ermission denied`, `[Pp]ermission denied`,
		}},
		{PermissionDenied, "permissionerror", []string{`PermissionError`}},
		{PermissionDenied, "eperm", []string{`EPERM`}},
		{PermissionDenied, "operation not permitted", []string{`['"‘]([^'"‘’]+)['"’]: [Oo]peration not permitted`, `[Oo]peration not permitted`}},
	} {
		for _, e := range p.expressions {
			list = append(list, causePattern{p.cause, p.hint, regexp.MustCompile(e)})
		}
	}
	return list
})

type causePattern struct {
	cause      Cause
	hint       string
	expression *regexp.Regexp
}

const (
	maxErrorEnd  = 16 << 10 // bytes that are read at each end of an output
	maxErrorLine = 1 << 10  // bytes that are read of a line
	maxMissing   = 256      // bytes of the name of a missing object
)

// FindCause returns the cause of a failure and the name of the missing object, "" if the message does not name it. Of
// several causes it returns the last one, because later errors of a chain are the ones that stopped the program. It
// reads only both ends of a long output. The output of a command that worked can contain the same messages.
func FindCause(output string) (cause Cause, name string) {
	if len(output) > 2*maxErrorEnd {
		output = output[:maxErrorEnd] + "\n" + output[len(output)-maxErrorEnd:]
	}
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line[:min(len(line), maxErrorLine)])
		if c, n := causeOfLine(line); c != UnknownCause {
			cause, name = c, n
		}
	}
	return cause, name
}

func causeOfLine(line string) (Cause, string) {
	lower := strings.ToLower(line)
	for _, p := range causePatterns() {
		if !strings.Contains(lower, p.hint) {
			continue
		}
		if m := p.expression.FindStringSubmatch(line); m != nil {
			name := ""
			if len(m) > 1 && len(m[1]) <= maxMissing {
				name = m[1]
			}
			return p.cause, name
		}
	}
	return UnknownCause, ""
}
