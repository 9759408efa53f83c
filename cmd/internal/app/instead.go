package app

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// weight is how much it counts who gave a setting.
type weight int

const (
	byDefault weight = iota
	byFile
	byEnvironment
	byFlag
)

// origin is who gave a flag's value, and what that is called.
func (p *parsed) origin(flag *kong.Flag) (weight, string) {
	if slices.Contains(p.dropped, flag) {
		return byDefault, "default"
	}
	for _, step := range p.run.Path {
		if step.Flag == flag && !step.Resolved {
			return byFlag, "flag"
		}
	}
	for _, env := range flag.Envs {
		if os.Getenv(env) != "" {
			return byEnvironment, env
		}
	}
	if _, set := p.file.values[flag.Name]; set {
		return byFile, p.file.name
	}
	return byDefault, "default"
}

// flags are those of the command that was chosen, in the order of its help.
func (p *parsed) flags() (all []*kong.Flag) {
	for _, step := range p.run.Path {
		all = append(all, step.Flags...)
	}
	return all
}

// decide settles which settings count of those that stand instead of each other, such as a server's address and the
// directory of an embedded one. A tag names them: instead:"data,listen". Who gave the one counts against who gave the
// other, and what loses is as if nobody had given it. Two flags contradict each other; what was given alike in another
// way is the command's to judge.
func (p *parsed) decide() error {
	for _, flag := range p.flags() {
		if !flag.Tag.Has("instead") {
			continue
		}
		instead := strings.Split(flag.Tag.Get("instead"), ",")
		if err := p.settle(flag, slices.DeleteFunc(p.flags(), func(f *kong.Flag) bool { return !slices.Contains(instead, f.Name) })); err != nil {
			return err
		}
	}
	return nil
}

func (p *parsed) settle(flag *kong.Flag, others []*kong.Flag) error {
	given := p.weight(flag)
	for _, other := range others {
		switch w := p.weight(other); {
		case w == byFlag && given == byFlag:
			return fmt.Errorf("--%s: is set, and so is --%s: choose one", flag.Name, other.Name)
		case w > given:
			return p.drop(flag)
		}
	}
	for _, other := range others {
		if p.weight(other) < given {
			if err := p.drop(other); err != nil {
				return err
			}
		}
	}
	return nil
}

// weight is how much a flag's value counts: an empty one says nothing.
func (p *parsed) weight(flag *kong.Flag) weight {
	if flag.Target.IsZero() {
		return byDefault
	}
	w, _ := p.origin(flag)
	return w
}

// drop has a flag as if nobody had given it.
func (p *parsed) drop(flag *kong.Flag) error {
	p.dropped = append(p.dropped, flag)
	flag.Target.SetZero()
	if !flag.HasDefault {
		return nil
	}
	return flag.Parse(kong.Scan().PushTyped(flag.Default, kong.FlagValueToken), flag.Target)
}
