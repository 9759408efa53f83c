package rules

import (
	"path"
	"strings"

	"debrief/playbook/text"
)

// The parser of command lines finds the programs that run one after the other, their subcommands and their files. It is
// not a shell: substitutions, loops and definitions stay text.

// program holds the kind of a program, or the kinds of its subcommands.
type program struct {
	kind   kind
	sub    map[string]kind // by subcommand; "" without a subcommand
	editor bool            // a command of SWE-agent's interface, which may apply to the file opened last
}

func (p program) known() bool { return p.kind != 0 || p.sub != nil }

func subs(kinds map[kind]string) map[string]kind {
	m := map[string]kind{}
	for k, words := range kinds {
		for _, w := range strings.Fields(words) {
			m[w] |= k
		}
	}
	return m
}

// programs are the programs with a known kind, by name without folder and version.
var programs = func() map[string]program {
	m := map[string]program{}
	for k, words := range map[kind]string{
		lists:            "ls dir tree exa eza ll",
		lists | searches: "find fd fdfind locate",
		reads:            "cat head tail less more nl bat awk xxd strings hexdump od decompile disassemble jq",
		writes:           "tee touch cp mv rm mkdir rmdir patch truncate chmod ln apply_patch",
		searches:         "grep egrep fgrep zgrep rg ag ack",
		tests:            "pytest tox nox jest vitest mocha rspec phpunit ctest runtests",
		builds:           "cmake ninja gcc g++ clang clang++ cc javac tsc webpack rustc",
		runs:             "python ruby perl php java node deno lua julia Rscript uvicorn flask",
		verifies:         "which whereis type env printenv pwd whoami uname id df free nproc ldd file stat ps ping hostname",
	} {
		for _, w := range strings.Fields(words) {
			m[w] = program{kind: k}
		}
	}
	for k, words := range map[kind]string{
		reads: "open goto scroll_up scroll_down", writes: "create edit insert append str_replace_editor", searches: "search_dir search_file find_file",
	} {
		for _, w := range strings.Fields(words) {
			m[w] = program{kind: k, editor: true}
		}
	}
	packages := subs(map[kind]string{installs: "install add ci i sync require update upgrade", verifies: "list show freeze check ls outdated"})
	for _, w := range strings.Fields("pip apt apt-get conda mamba brew gem composer poetry uv pnpm yarn npm bundle apk dnf yum pipenv") {
		m[w] = program{sub: packages}
	}
	scripts := subs(map[kind]string{
		installs: "install add ci i", verifies: "list ls outdated", tests: "test t", builds: "build compile", runs: "start dev serve",
	})
	for _, w := range strings.Fields("npm yarn pnpm bun") {
		m[w] = program{sub: scripts}
	}
	m["go"] = program{sub: subs(map[kind]string{tests: "test", builds: "build install", runs: "run", installs: "get mod", verifies: "version env list vet"})}
	m["cargo"] = program{sub: subs(map[kind]string{tests: "test", builds: "build check", runs: "run", installs: "install add fetch", verifies: "version tree"})}
	m["make"] = program{kind: builds, sub: subs(map[kind]string{tests: "test tests check", builds: "all build", installs: "install deps", runs: "run"})}
	jvm := subs(map[kind]string{tests: "test verify check", builds: "package compile install build assemble"})
	for _, w := range strings.Fields("mvn gradle gradlew mvnw sbt") {
		m[w] = program{kind: builds, sub: jvm}
	}
	m["dotnet"] = program{sub: subs(map[kind]string{tests: "test", builds: "build publish", runs: "run", installs: "restore add"})}
	m["bazel"] = program{sub: subs(map[kind]string{tests: "test", builds: "build", runs: "run"})}
	m["docker"] = program{sub: subs(map[kind]string{builds: "build", runs: "run exec", verifies: "ps images version"})}
	m["git"] = program{sub: subs(map[kind]string{
		inspectsVCS: "status diff log show blame", searches: "grep", lists: "ls-files",
		changesVCS: "add commit checkout reset rebase merge push stash restore clean apply rm mv switch revert cherry-pick pull am",
	})}
	m["hg"] = program{sub: subs(map[kind]string{inspectsVCS: "status diff log", changesVCS: "commit update revert push pull"})}
	m["svn"] = program{sub: subs(map[kind]string{inspectsVCS: "status diff log info", changesVCS: "commit update revert"})}
	m["sed"] = program{kind: reads}
	return m
}()

