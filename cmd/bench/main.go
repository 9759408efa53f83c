// Command bench measures the quality of learning, and the gateway, on this machine. It is a tool for developers and is not
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

	Gateway  gatewayBench   `cmd:"" help:"Measure the time that the gateway adds to calls of models."`
	Learning learning.Bench `cmd:"" help:"Measure learning in simulated worlds, and the gate alone."`
}

const description = `Measure the quality of learning, and the gateway, on this machine.

Examples:

  bench gateway                calls of models through the gateway, against a direct connection
  bench learning --quick       learning, in a minute; without --quick, all of it`

func newProgram() program.Program {
	return program.Program{Name: "bench", Description: description, CLI: new(commands)}
}

func main() { os.Exit(newProgram().Main(os.Args[1:])) }
