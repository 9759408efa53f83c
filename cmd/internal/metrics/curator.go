package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"debrief/curator"
	"debrief/playbook"
)

// decisions are what a gate decides, by the status that it gives.
var decisions = map[playbook.Status]string{
	playbook.Probation: "probation", playbook.Active: "promoted", playbook.Retired: "retired", playbook.Candidate: "waiting",
}

// Curator is for the configuration of this process's curator.
func (m *Metrics) Curator() curator.Meter {
	c := &commits{
		took:    m.histogram("debrief_commit_seconds", "From a change that is decided to its delta in the log.", seconds).WithLabelValues(),
		raced:   m.counter("debrief_commit_conflicts_total", "Races lost to another curator.").WithLabelValues(),
		delay:   m.histogram("debrief_view_delay_seconds", "From a delta in the log to a view that has it, of the oldest in each flush.", seconds).WithLabelValues(),
		decided: map[playbook.Status]prometheus.Counter{},
		since:   map[playbook.Book]time.Time{},
	}
	decided := m.counter("debrief_gate_decisions_total", "Bullets whose status a gate has changed.", "decision")
	for status, name := range decisions {
		c.decided[status] = decided.WithLabelValues(name)
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "debrief_view_behind_seconds", Help: "Age of the delta that has waited longest for its view; 0 when every view is current.",
	}, c.behind))
	return c
}

// commits is a curator.Meter.
type commits struct {
	took, delay prometheus.Observer
	raced       prometheus.Counter
	decided     map[playbook.Status]prometheus.Counter

	mu    sync.Mutex
	since map[playbook.Book]time.Time // of books whose view lacks something
}

func (c *commits) Committed(took time.Duration) { c.took.Observe(took.Seconds()) }
func (c *commits) Raced()                       { c.raced.Inc() }

func (c *commits) Behind(b playbook.Book) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, told := c.since[b]; !told {
		c.since[b] = time.Now()
	}
}

func (c *commits) Current(b playbook.Book) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, told := c.since[b]; told {
		c.delay.Observe(time.Since(t).Seconds())
		delete(c.since, b)
	}
}

// behind is for how long the view has lacked something that has done so longest.
func (c *commits) behind() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := time.Duration(0)
	for _, t := range c.since {
		most = max(most, time.Since(t))
	}
	return most.Seconds()
}

func (c *commits) Decided(s playbook.Status) {
	if n := c.decided[s]; n != nil {
		n.Inc()
	}
}