// wrappers run the command that follows them.
var wrappers = text.Set("sudo time nohup exec nice stdbuf unbuffer xvfb-run npx timeout env")

// runners run the command that follows their subcommand: poetry run pytest.
var runners = map[string]string{"poetry": "run", "uv": "run", "pipenv": "run", "bundle": "exec", "conda": "run"}

// shellActs returns the acts of the commands of a line, in order. Depth limits shells within shells.
func shellActs(line string, depth int) []act {
	var found []act
	for _, words := range commands(line) {
		found = append(found, commandActs(words, depth)...)
	}
	return found
}

// commandActs returns the acts of one command; none for a command that only changes the folder or a variable.
func commandActs(words []string, depth int) []act {
	written := ""
	plain := make([]string, 0, len(words))
	for i := 0; i < len(words); i++ {
		if w := words[i]; w == ">" || w == ">>" {
			if i+1 < len(words) && !strings.HasPrefix(words[i+1], "/dev/") && !strings.HasPrefix(words[i+1], "&") {
				written = words[i+1]
			}
			i++
			continue
		}
		plain = append(plain, words[i])
	}
	words = unwrapped(plain)
	if len(words) == 0 || words[0] == "cd" || words[0] == "export" || words[0] == "source" || words[0] == "." || words[0] == "set" || words[0] == "true" {
		return nil
	}
	name := programName(words[0])
	if depth < 2 && (shellTools[name] || name == "dash") && len(words) > 2 && strings.HasPrefix(words[1], "-") && strings.HasSuffix(words[1], "c") {
		return shellActs(words[2], depth+1)
	}
	a := command(name, words)
	acts := []act{a}
	if written != "" {
		acts = append(acts, act{kind: writes, word: name + " >", path: cleanPath(written)})
	}
	for i := range acts {
		acts[i].word = recurring(acts[i].word)
	}
	return acts
}

// recurring replaces the parts of a word that differ from run to run. Most words have none.
func recurring(word string) string {
	if len(word) <= maxName && strings.IndexFunc(word, func(r rune) bool { return (r < 'a' || r > 'z') && r != ' ' && r != '-' }) < 0 {
		return word
	}
	return clean(replaceVarying(word), maxName)
}

// unwrapped returns a command without variable assignments and wrappers.
func unwrapped(words []string) []string {
	for len(words) > 0 {
		w := words[0]
		eq := strings.IndexByte(w, '=')
		switch {
		case eq > 0 && !strings.ContainsAny(w[:eq], "/.-"):
			words = words[1:]
		case w == "env" && len(words) == 1:
			return words
		case w == "timeout":
			words = words[1:]
			for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Trim(words[0], "0123456789.smh") == "") {
				words = words[1:]
			}
		case wrappers[w]:
			words = words[1:]
			for len(words) > 0 && strings.HasPrefix(words[0], "-") {
				words = words[1:]
			}
		case len(words) > 2 && runners[w] != "" && words[1] == runners[w]:
			words = words[2:]
		default:
			return words
		}
	}
	return words
}

// programName returns a program without its folder and version: "/usr/bin/python3.11" is "python", "./gradlew" is
// "gradlew".
func programName(word string) string {
	name := path.Base(cleanPath(word))
	if short := strings.TrimRight(name, "0123456789."); short != "" && programs[short].known() {
		return short
	}
	return name
}

