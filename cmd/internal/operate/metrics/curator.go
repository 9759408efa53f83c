package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"debrief/curator"
	"debrief/playbook"
)

// decisions maps the status of a bullet after a decision of the gate to the label value.
var decisions = map[playbook.Status]string{
	playbook.Probation: "probation", playbook.Active: "shown", playbook.Retired: "retired", playbook.Candidate: "waiting",
}

// Curator returns the meter for the configuration of this process's curator.
func (m *Metrics) Curator() curator.Meter {
	c := &curatorMeter{
		commitDuration: m.histogram("debrief_commit_seconds", "Time from the decision about a change to its delta in the log.", seconds).WithLabelValues(),
		conflicts:      m.counter("debrief_commit_conflicts_total", "Commits that conflicted with another curator; the change is rebased and retried.").WithLabelValues(),
		viewDelay:      m.histogram("debrief_view_delay_seconds", "Time from a delta in the log to the view that contains it, of the oldest in each flush.", seconds).WithLabelValues(),
		rejected:       m.counter("debrief_operations_rejected_total", "Operations that were requested and rejected, by reason code.", "reason"),
		decisions:      m.counter("debrief_gate_decisions_total", "Decisions of the gate about a bullet, by its status afterwards and reason code.", "decision", "reason"),
		since:          map[playbook.Book]time.Time{},
	}
	// All series begin at 0: a series that appears with its first event would have no rate for that event.
	for _, reason := range playbook.RejectionReasons() {
		c.rejected.WithLabelValues(string(reason))
	}
	for _, decision := range decisions {
		for _, reason := range playbook.StatusReasons() {
			c.decisions.WithLabelValues(decision, string(reason))
		}
	}
	m.register(c.collect)
	return c
}

var viewBehind = describe("debrief_view_behind_seconds", "Age of the oldest delta that is not in its view; 0 if every view is current.")

// curatorMeter implements curator.Meter.
type curatorMeter struct {
	commitDuration, viewDelay prometheus.Observer
	conflicts                 prometheus.Counter
	rejected                  *prometheus.CounterVec
	decisions                 *prometheus.CounterVec

	mu    sync.Mutex
	since map[playbook.Book]time.Time // books whose view is behind the log, with the time since when
}

func (c *curatorMeter) Committed(took time.Duration) { c.commitDuration.Observe(took.Seconds()) }
func (c *curatorMeter) Conflict()                    { c.conflicts.Inc() }

func (c *curatorMeter) ViewBehind(b playbook.Book) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.since[b]; !ok {
		c.since[b] = time.Now()
	}
}

func (c *curatorMeter) ViewCurrent(b playbook.Book) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.since[b]; ok {
		c.viewDelay.Observe(time.Since(t).Seconds())
		delete(c.since, b)
	}
}

func (c *curatorMeter) collect(to scrape) { to.Gauge(viewBehind, c.behindSeconds()) }

// behindSeconds returns the longest time that a view has been behind the log.
func (c *curatorMeter) behindSeconds() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := time.Duration(0)
	for _, t := range c.since {
		longest = max(longest, time.Since(t))
	}
	return longest.Seconds()
}

func (c *curatorMeter) Rejected(reason playbook.Reason) {
	c.rejected.WithLabelValues(string(reason)).Inc()
}

func (c *curatorMeter) Decided(s playbook.Status, reason playbook.Reason) {
	if name := decisions[s]; name != "" {
		c.decisions.WithLabelValues(name, string(reason)).Inc()
	}
}
