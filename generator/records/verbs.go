package records

import (
	"path"
	"strings"
	"unicode"
)

// verb is what a call of a tool did.
type verb string

const (
	searched verb = "searched"
	read     verb = "read"
	wrote    verb = "wrote"
	ran      verb = "ran"
	listed   verb = "listed"
	lookedUp verb = "looked up"
	called   verb = "called" // what that is only the tool's name says
)

// searches reports whether what came of it was found.
func (v verb) searches() bool { return v == searched || v == listed || v == lookedUp }

// looks reports whether it leaves everything as it is.
func (v verb) looks() bool { return v.searches() || v == read }

// verbs are words of tools' names and names of programs.
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

// verbOf is what a call did, by its tool's name. A tool that runs or does several things says in an argument what it
// did this time: a shell its command, an editor "view" or "create".
func verbOf(tool string, a arguments) verb {
	v := wordVerb(tool)
	if v.looks() {
		return v
	}
	if act := wordVerb(program(a.action())); act != called {
		return act
	}
	return v
}

// wordVerb is that of the first word of a name that has one: search_flights, readFile, web-search.
func wordVerb(name string) verb {
	name = name[:min(len(name), 4*maxName)]
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		start, wasLower := 0, false
		for i, r := range part {
			if wasLower && unicode.IsUpper(r) {
				if v, ok := verbs[strings.ToLower(part[start:i])]; ok {
					return v
				}
				start = i
			}
			wasLower = unicode.IsLower(r)
		}
		if v, ok := verbs[strings.ToLower(part[start:])]; ok {
			return v
		}
	}
	return called
}

// program is the name of the program that a command runs: the first one that is not just a change of folder. One whose
// output goes to a file is none, for it does not do what its name says.
func program(command string) string {
	command, _, _ = strings.Cut(command[:min(len(command), maxRead)], "\n")
	if strings.Contains(command, ">") {
		return ""
	}
	for part := range strings.FieldsFuncSeq(command, func(r rune) bool { return r == ';' || r == '&' || r == '|' }) {
		for word := range strings.FieldsSeq(part) {
			if word == "cd" {
				break
			}
			if word != "sudo" && !strings.Contains(word, "=") { // a variable that is set for the command
				return path.Base(word)
			}
		}
	}
	return ""
}
