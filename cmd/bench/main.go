// Command bench measures the pipeline, the gateway and the quality of learning, on this machine. It is a tool for developers and is not
// part of the images.
//
//	pipeline.go     pipelineBench   the samples per second of the three roles; curators.go and gateway.go measure those
//	books.go        fillBook        playbooks and texts for these
//	learning.go     learningBench   the quality of learning in simulated worlds, with controls
//	measurement.go  measurement     its runs: each world, arm and seed; curves.go and distractors.go have the parts
//	worlds.go       newWorld        the list of the worlds
//	arms.go         arm             what differs between the runs
//	runner.go       runner          the server, roles and agent of a run
//	steps.go        learn           tasks, reports and outcomes
//	evaluate.go     evaluate        the values of an evaluation
//	rows.go         rows            averages over the seeds, as a table
package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"debrief/cmd/internal/program"
)

// commands are the measurements.
type commands struct {
	program.Common

	Pipeline pipelineBench `cmd:"" help:"Measure the samples per second of Generator, Reflector and Curator."`
	Curators curatorsBench `cmd:"" help:"Measure how the Curator scales over its workers."`
	Gateway  gatewayBench  `cmd:"" help:"Measure the time that the gateway adds to calls of models."`
	Learning learningBench `cmd:"" help:"Measure learning in simulated worlds."`
}

const description = `Measure the pipeline, the gateway and the quality of learning, on this machine.

Examples:

  bench pipeline               samples per second through the three roles, against JetStream alone
  bench curators               reflections per second of one, two and four Curators
  bench gateway                calls of models through the gateway, against a direct connection
  bench learning --quick       learning, in minutes; without --quick, all of it, in hours`

func main() {
	bench := program.Program{Name: "bench", Description: description, CLI: new(commands)}
	os.Exit(bench.Main(os.Args[1:]))
}

// loadAverage returns the load of the machine over the last minute, or "unknown" where the system does not say it.
func loadAverage() string {
	line, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(line), " ")
	return first
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// median returns the median of at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
