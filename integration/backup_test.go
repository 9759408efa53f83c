package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// TestRestoredPipelineCountsOnce takes backups while all roles work and restores each to a new server. New workers continue
// with the messages in flight and with new tasks. Each task in the backup must be answered, reflected on and counted once.
// The duplicate windows are short, as if the restore came hours later.
func TestRestoredPipelineCountsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	model := startModel(t, 10*time.Millisecond)
	_, url := startServer(t)
	conn := connect(t, url)
	shortenWindows(t, ctx, conn)
	workers := startRoles(t, url, model)
	tasks := invoices(rand.New(rand.NewPCG(5, 5)), 90)
	var all sync.WaitGroup
	all.Go(func() { killLoad{over: 4 * time.Second}.submitAll(t, ctx, conn, tasks[:80]) })

	var backups []string
	for i := range 2 {
		awaitMessages(t, ctx, conn, events.StreamExecutions, uint64(20+25*i))
		dir := filepath.Join(t.TempDir(), "backup")
		began := time.Now()
		debrief(t, ctx, "backup", "create", dir, "--nats", url)
		t.Logf("backup %d taken in %s", i+1, time.Since(began).Round(time.Millisecond))
		backups = append(backups, dir)
	}
	all.Wait()
	awaitSettled(t, ctx, conn)
	for _, p := range workers {
		p.kill()
	}
	for i, dir := range backups {
		_, url := startServer(t)
		debrief(t, ctx, "backup", "restore", dir, "--nats", url)
		conn := connect(t, url)
		known := knownTasks(t, ctx, conn)
		workers := startRoles(t, url, model)
		for _, task := range tasks[80:] {
			if _, err := conn.Publish(ctx, task, bus.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
			known[task.ID] = true
		}
		awaitSettled(t, ctx, conn)
		awaitView(t, ctx, conn, desk)
		for _, p := range workers {
			p.kill()
		}
		l, err := readLedger(ctx, conn.JetStream(), desk)
		if err != nil {
			t.Fatal(err)
		}
		for id := range known {
			l.tasks = append(l.tasks, id)
		}
		a := l.check()
		for _, p := range append(a.problems, a.letters...) {
			t.Errorf("backup %d: %s", i+1, p)
		}
		t.Logf("backup %d: %d tasks known, %d executions stored, %d distinct; %d reflections stored, %d distinct; %d deltas, %d bullets",
			i+1, len(known)-10, len(l.executions), len(a.answered), len(l.reflections), len(a.reflected), len(l.deltas), a.fold.Len())
	}
}

// shortenWindows sets the duplicate windows of the streams to the minimum.
func shortenWindows(t *testing.T, ctx context.Context, conn *bus.Conn) {
	t.Helper()
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections} {
		s, err := conn.JetStream().Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.Duplicates = 100 * time.Millisecond
		if _, err := conn.JetStream().UpdateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
}

// startRoles starts a worker of each role.
func startRoles(t *testing.T, url, model string) (processes []*process) {
	t.Helper()
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		processes = append(processes, startWorker(t, role, role, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--ack-wait", ackWait.String()))
	}
	return processes
}

// awaitMessages waits until a stream has stored n messages.
func awaitMessages(t *testing.T, ctx context.Context, conn *bus.Conn, stream string, n uint64) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%d in %s", n, stream), func() error {
		s, err := conn.JetStream().Stream(ctx, stream)
		if err == nil && s.CachedInfo().State.LastSeq < n {
			err = fmt.Errorf("got %d messages", s.CachedInfo().State.LastSeq)
		}
		return err
	})
}

// debrief runs a command of the operator's tool.
func debrief(t *testing.T, ctx context.Context, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(ctx, program(t, "debrief"), args...).CombinedOutput(); err != nil {
		t.Fatalf("debrief %v: %v: %s", args, err, out)
	}
}

// knownTasks returns the ids of the waiting and the answered tasks.
func knownTasks(t *testing.T, ctx context.Context, conn *bus.Conn) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for stream, kind := range map[string]events.Kind{events.StreamTasks: events.KindTask, events.StreamExecutions: events.KindExecution} {
		all, err := readAll(ctx, conn.JetStream(), stream, kind.Subject(desk))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			e, err := events.Decode(m.subject, m.header, m.data)
			if err != nil {
				t.Fatal(err)
			}
			switch e := e.(type) {
			case *events.Task:
				known[e.ID] = true
			case *events.Execution:
				known[e.RunID] = true
			}
		}
	}
	return known
}
