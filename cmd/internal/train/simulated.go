package train

import (
	"context"
	"fmt"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/simulated"
)

// Simulate serves the simulated model until the end of this process and returns its settings. The end of ctx does not stop the model,
// because roles may have calls in flight while they stop.
func Simulate(ctx context.Context, m program.Model, o simulated.Options) (program.Model, error) {
	url, _, err := simulated.Serve(context.WithoutCancel(ctx), "", o)
	if err != nil {
		return program.Model{}, fmt.Errorf("start the simulated model: %w", err)
	}
	return program.Model{Model: simulated.Name, BaseURL: url, Timeout: m.Timeout, MaxConcurrent: m.MaxConcurrent}, nil
}
