package app

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/console"
	"debrief/events/redact"
)

// Setting is one setting of a command: what it is now, and who said so.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, DEBRIEF_…, the file's name, or default
}

// checker is a command that can tell whether its settings can be without touching anything.
type checker interface{ Check() error }

// settings are those of the command that was chosen, in the order of its help.
func (p *parsed) settings() (all []Setting) {
	for _, flag := range p.flags() {
		if slices.Contains(unconfigured, flag.Name) || flag.Hidden {
			continue
		}
		_, origin := p.origin(flag)
		all = append(all, Setting{flag.Name, shown(flag), origin})
	}
	return all
}

// shown is a flag's value, without what nobody is to see.
func shown(flag *kong.Flag) string {
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
	return redact.Text(text) // an address may hold a password, too
}

// blamed is an error that says where the settings that it is about came from.
type blamed struct {
	err  error
	text string
}

func (b *blamed) Error() string { return b.text }
func (b *blamed) Unwrap() error { return b.err }

// blame names the file or the variable that a setting came from which an error is about: such an error, or a line of it,
// begins with the flag. Of what stands on the command line that is enough.
func (p *parsed) blame(err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		subject, _, _ := strings.Cut(line, " ")
		for _, flag := range p.flags() {
			if strings.TrimSuffix(subject, ":") != "--"+flag.Name {
				continue
			}
			switch by, name := p.origin(flag); {
			case by == byFile:
				lines[i] = "--config: " + name + ": " + line
			case by == byEnvironment && !strings.Contains(line, name):
				lines[i] = line + " (from " + name + ")"
			}
		}
	}
	return &blamed{err, strings.Join(lines, "\n")}
}

// writeSettings writes settings as a table.
func writeSettings(out io.Writer, all []Setting) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	console.Fprintf(w, "setting\tvalue\torigin\n")
	for _, s := range all {
		console.Fprintf(w, "%s\t%s\t%s\n", s.Name, strings.Join(strings.Fields(s.Value), " "), s.Origin)
	}
	return w.Flush()
}

// ShowSettings prints the settings that a command line would run with, and does not run it. What run, the command line
// that asks, says for every command holds there, too. The exit code is that of a command line or of settings that cannot be.
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

// show prints the settings, and reports those that cannot be.
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
