package integration

import (
	"cmp"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestWorkersAreSmall limits the size of the worker programs, built as for the images. TestWorkersLinkNoHeavyPackages checks
// their dependencies.
func TestWorkersAreSmall(t *testing.T) {
	t.Parallel()
	const limit = 35_000_000 // bytes
	for _, name := range []string{"generator", "reflector", "curator"} {
		info, err := os.Stat(program(t, name))
		if err != nil {
			t.Fatal(err)
		}
		sizes, err := codeSizes(program(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if sizes["debrief/events/bus"] == 0 || sizes["runtime"] == 0 {
			t.Errorf("%s: no code of events/bus and runtime found in %d packages", name, len(sizes))
		}
		largest := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return cmp.Compare(sizes[b], sizes[a]) })
		text := ""
		for _, p := range largest[:min(len(largest), 20)] {
			text += fmt.Sprintf("\n%8d %s", sizes[p], p)
		}
		t.Logf("%-9s %d bytes", name, info.Size())
		if info.Size() > limit {
			t.Errorf("%s: got %d bytes, want at most %d; largest packages, bytes of machine code:%s", name, info.Size(), limit, text)
		}
	}
}

// codeSizes returns the bytes of machine code in a Linux program by package. It reads the table of functions, which -ldflags
// "-s -w" keeps. Tables and constants are not included.
func codeSizes(program string) (map[string]int, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", program, err)
	}
	defer f.Close()
	table, text := f.Section(".gopclntab"), f.Section(".text")
	if table == nil || text == nil {
		return nil, fmt.Errorf("read %s: section .gopclntab or .text not found", program)
	}
	data, err := table.Data()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", program, err)
	}
	functions, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", program, err)
	}
	sizes := map[string]int{}
	for i := range functions.Funcs {
		fn := &functions.Funcs[i]
		sizes[strings.ReplaceAll(fn.PackageName(), "%2e", ".")] += int(fn.End - fn.Entry)
	}
	return sizes, nil
}

// TestUpStartsFast measures the time until the health check of 'debrief up' is green, and its memory then. The targets are one
// second and 100 MB. It asserts only the memory, because the machine may be busy.
func TestUpStartsFast(t *testing.T) {
	t.Parallel()
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
			t.Errorf("%s start: resident memory: got %d bytes, want at most 100 MB", life, resident)
		}
		if code, err := p.stop(); err != nil || code != 0 {
			t.Errorf("stop: exit code %d, %v", code, err)
		}
	}
}

// TestIdleWorkersAreCheap measures memory and processor time of idle workers. The targets are 40 MB and 1 % of a core. It
// asserts 10 % of a core, because the machine may be busy. DEBRIEF_LONG=1 measures for a minute.
func TestIdleWorkersAreCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	quiet := 5 * time.Second
	if os.Getenv("DEBRIEF_LONG") != "" {
		quiet = time.Minute
	}
	const (
		mostMemory = 40e6
		mostShare  = 0.1
		ticks      = 100 // per second, on every Linux that Go supports
	)
	_, url := startServer(t)
	workers := map[string]*process{}
	worked := map[string]int{}
	for _, role := range []string{"generator", "reflector", "curator"} {
		workers[role] = startWorker(t, role, role, "--nats", url, "--model", "m", "--base-url", "http://127.0.0.1:1/v1")
	}
	time.Sleep(2 * time.Second) // skip the start, which creates garbage and sends first requests
	for role, p := range workers {
		n, err := cpuTicks(p.pid())
		if err != nil {
			t.Skip(err)
		}
		worked[role] = n
	}
	time.Sleep(quiet) // the measured interval
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
			t.Errorf("%s: resident memory: got %d bytes, want at most 40 MB", role, resident)
		}
		if share > mostShare {
			t.Errorf("%s: uses %.1f %% of a core while idle, want 1 %%", role, 100*share)
		}
	}
}

// cpuTicks returns the processor time of a process in hundredths of a second (Linux only).
func cpuTicks(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("processor time: %d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	system, err := strconv.Atoi(fields[12])
	return user + system, err
}

// residentBytes returns the resident memory of a process, and peakBytes its maximum (Linux only).
func residentBytes(pid int) (int, error) { return memory(pid, "VmRSS:") }

func peakBytes(pid int) (int, error) { return memory(pid, "VmHWM:") }

func memory(pid int, field string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	_, rest, ok := strings.Cut(string(text), field)
	if !ok {
		return 0, fmt.Errorf("resident memory: field not found in %d/status", pid)
	}
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	return kib << 10, err
}
