package main

import "github.com/alecthomas/kong"

// config shows settings instead of running with them.
type config struct {
	JSON    bool     `help:"Print JSON."`
	Command []string `arg:"" optional:"" passthrough:"" help:"The command, as it would be run. Default: up."`
}

// Help implements kong.HelpProvider.
func (*config) Help() string {
	return `Examples:

  debrief config                               what 'debrief up' would run with
  debrief config status --nats nats://host:4222
  DEBRIEF_CONFIG=debrief.yaml debrief config up --window 3
  debrief config --config debrief.yaml         the same with a file
  debrief config --json replay tasks.jsonl

A setting comes from the command line, else from the environment, else from the file of --config, else it is the default. Keys
and passwords are not shown. Nothing is run; settings that cannot be end with exit code 2. The worker programs do the same
with --show-config.`
}

// Run implements the command.
func (c *config) Run(run *kong.Context) error {
	args := c.Command
	if len(args) == 0 {
		args = []string{"up"}
	}
	return program().ShowSettings(run, args, c.JSON)
}
