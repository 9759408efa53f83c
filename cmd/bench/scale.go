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

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
)

// scaleBench measures the throughput with more worker processes.
type scaleBench struct {
	Parts    []string        `help:"Measurements: ${enum}." enum:"generator,reflector,together,curator,idle" default:"generator,reflector,together,curator,idle"`
	Workers  []int           `help:"Numbers of processes of a role, ascending." default:"1,2,4,8,16"`
	Models   []time.Duration `help:"Response time of the model." default:"50ms,500ms"`
	Slots    int             `help:"Maximum concurrent model calls of one process." default:"4"`
	Curators []int           `help:"Numbers of curator processes." default:"1,2,4"`
	Books    []int           `help:"Number of playbooks that they write." default:"1,100"`
	Measure  time.Duration   `help:"Duration of the measurement of each case, after all processes have started." default:"10s"`
	Sync     string          `help:"When the server flushes to disk." default:"always"`
	Programs string          `help:"Directory of the worker programs. Default: the directory of this program." type:"path" placeholder:"DIR"`
	JSON     bool            `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*scaleBench) Help() string {
	return `Starts real worker processes that connect to a server in this process, and counts the stored messages while all processes
have work. The simulated model runs in this process, serves the OpenAI API and has a fixed response time.

  generator  answered tasks
  reflector  executions with a reflection
  together   executions with a reflection; the same number of generators and reflectors, and one curator
  curator    applied reflections, without a model; all of them are stored before the start
  idle       memory and processor time of each worker without work

"at most" is the limit of the model: processes times slots times calls per second. "of linear" compares with the rate of
one process times the number of processes. "busy" is the share of busy processors: near 100 % they are the limit.

Build the programs first: CGO_ENABLED=0 go build -o bin/ ./cmd/... && bin/bench scale`
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

// Check returns an error for invalid settings.
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
		var s *table.Table
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
		if err := s.Print(console.Stdout, b.JSON); err != nil {
			return err
		}
	}
	return nil
}

// scaleRow is the result of one case.
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

// workers measures roles that call a model, alone or together.
func (b *scaleBench) workers(ctx context.Context, f *fleet, load *load, part string, log zerolog.Logger) (*table.Table, error) {
	s := &table.Table{
		Title: fmt.Sprintf("%s: %d slots a process, sync %s, %s each", part, b.Slots, b.Sync, b.Measure),
		Head:  "model\tprocesses\tper second\tat most\tof linear\tbusy\tMB a process\t",
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
			s.Row(row, "%s\t%d\t%.1f\t%.0f\t%.2f\t%.0f %%\t%.1f\t", think, n, row.Rate, row.Most, row.Linear, 100*row.Busy, row.Memory)
			if n == slices.Max(b.Workers) && n > first.Processes && think == slices.Max(b.Models) {
				s.Goal(row.Linear >= 0.8, fmt.Sprintf("%d processes with a model of %s at least 0.8 of linear", n, think), "%.2f", row.Linear)
			}
		}
	}
	return s, nil
}

// rolesOf returns the roles of a part, and the stream whose messages are counted.
func rolesOf(part string) (roles []string, counted string) {
	switch part {
	case events.RoleGenerator:
		return []string{part}, events.StreamExecutions
	case events.RoleReflector:
		return []string{part}, events.StreamReflections
	}
	return []string{events.RoleGenerator, events.RoleReflector}, events.StreamReflections
}
