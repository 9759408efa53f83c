package shell

import (
	"path"
	"slices"
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
	installs, verifies := "install add ci i sync require update upgrade", "list show freeze check ls outdated"
	jvm := map[Kind]string{Tests: "test verify check", Builds: "package compile install build assemble"}
	m := map[string]program{}
	for _, p := range []struct {
		names string
		kind  Kind
		sub   map[Kind]string
	}{
		{names: "ls dir tree exa eza ll", kind: Lists},
		{names: "find fd fdfind locate", kind: Lists | Searches},
		{names: "cat head tail less more nl bat awk xxd strings hexdump od decompile disassemble jq sed", kind: Reads},
		{names: "tee touch cp mv rm mkdir rmdir truncate chmod ln", kind: Writes},
		{names: "patch apply_patch", kind: Edits},
		{names: "grep egrep fgrep zgrep rg ag ack", kind: Searches},
		{names: "pytest tox nox jest vitest mocha rspec phpunit ctest runtests", kind: Tests},
		{names: "cmake ninja gcc g++ clang clang++ cc javac tsc webpack rustc", kind: Builds},
		{names: "python ruby perl php java node deno lua julia Rscript uvicorn flask", kind: Runs},
		{names: "which whereis type env printenv pwd whoami uname id df free nproc ldd file stat ps ping hostname", kind: Verifies},
		{names: "cd pushd popd", kind: ChangesDir},
		{names: "export source . set unset declare local readonly typeset alias unalias shopt ulimit umask", kind: Environment},

		{names: "pip pipx apt apt-get mamba brew gem composer poetry uv bundle apk dnf yum pipenv", sub: map[Kind]string{Installs: installs, Verifies: verifies}},
		{names: "conda", sub: map[Kind]string{Installs: installs, Verifies: verifies, Environment: "activate deactivate"}},
		{names: "npm yarn pnpm bun", sub: map[Kind]string{
			Installs: "install add ci i", Verifies: "list ls outdated", Tests: "test t", Builds: "build compile", Runs: "start dev serve",
		}},

		{names: "go", sub: map[Kind]string{Tests: "test", Builds: "build install", Runs: "run", Installs: "get mod", Verifies: "version env list vet"}},
		{names: "cargo", sub: map[Kind]string{Tests: "test", Builds: "build check", Runs: "run", Installs: "install add fetch", Verifies: "version tree"}},
		{names: "make", kind: Builds, sub: map[Kind]string{Tests: "test tests check", Builds: "all build", Installs: "install deps", Runs: "run"}},
		{names: "mvn mvnw gradle gradlew sbt", kind: Builds, sub: jvm},
		{names: "dotnet", sub: map[Kind]string{Tests: "test", Builds: "build publish", Runs: "run", Installs: "restore add"}},
		{names: "bazel", sub: map[Kind]string{Tests: "test", Builds: "build", Runs: "run"}},
		{names: "docker", sub: map[Kind]string{Builds: "build", Runs: "run exec", Verifies: "ps images version"}},

		{names: "git", sub: map[Kind]string{
			InspectsVCS: "status diff log show blame", Searches: "grep", Lists: "ls-files", Edits | ChangesVCS: "apply",
			ChangesVCS: "add commit checkout reset rebase merge push stash restore clean rm mv switch revert cherry-pick pull am",
		}},
		{names: "hg", sub: map[Kind]string{InspectsVCS: "status diff log", ChangesVCS: "commit update revert push pull"}},
		{names: "svn", sub: map[Kind]string{InspectsVCS: "status diff log info", ChangesVCS: "commit update revert"}},
	} {
		for name := range strings.FieldsSeq(p.names) {
			m[name] = program{p.kind, subcommands(p.sub)}
		}
	}
	return m
}()

// subcommands returns the kinds by subcommand, or nil if there are none.
func subcommands(words map[Kind]string) map[string]Kind {
	var m map[string]Kind
	for k, list := range words {
		for w := range strings.FieldsSeq(list) {
			if m == nil {
				m = map[string]Kind{}
			}
			m[w] = k
		}
	}
	return m
}

// Known reports whether a word is a shell, a program with a known kind, or a prefix such as sudo.
func Known(word string) bool {
	name := ProgramName(word)
	_, wraps := wrappers[name]
	_, known := programs[name]
	return known || wraps || IsShell(name)
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

// editors has the commands of SWE-agent's interface. Most of them print the file too.
var editors = strings.Fields("open goto scroll_up scroll_down create edit insert append search_dir search_file find_file str_replace_editor submit")

// IsEditor reports whether a word is a command of SWE-agent's interface rather than a program.
func IsEditor(word string) bool { return slices.Contains(editors, word) }
