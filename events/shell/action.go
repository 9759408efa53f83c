package shell

import (
	"path"
	"slices"
	"strings"
)

// Action describes the effect of a command.
type Action struct {
	Name     string   // the program with the words that decide its effect: "git commit", "python -m pytest"
	Kind     Kind     // 0 if unknown
	Path     string   // the file that the command reads, changes or runs; "" if it names none
	Packages []string // names of the packages of an installation, without versions; empty for "npm ci"
}

// Action returns the effect of the command itself. Its redirections are separate effects.
func (c Command) Action() Action {
	a := Action{Name: c.Program, Kind: programs[c.Program].kind}
	switch {
	case len(c.Args) == 1 && slices.Contains([]string{"--version", "-V", "-version"}, c.Args[0]):
		return Action{Name: c.Program + " --version", Kind: Verifies}
	case c.Program == "command" && slices.Contains(c.Args, "-v"):
		return Action{Name: "command -v", Kind: Verifies}
	case c.Program == "python":
		return python(c.Args)
	case c.Program == "sed" || c.Program == "perl":
		return c.stream(a)
	case programs[c.Program].sub != nil:
		return subcommand(c.Program, c.Args)
	case a.Kind&Runs != 0:
		a.Path = cleanPath(firstOperand(c.Args))
	case a.Kind == 0 && strings.Contains(c.Word, "/") || strings.HasSuffix(c.Word, ".sh"):
		a.Kind = Runs
	case a.Kind&(Reads|Writes|Edits) != 0:
		a.Path = lastPath(operands(c.Args))
	}
	return a
}

// stream returns the action of sed and perl, which edit a file in place with -i.
func (c Command) stream(a Action) Action {
	inPlace := slices.ContainsFunc(c.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "-i") || strings.HasPrefix(arg, "--in-place") || arg == "-pi" || strings.HasPrefix(arg, "-pi.") || arg == "-ni"
	})
	switch {
	case inPlace:
		return Action{Name: c.Program + " -i", Kind: Edits, Path: lastPath(operands(c.Args))}
	case c.Program == "perl":
		a.Path = cleanPath(firstOperand(c.Args))
	default:
		a.Path = lastPath(operands(c.Args))
	}
	return a
}

// subcommand returns the action of a program that has subcommands.
func subcommand(name string, args []string) Action {
	p := programs[name]
	a := Action{Name: name, Kind: p.kind}
	rest := operands(args)
	if len(rest) == 0 {
		if name == "yarn" {
			a.Kind = Installs
		}
		return a
	}
	first, after := rest[0], rest[1:]
	switch {
	case name == "uv" && first == "pip" && len(after) > 0:
		inner := subcommand("pip", after)
		inner.Name = "uv " + inner.Name
		return inner
	case name == "yarn" && first == "global" && len(after) > 0:
		inner := subcommand(name, after)
		inner.Name = "yarn global" + strings.TrimPrefix(inner.Name, name)
		return inner
	}
	kind, ok := p.sub[first]
	if !ok && first == "run" {
		kind = Runs
		if len(after) > 0 {
			if k, known := p.sub[after[0]]; known { // npm run test
				return Action{Name: name + " run " + after[0], Kind: k}
			}
		}
		ok = true
	}
	if !ok {
		return a
	}
	a.Name, a.Kind = name+" "+first, kind
	if name == "go" && first == "install" && slices.ContainsFunc(after, isRemote) {
		a.Kind = Installs
	}
	if a.Kind&Installs != 0 {
		a.Packages = packages(name, first, after)
	}
	return a
}

// isRemote reports whether an argument of go install is a package with a version, which go downloads.
func isRemote(arg string) bool { return strings.Contains(arg, "@") }

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
			if code := strings.TrimSpace(next); strings.HasPrefix(code, "import ") && !strings.ContainsAny(code, "\n(") || strings.Contains(code, "__version__") {
				a.Kind = Verifies
			}
			return a
		case strings.HasPrefix(arg, "-"):
			continue
		}
		a.Path = cleanPath(arg)
		return pythonScript(a, next)
	}
	return a
}

func pythonModule(module string, args []string) Action {
	a := Action{Name: "python -m " + module, Kind: Runs}
	switch {
	case module == "pytest" || module == "unittest" || module == "nose" || module == "tox":
		a.Kind = Tests
	case module == "pip" && len(args) > 0:
		inner := subcommand("pip", args)
		inner.Name = "python -m " + inner.Name
		return inner
	}
	return a
}

// pythonScript adds the effect of a script with a subcommand.
func pythonScript(a Action, argument string) Action {
	switch base(a.Path) + " " + argument {
	case "setup.py install", "setup.py develop":
		a.Kind, a.Name = Installs, "python setup.py "+argument
	case "setup.py build":
		a.Kind, a.Name = Builds, "python setup.py build"
	case "setup.py test":
		a.Kind, a.Name = Tests, "python setup.py test"
	case "manage.py test":
		a.Kind, a.Name = Tests, "python manage.py test"
	}
	return a
}

// MainCommand returns the first command that does the work of a line: the first one that changes neither the directory nor the
// environment. "cd x && python y" is python. Without such a command it returns the first one. It returns false for an
// empty list.
func MainCommand(list []Command) (Command, bool) {
	for _, c := range list {
		if c.Action().Kind&(ChangesDir|Environment) == 0 && !c.noOp() {
			return c, true
		}
	}
	if len(list) == 0 {
		return Command{}, false
	}
	return list[0], true
}

// noOp reports whether the command has no effect.
func (c Command) noOp() bool { return c.Program == "true" || c.Program == ":" }

// operands returns the arguments from the first one that is not an option.
func operands(args []string) []string {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if i < 0 {
		return nil
	}
	return args[i:]
}

func firstOperand(args []string) string {
	if rest := operands(args); len(rest) > 0 {
		return rest[0]
	}
	return ""
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
