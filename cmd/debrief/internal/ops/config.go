package ops

import (
	"github.com/alecthomas/kong"

	"debrief/cmd/internal/program"
)

// Config prints the settings of another command without running it.
type Config struct {
	Program func() program.Program `kong:"-"` // the program with the commands

	JSON    bool     `help:"Print one JSON document."`
	Command []string `arg:"" optional:"" passthrough:"" help:"Command to explain, with its flags. Default: up."`
}

// Help implements kong.HelpProvider.
func (*Config) Help() string {
	return `Examples:

  debrief config                               settings of 'debrief up'
  debrief config status --nats nats://host:4222
  DEBRIEF_CONFIG=debrief.yaml debrief config up --window 3
  debrief config --config debrief.yaml         the same, with a file
  debrief config --json train tasks.jsonl

Sources in order of precedence: command line, environment, file of --config, default. Keys and passwords are not
shown. The command is not run. Exit code 2 if any setting is invalid. The worker programs do the same with
--show-config.`
}

// Run implements the command.
func (c *Config) Run(run *kong.Context) error {
	args := c.Command
	if len(args) == 0 {
		args = []string{"up"}
	}
	return c.Program().ShowSettings(run, args, c.JSON)
}
