package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walker collects the simple commands of statements.
type walker struct {
	source   string // the line that is parsed
	commands []Command
	dir      string
	inner    bool // inside the script of a shell, which is not unpacked again
	full     bool // MaxCommands were found and there are more
}

// statement adds the commands of a statement. A subshell, a pipe and a background job do not change the directory of the
// commands after them.
func (w *walker) statement(s *syntax.Stmt, when Condition, piped bool) {
	if s == nil || s.Cmd == nil || w.full {
		return
	}
	dir, start := w.dir, len(w.commands)
	w.command(s.Cmd, when, piped)
	if _, subshell := s.Cmd.(*syntax.Subshell); subshell || s.Background || s.Coprocess || piped {
		w.dir = dir
	}
	if len(w.commands) > start { // the redirections of a group belong to its last command
		w.redirect(&w.commands[len(w.commands)-1], s.Redirs)
	}
	if _, simple := s.Cmd.(*syntax.CallExpr); simple {
		w.unpack(start)
	}
}

func (w *walker) block(list []*syntax.Stmt, when Condition, piped bool) {
	for _, s := range list {
		w.statement(s, when, piped)
	}
}

func (w *walker) command(c syntax.Command, when Condition, piped bool) {
	switch c := c.(type) {
	case *syntax.CallExpr:
		w.call(c, when, piped)
	case *syntax.DeclClause:
		w.declaration(c, when)
	case *syntax.BinaryCmd:
		w.binary(c, when, piped)
	case *syntax.Subshell:
		w.block(c.Stmts, when, piped)
	case *syntax.Block:
		w.block(c.Stmts, when, piped)
	case *syntax.IfClause:
		w.branches(c, when, piped)
	case *syntax.WhileClause:
		w.block(c.Cond, when, piped)
		if c.Until {
			w.block(c.Do, OnFailure, piped)
		} else {
			w.block(c.Do, OnSuccess, piped)
		}
	case *syntax.ForClause:
		w.block(c.Do, when, piped)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			w.block(item.Stmts, when, piped)
		}
	case *syntax.TimeClause:
		w.statement(c.Stmt, when, piped)
	case *syntax.CoprocClause:
		w.statement(c.Stmt, when, piped)
	}
}

// branches adds the commands of if, elif and else. The last one has no condition.
func (w *walker) branches(c *syntax.IfClause, when Condition, piped bool) {
	for ; c != nil; c = c.Else {
		then := OnSuccess
		if len(c.Cond) == 0 {
			then = OnFailure
		}
		w.block(c.Cond, when, piped)
		w.block(c.Then, then, piped)
		when = OnFailure
	}
}

func (w *walker) binary(c *syntax.BinaryCmd, when Condition, piped bool) {
	dir := w.dir
	w.statement(c.X, when, piped)
	then := OnSuccess
	if (c.Op == syntax.OrStmt) != c.X.Negated {
		then = OnFailure
	}
	switch c.Op {
	case syntax.AndStmt:
		w.statement(c.Y, then, piped)
	case syntax.OrStmt: // in "cd x || y; z", y does not run in x, and z does
		after := w.dir
		if _, simple := c.X.Cmd.(*syntax.CallExpr); simple {
			w.dir = dir
		}
		w.statement(c.Y, then, piped)
		w.dir = after
	default:
		w.dir = dir
		w.statement(c.Y, when, true)
	}
}

// call adds a simple command. Without a program, it adds the commands that assignments run: x=$(command).
func (w *walker) call(c *syntax.CallExpr, when Condition, piped bool) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			if a.Value != nil && len(a.Value.Parts) == 1 {
				w.substitution(a.Value.Parts[0], when)
			}
		}
		return
	}
	var words []string
	for _, a := range c.Args {
		words = append(words, w.text(a))
	}
	var env []string
	for _, a := range c.Assigns {
		env = append(env, w.assignment(a))
	}
	words, more := unwrap(words)
	env = append(env, more...)
	w.add(Command{Word: words[0], Args: words[1:], Env: env[:min(len(env), maxEnv)], When: when, Piped: piped})
}

// substitution adds the commands of x=$(command) and x="$(command)".
func (w *walker) substitution(part syntax.WordPart, when Condition) {
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	if s, ok := part.(*syntax.CmdSubst); ok {
		dir := w.dir
		w.block(s.Stmts, when, false)
		w.dir = dir
	}
}

func (w *walker) declaration(c *syntax.DeclClause, when Condition) {
	command := Command{Word: c.Variant.Value, When: when}
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
	c.Program, c.Dir = ProgramName(c.Word), w.dir
	if c.Program == "tee" {
		c.Writes = teeFiles(c.Args)
	}
	if c.Program == "cd" || c.Program == "pushd" {
		w.changeDir(c.Args)
	}
	w.commands = append(w.commands, c)
}

func (w *walker) changeDir(args []string) {
	target := "~"
	for _, a := range args {
		if a == "--" || len(a) > 1 && a[0] == '-' {
			continue
		}
		target = a
		break
	}
	switch {
	case target == "-": // the directory before the last change is not known here
		w.dir = ""
	case w.dir == "" || path.IsAbs(target) || strings.HasPrefix(target, "~") || strings.HasPrefix(target, "$"):
		w.dir = path.Clean(target)
	default:
		w.dir = path.Join(w.dir, target)
	}
	if len(w.dir) > maxDir {
		w.dir = ""
	}
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
			if file := w.text(r.Word); isFile(file) && (r.Op != syntax.DplOut || strings.Trim(file, "0123456789-") != "") {
				c.Writes = append(c.Writes, file)
			}
		case syntax.RdrIn:
			if file := w.text(r.Word); isFile(file) {
				c.Reads = append(c.Reads, file)
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

// unpack replaces the shell at the index by the commands of its script: bash -c 'ls; pwd'. The script inherits the
// directory and the condition of the shell. A script that has no commands does not replace it.
func (w *walker) unpack(at int) {
	if w.inner || w.full || at >= len(w.commands) {
		return
	}
	outer := w.commands[at]
	script, ok := scriptOf(outer)
	if !ok {
		return
	}
	in := walker{inner: true, dir: outer.Dir, commands: w.commands[:at:at]}
	_ = in.parse(script) // the commands before an error are valid
	if len(in.commands) == at {
		return
	}
	w.commands, w.full = in.commands, in.full
	for i := at; i < len(w.commands); i++ {
		c := &w.commands[i]
		c.Piped = c.Piped || outer.Piped
		c.Env = slices.Concat(outer.Env, c.Env)
		if c.When == Always {
			c.When = outer.When
		}
	}
	last := &w.commands[len(w.commands)-1]
	last.Writes = append(last.Writes, outer.Writes...)
	last.Reads = append(last.Reads, outer.Reads...)
	last.Input += outer.Input
}
