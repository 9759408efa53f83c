package rules

import "debrief/events"

// Add adds a run, unless it is a copy of another one or an evaluation. It keeps no memory of the execution.
func (x *Errors) Add(e *events.Execution) {
	if task := TaskOf(e); e.Purpose != events.Evaluate && !x.isCopy(e, task) {
		x.add(e, newRun(e), task)
	}
}
