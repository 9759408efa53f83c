package rules

import (
	"path"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

// state is the result of an act.
type state uint8

const (
	unknown state = iota
	worked
	failed
)

// act is one action of an agent: a call of a function, or one command of a shell. A call of a shell has several acts.
type act struct {
	call      *call
	name      string // as lessons show it: the tool and its operation, "str_replace_editor view", or the program and its subcommand, "pip install"
	kind      kind
	state     state
	path      string // the file that the act reads, changes or runs
	arguments arguments
	editor    bool // an editor command, which may apply to the file opened last

	label   label
	step    int     // index of its step; acts of one step were chosen together, so none reacts to the failure of another
	turn    int     // messages of the user before it
	message message // of a failed act, if errors are analysed
}

// maxActs is the maximum number of acts of a run. The rest is ignored.
const maxActs = 1024

// run is an execution as its calls and their acts.
type run struct {
	calls []*call
	acts  []act
	open  string // the file that an editor has open
}

// call is a call of a function or of a shell.
type call struct {
	*events.ToolCall
	parsed   arguments // ToolCall.Arguments
	harmless bool      // no act of it can have changed anything, or moved the view of an editor; false without acts
}

func newRun(e *events.Execution) *run {
	r := &run{}
	turn := 0
	for i := range e.Steps {
		if e.Steps[i].Speaker == "user" {
			turn++
		}
		for j := range e.Steps[i].Calls {
			r.add(&call{ToolCall: &e.Steps[i].Calls[j]}, i, turn)
		}
	}
	return r
}

// add adds a call and its acts.
func (r *run) add(c *call, step, turn int) {
	r.calls = append(r.calls, c)
	if len(r.acts) >= maxActs {
		return
	}
	c.parsed = parseArguments(c.Arguments)
	acts := actsOf(c)
	c.harmless = len(acts) > 0
	for _, a := range acts {
		if a.editor && a.path == "" {
			a.path = r.open
		} else if a.editor && a.state != failed {
			r.open = a.path
		}
		a.step, a.turn = step, turn
		a.label = newLabel(&a)
		c.harmless = c.harmless && a.isHarmless()
		r.acts = append(r.acts, a)
	}
}

// actsOf returns the acts of one call: the commands of a shell, else the call itself.
func actsOf(c *call) []act {
	if strings.ContainsAny(c.Tool, " \t\r\n") {
		return nil // not a name
	}
	if line := commandLine(c); line != "" {
		if acts := shellActs(c, line); len(acts) > 0 {
			return acts
		}
	}
	return []act{functionAct(c)}
}

// stateOf returns the result of a call. A partial result counts as unknown.
func stateOf(c *call) state {
	switch {
	case c.Outcome.Failed():
		return failed
	case c.Outcome == events.Success:
		return worked
	}
	return unknown
}

// editors are the commands of SWE-agent's interface, which may apply to the file opened last.
var editors = text.Set("open goto scroll_up scroll_down create edit insert append str_replace_editor")

// functionAct returns the act of a call that is not a command line.
func functionAct(c *call) act {
	tool := strings.ToLower(baseTool(c.Tool))
	a := act{call: c, name: c.Tool, state: stateOf(c), path: c.parsed.path(), arguments: c.parsed, editor: editors[tool]}
	if a.editor && c.parsed.fields == nil { // the arguments are a text
		a.path = editorPath(c.Arguments)
	}
	hasFile := a.path != "" || a.editor
	op := operation(tool, &a.arguments)
	if op != "" {
		a.name += " " + op
		a.kind = kindOf(op, hasFile)
	}
	if a.kind == 0 {
		a.kind = kindOf(baseTool(c.Tool), hasFile) // with its capitals, which separate words
	}
	a.name = quote(a.name, maxName)
	return a
}

// operation returns the operation of a tool with several: "view" for {"command": "view", …}. It returns "" for other tools.
func operation(tool string, args *arguments) string {
	if tool == "str_replace_editor" && args.fields == nil { // its arguments as a text: "view main.go"
		if op, _, _ := strings.Cut(args.text, " "); isOperation(op) {
			return op
		}
		return ""
	}
	for _, name := range [...]string{"command", "action", "operation"} {
		if op, _ := args.fields[name].(string); isOperation(op) {
			return op
		}
	}
	return ""
}

func isOperation(s string) bool {
	return len(s) > 0 && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_-") == ""
}

// editorPath returns the file in the arguments of an editor command, or "". Words such as "-n" and "12:40" are options and line numbers.
// Only the first line is read: the others are the text that the command writes.
func editorPath(arguments string) string {
	first, _, _ := strings.Cut(arguments, "\n")
	for word := range strings.FieldsSeq(first) {
		if strings.ContainsAny(word, "./") && strings.Trim(word, "0123456789:") != "" && word[0] != '-' {
			return cleanPath(word)
		}
	}
	return ""
}

func cleanPath(p string) string {
	return path.Clean(strings.ReplaceAll(strings.Trim(p, `"'`), `\`, "/"))
}

// isHarmless reports whether the act only reads or thinks, as far as its name shows it, and moves no view of an editor.
func (a *act) isHarmless() bool {
	onlyReadsOrIdles := a.kind != 0 && a.kind&^(reading|idles) == 0
	return onlyReadsOrIdles && !a.editor
}

// readsOnly reports whether the act reads and does nothing else, as far as its name shows it. An act that only thinks does not read.
func (a *act) readsOnly() bool { return a.kind&reading != 0 && a.kind&^reading == 0 }

// label describes an act in an advice: its name, and the kind of its file.
type label struct{ name, ext string }

func newLabel(a *act) label {
	if a.kind&usingFile == 0 || a.path == "" {
		return label{name: a.name}
	}
	ext := extension(a.path)
	if ext != "" && isTest(a.path) {
		ext += " test"
	}
	return label{a.name, ext}
}

func (l label) key() string { return strings.TrimSpace(l.name + " " + l.ext) }

func (l label) String() string {
	if l.ext == "" {
		return "`" + l.name + "`"
	}
	return "`" + l.name + "` on " + l.ext + " files"
}

// extension returns the extension of a path, such as ".py", if it is usual for a kind of files, else "".
func extension(p string) string {
	ext := strings.ToLower(path.Ext(p))
	if len(ext) < 2 || len(ext) > 6 || strings.Trim(ext[1:], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return ext
}
