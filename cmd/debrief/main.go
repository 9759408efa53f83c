// Command debrief is the whole pipeline in one program, and the operator's tool: a demonstration, a server with the
// three roles, learning from recorded runs, and what shows what is going on.
package main

import (
	"os"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/app"
	"debrief/generator/scoring"
)

// program has the commands in the order of its help.
func program() app.Program {
	commands := []app.Command{
		{Name: "demo", Run: new(demo), Help: "Watch a model learn: embedded server, three roles, a simulated model. Needs nothing."},
		{Name: "up", Run: new(up), Help: "Run the server and the three roles in one process."},
		{Name: "learn", Run: new(learn), Help: "Learn from recorded runs of any agent, in the formats of seven tools."},
		{Name: "submit", Run: new(submit), Help: "Hand in a task."},
		{Name: "feedback", Run: new(feedback), Help: "Judge a run, also days later: votes move."},
		{Name: "context", Run: new(contexts), Help: "Show what a model is given, now or in a past run; pin turns of a session."},
		{Name: "replay", Run: new(replayRun), Help: "Train a playbook on tasks: epochs, validation, report. Or online, or from recorded executions."},
		{Name: "eval", Run: new(eval), Help: "Answer a data set with a playbook and score it; compare versions, books, models, prompts."},
		{Name: "playbook", Run: new(playbook), Help: "Look at playbooks, their history and reasons; change, import and export them."},
		{Name: "status", Run: new(status), Help: "Show streams, roles and books."},
		{Name: "config", Run: new(config), Help: "Show the settings that a command would run with, and where each comes from."},
		{Name: "doctor", Run: new(doctors), Help: "Check everything from the server to the model, and say how to mend it."},
		{Name: "tail", Run: new(tail), Help: "Show events as they happen."},
		{Name: "dead", Run: new(dead), Help: "What roles gave up on: list, show, requeue, drop."},
		{Name: "backup", Run: new(backups), Help: "Copy what is stored into a file, while everything runs; make a server of such a file."},
		{Name: "bench", Run: new(bench), Help: "Measure the pipeline and this machine's limits."},
		{Name: "model", Run: new(serve), Help: "Serve the simulated model on the OpenAI chat wire."},
		{Name: "credentials", Run: new(credentials), Help: "Make keys and certificates for a server with a user per role."},
		{Name: "setup", Run: new(setup), Help: "Make the streams, buckets and consumers on a server, with an operator's rights."},
	}
	return app.Program{
		Name: "debrief", Description: description, CLI: new(app.Common), Commands: commands,
		Vars: kong.Vars{"data": dataDir(), "evaluators": scoring.Forms},
	}
}

const description = `LLM agents that learn from what they do: a Generator answers with a playbook in its prompt, a Reflector looks at
what came of it, a Curator turns that into small changes of the playbook. The three talk over NATS JetStream only.

Begin with 'debrief demo'.`

func main() { os.Exit(program().Main(os.Args[1:])) }
