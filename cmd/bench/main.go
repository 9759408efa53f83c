// Command bench measures the pipeline, the gateway and the quality of learning, on this machine. It is a tool for developers and is not
// part of the images.
package main

import (
	"os"

	"debrief/cmd/bench/internal/learning"
	"debrief/cmd/internal/program"
)

// commands are the measurements.
type commands struct {
	program.Common

	Pipeline pipelineBench  `cmd:"" help:"Measure the samples per second of Generator, Reflector and Curator."`
	Curators curatorsBench  `cmd:"" help:"Measure how the Curator scales over its workers."`
	Gateway  gatewayBench   `cmd:"" help:"Measure the time that the gateway adds to calls of models."`
	Learning learning.Bench `cmd:"" help:"Measure learning in simulated worlds."`
}

const description = `Measure the pipeline, the gateway and the quality of learning, on this machine.

Examples:

  bench pipeline               samples per second through the three roles, against JetStream alone
  bench curators               reflections per second of one, two and four Curators
  bench gateway                calls of models through the gateway, against a direct connection
  bench learning --quick       learning, in minutes; without --quick, all of it, in hours`

func newProgram() program.Program {
	return program.Program{Name: "bench", Description: description, CLI: new(commands)}
}

func main() { os.Exit(newProgram().Main(os.Args[1:])) }
