package main

import (
	"debrief/cmd/debrief/internal/ops"
	"debrief/cmd/internal/program"
)

// operateCommands are the commands for operators.
func operateCommands() []program.Command {
	return []program.Command{
		{Name: "status", Run: new(ops.Status), Help: "Show the state of streams, roles and playbooks."},
		{Name: "doctor", Run: new(ops.Doctor), Help: "Diagnose server, streams and model; suggest fixes."},
		{Name: "tail", Run: new(ops.Tail), Help: "Show events as they happen."},
		{Name: "dead", Run: new(ops.Dead), Help: "List, show, requeue and drop dead letters."},
		{Name: "backup", Run: new(ops.Backup), Help: "Back up all streams to a file while workers run; restore such a file."},
		{Name: "credentials", Run: new(ops.Credentials), Help: "Create keys and certificates for a server with one user per role."},
		{Name: "token", Run: new(ops.Token), Help: "Create and list the tokens of the gateway."},
		{Name: "setup", Run: new(ops.Setup), Help: "Create the streams, buckets and consumers on a server, as its operator."},
		{Name: "simulate", Run: new(ops.Simulate), Help: "Serve the simulated model over the APIs of OpenAI and Anthropic."},
		{Name: "schema", Run: new(ops.Schema), Help: "Print the JSON Schemas of the messages on NATS."},
		{Name: "help", Run: &ops.Help{Program: newProgram}, Help: "Show the help of a command."},
		{Name: "version", Run: new(ops.Version), Help: "Print version, commit and Go version."},
		{Name: "completion", Run: &ops.Completion{Program: newProgram}, Help: "Print a completion script for bash, zsh or fish."},
	}
}
