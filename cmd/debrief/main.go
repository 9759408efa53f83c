// Command debrief runs the whole pipeline in one process and has the operator's commands: a demonstration, a server with
// the three roles, learning from recorded runs, and commands to inspect and change playbooks.
//
// To add a command, write it in a file of package books, ops or train and add a line to commands.
package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"debrief/cmd/debrief/internal/books"
	"debrief/cmd/debrief/internal/ops"
	"debrief/cmd/internal/agents"
	"debrief/cmd/internal/agents/mcp"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/train"
	"debrief/generator/scoring"
)

// newProgram returns the program with its commands.
func newProgram() program.Program {
	return program.Program{
		Name: "debrief", Description: description, CLI: new(program.Common), Commands: commands(),
		Vars: kong.Vars{"data": cli.DataDir(), "evaluators": scoring.EvaluatorSyntax},
	}
}

// commands returns the commands in the order of the help.
func commands() []program.Command {
	const (
		start    = "Start"
		learn    = "Learn"
		playbook = "Playbook"
		operate  = "Operate"
	)
	return []program.Command{
		{Group: start, Name: "demo", Run: new(train.Demo), Help: "Watch a simulated model learn: server and three roles in one process, no setup."},
		{Group: start, Name: "up", Run: new(ops.Up), Help: "Run the server and the three roles in one process."},
		{Group: start, Name: "submit", Run: new(ops.Submit), Help: "Submit a task."},
		{Group: start, Name: "connect", Run: new(ops.Connect), Help: "Connect a coding agent with the playbook of a repository."},
		{Group: start, Name: "hook", Run: new(ops.Hook), Help: "Handle an event of a coding agent; its settings call this command."},

		{Group: learn, Name: "learn", Run: &train.Learn{HandOver: handOver}, Help: "Learn from recorded runs of any agent, in the formats of many tools."},
		{Group: learn, Name: "feedback", Run: new(books.Feedback), Help: "Record or change feedback on an execution."},
		{Group: learn, Name: "train", Run: new(train.Training), Help: "Train a playbook on tasks in epochs, online, or from recorded executions."},
		{Group: learn, Name: "report", Run: new(books.Report), Help: "Say what a playbook is worth: its effect against the control group."},
		{Group: learn, Name: "eval", Run: new(train.Eval), Help: "Score a playbook on a data set; compare versions, playbooks, models and prompts."},

		{Group: playbook, Name: "playbook", Run: new(books.Playbook), Help: "Show, explain, change, import and export playbooks."},
		{Group: playbook, Name: "context", Run: new(books.Context), Help: "Show the context of a query or of a past execution; pin turns of a session."},
		{Group: playbook, Name: "mcp", Run: new(mcp.Command), Help: "Serve a playbook to an agent over the Model Context Protocol."},

		{Group: operate, Name: "status", Run: new(ops.Status), Help: "Show the state of streams, roles and playbooks."},
		{Group: operate, Name: "doctor", Run: new(ops.Doctor), Help: "Diagnose server, streams and model; suggest fixes."},
		{Group: operate, Name: "tail", Run: new(ops.Tail), Help: "Show events as they happen."},
		{Group: operate, Name: "dead", Run: new(ops.Dead), Help: "List, show, requeue and drop dead letters."},
		{Group: operate, Name: "backup", Run: new(ops.Backup), Help: "Back up all streams to a file while workers run; restore such a file."},
		{Group: operate, Name: "credentials", Run: new(ops.Credentials), Help: "Create keys and certificates for a server with one user per role."},
		{Group: operate, Name: "token", Run: new(ops.Token), Help: "Create and list the tokens of the gateway."},
		{Group: operate, Name: "setup", Run: new(ops.Setup), Help: "Create the streams, buckets and consumers on a server, as its operator."},
		{Group: operate, Name: "simulate", Run: new(ops.Simulate), Help: "Serve the simulated model over the APIs of OpenAI and Anthropic."},
		{Group: operate, Name: "schema", Run: new(ops.Schema), Help: "Print the JSON Schemas of the messages on NATS."},
		{Group: operate, Name: "help", Run: &ops.Help{Program: newProgram}, Help: "Show the help of a command."},
		{Group: operate, Name: "version", Run: new(ops.Version), Help: "Print the versions of the program and of Go."},
		{Group: operate, Name: "completion", Run: &ops.Completion{Program: newProgram}, Help: "Print a completion script for bash, zsh or fish."},
	}
}

// handOver hands over the runs of coding agents that wait on this machine.
func handOver(ctx context.Context) (int, error) {
	settings, err := agents.SettingsFile()
	dir, stateErr := agents.StateDir()
	if err := errors.Join(err, stateErr); err != nil {
		return 0, err
	}
	return agents.HandOver(ctx, settings, dir)
}

const description = `LLM agents that learn from their work. A Generator answers tasks with a playbook in its prompt. A Reflector
analyses the outcome. A Curator turns the analysis into small changes of the playbook. The three communicate only
over NATS JetStream.

Start with 'debrief demo'.

` + program.ExitHelp

func main() {
	if args := os.Args[1:]; len(args) == 2 && args[0] == "hook" && !strings.HasPrefix(args[1], "-") {
		// An agent waits for this call: HookMain parses no flags, reports no usage error, and ends the process.
		agents.HookMain(args[1:])
	}
	os.Exit(newProgram().Main(os.Args[1:]))
}
