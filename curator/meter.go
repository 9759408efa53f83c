package curator

import (
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// Meter is told what curators do, by several books at the same time. It must not block.
type Meter interface {
	natskv.Meter
	// Decided says that a gate has given a bullet a status.
	Decided(playbook.Status)
}

// tell tells the meter what the gate has decided in a delta that was committed. What a rule's counts or the budget turn
// is no decision of the gate's: the first has no reason of its own, the second always the same.
func (c *Config) tell(d *playbook.Delta) {
	if c.Meter == nil || d.Author != Author {
		return
	}
	for i := range d.Ops {
		if op := &d.Ops[i]; op.Kind == playbook.SetStatus && op.Reason != "" && op.Reason != reasonBudget {
			c.Meter.Decided(op.Status)
		}
	}
}
