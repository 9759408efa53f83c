package conversation

import (
	"strings"

	"debrief/events/shell"
	"debrief/playbook/text"
)

// verb is the kind of action of a tool call.
type verb string

const (
	searched verb = "searched"
	read     verb = "read"
	wrote    verb = "wrote"
	ran      verb = "ran"
	listed   verb = "listed"
	lookedUp verb = "looked up"
	called   verb = "called" // any other action; the line shows the tool's name
)

// searches reports whether the action finds something.
func (v verb) searches() bool { return v == searched || v == listed || v == lookedUp }

// readsOnly reports whether the action changes nothing.
func (v verb) readsOnly() bool { return v.searches() || v == read }

// verbs maps words of tool names and names of programs to actions.
var verbs = func() map[string]verb {
	m := map[string]verb{}
	for v, words := range map[verb]string{
		searched: "search find grep egrep fgrep rg ag glob query",
		read:     "read open cat view show head tail less fetch",
		wrote:    "write edit create append insert replace patch save",
		ran:      "run bash sh zsh shell terminal exec execute command cmd test pytest python node npm go make cargo",
		listed:   "list ls dir tree",
		lookedUp: "get lookup look retrieve describe",
	} {
		for word := range strings.FieldsSeq(words) {
			m[word] = v
		}
	}
	return m
}()

// callVerb returns the action of a call. It is that of the name of the tool if the name says that the tool reads. Other tools may have several
// operations, and name the operation in an argument: a shell its command, an editor "view" or "create".
func callVerb(tool string, a arguments) verb {
	v := verbFromName(tool)
	if v.readsOnly() {
		return v
	}
	if operation := verbFromName(programName(a.action())); operation != called {
		return operation
	}
	return v
}

// verbFromName returns the action of the first known word in a name such as search_flights, readFile or web-search. Without one it returns
// the verb "called". A name that reads and then writes, such as search_replace or get_or_create, gives the verb "wrote".
func verbFromName(name string) verb {
	name = name[:min(len(name), 4*maxName)]
	v, before := called, ""
	for word := range text.NameWords(name) {
		isSecond := word == "replace" || before == "and" || before == "or"
		next := verbs[word]
		isFirstKnown := next != "" && v == called
		readsThenWrites := next == wrote && isSecond && v.readsOnly()
		if isFirstKnown || readsThenWrites {
			v = next
		}
		before = word
	}
	return v
}

// programName returns the name of the program that does the work of a command; see [shell.MainCommand]. It returns "" if the
// command writes its output to a file, because then the name does not show that it writes.
func programName(command string) string {
	commands, _ := shell.Parse(command[:min(len(command), maxCallRead)]) // the commands before an error are valid
	for _, c := range commands {
		if len(c.Writes) > 0 {
			return ""
		}
	}
	main, _ := shell.MainCommand(commands)
	return main.Program
}
