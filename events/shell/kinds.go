package shell

import (
	"path"
	"strings"
)

// Kind is the effect of a command, as far as its words show it. It is a set of bits.
type Kind uint32

const (
	Lists       Kind = 1 << iota // the files in a directory
	Reads                        // the contents of a file
	Searches                     // for files or for text in files
	Writes                       // creates, copies, moves or removes a file
	Edits                        // changes a part of a file: sed -i, patch
	Tests                        // runs tests
	Installs                     // installs or updates packages
	Builds                       // compiles
	Runs                         // runs a program or a script of the user
	InspectsVCS                  // reads the state or history of version control
	ChangesVCS                   // changes version control
	Verifies                     // shows versions, programs, packages or the state of the machine
	ChangesDir                   // changes the directory
	Environment                  // changes variables or options of the shell: export, source
)

// program holds the kind of a program, or the kinds of its subcommands.
type program struct {
	kind Kind
	sub  map[string]Kind
}

// programs are the programs with a known kind, by name without version.
var programs = func() map[string]program {
	m := map[string]program{}
	for k, words := range map[Kind]string{
		Lists:            "ls dir tree exa eza ll",
		Lists | Searches: "find fd fdfind locate",
		Reads:            "cat head tail less more nl bat awk xxd strings hexdump od decompile disassemble jq sed",
		Writes:           "tee touch cp mv rm mkdir rmdir truncate chmod ln",
		Edits:            "patch apply_patch",
		Searches:         "grep egrep fgrep zgrep rg ag ack",
		Tests:            "pytest tox nox jest vitest mocha rspec phpunit ctest runtests",
		Builds:           "cmake ninja gcc g++ clang clang++ cc javac tsc webpack rustc",
		Runs:             "python ruby perl php java node deno lua julia Rscript uvicorn flask",
		Verifies:         "which whereis type env printenv pwd whoami uname id df free nproc ldd file stat ps ping hostname",
		ChangesDir:       "cd pushd popd",
		Environment:      "export source . set unset declare local readonly typeset alias unalias shopt ulimit umask",
	} {
		for w := range strings.FieldsSeq(words) {
			m[w] = program{kind: k}
		}
	}
	addManagers(m)
	addTools(m)
	return m
}()

// addManagers adds the package managers.
func addManagers(m map[string]program) {
	packages := subcommands(map[Kind]string{Installs: "install add ci i sync require update upgrade", Verifies: "list show freeze check ls outdated"})
	for w := range strings.FieldsSeq("pip pipx apt apt-get mamba brew gem composer poetry uv bundle apk dnf yum pipenv") {
		m[w] = program{sub: packages}
	}
	m["conda"] = program{sub: subcommands(map[Kind]string{Installs: "install add ci i sync require update upgrade", Verifies: "list show freeze check ls outdated", Environment: "activate deactivate"})}
	scripts := subcommands(map[Kind]string{
		Installs: "install add ci i", Verifies: "list ls outdated", Tests: "test t", Builds: "build compile", Runs: "start dev serve",
	})
	for w := range strings.FieldsSeq("npm yarn pnpm bun") {
		m[w] = program{sub: scripts}
	}
}

// addTools adds the programs of languages, builds and version control.
func addTools(m map[string]program) {
	jvm := map[Kind]string{Tests: "test verify check", Builds: "package compile install build assemble"}
	for name, p := range map[string]struct {
		kind Kind
		sub  map[Kind]string
	}{
		"go":      {0, map[Kind]string{Tests: "test", Builds: "build install", Runs: "run", Installs: "get mod", Verifies: "version env list vet"}},
		"cargo":   {0, map[Kind]string{Tests: "test", Builds: "build check", Runs: "run", Installs: "install add fetch", Verifies: "version tree"}},
		"make":    {Builds, map[Kind]string{Tests: "test tests check", Builds: "all build", Installs: "install deps", Runs: "run"}},
		"mvn":     {Builds, jvm},
		"gradle":  {Builds, jvm},
		"gradlew": {Builds, jvm},
		"mvnw":    {Builds, jvm},
		"sbt":     {Builds, jvm},
		"dotnet":  {0, map[Kind]string{Tests: "test", Builds: "build publish", Runs: "run", Installs: "restore add"}},
		"bazel":   {0, map[Kind]string{Tests: "test", Builds: "build", Runs: "run"}},
		"docker":  {0, map[Kind]string{Builds: "build", Runs: "run exec", Verifies: "ps images version"}},
		"git": {0, map[Kind]string{
			InspectsVCS: "status diff log show blame", Searches: "grep", Lists: "ls-files", Edits | ChangesVCS: "apply",
			ChangesVCS: "add commit checkout reset rebase merge push stash restore clean rm mv switch revert cherry-pick pull am",
		}},
		"hg":  {0, map[Kind]string{InspectsVCS: "status diff log", ChangesVCS: "commit update revert push pull"}},
		"svn": {0, map[Kind]string{InspectsVCS: "status diff log info", ChangesVCS: "commit update revert"}},
	} {
		m[name] = program{kind: p.kind, sub: subcommands(p.sub)}
	}
}

func subcommands(kinds map[Kind]string) map[string]Kind {
	m := map[string]Kind{}
	for k, words := range kinds {
		for w := range strings.FieldsSeq(words) {
			m[w] |= k
		}
	}
	return m
}

// Known reports whether a word is a shell, a program with a known kind, or a prefix such as sudo.
func Known(word string) bool {
	name := ProgramName(word)
	_, wraps := wrappers[name]
	_, known := programs[name]
	return known || wraps || shells[name]
}

// ProgramName returns a program without its directory and, if the program is known, without its version: "python" for
// /usr/bin/python3.11 and "gradlew" for ./gradlew.
func ProgramName(word string) string {
	name := base(word)
	if short := strings.TrimRight(name, "0123456789."); short != "" && short != name {
		if _, known := programs[short]; known {
			return short
		}
	}
	return name
}

func base(word string) string {
	if word == "" {
		return ""
	}
	return path.Base(word)
}
