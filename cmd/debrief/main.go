// Command debrief runs the whole pipeline in one process and has the operator's commands: a demonstration, a server with
// the three roles, learning from recorded runs, and commands to inspect and change playbooks.
//
// Each heading of the help has a file here with the list of its commands. To add a command, write it in a file of package
// books, ops or train and add a line to a list.
package main

import (
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/agents/hooks"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/generator/scoring"
)

// newProgram returns the program with its commands in the order of the help.
func newProgram() program.Program {
	return program.Program{
		Name: "debrief", Description: description, CLI: new(program.Common),
		Commands: slices.Concat(
			group("Start", startCommands()), group("Learn", learnCommands()),
			group("Playbook", playbookCommands()), group("Operate", operateCommands()),
		),
		Vars: kong.Vars{"data": cli.DataDir(), "evaluators": scoring.EvaluatorSyntax},
	}
}

// group puts commands under a heading of the help.
func group(heading string, commands []program.Command) []program.Command {
	for i := range commands {
		commands[i].Group = heading
	}
	return commands
}

const description = `LLM agents that learn from their work. A Generator answers tasks with a playbook in its prompt. A Reflector
analyses the outcome. A Curator turns the analysis into small changes of the playbook. The three communicate only
over NATS JetStream.

Start with 'debrief demo'.

` + program.ExitHelp

func main() {
	if args := os.Args[1:]; len(args) == 2 && args[0] == "hook" && !strings.HasPrefix(args[1], "-") { // flags, errors and start-up time are not for agents
		hooks.Main(args[1:])
	}
	os.Exit(newProgram().Main(os.Args[1:]))
}
