package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
)

// scaleBench measures what more worker processes are worth.
type scaleBench struct {
	Parts    []string        `help:"What to measure: ${enum}." enum:"generator,reflector,together,curator,idle" default:"generator,reflector,together,curator,idle"`
	Workers  []int           `help:"Processes of a role, the least first." default:"1,2,4,8,16"`
	Models   []time.Duration `help:"How long the model thinks." default:"50ms,500ms"`
	Slots    int             `help:"Model calls of one process at the same time." default:"4"`
	Curators []int           `help:"Processes of the curator." default:"1,2,4"`
	Books    []int           `help:"Books that they write." default:"1,100"`
	Measure  time.Duration   `help:"How long each case is measured, once all processes are at work." default:"10s"`
	Sync     string          `help:"When the server flushes to disk." default:"always"`
	Programs string          `help:"Directory of the worker programs. Default: where this program is." type:"path" placeholder:"DIR"`
	JSON     bool            `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*scaleBench) Help() string {
	return `Starts real worker processes against a server in this process, and counts what they store while all of them are at work and
enough waits for them. The model is simulated, speaks the OpenAI wire in this process, and thinks for as long as it is told.

  generator  tasks answered, with so many generator processes
  reflector  executions reflected on
  together   both, as many of each, and one curator: executions that went through to a reflection
  curator    reflections settled, without a model, all of them there already
  idle       memory and processor time of each worker while nothing happens

"at most" is what the model's thinking allows: processes by slots by calls a second. "of linear" compares with as many times
one process. "busy" is the share of this machine's processors in use: where that is near 100 %, they are the limit.

Build the programs first: CGO_ENABLED=0 go build -o bin/ ./cmd/... && bin/debrief bench scale`
}

// Validate implements kong's check.
func (b *scaleBench) Validate() error {
	if b.Slots < 1 || b.Measure < time.Second {
		return errors.New("--slots, --measure: must be at least 1 and 1s")
	}
	for _, n := range slices.Concat(b.Workers, b.Curators, b.Books) {
		if n < 1 {
			return fmt.Errorf("--workers, --curators, --books: must be at least 1, got %d", n)
		}
	}
	return nil
}

// Check reports settings that cannot be.
func (b *scaleBench) Check() error {
	f, err := b.fleet()
	if err != nil {
		return err
	}
	return f.check()
}

func (b *scaleBench) fleet() (*fleet, error) {
	dir := b.Programs
	if dir == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the worker programs: %w", err)
		}
		dir = filepath.Dir(own)
	}
	return &fleet{dir: dir}, nil
}

// Run implements the command.
func (b *scaleBench) Run(ctx context.Context, c *app.Common) error {
	f, err := b.fleet()
	if err != nil {
		return err
	}
	log := c.Logger()
	load, err := prepare(ctx, f, log)
	if err != nil {
		return fmt.Errorf("prepare the load: %w", err)
	}
	for _, part := range b.Parts {
		var s *sheet
		switch part {
		case "curator":
			s, err = b.curators(ctx, f, load, log)
		case "idle":
			s, err = b.idle(ctx, f, log)
		default:
			s, err = b.workers(ctx, f, load, part, log)
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", part, err)
		}
		if err := s.print(console.Stdout, b.JSON); err != nil {
			return err
		}
	}
	return nil
}

// scaleRow is one case.
type scaleRow struct {
	Part      string  `json:"part"`
	Model     float64 `json:"model_seconds"`
	Processes int     `json:"processes"` // of each role
	Rate      float64 `json:"per_second"`
	Most      float64 `json:"at_most"`   // by the model
	Linear    float64 `json:"of_linear"` // rate by that of the fewest processes, by as many times more
	Busy      float64 `json:"busy"`      // share of the machine, 0 where it is not known
	Memory    float64 `json:"megabytes"` // resident, of the largest worker, 0 where it is not known
}

// workers measures roles that ask a model, alone or together.
func (b *scaleBench) workers(ctx context.Context, f *fleet, load *load, part string, log zerolog.Logger) (*sheet, error) {
	s := &sheet{
		title: fmt.Sprintf("%s: %d slots a process, sync %s, %s each", part, b.Slots, b.Sync, b.Measure),
		head:  "model\tprocesses\tper second\tat most\tof linear\tbusy\tMB a process\t",
	}
	for _, think := range b.Models {
		var first *scaleRow
		for _, n := range b.Workers {
			row, err := b.measure(ctx, f, load, part, think, n, log)
			if err != nil {
				return nil, fmt.Errorf("%d with a model of %s: %w", n, think, err)
			}
			if first == nil {
				first = row
			}
			row.Linear = row.Rate / first.Rate / (float64(n) / float64(first.Processes))
			s.row(row, "%s\t%d\t%.1f\t%.0f\t%.2f\t%.0f %%\t%.1f\t", think, n, row.Rate, row.Most, row.Linear, 100*row.Busy, row.Memory)
			if n == slices.Max(b.Workers) && n > first.Processes && think == slices.Max(b.Models) {
				s.goal(row.Linear >= 0.8, fmt.Sprintf("%d processes with a model of %s at least 0.8 of linear", n, think), "%.2f", row.Linear)
			}
		}
	}
	return s, nil
}

// roles of a part, and the stream in which what they do is counted.
func rolesOf(part string) (roles []string, counted string) {
	switch part {
	case events.RoleGenerator:
		return []string{part}, events.StreamExecutions
	case events.RoleReflector:
		return []string{part}, events.StreamReflections
	}
	return []string{events.RoleGenerator, events.RoleReflector}, events.StreamReflections
}
