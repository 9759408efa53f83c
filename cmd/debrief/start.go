package main

import (
	"debrief/cmd/debrief/internal/ops"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/train"
)

// startCommands are the commands for the first steps.
func startCommands() []program.Command {
	return []program.Command{
		{Name: "demo", Run: new(train.Demo), Help: "Watch a simulated model learn: server and three roles in one process, no setup."},
		{Name: "up", Run: new(ops.Up), Help: "Run the server and the three roles in one process."},
		{Name: "submit", Run: new(ops.Submit), Help: "Submit a task."},
		{Name: "connect", Run: new(ops.Connect), Help: "Connect a coding agent with the playbook of a repository."},
		{Name: "hook", Run: new(ops.Hook), Help: "Handle an event of a coding agent; its settings call this command."},
	}
}
