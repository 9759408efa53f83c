package executions

import (
	"debrief/events"
	"debrief/playbook"
	"debrief/reflector/rules"
)

// Errors has the errors of tools that the agents of a playbook repeat.
type Errors struct {
	Book    playbook.Book `json:"book"`
	Through uint64        `json:"through" doc:"Sequence of the last event that is counted."`
	Behind  uint64        `json:"behind" doc:"Number of stored sequences that are not counted yet; above 0 after a start."`
	// Known has the most frequent ones first.
	Known []rules.Known `json:"known_errors" doc:"Errors that agents met again in several runs and tasks, the most frequent first, at most 20. A report for people: they teach nothing."`
}

// addErrors collects the errors of an execution.
func (x *Index) addErrors(e *events.Execution) {
	x.errorsMu.Lock()
	defer x.errorsMu.Unlock()
	of := x.errors[e.Book]
	if of == nil {
		of = rules.NewErrors()
		x.errors[e.Book] = of
	}
	of.Add(e)
}

// Errors returns the errors of tools in a playbook. Last is the last sequence of the stream.
func (x *Index) Errors(b playbook.Book, last uint64) *Errors {
	x.mu.RLock()
	seq := x.seq
	x.mu.RUnlock()
	x.errorsMu.Lock()
	defer x.errorsMu.Unlock()
	out := &Errors{Book: b, Through: seq, Behind: last - min(last, seq), Known: []rules.Known{}}
	if of := x.errors[b]; of != nil {
		out.Known = append(out.Known, of.Known()...)
	}
	return out
}