// command returns the act of one program with its arguments.
func command(name string, words []string) act {
	a := act{word: name}
	p := programs[name]
	a.kind, a.editor = p.kind, p.editor
	rest := words[1:]
	first := ""
	for i, w := range rest {
		if !strings.HasPrefix(w, "-") {
			first, rest = w, rest[i:]
			break
		}
	}
	flag := func(f string) bool {
		for _, w := range words[1:] {
			if w == f {
				return true
			}
		}
		return false
	}
	switch {
	case len(words) == 2 && (flag("--version") || flag("-V") || flag("-version")):
		a.kind, a.word = verifies, name+" --version"
		return a
	case name == "command" && flag("-v"):
		a.kind, a.word = verifies, "command -v"
		return a
	case name == "python":
		return python(words)
	case name == "sed":
		if flag("-i") {
			a.kind, a.word = writes, "sed -i"
		}
		a.path = lastPath(rest)
		return a
	case name == "str_replace_editor" && first == "view":
		a.kind, a.word = reads, "str_replace_editor view"
		a.path = lastPath(rest[1:])
		return a
	case p.sub != nil:
		k, ok := p.sub[first]
		if first == "run" && len(rest) > 1 && !ok { // npm run test
			k, ok = p.sub[rest[1]]
			if ok {
				a.word, a.kind = name+" run "+rest[1], k
				return a
			}
			k, ok = runs, true
		}
		if ok {
			a.kind, a.word = k, name+" "+first
		} else if first == "" && name == "yarn" {
			a.kind = installs
		}
		return a
	case a.kind&runs != 0:
		a.path = cleanFirst(first)
		if a.path != "" && isTest(a.path) {
			a.kind = tests
		}
		return a
	case strings.Contains(words[0], "/") && !p.known() || strings.HasSuffix(words[0], ".sh"):
		a.kind = runs
		if isTest(name) {
			a.kind = tests
		}
		return a
	}
	switch {
	case a.editor:
		if strings.ContainsAny(first, "./") && strings.Trim(first, "0123456789:") != "" {
			a.path = cleanPath(first)
		}
		if name == "search_dir" || name == "search_file" || name == "find_file" {
			a.path, a.editor = "", false
		}
	case a.kind&(reads|writes) != 0:
		a.path = lastPath(rest)
	}
	return a
}

// python returns the act of a Python interpreter that runs a module, a script or a line of code.
func python(words []string) act {
	a := act{kind: runs, word: "python"}
	for i, w := range words[1:] {
		next := ""
		if i+2 < len(words) {
			next = words[i+2]
		}
		switch {
		case w == "-m" && next != "":
			a.word = "python -m " + next
			switch {
			case next == "pytest" || next == "unittest" || next == "nose":
				a.kind = tests
			case next == "pip" && i+3 < len(words):
				inner := command("pip", words[i+2:])
				a.word, a.kind = "python -m "+inner.word, inner.kind
			}
			return a
		case w == "-c":
			a.word = "python -c"
			if code := strings.TrimSpace(next); strings.HasPrefix(code, "import ") && !strings.ContainsAny(code, "\n(") || strings.Contains(code, "__version__") {
				a.kind = verifies
			}
			return a
		case strings.HasPrefix(w, "-"):
			continue
		}
		a.path = cleanFirst(w)
		base := path.Base(a.path)
		switch {
		case base == "setup.py" && (next == "install" || next == "develop"):
			a.kind, a.word = installs, "python setup.py "+next
		case base == "setup.py" && next == "build":
			a.kind, a.word = builds, "python setup.py build"
		case base == "manage.py" && next == "test":
			a.kind, a.word = tests, "python manage.py test"
		case isTest(a.path):
			a.kind = tests
		}
		return a
	}
	return a
}

func cleanFirst(w string) string {
	if w == "" {
		return ""
	}
	return cleanPath(w)
}

// lastPath returns the last word that can be a file.
func lastPath(words []string) string {
	for i := len(words) - 1; i >= 0; i-- {
		if w := words[i]; strings.ContainsAny(w, "./") && !strings.ContainsAny(w, " \n$*(){}'\"") && !strings.HasPrefix(w, "-") {
			return cleanPath(w)
		}
	}
	return ""
}
