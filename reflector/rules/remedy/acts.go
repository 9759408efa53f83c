package remedy

import (
	"slices"
	"strings"

	"debrief/events"
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
	call *events.ToolCall
	turn int // messages of the user before it
	step int // acts of one step were chosen together: none of them is an answer to the failure of another
	// name is the tool with its operation ("str_replace_editor view"), or the program with its subcommand ("pip
	// install"), clean.
	name      string
	effect    effect
	state     state
	arguments arguments
	packages  []string // that the act installs
	message   message  // of a failed act
}

// effect is a set of the effects of an act, as far as its name shows them.
type effect uint8

const (
	reads    effect = 1 << iota // a file or a fact
	writes                      // a file
	installs                    // a package
	idles                       // nothing: it thinks, plans or calculates
)

// Limits of one execution. The rest is ignored.
const (
	maxActs     = 1024
	maxMessages = 64 // failed acts with a message
)

// actsOf returns the acts of an execution in order, at most maxActs.
func actsOf(e *events.Execution, known messages) []act {
	var acts []act
	found, turn := 0, 0
	for i := range e.Steps {
		if e.Steps[i].Speaker == "user" {
			turn++
		}
		calls := e.Steps[i].Calls
		for j := range calls {
			if len(acts) >= maxActs {
				return acts[:maxActs]
			}
			from := len(acts)
			acts = appendActs(acts, &calls[j])
			for k := from; k < len(acts); k++ {
				a := &acts[k]
				a.step, a.turn = i, turn
				if a.state != failed {
					continue
				}
				if found++; found > maxMessages {
					a.state = unknown
					continue
				}
				a.message = known.find(calls[j].Output)
			}
		}
	}
	return acts
}

// hasFailure reports whether a call of the execution failed.
func hasFailure(e *events.Execution) bool {
	for i := range e.Steps {
		for j := range e.Steps[i].Calls {
			if e.Steps[i].Calls[j].Outcome.Failed() {
				return true
			}
		}
	}
	return false
}

// appendActs appends the acts of one call: the commands of a shell, else the call itself.
func appendActs(acts []act, c *events.ToolCall) []act {
	if strings.ContainsAny(c.Tool, " \t\r\n") {
		return acts // not a name
	}
	if line := commandLine(c); line != "" {
		if found := shellActs(c, line); len(found) > 0 {
			return append(acts, found...)
		}
	}
	name, words := c.Tool, nameWords(c.Tool)
	if op := operation(c.Arguments); op != "" {
		name, words = c.Tool+" "+op, nameWords(op)
	}
	return append(acts, act{call: c, name: quote(name, maxName), effect: effectOf(words), state: stateOf(c)})
}

// stateOf returns the result of a call. A partial result counts as unknown.
func stateOf(c *events.ToolCall) state {
	switch {
	case c.Outcome.Failed():
		return failed
	case c.Outcome == events.Success:
		return worked
	}
	return unknown
}

// operations are the arguments that select the operation of a tool with several.
var operations = [...]string{"command", "action", "operation"}

// operation returns the operation that the arguments of a tool select: "view" for {"command": "view", …}. It returns ""
// for other tools.
func operation(arguments string) string {
	for _, name := range operations {
		if !strings.Contains(arguments, `"`+name+`"`) {
			continue
		}
		fields, ok := parseFields(arguments)
		if !ok {
			return ""
		}
		op, _ := fields[name].(string)
		if len(op) > 0 && len(op) <= 32 && strings.Trim(op, "abcdefghijklmnopqrstuvwxyz_-") == "" {
			return op
		}
	}
	return ""
}

// nameWords returns the words of a tool's name in lower case, without its server: "str", "replace" and "editor" for
// str_replace_editor, "notebook" and "edit" for mcp__files__NotebookEdit.
func nameWords(name string) []string {
	name = name[:min(len(name), 2*maxName)]
	if i := strings.LastIndex(name, "__"); i > 0 && i+2 < len(name) {
		name = name[i+2:]
	}
	if i := strings.LastIndexByte(name, '.'); i > 0 && i+1 < len(name) {
		name = name[i+1:]
	}
	var words []string
	start := 0
	end := func(at int) {
		if at > start {
			words = append(words, strings.ToLower(name[start:at]))
		}
		start = at
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_' || c == '-' || c == ' ':
			end(i)
			start = i + 1
		case c >= 'A' && c <= 'Z' && i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z':
			end(i)
		}
	}
	end(len(name))
	return words
}

// effects are the effects that a word in the name of a tool shows.
var effects = func() map[string]effect {
	m := map[string]effect{}
	for e, words := range map[effect]string{
		reads:  "read view open cat show get fetch list ls glob search find grep lookup retrieve query describe",
		writes: "edit write patch replace insert append multiedit create save",
		idles:  "think thinking todo todos plan reason reflect calculate calculator calc finish submit",
	} {
		for w := range strings.FieldsSeq(words) {
			m[w] |= e
		}
	}
	return m
}()

// fileVerbs write a file only if the name is about one: create_reservation does not.
var fileVerbs = []string{"create", "insert", "append", "save", "replace"}

// effectOf returns the effect that the words of a tool's name show.
func effectOf(words []string) effect {
	var e effect
	for i, w := range words {
		if len(words) > 1 && i == 0 && slices.Contains(fileVerbs, w) && !namesFile(words[1:]) {
			continue
		}
		e |= effects[w]
	}
	if e&idles != 0 {
		return idles
	}
	return e
}

// namesFile reports whether words of a name are about a file or a text.
func namesFile(words []string) bool {
	for _, w := range words {
		switch w {
		case "file", "files", "text", "line", "lines", "content", "notebook", "editor", "str", "string":
			return true
		}
	}
	return false
}
