package rules

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode"

	"debrief/events"
	"debrief/events/shell"
	"debrief/playbook/text"
)

// kind is the effect of a call, as far as its name and its command line show it. It is a set of bits.
type kind uint16

const (
	lists    kind = 1 << iota // the files in a folder
	reads                     // the contents of a file
	searches                  // for the location of something
	looksUp                   // a fact that is not in a file: get_user
	writes                    // a file
	changes                   // anything but a file: book_flight
	tests
	installs
	builds
	runs        // a program
	inspectsVCS // reads the state or history of version control: git status
	changesVCS  // changes version control: git commit
	verifies    // the environment, or a computed value
)

// act is one effect of a call. A command line may have several.
type act struct {
	call   int    // index in run.calls
	kind   kind   // 0 if unknown
	word   string // the tool, or the program and its subcommand: "pytest", "git commit"
	path   string // the file that the act reads or changes
	editor bool   // an editor command, which may apply to the file opened last
	args   map[string]json.RawMessage
	failed bool

	unreadable bool // the arguments are not JSON and not a command line
}

const (
	maxActs     = 512 // of an execution, the first ones
	maxParts    = 16  // commands of a line
	maxArgument = 256 // bytes of an argument that can relate two calls
)

// acts returns the acts of the calls, in order.
func acts(calls []*events.ToolCall) []act {
	var all []act
	open := "" // the file that an editor has open
	for i, c := range calls {
		if len(all) >= maxActs {
			break
		}
		from := len(all)
		all = append(all, classify(c)...)
		for j := from; j < len(all); j++ {
			a := &all[j]
			a.call, a.failed = i, c.Outcome.Failed()
			switch {
			case !a.editor:
			case a.path == "":
				a.path = open
			case !a.failed:
				open = a.path
			}
		}
	}
	return all
}

// shellTools take a command line as an argument.
var shellTools = text.Set("bash sh shell zsh exec execute execute_bash execute_command execute_shell run_command run_shell run_shell_command " +
	"run_bash run_terminal_cmd run_in_terminal terminal local_shell cmd powershell command bash_tool")

// classify returns the acts of one call: at least one, which may have no kind.
func classify(c *events.ToolCall) []act {
	args, isJSON := parseArguments(c.Arguments)
	base := baseTool(c.Tool)
	tool := strings.ToLower(base)
	if line := commandLine(c, tool, args, isJSON); line != "" {
		if found := shellActs(line); len(found) > 0 {
			return found
		}
	}
	a := act{word: c.Tool, args: args, unreadable: !isJSON && strings.TrimSpace(c.Arguments) != ""}
	a.path = pathOf(args)
	a.kind = kindOf(base, args, a.path != "")
	if k, ok := editors[tool]; ok { // an editor command, called as a function
		a.editor = true
		if k&a.kind == 0 && tool != "str_replace_editor" {
			a.kind = k
		}
	}
	return []act{a}
}

// baseTool returns the name of a tool without its server: read_file for mcp__files__read_file and files.read_file.
func baseTool(name string) string {
	if len(name) > 2*maxName {
		name = name[:2*maxName]
	}
	if i := strings.LastIndex(name, "__"); i > 0 && i+2 < len(name) {
		name = name[i+2:]
	}
	if i := strings.LastIndexByte(name, '.'); i > 0 && i+1 < len(name) && !strings.Contains(name, "/") {
		name = name[i+1:]
	}
	return strings.TrimLeft(name, "_")
}

// commandLine returns the command line that a call gives to a shell, or "". It is an argument of a shell tool, or the
// whole call of an agent that acts by commands, where the tool is the first word.
func commandLine(c *events.ToolCall, tool string, args map[string]json.RawMessage, isJSON bool) string {
	switch {
	case isJSON && shellTools[tool]:
		return commandOf(args)
	case isJSON:
		return ""
	case shellTools[tool] && !strings.HasPrefix(c.Arguments, "-") && !strings.HasSuffix(c.Arguments, ".sh"):
		return c.Arguments
	}
	word := strings.ToLower(c.Tool)
	if _, ok := editors[word]; ok { // the other lines are the text that it writes
		first, _, _ := strings.Cut(c.Arguments, "\n")
		return c.Tool + " " + first
	}
	switch {
	case isWholeLine(c):
		return c.Arguments
	case shellTools[tool] || shell.Known(word) || strings.Contains(word, "/") || strings.HasSuffix(word, ".sh"):
		return c.Tool + " " + c.Arguments
	}
	return ""
}

// isWholeLine reports whether the arguments are a command line whose work is done by the tool, as readers record "cd x &&
// python y": the tool is python, and the arguments are the whole line, because the directory is a part of it.
func isWholeLine(c *events.ToolCall) bool {
	if !strings.Contains(c.Arguments, c.Tool) {
		return false
	}
	commands, _ := shell.Parse(c.Arguments)
	work, _ := shell.MainCommand(commands)
	return work.Program == c.Tool && work.Program != ""
}

func commandOf(args map[string]json.RawMessage) string {
	for _, name := range [...]string{"command", "cmd", "script", "input", "code"} {
		raw, ok := args[name]
		if !ok {
			continue
		}
		var line string
		if json.Unmarshal(raw, &line) == nil && line != "" {
			return line
		}
		var words []string
		if json.Unmarshal(raw, &words) == nil && len(words) > 0 {
			if len(words) > 2 && shellTools[path.Base(words[0])] { // ["bash", "-lc", "…"]
				return words[len(words)-1]
			}
			return strings.Join(words, " ")
		}
	}
	return ""
}

