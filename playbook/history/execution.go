package history

import (
	"slices"
	"time"

	"debrief/playbook"
)

// Trace is what became of an execution: the reflections made of it that a log covers, and what rests on them.
type Trace struct {
	Execution   string      `json:"execution"`
	Reflections []Reflected `json:"reflections"`
	// Events are operations and rejections, oldest first.
	Events []Event `json:"events"`
}

// Reflected is a reflection in a log.
type Reflected struct {
	Version uint64         `json:"version"`
	Time    time.Time      `json:"time"`
	Cover   playbook.Cover `json:"cover"`
}

// OfExecution is what became of the execution with this handle. One that a log does not know has an empty trace.
//
// Not every rejection says what it rests on. Those of a delta that covers nothing else are the execution's all the same.
func OfExecution(log Log, handle string) (*Trace, error) {
	t := &Trace{Execution: handle}
	rests := func(c playbook.Cover) bool { return c.Evidence != nil && c.Evidence.Execution == handle }
	err := log.changes(all, func(c change) error {
		d, others := c.last(), false
		before := len(t.Reflections)
		for _, cover := range d.Covers {
			if rests(cover) {
				t.Reflections = append(t.Reflections, Reflected{d.Version, d.Time, cover})
			} else {
				others = true
			}
		}
		if len(t.Reflections) == before {
			return nil
		}
		for _, part := range c {
			t.take(c, part, rests, others)
		}
		return nil
	})
	return t, err
}

// keep leaves of the outcomes of many tasks those that rest on some.
func (e *Event) keep(rests func(playbook.Cover) bool) {
	var seen []playbook.Seen
	var on []playbook.Cover
	for i, c := range e.Support {
		if i < len(e.Op.Seen) && rests(c) {
			seen, on = append(seen, e.Op.Seen[i]), append(on, c)
		}
	}
	e.Op.Seen, e.Op.Support, e.Support = seen, nil, on
}

func (t *Trace) take(c change, part *playbook.Delta, rests func(playbook.Cover) bool, others bool) {
	for i := range part.Ops {
		if op := &part.Ops[i]; slices.ContainsFunc(c.support(part, op), rests) {
			e := c.event(part, op)
			if op.Kind == playbook.Trial {
				e.keep(rests)
			}
			t.Events = append(t.Events, e)
		}
	}
	for i := range part.Rejected {
		j := &part.Rejected[i]
		support := c.support(part, &j.Op)
		if !slices.ContainsFunc(support, rests) && (others || len(support) > 0) {
			continue
		}
		e := c.rejection(part, j)
		if e.Support == nil {
			e.Support = c.last().Covers
		}
		t.Events = append(t.Events, e)
	}
}
