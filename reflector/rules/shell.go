package rules

import (
	"path"
	"slices"
	"strings"

	"debrief/events/shell"
)

// kindsOfShell maps the kinds of shell commands to the kinds of calls.
var kindsOfShell = []struct {
	from shell.Kind
	to   kind
}{
	{shell.Lists, lists},
	{shell.Reads, reads},
	{shell.Searches, searches},
	{shell.Writes | shell.Edits, writes},
	{shell.Tests, tests},
	{shell.Installs, installs},
	{shell.Builds, builds},
	{shell.Runs, runs},
	{shell.InspectsVCS, inspectsVCS},
	{shell.ChangesVCS, changesVCS},
	{shell.Verifies, verifies},
}

// editors are the commands of SWE-agent's interface. They may apply to the file opened last.
var editors = map[string]kind{
	"open": reads, "goto": reads, "scroll_up": reads, "scroll_down": reads,
	"create": writes, "edit": writes, "insert": writes, "append": writes, "str_replace_editor": writes,
	"search_dir": searches, "search_file": searches, "find_file": searches,
}

// shellActs returns the acts of the commands of a line, in order. Commands behind a pipe are filters of the output of the
// first command and are omitted.
func shellActs(line string) []act {
	commands, _ := shell.Parse(line) // the commands before an error are valid
	var found []act
	left := maxParts
	for _, c := range commands {
		if c.Piped || left == 0 {
			continue
		}
		left--
		found = append(found, commandActs(c)...)
	}
	return found
}

// commandActs returns the acts of one command; none for a command that only changes the directory or a variable.
func commandActs(c shell.Command) []act {
	effect := c.Action()
	if c.Program == "true" || effect.Kind&(shell.ChangesDir|shell.Environment) != 0 {
		return nil
	}
	a, edits := editorAct(c)
	if !edits {
		a = act{word: effect.Name, path: effect.Path, kind: kindOfAction(effect, c)}
	}
	acts := []act{a}
	if n := len(c.Writes); n > 0 && c.Program != "tee" { // tee is an act already
		acts = append(acts, act{kind: writes, word: c.Program + " >", path: cleanPath(c.Writes[n-1])})
	}
	for i := range acts {
		acts[i].word = recurring(acts[i].word)
	}
	return acts
}

// kindOfAction returns the kind of a shell command. A script whose name is that of a test is a test.
func kindOfAction(effect shell.Action, c shell.Command) kind {
	var k kind
	for _, m := range kindsOfShell {
		if effect.Kind&m.from != 0 {
			k |= m.to
		}
	}
	if k != runs {
		return k
	}
	script := effect.Path
	if strings.Contains(c.Word, "/") && effect.Name == path.Base(c.Word) {
		script = effect.Name
	}
	if script != "" && isTest(script) {
		return tests
	}
	return k
}

// editorAct returns the act of a command of SWE-agent's interface.
func editorAct(c shell.Command) (act, bool) {
	k, ok := editors[c.Program]
	if !ok {
		return act{}, false
	}
	first, rest := "", []string(nil)
	if i := slices.IndexFunc(c.Args, func(w string) bool { return !strings.HasPrefix(w, "-") }); i >= 0 {
		first, rest = c.Args[i], c.Args[i+1:]
	}
	a := act{kind: k, word: c.Program, editor: true}
	switch {
	case c.Program == "str_replace_editor" && first == "view":
		return act{kind: reads, word: "str_replace_editor view", editor: true, path: lastPath(rest)}, true
	case k == searches:
		a.editor = false
	case strings.ContainsAny(first, "./") && strings.Trim(first, "0123456789:") != "":
		a.path = cleanPath(first)
	}
	return a, true
}

// recurring replaces the numbers in a word, which differ from run to run.
func recurring(word string) string {
	var b strings.Builder
	inNumber := false
	for _, r := range word {
		if isDigit := r >= '0' && r <= '9'; !isDigit {
			b.WriteRune(r)
			inNumber = false
		} else if !inNumber {
			b.WriteString("<n>")
			inNumber = true
		}
	}
	return clean(b.String(), maxName)
}

// lastPath returns the last word that can be a file.
func lastPath(words []string) string {
	for _, w := range slices.Backward(words) {
		if strings.ContainsAny(w, "./") && !strings.ContainsAny(w, " \n$*(){}'\"") && !strings.HasPrefix(w, "-") {
			return cleanPath(w)
		}
	}
	return ""
}