// pathNames are arguments that contain the file of a tool.
var pathNames = [...]string{"path", "file_path", "filepath", "file", "filename", "file_name", "target_file", "notebook_path", "dir", "directory", "folder"}

func pathOf(args map[string]json.RawMessage) string {
	if len(args) == 0 {
		return ""
	}
	for _, name := range pathNames {
		raw, ok := args[name]
		var p string
		if ok && len(raw) <= 4*maxArgument && json.Unmarshal(raw, &p) == nil && p != "" {
			return cleanPath(p)
		}
	}
	return ""
}

func cleanPath(p string) string {
	return path.Clean(strings.ReplaceAll(strings.Trim(p, `"'`), `\`, "/"))
}

// verbs are words in names of tools, with their kind if the call has a file and if it has none.
var verbs = map[string]struct{ file, other kind }{
	"list": {lists, lists}, "ls": {lists, lists}, "glob": {lists | searches, lists | searches}, "tree": {lists, lists},
	"search": {searches, searches}, "find": {searches, searches}, "grep": {searches, searches}, "locate": {searches, searches},
	"read": {reads, reads}, "view": {reads, reads}, "open": {reads, reads}, "cat": {reads, reads}, "show": {reads, looksUp},
	"get": {reads, looksUp}, "fetch": {reads, looksUp}, "retrieve": {reads, looksUp}, "lookup": {reads, looksUp}, "look": {reads, looksUp},
	"describe": {reads, looksUp}, "query": {reads, looksUp}, "load": {reads, looksUp},
	"check": {verifies, verifies}, "verify": {verifies, verifies}, "validate": {verifies, verifies}, "calculate": {verifies, verifies},
	"calc": {verifies, verifies}, "count": {verifies, verifies},
	"write": {writes, changes}, "edit": {writes, changes}, "replace": {writes, changes}, "patch": {writes, changes}, "apply": {writes, changes},
	"insert": {writes, changes}, "append": {writes, changes}, "create": {writes, changes}, "delete": {writes, changes}, "remove": {writes, changes},
	"move": {writes, changes}, "rename": {writes, changes}, "save": {writes, changes}, "update": {writes, changes}, "str": {writes, changes},
	"modify": {writes, changes}, "add": {writes, changes}, "set": {writes, changes}, "put": {writes, changes},
	"book": {0, changes}, "cancel": {0, changes}, "exchange": {0, changes}, "return": {0, changes}, "send": {0, changes}, "pay": {0, changes},
	"refund": {0, changes}, "order": {0, changes}, "place": {0, changes}, "submit": {0, changes}, "reserve": {0, changes}, "schedule": {0, changes},
	"post": {0, changes}, "issue": {0, changes}, "buy": {0, changes}, "purchase": {0, changes}, "assign": {0, changes},
	"test": {tests, tests}, "install": {installs, installs}, "build": {builds, builds}, "compile": {builds, builds},
	"run": {runs, runs}, "execute": {runs, runs}, "exec": {runs, runs},
}

// kindOf returns the kind of a tool that is not a shell, by its name. The first verb decides, but running tests is of
// kind tests.
func kindOf(tool string, args map[string]json.RawMessage, file bool) kind {
	if tool == "submit" || tool == "finish" || tool == "done" { // the end of the run, without an effect
		return 0
	}
	words := nameWords(tool)
	if slices.Contains(words, "file") || slices.Contains(words, "files") {
		file = true
	}
	var first kind
	for _, w := range words {
		if v, ok := verbs[w]; ok {
			if first = v.other; file {
				first = v.file
			}
			break
		}
	}
	switch {
	case first == runs && (slices.Contains(words, "test") || slices.Contains(words, "tests")):
		return tests
	case first == reads && (slices.Contains(words, "directory") || slices.Contains(words, "folder")):
		return lists
	case first == writes: // one tool that views and edits, by its command
		var command string
		if json.Unmarshal(args["command"], &command) == nil && command == "view" {
			return reads
		}
	}
	return first
}

// nameWords returns the words of a name such as get_user, get-user or getUser, in lower case, at most eight.
func nameWords(name string) []string {
	var words []string
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		for word := range text.Parts(part) {
			if words = append(words, strings.ToLower(word)); len(words) == 8 {
				return words
			}
		}
	}
	return words
}

// label describes an act in a finding: its word, and the kind of its file.
type label struct{ word, ext string }

func (a *act) label() label {
	l := label{word: a.word}
	if a.kind&(reads|writes|runs|tests) == 0 || a.path == "" {
		return l
	}
	if l.ext = extension(a.path); l.ext != "" && isTest(a.path) {
		l.ext += " test"
	}
	return l
}

func (l label) key() string {
	if l.ext == "" {
		return l.word
	}
	return l.word + " " + l.ext
}

func (l label) String() string {
	if l.ext == "" {
		return "`" + clean(l.word, maxName) + "`"
	}
	return "`" + clean(l.word, maxName) + "` on " + clean(l.ext, maxName) + " files"
}

// extension returns the extension of a path, such as ".py", if it is usual for a kind of files, else "".
func extension(p string) string {
	ext := strings.ToLower(path.Ext(p))
	if len(ext) < 2 || len(ext) > 6 || strings.ContainsFunc(ext[1:], func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return ""
	}
	return ext
}

// isTest reports whether a path is a test, or a script that reproduces a problem.
func isTest(p string) bool {
	base := strings.ToLower(path.Base(p))
	for _, w := range nameWords(base) {
		if w == "test" || w == "tests" || w == "spec" || strings.HasPrefix(w, "repro") {
			return true
		}
	}
	return strings.Contains("/"+p, "/tests/") || strings.Contains("/"+p, "/test/")
}
