package history

import (
	"slices"
	"time"

	"debrief/playbook"
)

// Trace contains the effects of an execution: the reflections on it that the log covers, and the changes that they
// support.
type Trace struct {
	Execution   string      `json:"execution"`
	Reflections []Reflected `json:"reflections"`
	// Events are the operations and rejections that the reflections support, oldest first.
	Events []Event `json:"events"`
}

// Reflected is a reflection that the log covers.
type Reflected struct {
	Version uint64         `json:"version"`
	Time    time.Time      `json:"time"`
	Cover   playbook.Cover `json:"cover"`
}

// TraceOf returns the trace of the execution with this handle. The trace is empty if the log does not contain the
// execution.
//
// Some rejections do not record their support. They belong to the execution if their change covers nothing else.
func TraceOf(log Log, handle string) (*Trace, error) {
	trace := &Trace{Execution: handle}
	match := func(c playbook.Cover) bool { return c.Evidence != nil && c.Evidence.Execution == handle }
	err := log.changes(endOfLog, func(c change) error {
		d := c.last()
		coversOthers := false
		before := len(trace.Reflections)
		for _, cover := range d.Covers {
			if match(cover) {
				trace.Reflections = append(trace.Reflections, Reflected{d.Version, d.Time, cover})
			} else {
				coversOthers = true
			}
		}
		if len(trace.Reflections) == before {
			return nil
		}
		for _, part := range c {
			trace.addEvents(c, part, match, coversOthers)
		}
		return nil
	})
	return trace, err
}

// addEvents adds the operations and rejections in a part of a change that matching covers support. coversOthers is true if
// the change also covers other executions.
func (t *Trace) addEvents(c change, part *playbook.Delta, match func(playbook.Cover) bool, coversOthers bool) {
	for i := range part.Ops {
		if op := &part.Ops[i]; slices.ContainsFunc(c.support(part, op), match) {
			e := c.event(part, op)
			if op.Kind == playbook.AddExposures {
				e.filterSupport(match)
			}
			t.Events = append(t.Events, e)
		}
	}
	for i := range part.Rejected {
		j := &part.Rejected[i]
		support := c.support(part, &j.Op)
		belongs := slices.ContainsFunc(support, match) || len(support) == 0 && !coversOthers
		if !belongs {
			continue
		}
		e := c.rejection(part, j)
		if e.Support == nil {
			e.Support = c.last().Covers
		}
		t.Events = append(t.Events, e)
	}
}

// filterSupport keeps only the outcomes of an event whose covers match, and these covers.
func (e *Event) filterSupport(match func(playbook.Cover) bool) {
	var outcomes []playbook.Exposure
	var covers []playbook.Cover
	for i, c := range e.Support {
		if i < len(e.Op.Exposures) && match(c) {
			outcomes = append(outcomes, e.Op.Exposures[i])
			covers = append(covers, c)
		}
	}
	e.Op.Exposures, e.Support = outcomes, covers
	e.Op.Support = nil // its indices do not match the covers any more
}
