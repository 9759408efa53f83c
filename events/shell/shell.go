// Package shell parses shell commands of agents into simple commands with their programs, arguments, directories and files (Parse), and
// names the effect of a command (Action). It runs nothing and expands nothing: variables, patterns and substitutions keep their source text.
//
// Commands are untrusted. Input, nesting and the number of commands are bounded, and invalid syntax gives the commands
// before the error.
package shell

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// MaxInput is the maximum length of a command line in bytes. Parse ignores the rest.
	MaxInput = 64 << 10
	// MaxCommands is the maximum number of commands that Parse returns.
	MaxCommands = 256

	maxOpen    = 256  // open brackets of one kind; each needs up to 4 KiB of stack in the parser
	maxNested  = 8192 // brackets, operators and keywords that the parser can read by recursion
	maxRepairs = 4    // attempts to parse a command line that has an error
)

// Errors of Parse. The commands that it returns with them are valid.
var (
	ErrLimit  = fmt.Errorf("parse command: longer than %d bytes, nested too deeply or more than %d commands: split it", MaxInput, MaxCommands)
	ErrSyntax = errors.New("parse command: invalid shell syntax")

	errParser = errors.New("defect of the parser") // a recovered panic; the fuzz test fails on it
)

// Command is a simple command: a program with its arguments. Texts are without quotes.
type Command struct {
	Program string   // base name without version: "python" for /usr/bin/python3.11; see [ProgramName]
	Word    string   // source text of the program: "./run.sh"
	Args    []string // without redirections; expansions keep their source text: "$HOME/x"
	Dir     string   // directory after the cd, pushd and popd commands before it; "" if the line does not change it, "$PWD" or "$OLDPWD" if it is unknown
	// AfterSuccess is set for b in a && b and in if a; then b; fi, and for b and c in a && { b; c; }: they run only if a succeeds.
	AfterSuccess bool
	Piped        bool     // reads the output of the command before it
	Writes       []string // files that receive the standard output, and the files of tee; devices are omitted
	Input        string   // here-documents and here-strings
}

// Parse returns the simple commands of a command line in the order of the text. Prefixes such as sudo, env and timeout
// are removed, and the script of "bash -c" replaces the shell; a shell within that script is not replaced. Subshells, loops
// and branches contribute their commands. The body of a function and the commands in substitutions do not, apart from x=$(command).
//
// A missing quote, bracket or keyword at the end is repaired without an error, because recorders cut commands. After
// another error, Parse returns the commands before it and an error that wraps ErrSyntax.
func Parse(line string) ([]Command, error) {
	w := walker{dir: directory{former: unknownFormerDir}}
	err := w.parse(line)
	return w.commands, err
}

// parse adds the commands of a line. It parses a line with an error again after a repair, up to maxRepairs times in all. Only the commands of
// the last attempt stay. The returned error is ErrLimit, or the first error that is not only a missing end, or both.
func (w *walker) parse(line string) error {
	var tooLong error
	if len(line) > MaxInput {
		line, tooLong = line[:MaxInput], ErrLimit
	}
	if tooDeep(line) {
		return ErrLimit
	}
	start, dir := len(w.commands), w.dir
	var first error
	for range maxRepairs {
		w.commands, w.dir = w.commands[:start], dir // as before the last attempt
		w.full = false
		w.source = line
		err := w.statements(line)
		if w.full {
			return ErrLimit
		}
		if err == nil {
			break
		}
		if first == nil && !unclosedInput(line, err) {
			first = fmt.Errorf("%w: %w", ErrSyntax, err)
		}
		repaired, ok := repair(line, err)
		if !ok {
			break
		}
		line = repaired
	}
	return errors.Join(tooLong, first)
}

// parsers are reused, because a new one allocates more than most command lines need.
var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.RecoverErrors(8)) }}

// statements adds the commands of the statements of a line up to the first syntax error.
func (w *walker) statements(line string) (err error) {
	p := parsers.Get().(*syntax.Parser)
	defer func() {
		if r := recover(); r != nil { // a defect of the parser must not stop a worker; the parser is not reused
			err = fmt.Errorf("%w: %v", errParser, r)
			return
		}
		parsers.Put(p)
	}()
	for statement, e := range p.StmtsSeq(strings.NewReader(line)) { // never left early: the parser panics then
		err = cmp.Or(err, e)
		if err == nil {
			w.statement(statement, position{})
		}
	}
	return err
}

// unclosedInput reports whether the error is a here-document without an end, as in a command that a recorder has cut. The parser adds other
// missing ends itself (RecoverErrors).
func unclosedInput(line string, err error) bool {
	at, ok := errorOffset(line, err)
	return ok && strings.HasPrefix(line[at:], "<<")
}

// repair returns a line without the error, so that the parser gets further: with the missing end of its here-document, or cut before the
// error.
func repair(line string, err error) (string, bool) {
	at, ok := errorOffset(line, err)
	if !ok {
		return "", false
	}
	if body, ok := strings.CutPrefix(line[at:], "<<"); ok {
		body = strings.TrimLeft(strings.TrimPrefix(body, "-"), " \t")
		if end := strings.IndexAny(body, " \t\r\n;|&<>()"); end >= 0 {
			body = body[:end]
		}
		if mark := strings.Trim(body, `'"\`); mark != "" {
			return line + "\n" + mark + "\n", true
		}
	}
	return line[:at], at > 0
}

// errorOffset returns the position of a syntax error in the line.
func errorOffset(line string, err error) (int, bool) {
	var pos syntax.Pos
	if e, ok := errors.AsType[syntax.ParseError](err); ok {
		pos = e.Pos
	} else if e, ok := errors.AsType[syntax.LangError](err); ok {
		pos = e.Pos
	}
	at := int(pos.Offset())
	return at, pos.IsValid() && at <= len(line)
}

// tooDeep reports whether a line may need a lot of stack in the parser, which has no limit. It overestimates, because it
// also counts quoted text. Real commands have far fewer of these characters and words.
func tooDeep(line string) bool {
	for _, bracket := range [...]string{"()", "[]", "{}"} {
		depth := 0
		for i := range len(line) {
			switch line[i] {
			case bracket[0]:
				depth++
			case bracket[1]:
				depth = max(0, depth-1)
			}
			if depth > maxOpen {
				return true
			}
		}
	}
	nested := 0
	for _, s := range [...]string{"(", "[", "{", "if", "while", "until", "case", "for", "select", "coproc", "time", "function", "|", "&&", "!", "?", "`"} {
		nested += strings.Count(line, s)
	}
	return nested > maxNested
}
