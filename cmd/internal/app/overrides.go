package app

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// source is the source of a setting, in order of precedence.
type source int

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromFlag
)

// origin returns the source of a flag's value, and its name for people.
func (p *parsed) origin(flag *kong.Flag) (source, string) {
	if slices.Contains(p.overridden, flag) {
		return fromDefault, "default"
	}
	for _, step := range p.run.Path {
		if step.Flag == flag && !step.Resolved {
			return fromFlag, "flag"
		}
	}
	for _, env := range flag.Envs {
		if os.Getenv(env) != "" {
			return fromEnvironment, env
		}
	}
	if _, set := p.file.values[flag.Name]; set {
		return fromFile, p.file.name
	}
	return fromDefault, "default"
}

// flags returns the flags of the selected command, in the order of its help.
func (p *parsed) flags() (all []*kong.Flag) {
	for _, step := range p.run.Path {
		all = append(all, step.Flags...)
	}
	return all
}

// resolveOverrides decides between settings that exclude each other, such as a server's address and the directory of
// an embedded one. The tag instead:"data,listen" names the flags that this flag replaces. The setting with the source
// of higher precedence wins, and the others are reset to their defaults. Two flags on the command line are an error.
// For two settings from the same other source, the command decides.
func (p *parsed) resolveOverrides() error {
	for _, flag := range p.flags() {
		if !flag.Tag.Has("instead") {
			continue
		}
		instead := strings.Split(flag.Tag.Get("instead"), ",")
		if err := p.override(flag, slices.DeleteFunc(p.flags(), func(f *kong.Flag) bool { return !slices.Contains(instead, f.Name) })); err != nil {
			return err
		}
	}
	return nil
}

// override compares the source of a flag with the sources of the flags that it replaces, and drops the weaker ones.
func (p *parsed) override(flag *kong.Flag, others []*kong.Flag) error {
	source := p.source(flag)
	for _, other := range others {
		switch w := p.source(other); {
		case w == fromFlag && source == fromFlag:
			return fmt.Errorf("--%s: is set, and so is --%s: choose one", flag.Name, other.Name)
		case w > source:
			return p.drop(flag)
		}
	}
	for _, other := range others {
		if p.source(other) < source {
			if err := p.drop(other); err != nil {
				return err
			}
		}
	}
	return nil
}

// source returns the source of a flag's value. An empty value counts as the default.
func (p *parsed) source(flag *kong.Flag) source {
	if flag.Target.IsZero() {
		return fromDefault
	}
	w, _ := p.origin(flag)
	return w
}

// drop resets a flag to its default.
func (p *parsed) drop(flag *kong.Flag) error {
	p.overridden = append(p.overridden, flag)
	flag.Target.SetZero()
	if !flag.HasDefault {
		return nil
	}
	return flag.Parse(kong.Scan().PushTyped(flag.Default, kong.FlagValueToken), flag.Target)
}
