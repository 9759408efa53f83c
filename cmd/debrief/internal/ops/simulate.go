package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/simulated"
)

// Simulate runs the simulated model as an HTTP server.
type Simulate struct {
	Address  string        `help:"Address of the HTTP server." default:"127.0.0.1:8089" placeholder:"HOST:PORT"`
	Seed     uint64        `help:"Seed of failures and sloppy replies; use the seed of the tasks." default:"1"`
	Latency  time.Duration `help:"Response time." default:"0s"`
	Fail     float64       `help:"Share of failed calls, 0 to 1: 429, 500, truncated and garbled replies." default:"0"`
	Sloppy   float64       `help:"Share of sloppy replies, 0 to 1: code fences, prose, null and unknown ids." default:"0"`
	Gullible float64       `help:"Share of prompts, 0 to 1, in which it follows instructions inside traces." default:"0"`
	Noise    float64       `help:"Share of nonsense reflections, 0 to 1." default:"0"`
	JSON     bool          `help:"Print one JSON document with the address at the start."`
}

func (*Simulate) Help() string {
	return `A replacement for a language model in demonstrations and tests. It calculates invoices, follows the bullets in its
prompt exactly, and answers nothing else. It understands rules in its own wording, with any number. Every reply names
the model simulated-invoice-desk. To use it, start
'debrief up --model simulated-invoice-desk --base-url http://127.0.0.1:8089/v1'.

Agents can use it with the clients of OpenAI and Anthropic: /v1/chat/completions, /v1/responses and /v1/messages, each also as
a stream. It calls a tool that a message names in backquotes, or that the request forces.

Examples:

  debrief simulate &
  debrief simulate --address 127.0.0.1:8090 --latency 50ms --fail 0.1`
}

func (s *Simulate) Validate() error {
	if s.Latency < 0 {
		return fmt.Errorf("--latency: must not be negative, got %s", s.Latency)
	}
	for flag, share := range map[string]float64{"fail": s.Fail, "sloppy": s.Sloppy, "gullible": s.Gullible, "noise": s.Noise} {
		if !(share >= 0 && share <= 1) { // also NaN
			return fmt.Errorf("--%s: must be between 0 and 1, got %v", flag, share)
		}
	}
	return nil
}

func (s *Simulate) Run(ctx context.Context) error {
	url, wait, err := simulated.Serve(ctx, s.Address, simulated.Options{
		Seed: s.Seed, Latency: s.Latency, FaultRate: s.Fail, SloppyRate: s.Sloppy, ObeyRate: s.Gullible, NonsenseRate: s.Noise,
	})
	if err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--address: %w", err))
	}
	if s.JSON {
		err = cli.WriteJSON(term.Stdout, struct {
			Model string `json:"model"`
			URL   string `json:"url"`
		}{simulated.Name, url})
	} else {
		_, err = term.Printf("the simulated model %s listens at %s\n", simulated.Name, url)
	}
	return errors.Join(err, wait())
}
