package rules

import (
	"path"
	"slices"
	"strings"

	"debrief/events/shell"
	"debrief/playbook/text"
)

// kind is a set of effects of an act, as far as the name of the act shows them. It extends the kinds of shell commands by those that only
// functions have.
type kind = shell.Kind

// The bits after Environment, which is the last kind of a shell command.
const (
	looksUp kind = shell.Environment << (iota + 1) // a fact that is not in a file: get_user
	changes                                        // anything but a file: book_flight
	idles                                          // nothing: it thinks, plans or calculates
)

const (
	reading = shell.Reads | shell.Lists | shell.Searches | shell.InspectsVCS | shell.Verifies | looksUp
	writing = shell.Writes | shell.Edits
	// usingFile are the kinds whose acts a label describes with the extension of their file.
	usingFile = shell.Reads | writing | shell.Runs | shell.Tests
)

// verb has the kinds of a function with a certain word in its name.
type verb struct {
	file  kind // if an argument of the function is a file
	other kind // if none is
}

var verbs = func() map[string]verb {
	m := map[string]verb{}
	for _, v := range []struct {
		verb
		words string
	}{
		{verb{shell.Lists, shell.Lists}, "list ls tree"},
		{verb{shell.Lists | shell.Searches, shell.Lists | shell.Searches}, "glob"},
		{verb{shell.Searches, shell.Searches}, "search find grep locate"},
		{verb{shell.Reads, shell.Reads}, "read view open cat goto scroll"},
		{verb{shell.Reads, looksUp}, "show get fetch retrieve lookup look describe query load count"},
		{verb{shell.Writes, changes}, "write edit replace patch apply insert append create delete remove move rename save update str modify add set put"},
		{verb{changes, changes}, "book cancel exchange return send pay refund order place submit reserve schedule post issue buy purchase assign"},
		{verb{shell.Tests, shell.Tests}, "test"},
		{verb{shell.Installs, shell.Installs}, "install"},
		{verb{shell.Builds, shell.Builds}, "build compile"},
		{verb{shell.Runs, shell.Runs}, "run execute exec"},
		{verb{idles, idles}, "think thinking todo todos plan reason reflect calculate calculator calc finish"},
	} {
		for w := range strings.FieldsSeq(v.words) {
			m[w] = v.verb
		}
	}
	return m
}()

// kindOf returns the kind of a function. The first verb in its name decides. If that verb only reads, a joined verb that changes something
// decides instead, as in search_replace and get_or_create.
func kindOf(name string, hasFile bool) kind {
	if name == "submit" || name == "done" { // the end of the run
		return idles
	}
	words := nameWords(name)
	has := func(one, many string) bool { return slices.Contains(words, one) || slices.Contains(words, many) }
	i := slices.IndexFunc(words, func(w string) bool { return verbs[w] != verb{} })
	if i < 0 {
		return 0
	}
	v := verbs[words[i]]
	for j := i + 1; j < len(words); j++ {
		isJoined := words[j] == "replace" || words[j-1] == "and" || words[j-1] == "or"
		if next := verbs[words[j]]; isJoined && v.file&reading != 0 && next.other == changes {
			v = next
		}
	}
	k := v.other
	if hasFile || has("file", "files") {
		k = v.file
	}
	switch {
	case k == shell.Runs && has("test", "tests"):
		return shell.Tests
	case k == shell.Reads && has("directory", "folder"):
		return shell.Lists
	}
	return k
}

// baseTool returns the name of a tool without its server: read_file for mcp__files__read_file and files.read_file.
func baseTool(name string) string {
	if i := strings.LastIndex(name, "__"); i > 0 && i+2 < len(name) {
		name = name[i+2:]
	}
	if i := strings.LastIndexByte(name, '.'); i > 0 && i+1 < len(name) && !strings.Contains(name, "/") {
		name = name[i+1:]
	}
	return strings.TrimLeft(name, "_")
}

// nameWords returns the words of a name such as get_user, get-user or getUser, in lower case, at most eight.
func nameWords(name string) []string {
	var words []string
	for word := range text.NameWords(name[:min(len(name), 2*maxName)]) {
		words = append(words, word)
		if len(words) == 8 {
			return words
		}
	}
	return words
}

// isTest reports whether a path is a test, or a script that reproduces a problem.
func isTest(p string) bool {
	for _, w := range nameWords(path.Base(p)) {
		switch w {
		case "test", "tests", "spec":
			return true
		}
		if strings.HasPrefix(w, "repro") {
			return true
		}
	}
	return strings.Contains("/"+p, "/tests/") || strings.Contains("/"+p, "/test/")
}
