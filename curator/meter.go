package curator

import (
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Meter receives the metrics of a Curator. Several goroutines may call it at the same time. It must not block.
type Meter interface {
	deltalog.Meter
	// Rejected counts an operation that was rejected.
	Rejected(playbook.Reason)
	// Decided counts a status change of a bullet by the gate.
	Decided(playbook.Status, playbook.Reason)
}

// reportMetrics reports the rejections and the gate's decisions in a committed delta to the meter. It leaves out a status change
// for the token budget, which is not a decision of the gate.
func (c *Config) reportMetrics(d *playbook.Delta) {
	if c.Meter == nil {
		return
	}
	for i := range d.Rejected {
		c.Meter.Rejected(d.Rejected[i].Code)
	}
	if d.Author != history.Curator {
		return
	}
	for i := range d.Ops {
		if op := &d.Ops[i]; op.Kind == playbook.SetStatus && op.Code != playbook.ReasonTokenBudget {
			c.Meter.Decided(op.Status, op.Code)
		}
	}
}
