package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/liveness"
)

// fleet starts and stops worker processes.
type fleet struct {
	dir     string
	running []*exec.Cmd
}

// check returns an error if a program is missing.
func (f *fleet) check() error {
	for _, role := range cli.Roles {
		if i, err := os.Stat(filepath.Join(f.dir, role)); err != nil || i.IsDir() {
			return app.Exit(app.ExitUsage, fmt.Errorf("--programs: no %s in %s: build all programs there with 'CGO_ENABLED=0 go build -o %s/ ./cmd/...'", role, f.dir, f.dir))
		}
	}
	return nil
}

// start starts the given number of processes of each role and waits until all of them report liveness.
func (f *fleet) start(ctx context.Context, s *cli.Session, roles []string, processes, slots int, model string) error {
	for _, role := range roles {
		args := []string{"--nats", s.Server.URL(), "--log-level", "error"}
		if role != events.RoleCurator {
			args = append(args, "--model", simulated.Name, "--base-url", model, fmt.Sprintf("--%s-slots=%d", role, slots))
		}
		for range processes {
			cmd := exec.CommandContext(ctx, filepath.Join(f.dir, role), args...)
			cmd.Env, cmd.Stderr = quietEnvironment(), console.Stderr
			if err := cmd.Start(); err != nil {
				return fmt.Errorf("start %s: %w", role, err)
			}
			f.running = append(f.running, cmd)
		}
	}
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		reports, err := liveness.CollectReports(wait, s.NATS())
		if err != nil {
			return fmt.Errorf("wait for %s: %w", strings.Join(roles, ", "), err)
		}
		if slices.IndexFunc(roles, func(role string) bool { return atWork(role, reports) < processes }) < 0 {
			return nil
		}
	}
}

// atWork returns the number of processes of a role that report liveness.
func atWork(role string, reports []liveness.Report) (n int) {
	for _, r := range reports {
		if r.Program == role {
			n++
		}
	}
	return n
}

// quietEnvironment returns the environment without settings of Debrief, OpenAI and NATS.
func quietEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DEBRIEF_") || strings.HasPrefix(v, "OPENAI_") || strings.HasPrefix(v, "NATS_")
	})
}

// stop stops all processes and waits for them.
func (f *fleet) stop() {
	for _, cmd := range f.running {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited
	}
	for _, cmd := range f.running {
		over := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // its exit code does not matter
		over.Stop()
	}
	f.running = nil
}

// memory returns the resident memory of the largest process in megabytes, 0 if the system does not report it.
func (f *fleet) memory() (most float64) {
	for _, cmd := range f.running {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		if words := strings.Fields(rest); len(words) > 0 {
			kib, _ := strconv.ParseFloat(words[0], 64)
			most = max(most, kib*1024/1e6)
		}
	}
	return most
}

// ticks returns the processor time of the processes in hundredths of a second, 0 if the system does not report it.
func (f *fleet) ticks() (sum float64) {
	for _, cmd := range f.running {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the name may hold blanks
		if words := strings.Fields(rest); len(words) > 12 {
			user, _ := strconv.ParseFloat(words[11], 64)
			system, _ := strconv.ParseFloat(words[12], 64)
			sum += user + system
		}
	}
	return sum
}

// machine returns the busy time and the total time of all processors since the system started.
func machine() (busy, all float64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, word := range strings.Fields(line)[1:] {
		n, _ := strconv.ParseFloat(word, 64)
		if i >= 8 { // time of guests is in that of users
			break
		}
		all += n
		if i != 3 && i != 4 { // idle, and idle with a disk at work
			busy += n
		}
	}
	return busy, all
}

// busyShare returns the share of busy time between two readings of machine.
func busyShare(busy, all, busyThen, allThen float64) float64 {
	if allThen <= all {
		return 0
	}
	return (busyThen - busy) / (allThen - all)
}
