package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/console"
	"debrief/events/redact"
)

// Setting is one setting of a command, with its value and source. Secrets are not shown.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, DEBRIEF_…, the file's name, or default
}

// Effective are the settings of the command that runs, in the order of its help. A command gets them as an argument of Run.
type Effective []Setting

// Sources returns the source of a setting by the name of its flag: the flag, the environment variable, the file, or "default".
// A command gets it as an argument of Run.
type Sources func(name string) string

func (p *parsed) sourceOf(name string) string {
	for _, flag := range p.flags() {
		if flag.Name != name {
			continue
		}
		switch by, origin := p.origin(flag); by {
		case fromFlag:
			return "--" + name
		case fromEnvironment, fromFile:
			return origin
		}
	}
	return "default"
}

// checker is a command that can validate its settings without side effects.
type checker interface{ Check() error }

// settings returns the settings of the selected command, in the order of its help.
func (p *parsed) settings() (all []Setting) {
	for _, flag := range p.flags() {
		if slices.Contains(unconfigured, flag.Name) || flag.Hidden {
			continue
		}
		_, origin := p.origin(flag)
		all = append(all, Setting{flag.Name, displayValue(flag), origin})
	}
	return all
}

// displayValue returns a flag's value without secrets.
func displayValue(flag *kong.Flag) string {
	value := flag.Target.Interface()
	text := fmt.Sprint(value)
	switch v := reflect.ValueOf(value); {
	case text == "", (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0:
		return ""
	case flag.Tag.Has("secret"):
		return "(secret)"
	case flag.Name == "nats":
		return redact.Address(text)
	}
	return redact.Text(text) // an address may contain a password
}

// sourcedError is an error with the sources of its settings.
type sourcedError struct {
	err  error
	text string
}

func (b *sourcedError) Error() string { return b.text }
func (b *sourcedError) Unwrap() error { return b.err }

// addSource adds the file or variable that a setting came from to the error about it. Each line of such an error
// begins with the flag. Errors about flags of the command line stay unchanged.
func (p *parsed) addSource(err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		subject, _, _ := strings.Cut(line, " ")
		for _, flag := range p.flags() {
			if strings.TrimRight(subject, ":,") != "--"+flag.Name {
				continue
			}
			switch by, name := p.origin(flag); {
			case by == fromFile:
				lines[i] = "--config: " + name + ": " + line
			case by == fromEnvironment && !strings.Contains(line, name):
				lines[i] = line + " (from " + name + ")"
			}
		}
	}
	return &sourcedError{err, strings.Join(lines, "\n")}
}

// withoutCommand removes the command, which the parser adds, from an error about its flags.
func withoutCommand(err error, run *kong.Context) error {
	n := run.Selected()
	if n == nil {
		return err
	}
	if text, ok := strings.CutPrefix(err.Error(), n.Path()+": "); ok && strings.HasPrefix(text, "--") {
		return &sourcedError{err, text}
	}
	return err
}

// withSibling adds the command that an unexpected argument may stand for. The parser suggests none beside a default command,
// such as 'dead list' of 'dead'.
func withSibling(err error, run *kong.Context) error {
	word, ok := strings.CutPrefix(err.Error(), "unexpected argument ")
	n := run.Selected()
	if !ok || strings.Contains(word, " ") || n == nil || n.Parent == nil {
		return err
	}
	var names []string
	for _, c := range n.Parent.Children {
		names = append(names, c.Name)
	}
	if found := suggestion(word, names); found != "" {
		return &sourcedError{err, err.Error() + found}
	}
	return err
}

// checkZeros returns an error for a number that is set to 0 although its default is another one. A library would replace
// it with the default.
func (p *parsed) checkZeros() error {
	var errs []error
	for _, flag := range p.flags() {
		if v := flag.Target; flag.HasDefault && !flag.Tag.HasDefault && v.IsZero() && !flag.Tag.Has("zero") && (v.CanInt() || v.CanFloat()) {
			errs = append(errs, fmt.Errorf("--%s: must not be 0; leave it out for the default, which is %s", flag.Name, flag.Default))
		}
	}
	return errors.Join(errs...)
}

// writeSettings writes settings as a table.
func writeSettings(out io.Writer, all []Setting) error {
	w := console.NewTable(out)
	console.Fprintf(w, "setting\tvalue\torigin\n")
	for _, s := range all {
		console.Fprintf(w, "%s\t%s\t%s\n", s.Name, strings.Join(strings.Fields(s.Value), " "), s.Origin)
	}
	return w.Flush()
}

// ShowSettings prints the settings of a command line without running it. The flags of run, the current command line,
// that are common to all commands apply too. The exit code is 2 if the command line or a setting is invalid.
func (m Program) ShowSettings(run *kong.Context, args []string, asJSON bool) error {
	var common []string
	for _, step := range run.Path {
		if step.Flag != nil && !step.Resolved && slices.Contains(run.Model.Flags, step.Flag) {
			common = append(common, fmt.Sprintf("--%s=%v", step.Flag.Name, step.Flag.Target))
		}
	}
	p, err := m.parse(append(common, args...))
	if err != nil {
		return Exit(ExitUsage, err)
	}
	return p.show(asJSON)
}

// show prints the settings and returns the errors of invalid ones.
func (p *parsed) show(asJSON bool) (err error) {
	all := p.settings()
	if asJSON {
		err = json.NewEncoder(console.Stdout).Encode(all)
	} else {
		err = writeSettings(console.Stdout, all)
	}
	if err != nil {
		return fmt.Errorf("print settings: %w", err)
	}
	return p.check()
}
