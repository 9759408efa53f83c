package shell

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walker collects the simple commands of statements.
type walker struct {
	source   string // the line that is parsed
	commands []Command
	dir      directory
	inner    bool // inside the script of a shell, which is not unpacked again
	full     bool // MaxCommands were found and there are more
}

// directory is the directory of the next command. "" is the directory in which the line starts.
type directory struct {
	current string
	former  string   // before the last change, for "cd -"
	pushed  []string // by pushd, the newest last; shared by copies, so it is clipped before an append
}

// Directories that are not known here, as the text that a shell would expand.
const (
	unknownDir       = "$PWD"
	unknownFormerDir = "$OLDPWD"
)

// position has the values of AfterSuccess and Piped that the commands of a statement get from the statements around it.
type position struct{ afterSuccess, piped bool }

// statement adds the commands of a statement. A subshell, a background job and a command that reads from a pipe do not change the directory
// of the commands after them.
func (w *walker) statement(s *syntax.Stmt, p position) {
	if s == nil || s.Cmd == nil || w.full {
		return
	}
	dir, start := w.dir, len(w.commands)
	w.command(s.Cmd, p)
	if _, subshell := s.Cmd.(*syntax.Subshell); subshell || s.Background || s.Coprocess || p.piped {
		w.dir = dir
	}
	if len(w.commands) > start { // the redirections of a group belong to its last command
		w.redirect(&w.commands[len(w.commands)-1], s.Redirs)
	}
	if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 { // after redirect, because unpack moves the redirections to the script
		w.unpack(start)
	}
}

func (w *walker) block(list []*syntax.Stmt, p position) {
	for _, s := range list {
		w.statement(s, p)
	}
}

func (w *walker) command(c syntax.Command, p position) {
	switch c := c.(type) {
	case *syntax.CallExpr:
		w.call(c, p)
	case *syntax.DeclClause:
		w.declaration(c, p)
	case *syntax.BinaryCmd:
		w.binary(c, p)
	case *syntax.Subshell:
		w.block(c.Stmts, p)
	case *syntax.Block:
		w.block(c.Stmts, p)
	case *syntax.IfClause:
		w.branches(c, p)
	case *syntax.WhileClause:
		w.block(c.Cond, p)
		w.block(c.Do, position{afterSuccess: !c.Until, piped: p.piped})
	case *syntax.ForClause:
		w.block(c.Do, p)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			w.block(item.Stmts, p)
		}
	case *syntax.TimeClause:
		w.statement(c.Stmt, p)
	case *syntax.CoprocClause:
		w.statement(c.Stmt, p)
	}
}

// branches adds the commands of if, elif and else. The last one has no condition.
func (w *walker) branches(c *syntax.IfClause, p position) {
	for ; c != nil; c = c.Else {
		w.block(c.Cond, p)
		w.block(c.Then, position{afterSuccess: len(c.Cond) > 0, piped: p.piped})
		p.afterSuccess = false
	}
}

// binary adds the commands of x && y, x || y and x | y.
func (w *walker) binary(c *syntax.BinaryCmd, p position) {
	before := w.dir
	w.statement(c.X, p)
	afterSuccess := c.Op == syntax.AndStmt // y runs after the success of x, else after its failure
	if c.X.Negated {                       // x is "! command": its success is the failure of the command
		afterSuccess = !afterSuccess
	}
	switch c.Op {
	case syntax.AndStmt:
		w.statement(c.Y, position{afterSuccess: afterSuccess, piped: p.piped})
	case syntax.OrStmt: // in "cd x || y; z", y does not run in x, and z does
		afterX := w.dir
		if _, simple := c.X.Cmd.(*syntax.CallExpr); simple {
			w.dir = before
		}
		w.statement(c.Y, position{afterSuccess: afterSuccess, piped: p.piped})
		w.dir = afterX
	default: // in "cd x | y", y does not run in x
		w.dir = before
		w.statement(c.Y, position{afterSuccess: p.afterSuccess, piped: true})
	}
}

// call adds a simple command. Without a program, it adds the commands that assignments run: x=$(command).
func (w *walker) call(c *syntax.CallExpr, p position) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			if a.Value != nil && len(a.Value.Parts) == 1 {
				w.substitution(a.Value.Parts[0], p)
			}
		}
		return
	}
	var words []string
	for _, a := range c.Args {
		words = append(words, w.text(a))
	}
	words = unwrap(words)
	w.add(Command{Word: words[0], Args: words[1:], AfterSuccess: p.afterSuccess, Piped: p.piped})
}

// substitution adds the commands of x=$(command) and x="$(command)". They run in a subshell, and are not piped.
func (w *walker) substitution(part syntax.WordPart, p position) {
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	if s, ok := part.(*syntax.CmdSubst); ok {
		dir := w.dir
		w.block(s.Stmts, position{afterSuccess: p.afterSuccess})
		w.dir = dir
	}
}

