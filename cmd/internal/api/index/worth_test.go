package index

import (
	"fmt"
	"runtime"
	"testing"

	"debrief/events"
)

// TestOldSessionsStayInTheSums: above the limit the oldest sessions cannot change any more, and still count. Sessions of two owners and of
// two playbooks are different ones, and the rounds of a run without a session are one.
func TestOldSessionsStayInTheSums(t *testing.T) {
	t.Parallel()
	c := newComparison()
	c.limit = 8
	run := func(owner, session, id string) *events.Execution {
		return &events.Execution{
			Book: "b", Owner: owner, Session: session, RunID: id, Control: &events.Control{Share: 500},
			Outcome: events.Outcome{Label: events.Success, Score: 1},
		}
	}
	const n = 100
	for i := range n {
		for _, owner := range []string{"x", "y"} {
			c.add(run(owner, fmt.Sprint("s", i), "r1"), 0)
			c.add(run(owner, fmt.Sprint("s", i), "r2"), 0)
		}
		c.add(run("x", "", fmt.Sprint("s", i)), 0)
		c.add(run("x", "", fmt.Sprint("s", i)), 0)
	}
	other := run("x", "s1", "r1")
	other.Book = "other"
	c.add(other, 0)
	unassigned := run("x", "s", "r")
	unassigned.Control = nil
	c.add(unassigned, 0)
	c.revise(run("x", "s1", "r1"), events.Outcome{Label: events.Success, Score: 1}, events.Outcome{Label: events.Failure}) // too late
	c.revise(run("x", "", fmt.Sprint("s", n-1)), events.Outcome{Label: events.Success, Score: 1}, events.Outcome{Label: events.Failure})
	if got := c.sums["b"].Report("b", "").With; got.Sessions != 3*n || got.Runs != 6*n || got.Outcomes != 6*n || fmt.Sprintf("%.3f", got.Failures) != fmt.Sprintf("%.3f", 50/float64(3*n)) {
		t.Errorf("got %+v", got)
	}
	if len(c.sessions) > c.limit || len(c.order) != len(c.sessions) || len(c.sums) != 2 {
		t.Errorf("got %d sessions, %d keys and %d playbooks", len(c.sessions), len(c.order), len(c.sums))
	}
}

// BenchmarkComparison measures the memory of a full index: go test ./cmd/internal/api/index -bench Comparison -run '^$'
func BenchmarkComparison(b *testing.B) {
	var before, after runtime.MemStats
	e := &events.Execution{Book: "b", Control: &events.Control{Share: 50}, Outcome: events.Outcome{Label: events.Success, Score: 1}}
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := newComparison()
		for i := range 2 * maxSessions {
			e.RunID = fmt.Sprint(i)
			c.add(e, 0)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(c.sessions)), "B/session")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	}
}
