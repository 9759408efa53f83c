// Command debrief is the whole pipeline in one program, and the operator's tool: a demonstration, a server with the
// three roles, learning from recorded runs, and what shows what is going on.
package main

import (
	"os"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/app"
	"debrief/generator/scoring"
)

type command struct {
	app.Common

	Demo     demo      `cmd:"" help:"Watch a model learn: embedded server, three roles, a simulated model. Needs nothing."`
	Up       up        `cmd:"" help:"Run the server and the three roles in one process."`
	Learn    learn     `cmd:"" help:"Learn from recorded runs of any agent, in the formats of seven tools."`
	Submit   submit    `cmd:"" help:"Hand in a task."`
	Feedback feedback  `cmd:"" help:"Judge a run, also days later: votes move."`
	Context  contexts  `cmd:"" help:"Show what a model is given, now or in a past run; pin turns of a session."`
	Replay   replayRun `cmd:"" help:"Train a playbook on tasks: epochs, validation, report. Or online, or from recorded executions."`
	Eval     eval      `cmd:"" help:"Answer a data set with a playbook and score it; compare versions, books, models, prompts."`
	Playbook playbook  `cmd:"" help:"Look at playbooks, their history and reasons; change, import and export them."`
	Status   status    `cmd:"" help:"Show streams, roles and books."`
	Bench    bench     `cmd:"" help:"Measure the pipeline and this machine's limits."`
	Model    serve     `cmd:"" help:"Serve the simulated model on the OpenAI chat wire."`
}

const description = `LLM agents that learn from what they do: a Generator answers with a playbook in its prompt, a Reflector looks at
what came of it, a Curator turns that into small changes of the playbook. The three talk over NATS JetStream only.

Begin with 'debrief demo'.`

func main() {
	os.Exit(app.Main("debrief", description, new(command), kong.Vars{"data": dataDir(), "evaluators": scoring.Forms}, os.Args[1:]))
}
