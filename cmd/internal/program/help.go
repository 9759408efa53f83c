package program

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// helpPrinter prints the help of a command: its own flags before those of all commands. Flags with the tag "rare" are left
// out unless all is set.
type helpPrinter struct{ all bool }

// print implements kong.HelpPrinter. It changes the flags in place, because the program ends after its help.
func (h *helpPrinter) print(o kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	}
	// The flags of the commands above follow the command's own, in one list.
	for up := node.Parent; up != nil; up = up.Parent {
		node.Flags, up.Flags = append(node.Flags, up.Flags...), nil
	}
	hidden := 0
	for _, flag := range node.Flags {
		if flag.PlaceHolder != "" && flag.Default != "" && !strings.Contains(strings.ToLower(flag.Help), "default") {
			flag.Help += " Default: " + flag.Default + "." // kong shows only one of the two, in the same place
		}
		if flag.PlaceHolder == "" {
			flag.PlaceHolder = flag.Default // kong shows the default of a text in quotes, which do not belong to the value
		}
		if !h.all && flag.Tag.Has("rare") && !flag.Hidden {
			flag.Hidden = true
			hidden++
		}
	}
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil || hidden == 0 || o.Summary {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\n%d more flags: %s --help-all\n", hidden, node.FullPath())
	return err
}

// addExamples sets the details in the help of a command that has the tag "example", and of the commands below it: a call with the arguments in
// the tag. Any other details of the command are lost.
func addExamples(n *kong.Node) {
	if n.Tag != nil && n.Tag.Has("example") {
		n.Detail = "Examples:\n\n  " + n.FullPath() + " " + n.Tag.Get("example")
	}
	for _, child := range n.Children {
		addExamples(child)
	}
}

// fullHelp is the flag --help-all.
type fullHelp bool

// IgnoreDefault marks the flag as one without a default, for kong.
func (fullHelp) IgnoreDefault() {}

// BeforeReset prints the help and ends the program. kong calls it if the flag is on the command line.
func (fullHelp) BeforeReset(ctx *kong.Context, h *helpPrinter) error {
	h.all = true
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}
