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
	const most = 24 << 20
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

// TestIdleWorkersAreCheap starts each worker against a server that has nothing for it, and looks after a while at what it
// keeps in memory and how much it has worked. The plan says 40 MB and 1 % of a core: the memory is held against it, the
// work only ten times as much of it, because the machine may be busy. DEBRIEF_LONG=1 looks for a minute.
func TestIdleWorkersAreCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	quiet := 5 * time.Second
	if os.Getenv("DEBRIEF_LONG") != "" {
		quiet = time.Minute
	}
	const (
		mostMemory = 40e6
		mostShare  = 0.1
		ticks      = 100 // a second, on every Linux that Go runs on
	)
	_, url := startServer(t)
	workers := map[string]*process{}
	worked := map[string]int{}
	for _, role := range []string{"generator", "reflector", "curator"} {
		workers[role] = startWorker(t, role, role, "--nats", url, "--model", "m", "--base-url", "http://127.0.0.1:1/v1")
	}
	time.Sleep(2 * time.Second) // what begins is not idle yet: garbage of the start, the first looks at the server
	for role, p := range workers {
		n, err := cpuTicks(p.pid())
		if err != nil {
			t.Skip(err)
		}
		worked[role] = n
	}
	time.Sleep(quiet) // what is measured is the time
	for role, p := range workers {
		n, err := cpuTicks(p.pid())
		if err != nil {
			t.Fatal(err)
		}
		resident, err := residentBytes(p.pid())
		if err != nil {
			t.Fatal(err)
		}
		share := float64(n-worked[role]) / ticks / quiet.Seconds()
		t.Logf("%-9s idle for %s: %.1f MB resident, %.2f %% of a core", role, quiet, float64(resident)/1e6, 100*share)
		if resident > mostMemory {
			t.Errorf("%s: %d bytes are resident, want at most 40 MB", role, resident)
		}
		if share > mostShare {
			t.Errorf("%s: works %.1f %% of a core with nothing to do, want 1 %%", role, 100*share)
		}
	}
}

// cpuTicks is how long a process has worked, in hundredths of a second, as Linux tells.
func cpuTicks(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("work of a process: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // its name may have blanks
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("work of a process: %d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, fmt.Errorf("work of a process: %w", err)
	}
	system, err := strconv.Atoi(fields[12])
	return user + system, err
}

// residentBytes is how much of a process is in memory, as Linux tells; peakBytes, how much ever was.
func residentBytes(pid int) (int, error) { return memory(pid, "VmRSS:") }

func peakBytes(pid int) (int, error) { return memory(pid, "VmHWM:") }

func memory(pid int, field string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	_, rest, ok := strings.Cut(string(text), field)
	if !ok {
		return 0, fmt.Errorf("resident memory: not in %d/status", pid)
	}
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	return kib << 10, err
}
