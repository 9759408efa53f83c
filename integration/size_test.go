package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestWorkersAreSmall: a worker is a small program; that none links the server TestWorkersDoNotLinkTheServer sees to.
func TestWorkersAreSmall(t *testing.T) {
	t.Parallel()
	const most = 16 << 20
	for _, name := range []string{"generator", "reflector", "curator"} {
		info, err := os.Stat(program(t, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-9s %d bytes: %.2f MB, %.2f MiB", name, info.Size(), float64(info.Size())/1e6, float64(info.Size())/(1<<20))
		if info.Size() >= most {
			t.Errorf("%s has %d bytes, want less than %d", name, info.Size(), most)
		}
	}
}

// TestUpIsReadySoon measures how long 'debrief up' takes until its health check is green, and what it then keeps in
// memory. The plan says a second and 100 MB; only the memory is held against it, because the machine may be busy.
func TestUpIsReadySoon(t *testing.T) {
	bin, dir, health := program(t, "debrief"), t.TempDir(), freeAddress(t)
	for _, life := range []string{"first", "second"} {
		began := time.Now()
		p := start(t, "up", func() *exec.Cmd {
			return exec.Command(bin, "up", "--simulated", "--data", dir, "--listen", "127.0.0.1:0", "--health", health)
		})
		awaitReady(t, health)
		ready := time.Since(began)
		resident, err := residentBytes(p.pid())
		if err != nil {
			t.Skip(err)
		}
		t.Logf("%s start: ready after %s, %.1f MB resident", life, ready.Round(time.Millisecond), float64(resident)/1e6)
		if resident > 100e6 {
			t.Errorf("%s start: %d bytes are resident, want at most 100 MB", life, resident)
		}
		if code, err := p.stop(); err != nil || code != 0 {
			t.Errorf("stop: exit code %d, %v", code, err)
		}
	}
}

// residentBytes is how much of a process is in memory, as Linux tells.
func residentBytes(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	_, rest, ok := strings.Cut(string(text), "VmRSS:")
	if !ok {
		return 0, fmt.Errorf("resident memory: not in %d/status", pid)
	}
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	return kib << 10, err
}
