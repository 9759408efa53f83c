package train

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/simulated"
)

// Simulate serves the simulated model in this process and returns its settings. The model ignores the end of ctx: roles
// may have calls in flight while they stop.
func Simulate(ctx context.Context, m app.Model, latency time.Duration) (app.Model, error) {
	url, _, err := simulated.Serve(context.WithoutCancel(ctx), "", simulated.Options{Seed: 1, Latency: latency})
	if err != nil {
		return app.Model{}, fmt.Errorf("start the simulated model: %w", err)
	}
	return app.Model{Model: simulated.Name, BaseURL: url, Timeout: m.Timeout, MaxConcurrent: m.MaxConcurrent}, nil
}