// declaration adds a command such as export. It reads no input, so it is not piped.
func (w *walker) declaration(c *syntax.DeclClause, p position) {
	command := Command{Word: c.Variant.Value, AfterSuccess: p.afterSuccess}
	for _, a := range c.Args {
		command.Args = append(command.Args, w.assignment(a))
	}
	w.add(command)
}

// add adds a command and follows its change of the directory.
func (w *walker) add(c Command) {
	if len(w.commands) == MaxCommands {
		w.full = true
		return
	}
	c.Program, c.Dir = ProgramName(c.Word), w.dir.current
	if c.Program == "tee" {
		c.Writes = teeFiles(c.Args)
	}
	switch c.Program {
	case "cd":
		w.dir.change(cmp.Or(directoryArgument(c.Args), "~"))
	case "pushd", "popd":
		w.dir.followStack(c.Program, c.Args)
	}
	w.commands = append(w.commands, c)
}

// directoryArgument returns the first argument besides options, or "".
func directoryArgument(args []string) string {
	for _, a := range args {
		if a != "--" && (len(a) < 2 || a[0] != '-') {
			return a
		}
	}
	return ""
}

// change follows "cd target".
func (d *directory) change(target string) {
	next := path.Join(d.current, target)
	switch {
	case target == "-":
		next = d.former
	case path.IsAbs(target) || strings.HasPrefix(target, "~") || strings.HasPrefix(target, "$"):
		next = path.Clean(target)
	}
	if len(next) > maxDir {
		next = unknownDir
	}
	d.current, d.former = next, d.current
}

// followStack follows pushd or popd. After an argument that selects a directory of the stack, such as +1, or that leaves the current directory as
// it is, the directory is unknown.
func (d *directory) followStack(command string, args []string) {
	isSelection := func(arg string) bool { return len(arg) > 1 && (arg[0] == '+' || arg[0] == '-') && arg != "--" }
	switch {
	case slices.ContainsFunc(args, isSelection):
		*d = directory{current: unknownDir, former: d.current}
	case command == "popd":
		d.pop()
	default:
		d.push(directoryArgument(args))
	}
}

// push follows "pushd target". Without a target, it exchanges the current and the newest pushed directory.
func (d *directory) push(target string) {
	before := d.current
	if target == "" {
		d.pop()
	} else {
		d.change(target)
	}
	d.pushed = append(slices.Clip(d.pushed), before)
}

// pop follows "popd". An earlier command line may have pushed the directory.
func (d *directory) pop() {
	next := unknownDir
	if n := len(d.pushed); n > 0 {
		next, d.pushed = d.pushed[n-1], d.pushed[:n-1]
	}
	d.current, d.former = next, d.current
}

// maxDir is the maximum length of a directory in bytes, as in Linux. It bounds the memory of many relative changes.
const maxDir = 4096

func teeFiles(args []string) []string {
	var files []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") && isFile(a) {
			files = append(files, a)
		}
	}
	return files
}

// redirect adds the files and the input of redirections. Redirections of standard error are ignored.
func (w *walker) redirect(c *Command, list []*syntax.Redirect) {
	for _, r := range list {
		if r.N != nil && r.N.Value != "0" && r.N.Value != "1" {
			continue
		}
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut, syntax.DplOut:
			file := w.text(r.Word)
			isDescriptor := r.Op == syntax.DplOut && strings.Trim(file, "0123456789-") == "" // as in 2>&1
			if isFile(file) && !isDescriptor {
				c.Writes = append(c.Writes, file)
			}
		case syntax.Hdoc, syntax.DashHdoc:
			if r.Hdoc != nil {
				c.Input += w.body(r.Hdoc)
			}
		case syntax.WordHdoc:
			c.Input += w.text(r.Word)
		}
	}
}

// isFile reports whether the word of a redirection names a file and not a device.
func isFile(word string) bool { return word != "" && !strings.HasPrefix(word, "/dev/") }

// unpack replaces the command at the index, if it is a shell such as bash -c 'ls; pwd', with the commands of its script. The first of them runs
// in the directory of the shell. Each has AfterSuccess and Piped of the shell besides its own, and the last one has the redirections. The
// shell stays if its script has no commands.
func (w *walker) unpack(at int) {
	if w.inner || w.full || at >= len(w.commands) {
		return
	}
	outer := w.commands[at]
	script, ok := Script(outer.Word, outer.Args)
	if !ok {
		return
	}
	// The commands before the shell count for MaxCommands. Their capacity is cut, so parse adds to a copy and does not overwrite the
	// shell in w.commands: the shell stays if parse keeps no command.
	in := walker{inner: true, dir: directory{current: outer.Dir, former: unknownFormerDir}, commands: w.commands[:at:at]}
	_ = in.parse(script) // the commands before an error are valid
	if len(in.commands) == at {
		return
	}
	w.commands, w.full = in.commands, in.full
	for i := at; i < len(w.commands); i++ {
		c := &w.commands[i]
		c.Piped = c.Piped || outer.Piped
		c.AfterSuccess = c.AfterSuccess || outer.AfterSuccess
	}
	last := &w.commands[len(w.commands)-1]
	last.Writes = append(last.Writes, outer.Writes...)
	last.Input += outer.Input
}
