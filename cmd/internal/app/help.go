package app

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/console"
)

// helpPrinter prints the help of a command: its own flags before those of all commands. Flags with the tag rare are left
// out unless all is set.
type helpPrinter struct{ all bool }

// setHelp prepares the help of all commands, after the flags are known.
func setHelp(k *kong.Kong) error {
	setDefaults(k.Model.Node)
	k.Model.HelpFlag.Help = "Show this help with the common flags."
	return nil
}

// print implements kong.HelpPrinter. It changes the model: the program ends after its help.
func (h *helpPrinter) print(o kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	}
	for up := node.Parent; up != nil; up = up.Parent {
		node.Flags, up.Flags = append(node.Flags, up.Flags...), nil
	}
	hidden := 0
	for _, flag := range node.Flags {
		showDefault(flag)
		if !h.all && flag.Tag.Has("rare") && !flag.Hidden {
			flag.Hidden = true
			hidden++
		}
	}
	if err := printHelp(o, ctx); err != nil {
		return err
	}
	if hidden > 0 && !o.Summary {
		text, width := fmt.Sprintf("%s: %s --help-all", count(hidden, "more flag"), node.FullPath()), console.Width(ctx.Stdout)
		_, err := console.Fprintf(ctx.Stdout, "\n%s\n", console.Block(strings.Join(console.Wrap(text, width, width > 0), "\n")))
		return err
	}
	return nil
}

// showDefault adds the default of a flag with a placeholder to its help. Kong shows only one of the two, in the same place.
func showDefault(flag *kong.Flag) {
	if flag.PlaceHolder != "" && flag.Default != "" && !strings.Contains(strings.ToLower(flag.Help), "default") {
		flag.Help += " Default: " + flag.Default + "."
	}
}

// count returns a number with its noun, which forms its plural with s.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// fullHelp is the flag --help-all.
type fullHelp bool

// IgnoreDefault marks the flag as one without a default, for kong.
func (fullHelp) IgnoreDefault() {}

// BeforeReset prints the help and ends the program.
func (fullHelp) BeforeReset(ctx *kong.Context, h *helpPrinter) error {
	h.all = true
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}

// ShowHelp prints the help of a command, or of the program without words. It returns an error for an unknown command.
func (m Program) ShowHelp(words []string) error {
	if _, err := m.parse(append(words, "--help")); err != nil {
		return Exit(ExitUsage, fmt.Errorf("%w: '%s help' lists the commands", err, m.Name))
	}
	return nil
}

// Model returns the commands and flags of the program.
func (m Program) Model() *kong.Application { return m.parser(m.Commands).Model }
