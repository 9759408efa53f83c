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

// fault is a row of the table in README.md: a fault of a running pipeline, its number, and the result. Tests that
// inject faults print rows with report; -v shows them. The whole table, in its long form:
//
//	DEBRIEF_LONG=1 go test ./integration -v -timeout 20m -run TestAClusterLosesServers | grep FAULT
//	DEBRIEF_LONG=1 go test ./integration -v -timeout 60m -run 'Fails|CountsOnce|PowerLoss|Killed|Outlives|Pause|Memory|Poison' | grep FAULT
type fault struct {
	name    string // for example "SIGKILL of a curator"
	promise string // the guarantee under this fault

	mu       sync.Mutex
	injected int
	lost     int       // acknowledged without delta and dead letter, or counted twice
	recovery []measure // from the fault until work continued
}

// measure is a duration, with one value for each fault.
type measure struct {
	what string // empty if it is the only one
	took []time.Duration
}

// hit counts an injected fault. recovered adds the time until work continued; took adds another duration.
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

// report prints the row. It is an error if messages were lost, if the fault was never injected, or if README.md has no row
// with this fault and promise.
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
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if row := fmt.Sprintf("\n| %s | %s | ", f.name, f.promise); !strings.Contains(string(readme), row) {
		t.Errorf("row %q not found in README.md", row)
	}
	if f.injected == 0 {
		t.Errorf("%s: not injected", f.name)
	}
	if f.lost > 0 {
		t.Errorf("%s: %d lost or counted twice, want none", f.name, f.lost)
	}
}
