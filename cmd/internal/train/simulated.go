package train

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/simulated"
)

// Simulate serves the simulated model in this process and returns its settings. The model ignores the end of ctx: roles
// may have calls in flight while they stop.
func Simulate(ctx context.Context, m program.Model, latency time.Duration) (program.Model, error) {
	url, _, err := simulated.Serve(context.WithoutCancel(ctx), "", simulated.Options{Seed: 1, Latency: latency})
	if err != nil {
		return program.Model{}, fmt.Errorf("start the simulated model: %w", err)
	}
	return program.Model{Model: simulated.Name, BaseURL: url, Timeout: m.Timeout, MaxConcurrent: m.MaxConcurrent}, nil
}
