// Command bench measures the pipeline and the quality of learning on this machine. It is a tool for developers and is not
// part of the images.
package main

import (
	"os"

	"debrief/cmd/bench/internal/learning"
	"debrief/cmd/internal/app"
)

// commands are the measurements.
type commands struct {
	app.Common

	Pipeline pipelineBench  `cmd:"" default:"withargs" help:"Measure the pipeline and this machine's limits. The default."`
	Context  contextBench   `cmd:"" help:"Measure contexts: time by playbook and by history, tokens of recorded runs."`
	Runs     runsBench      `cmd:"" help:"Measure runs over data sets: speed and accuracy by batch size and workers."`
	Scale    scaleBench     `cmd:"" help:"Measure throughput with more worker processes, and the cost of idle ones."`
	Gateway  gatewayBench   `cmd:"" help:"Measure what the gateway adds to calls of models: time, memory, throughput."`
	Learning learning.Bench `cmd:"" help:"Measure learning: wrong feedback, batches, growth, cost, attacks."`
}

const description = `Measure the pipeline and the quality of learning on this machine.

Examples:

  bench                        the pipeline, after the limits of this machine
  bench --limits               only the limits of this machine
  bench context                contexts, by playbook and by history
  bench context runs.json      tokens of recorded runs, with a window and without
  bench runs                   batches and workers of runs over data sets
  bench scale                  real worker processes: 1 to 16 of a role, curators, idle ones
  bench gateway                calls of models through the gateway, against a direct connection
  bench learning --quick       learning, in a minute; without --quick, all of it`

func program() app.Program {
	return app.Program{Name: "bench", Description: description, CLI: new(commands)}
}

func main() { os.Exit(program().Main(os.Args[1:])) }
