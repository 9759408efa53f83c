package program

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"debrief/cmd/internal/operate/metrics"
	"debrief/cmd/internal/program/term"
	"debrief/events/bus"
	"debrief/events/redact"
	"debrief/events/service"
	"debrief/generator"
)

// maxInstructions limits the size of a file with instructions, in bytes. They are part of every prompt.
const maxInstructions = 64 << 10

// Instructions returns the text of a file. The flag is for errors. Without a name it returns "".
func Instructions(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return readText(flag, name, maxInstructions)
}

// NATSEndpoint returns the NATS endpoint for outside agents.
func NATSEndpoint(m *metrics.Metrics) generator.Endpoint {
	report := m.Endpoint(metrics.NATS)
	return func(conn *bus.Conn, builder *generator.ContextBuilder) (closed func(), err error) {
		closed, err = service.Serve(conn.NATS(), builder, *conn.Log(), report)
		if err != nil {
			return nil, fmt.Errorf("serve contexts over NATS: %w", err)
		}
		return closed, nil
	}
}

// Worker contains the flags of a worker program.
type Worker struct {
	Common
	NATS
	Health
}

func (w Worker) Check() error { return errors.Join(w.NATS.Check(), w.Health.Check()) }

// Work runs a role until the context ends, and prints a line at its start and its stop. model describes the role's model in the
// line at the start.
func (w Worker) Work(ctx context.Context, name string, m *metrics.Metrics, model string, r Role) error {
	log := w.Logger()
	nc, err := w.Dial(name, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	conn, err := w.Open(ctx, nc, name, log)
	if err != nil {
		return ignoreStop(ctx, err)
	}
	w.checkRights(ctx, conn, name, log)
	stop, err := w.Serve(conn, HealthOptions{Program: name, Roles: 1, Metrics: m, Log: log})
	if err != nil {
		return err
	}
	defer stop()
	health := ""
	if w.Health.Health != "" {
		health = "; health checks at " + w.Health.Health
	}
	term.Printf("%s is running: server %s, all playbooks, %s%s\n", name, redact.Address(nc.ConnectedUrl()), model, health)
	defer term.Printf("%s has stopped\n", name)
	err = Run(ctx, conn, r)
	if bus.Unreachable(err) { // the server became unavailable while the role started
		return Exit(ExitUnreachable, err)
	}
	return err
}

// Role is a generator, a reflector or a curator.
type Role interface {
	Run(ctx context.Context, conn *bus.Conn) error
}

// Run runs roles until the context ends or a role fails. Then it stops all roles.
func Run(ctx context.Context, conn *bus.Conn, roles ...Role) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(roles))
	var all sync.WaitGroup
	for i, r := range roles {
		all.Go(func() {
			defer stop()
			errs[i] = ignoreStop(ctx, r.Run(ctx, conn))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// ignoreStop returns the error of a role, or nil if the role was cancelled while it started.
func ignoreStop(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// LimitMemory sets the soft memory limit of the process to the lower of limit and three quarters of the cgroup's limit, in bytes.
// Near it the garbage collector runs more often. GOMEMLIMIT overrides both.
func LimitMemory(limit int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit(limit, cgroupMemory(cgroupFiles)))
	}
}

// softLimit returns the memory limit for a process whose cgroup allows this many bytes. math.MaxInt64 is a cgroup without a limit.
func softLimit(limit, allowed int64) int64 {
	if allowed == math.MaxInt64 {
		return limit
	}
	return min(limit, allowed/4*3)
}

// cgroupFiles lists the files with the memory limit of the process's cgroup: version 2, then version 1.
var cgroupFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// cgroupMemory returns the memory limit of the cgroup in bytes, or math.MaxInt64 without a limit. It uses the first file that
// has a limit.
func cgroupMemory(files []string) int64 {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return math.MaxInt64
}
