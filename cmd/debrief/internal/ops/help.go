package ops

import "debrief/cmd/internal/program"

// Help prints the help of another command.
type Help struct {
	Program func() program.Program `kong:"-"` // the program with the commands

	Command []string `arg:"" optional:"" passthrough:"" help:"Command to explain. Default: the list of commands."`
}

// Help implements kong.HelpProvider.
func (*Help) Help() string {
	return `Examples:

  debrief help
  debrief help status
  debrief help playbook edit --help-all`
}

// Run implements the command.
func (h *Help) Run() error { return h.Program().ShowHelp(h.Command) }
