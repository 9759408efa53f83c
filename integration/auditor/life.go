package auditor

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// behind is an execution behind a bullet.
type behind struct {
	evidence
	role      string // learned, helped, harmed or none
	versions  []uint64
	forgotten bool
}

// kept is an event of the life of a bullet.
type kept struct {
	version uint64
	counts  bool // it only changes votes or outcomes
	numbers []float64
}

// life returns the events of a bullet and of those merged into it, oldest first, and the executions behind them.
func (h *history) life(id string) (events []kept, all []*behind) {
	family := map[string]uint64{id: math.MaxUint64} // with the version of the merge
	for _, c := range slices.Backward(h.changes) {
		for _, o := range slices.Backward(c.Ops) {
			if until, ok := family[o.Bullet]; ok && o.Kind == "MERGE" && c.Version <= until {
				for _, source := range o.Sources {
					if _, ok := family[source]; !ok {
						family[source] = c.Version
					}
				}
			}
		}
	}
	byExecution := map[string]*behind{}
	for _, last := range h.changes {
		if last.More {
			continue
		}
		for _, part := range h.parts(last) {
			for i := range part.Ops {
				o := &part.Ops[i]
				until, ok := family[o.Bullet]
				if _, had := h.states[last.Version-1][id]; !ok && had && o.Kind == "MERGE" && slices.Contains(o.Sources, id) { // the end of the bullet
					events = append(events, kept{version: last.Version, numbers: sentence(o, last)})
				}
				if !ok || last.Version > until || !h.changed(last.Version, o) {
					continue
				}
				counts := o.Kind == "TAG" || o.Kind == "RETAG" || o.Kind == "EXPOSURES" || o.Kind == "CONFIRM"
				events = append(events, kept{last.Version, counts, sentence(o, last)})
				if o.Kind == "EXPOSURES" {
					continue
				}
				for _, k := range o.Support {
					e := last.Covers[k].Evidence
					if e == nil {
						continue
					}
					b := byExecution[e.Execution]
					if b == nil {
						b = &behind{role: "none", forgotten: true}
						byExecution[e.Execution] = b
						all = append(all, b)
					}
					b.evidence = *e
					b.forgotten = b.forgotten && h.forgets(last.Version, e)
					b.plays(o)
					if !slices.Contains(b.versions, last.Version) {
						b.versions = append(b.versions, last.Version)
					}
				}
			}
		}
		for _, part := range h.parts(last) {
			for i := range part.Refused {
				if until, ok := family[part.Refused[i].Of]; ok && last.Version <= until {
					events = append(events, kept{version: last.Version, numbers: valuesOf(cmp.Or(part.Refused[i].Reason, last.Reason))})
				}
			}
		}
	}
	return events, all
}

// changed reports whether an operation had an effect: outcomes of an earlier wording have none.
func (h *history) changed(version uint64, o *changeOp) bool {
	before := h.states[version-1][o.Bullet]
	return o.Kind != "EXPOSURES" || before.Experiment.Number == o.Number
}

// plays sets the role of an execution that supports an operation. One that taught the text stays with that role.
func (b *behind) plays(o *changeOp) {
	if b.role == "learned" {
		return
	}
	switch {
	case o.Kind == "TAG" || o.Kind == "RETAG":
		b.role = "none"
		if o.Helpful > 0 {
			b.role = "helped"
		} else if o.Harmful > 0 {
			b.role = "harmed"
		}
	case o.Kind == "REMOVE":
		b.role = "harmed"
	case o.Kind != "STATUS" && o.Kind != "PIN":
		b.role = "learned"
	}
}

// forgets reports whether a later change forgot an execution that a version learned from.
func (h *history) forgets(version uint64, e *evidence) bool {
	for _, c := range h.changes {
		f := c.Forgets
		if f == nil {
			continue
		}
		matches := f.Source != "" && (f.Source == e.Source || strings.HasPrefix(e.Source, f.Source+"/")) || f.User != "" && f.User == e.User ||
			f.Session != "" && f.Session == e.Session || f.Execution != "" && f.Execution == e.Execution || f.Sample != "" && f.Sample == e.Sample
		if matches && (f.Execution != "" || f.Sample != "" || version < c.Version) {
			return true
		}
	}
	return false
}
