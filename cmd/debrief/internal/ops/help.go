package ops

import (
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// Help prints the help of another command.
type Help struct {
	Program func() program.Program `kong:"-"` // the program with the commands

	Command []string `arg:"" optional:"" passthrough:"" help:"Command to explain. Default: the list of commands."`
}

func (*Help) Help() string {
	return `Examples:

  debrief help
  debrief help status
  debrief help playbook edit --help-all`
}

func (h *Help) Run() error { return h.Program().ShowHelp(h.Command) }

// Version prints the build of the program.
type Version struct {
	JSON bool `help:"Print one JSON document."`
}

func (*Version) Help() string {
	return `Print the version of the module and of Go. A build that is not a release has the time and the commit in its version, and +dirty if
files were changed since.

Examples:

  debrief version
  debrief version --json`
}

func (v *Version) Run() error {
	if v.JSON {
		return cli.WriteJSON(term.Stdout, program.CurrentBuild())
	}
	term.Printf("debrief %s\n", program.CurrentBuild())
	return nil
}
