package main

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/simulated"
)

// serve runs the simulated model for other programs.
type serve struct {
	Listen   string        `help:"Where to listen." default:"127.0.0.1:8089" placeholder:"HOST:PORT"`
	Seed     uint64        `help:"Seed of its moods; use the one of the tasks." default:"1"`
	Latency  time.Duration `help:"How long it thinks." default:"0s"`
	Fail     float64       `help:"Share of calls that fail: 429, 500, cut and garbled replies." default:"0"`
	Sloppy   float64       `help:"Share of replies with fences, prose, null and unknown ids." default:"0"`
	Gullible float64       `help:"Share of prompts in which it obeys instructions found in traces." default:"0"`
	Noise    float64       `help:"Share of reflections that are nonsense." default:"0"`
}

// Help implements kong.HelpProvider.
func (*serve) Help() string {
	return `A stand-in for a language model, for demonstrations and tests: it does the arithmetic of an invoice desk, follows the
bullets in its prompt to the letter, and knows nothing else. Every reply says that it is simulated.

At /v1/embeddings, as the model simulated-embeddings, it turns texts into vectors of their letters: texts that share words
are near each other, synonyms are not.

Example:

  debrief model &
  debrief up --model simulated-invoice-desk --base-url http://127.0.0.1:8089/v1`
}

// Run implements the command.
func (s *serve) Run(ctx context.Context) error {
	url, wait, err := simulated.Serve(ctx, s.Listen, simulated.Options{
		Seed: s.Seed, Latency: s.Latency, Fail: s.Fail, Sloppy: s.Sloppy, Gullible: s.Gullible, Noise: s.Noise,
	})
	if err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--listen: %w", err))
	}
	console.Printf("the simulated model %s answers at %s\n", simulated.Name, url)
	return wait()
}
