package shell

import (
	"path"
	"slices"
	"strings"
)

// Action describes the effect of a command.
type Action struct {
	Name string // the program with the words that decide its effect: "git commit", "python -m pytest"
	Kind Kind   // 0 if unknown
	Path string // the file that the command reads, changes or runs; "" if it names none
}

// Action returns the effect of the command itself. Its redirections are separate effects.
func (c Command) Action() Action {
	a := Action{Name: c.Program, Kind: programs[c.Program].kind}
	isUnknownFile := a.Kind == 0 && strings.Contains(c.Word, "/")
	switch {
	case len(c.Args) == 1 && slices.Contains([]string{"--version", "-V", "-version"}, c.Args[0]):
		return Action{Name: c.Program + " --version", Kind: Verifies}
	case c.Program == "command" && slices.Contains(c.Args, "-v"):
		return Action{Name: "command -v", Kind: Verifies}
	case c.Program == "python":
		return python(c.Args)
	case (c.Program == "sed" || c.Program == "perl") && slices.ContainsFunc(c.Args, inPlace):
		return Action{Name: c.Program + " -i", Kind: Edits, Path: lastPath(operands(c.Args))}
	case programs[c.Program].sub != nil:
		return subcommand(c.Program, c.Args)
	case a.Kind&Runs != 0:
		if words := operands(c.Args); len(words) > 0 {
			a.Path = cleanPath(words[0])
		}
	case isUnknownFile || strings.HasSuffix(c.Word, ".sh"):
		a.Kind = Runs
	case a.Kind&(Reads|Writes|Edits) != 0:
		a.Path = lastPath(operands(c.Args))
	}
	return a
}

// inPlace reports whether an option of sed or perl edits a file in place.
func inPlace(arg string) bool {
	switch arg {
	case "-pi", "-ni":
		return true
	}
	for _, prefix := range []string{"-i", "--in-place", "-pi."} {
		if strings.HasPrefix(arg, prefix) {
			return true
		}
	}
	return false
}

// subcommand returns the action of a program that has subcommands.
func subcommand(name string, args []string) Action {
	p, words := programs[name], subcommandWords(name, args)
	if len(words) > 1 {
		switch first := name + " " + words[0]; first {
		case "uv pip", "yarn global": // their subcommands are in the tables of uv and yarn
			name, words = first, words[1:]
		}
	}
	switch {
	case len(words) == 0 && name == "yarn":
		return Action{Name: name, Kind: Installs}
	case len(words) == 0:
		return Action{Name: name, Kind: p.kind}
	case name == "go" && words[0] == "install" && strings.Contains(strings.Join(words, " "), "@"): // a package with a version is downloaded
		return Action{Name: "go install", Kind: Installs}
	}
	if kind, ok := p.sub[words[0]]; ok {
		return Action{Name: name + " " + words[0], Kind: kind}
	}
	if words[0] != "run" { // an unknown subcommand
		return Action{Name: name, Kind: p.kind}
	}
	if len(words) > 1 && p.sub[words[1]] != 0 { // a script with a known name: npm run test
		return Action{Name: name + " run " + words[1], Kind: p.sub[words[1]]}
	}
	return Action{Name: name + " run", Kind: Runs}
}

// valueOptions are the options in front of a subcommand that have the next argument as their value, by program.
var valueOptions = map[string][]string{
	"git":    {"-C", "-c", "--git-dir", "--work-tree"},
	"go":     {"-C"},
	"make":   {"-C", "-f", "--directory", "--file"},
	"npm":    {"--prefix", "-C", "-w", "--workspace"},
	"pnpm":   {"-C", "--dir", "-F", "--filter"},
	"yarn":   {"--cwd"},
	"mvn":    {"-f", "--file", "-pl", "--projects"},
	"gradle": {"-p", "--project-dir"},
	"docker": {"--context", "-H", "--host"},
}

// subcommandWords returns the arguments from the subcommand on.
func subcommandWords(name string, args []string) []string {
	isValue := false
	for i, arg := range args {
		switch {
		case isValue:
			isValue = false
		case !strings.HasPrefix(arg, "-"):
			return args[i:]
		default:
			isValue = slices.Contains(valueOptions[name], arg)
		}
	}
	return nil
}

// python returns the action of an interpreter that runs a module, a line of code or a script.
func python(args []string) Action {
	a := Action{Name: "python", Kind: Runs}
	for i, arg := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case arg == "-m" && next != "":
			return pythonModule(next, args[i+2:])
		case arg == "-c":
			a.Name = "python -c"
			code := strings.TrimSpace(next)
			onlyImports := strings.HasPrefix(code, "import ") && !strings.ContainsAny(code, "\n(")
			if onlyImports || strings.Contains(code, "__version__") {
				a.Kind = Verifies
			}
			return a
		case strings.HasPrefix(arg, "-"):
			continue
		}
		a.Path = cleanPath(arg)
		script := base(arg) + " " + next
		if kind := scripts[script]; kind != 0 {
			a.Name, a.Kind = "python "+script, kind
		}
		return a
	}
	return a
}

func pythonModule(module string, args []string) Action {
	switch module {
	case "pytest", "unittest", "nose", "tox":
		return Action{Name: "python -m " + module, Kind: Tests}
	case "pip":
		a := subcommand("pip", args)
		a.Name = "python -m " + a.Name
		return a
	}
	return Action{Name: "python -m " + module, Kind: Runs}
}

// scripts are the subcommands of usual scripts with a known kind.
var scripts = map[string]Kind{
	"setup.py install": Installs, "setup.py develop": Installs, "setup.py build": Builds, "setup.py test": Tests, "manage.py test": Tests,
}

// MainCommand returns the first command that does the work of a line: the first one that changes neither the directory nor the
// environment. "cd x && python y" is python. Without such a command it returns the first one. It returns false for an
// empty list.
func MainCommand(list []Command) (Command, bool) {
	for _, c := range list {
		isNoOp := c.Program == "true" || c.Program == ":"
		if c.Action().Kind&(ChangesDir|Environment) == 0 && !isNoOp {
			return c, true
		}
	}
	if len(list) == 0 {
		return Command{}, false
	}
	return list[0], true
}

// operands returns the arguments from the first one that is not an option.
func operands(args []string) []string {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if i < 0 {
		return nil
	}
	return args[i:]
}

// lastPath returns the last argument that can be a file.
func lastPath(args []string) string {
	for _, a := range slices.Backward(args) {
		if strings.ContainsAny(a, "./") && !strings.ContainsAny(a, " \n$*(){}'\"") && !strings.HasPrefix(a, "-") {
			return cleanPath(a)
		}
	}
	return ""
}

func cleanPath(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}
