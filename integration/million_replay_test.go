package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"debrief/events"
)

// TestReplayBytesPerExecution measures the memory of 'debrief replay' per sample, for which the report has a line, from two
// numbers of samples.
//
//	DEBRIEF_LONG=1 go test ./integration -v -timeout 30m -run ReplayBytes | grep MEMORY
func TestReplayBytesPerExecution(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("set DEBRIEF_LONG=1 to run")
	}
	const few, more, perExecution = 10_000, 40_000, 8 << 10
	f := executionLoad{executions: more, books: 1, parts: more / few}
	_, url := startServerIn(t, t.TempDir(), "100ms")
	startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0))
	startWorker(t, "reflector", events.RoleReflector, "--nats", url)
	startWorker(t, "curator", events.RoleCurator, "--nats", url)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	peak := map[int]int{}
	for part := range f.parts {
		f.pour(t, ctx, conn, part)
		awaitSettled(t, ctx, conn)
		if n := (part + 1) * few; n == few || n == more {
			peak[n] = f.replay(t, ctx, url, n)
		}
	}
	each := (peak[more] - peak[few]) / (more - few)
	t.Logf("MEMORY | debrief train --executions: %d bytes for each, %.0f MB for each 100,000", each, float64(each)/10)
	if each > perExecution {
		t.Errorf("got %d bytes for each execution, want at most %d", each, perExecution)
	}
}

// replay replays the n stored executions and returns the peak memory in bytes.
func (f executionLoad) replay(t *testing.T, ctx context.Context, url string, n int) (peak int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, program(t, "debrief"), "train", "--executions", string(f.book(0)), "--name", fmt.Sprint("again", n), "--batch", "200",
		"--nats", url, "--simulated", "--out", filepath.Join(t.TempDir(), "report"))
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	killWithParent(cmd)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				text, _ := os.ReadFile(log.Name())
				t.Fatalf("replay of %d: %v\n%s", n, err, tail(string(text), 20))
			}
			t.Logf("MEMORY | debrief train --executions over %d: at most %.1f MB, %s", n, float64(peak)/1e6, time.Since(began).Round(time.Second))
			return peak
		case <-time.After(50 * time.Millisecond):
			if now, err := peakBytes(cmd.Process.Pid); err == nil {
				peak = max(peak, now)
			}
		}
	}
}
