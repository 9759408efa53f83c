package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fault is a row of the README's table of faults: what was done to a running pipeline, how often, and what became of it.
// A test that breaks things adds one with report and prints it; -v shows it. The whole table, in its long form:
//
//	DEBRIEF_LONG=1 go test ./integration -v -timeout 20m -run TestAClusterLosesServers | grep FAULT
//	DEBRIEF_LONG=1 go test ./integration -v -timeout 60m -run 'Fails|Die|CountsOnce|PowerLoss|Killed|Outlives|Pause|Memory|Poison' | grep FAULT
type fault struct {
	name    string // what was done, for example "SIGKILL of a curator"
	promise string // what holds all the same

	mu       sync.Mutex
	injected int
	lost     int       // acknowledged and in no applied delta and no dead letter, or counted twice
	recovery []measure // from the fault until work went on
}

// measure is a time that was taken, after each fault.
type measure struct {
	what string // empty where it is the only one
	took []time.Duration
}

// hit notes that the fault was injected once; recovered, how long it took until work went on after one; took is for what
// else is timed.
func (f *fault) hit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.injected++
}

func (f *fault) recovered(d time.Duration) { f.took("", d) }

func (f *fault) took(what string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.recovery, func(m measure) bool { return m.what == what })
	if i < 0 {
		i = len(f.recovery)
		f.recovery = append(f.recovery, measure{what: what})
	}
	f.recovery[i].took = append(f.recovery[i].took, d)
}

// report prints the row as the README has it, and fails the test over what was lost, over a fault that never struck, and
// over one that the README does not name with the same promise.
func (f *fault) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	times := []string{"not timed"}
	for i, m := range f.recovery {
		slices.Sort(m.took)
		times = append(times[:i], strings.TrimSpace(fmt.Sprintf("%s %.1f s, at most %.1f s", m.what, m.took[len(m.took)/2].Seconds(), m.took[len(m.took)-1].Seconds())))
	}
	t.Logf("FAULT | %s | %s | %d | %d | %s |", f.name, f.promise, f.injected, f.lost, strings.Join(times, "; "))
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if row := fmt.Sprintf("\n| %s | %s | ", f.name, f.promise); !strings.Contains(string(readme), row) {
		t.Errorf("the README has no row %q", row)
	}
	if f.injected == 0 {
		t.Errorf("%s: was never injected", f.name)
	}
	if f.lost > 0 {
		t.Errorf("%s: %d lost or counted twice, want none", f.name, f.lost)
	}
}
