package auditor

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// sourceRun is an execution from which a bullet was learned, or which the bullet helped or harmed.
type sourceRun struct {
	evidence
	role      string // learned, helped, harmed or none
	versions  []uint64
	forgotten bool // in all these versions
}

// lifeEvent is an event of the life of a bullet.
type lifeEvent struct {
	version    uint64
	onlyCounts bool // it only changes votes or outcomes
	numbers    []float64
}

// life returns the events of a bullet and of those merged into it, oldest first, and the executions behind them.
func (h *history) life(id string) (events []lifeEvent, all []*sourceRun) {
	family := h.family(id)
	byExecution := map[string]*sourceRun{}
	// A change has one or several deltas. Handle it at its last one.
	for _, last := range h.changes {
		if last.More {
			continue
		}
		for _, part := range h.parts(last) {
			for i := range part.Ops {
				o := &part.Ops[i]
				until, ok := family[o.Bullet]
				_, existed := h.states[last.Version-1][id]
				// The bullet was merged into another one.
				endsBullet := !ok && existed && o.Kind == "MERGE" && slices.Contains(o.Sources, id)
				if endsBullet {
					events = append(events, lifeEvent{version: last.Version, numbers: opNumbers(o, last)})
				}
				if !ok || last.Version > until || !h.hasEffect(last.Version, o) {
					continue
				}
				events = append(events, lifeEvent{version: last.Version, onlyCounts: o.onlyCounts(), numbers: opNumbers(o, last)})
				if o.Kind == "EXPOSURES" {
					continue
				}
				for _, k := range o.Support {
					e := last.Covers[k].Evidence
					if e == nil {
						continue
					}
					r := byExecution[e.Execution]
					if r == nil {
						r = &sourceRun{role: "none", forgotten: true}
						byExecution[e.Execution] = r
						all = append(all, r)
					}
					r.evidence = *e
					r.forgotten = r.forgotten && h.forgets(last.Version, e)
					r.setRole(o)
					if !slices.Contains(r.versions, last.Version) {
						r.versions = append(r.versions, last.Version)
					}
				}
			}
		}
		for _, part := range h.parts(last) {
			for _, refused := range part.Refused {
				if until, ok := family[refused.Of]; ok && last.Version <= until {
					events = append(events, lifeEvent{version: last.Version, numbers: valuesOf(cmp.Or(refused.Reason, last.Reason))})
				}
			}
		}
	}
	return events, all
}

// family returns a bullet and those merged into it, each with the last version in which it was a part of the family.
func (h *history) family(id string) map[string]uint64 {
	family := map[string]uint64{id: math.MaxUint64}
	for _, c := range slices.Backward(h.changes) {
		for _, o := range slices.Backward(c.Ops) {
			until, ok := family[o.Bullet]
			if !ok || o.Kind != "MERGE" || c.Version > until {
				continue
			}
			for _, source := range o.Sources {
				if _, ok := family[source]; !ok {
					family[source] = c.Version
				}
			}
		}
	}
	return family
}

// hasEffect reports whether an operation has an effect. Outcomes of an earlier wording have none: a new wording begins the next experiment.
func (h *history) hasEffect(version uint64, o *changeOp) bool {
	before := h.states[version-1][o.Bullet]
	return o.Kind != "EXPOSURES" || before.Experiment.Number == o.Number
}

// setRole sets the role of an execution that supports an operation. One that taught the text stays with that role.
func (r *sourceRun) setRole(o *changeOp) {
	if r.role == "learned" {
		return
	}
	switch {
	case o.Kind == "TAG" || o.Kind == "RETAG":
		r.role = "none"
		if o.Helpful > 0 {
			r.role = "helped"
		} else if o.Harmful > 0 {
			r.role = "harmed"
		}
	case o.Kind == "REMOVE":
		r.role = "harmed"
	case o.Kind != "STATUS" && o.Kind != "PIN":
		r.role = "learned"
	}
}

// forgets reports whether a change forgot an execution that a version learned from: any change that names the execution or its sample, or a
// later one that names a source, a user or a session.
func (h *history) forgets(version uint64, e *evidence) bool {
	for _, c := range h.changes {
		f := c.Forgets
		if f == nil {
			continue
		}
		namesRun := f.Execution != "" && f.Execution == e.Execution || f.Sample != "" && f.Sample == e.Sample
		namesGroup := f.Source != "" && (f.Source == e.Source || strings.HasPrefix(e.Source, f.Source+"/")) || f.User != "" && f.User == e.User ||
			f.Session != "" && f.Session == e.Session
		isLater := version < c.Version || f.Execution != "" || f.Sample != ""
		if namesRun || namesGroup && isLater {
			return true
		}
	}
	return false
}

// opNumbers returns the numbers in the sentence by which the console describes an operation, without those in quoted texts.
func opNumbers(o *changeOp, c *change) (n []float64) {
	switch o.Kind {
	case "MERGE":
		for _, id := range o.Sources {
			n = append(n, valuesOf(id)...)
		}
	case "CONFIRM":
		n = append(n, float64(len(o.Support)))
	case "TAG":
		n = append(n, float64(o.votes()))
	case "RETAG":
		if len(o.Support) > 1 {
			n = append(n, float64(len(o.Support)))
		}
	case "EXPOSURES":
		n = exposureNumbers(o.Seen)
	}
	if c.Restores != nil {
		n = append(n, float64(*c.Restores))
	}
	return append(n, valuesOf(cmp.Or(o.Reason, c.Reason))...)
}

// exposureNumbers returns the number and the mean of the new outcomes of each arm, and the number of those taken back. An outcome that is added and
// taken back here is not a new one.
func exposureNumbers(all []exposure) (n []float64) {
	undone := 0
	for _, arm := range []string{"shown", "withheld", "open"} {
		var added []int // scores in tenths
		for _, x := range all {
			switch i := slices.Index(added, x.Score); {
			case x.Arm != arm:
			case !x.Undo:
				added = append(added, x.Score)
			default:
				undone++
				if i >= 0 {
					added = slices.Delete(added, i, i+1)
				}
			}
		}
		if len(added) > 0 {
			sum := 0
			for _, score := range added {
				sum += score
			}
			n = append(n, float64(len(added)), float64(sum)/10/float64(len(added)))
		}
	}
	if undone > 0 {
		n = append(n, float64(undone))
	}
	return n
}

// numbers returns the numbers of the sentence about a delta, without the names and reasons that are quoted.
func (c *change) numbers() (n []float64) {
	for _, name := range c.Names {
		n = append(n, float64(name.Version))
	}
	if c.Restores != nil {
		n = append(n, float64(*c.Restores))
	}
	if len(c.Erased) > 0 {
		n = append(n, float64(len(c.Erased)))
	}
	n = append(n, valuesOf(c.Control)...)
	for _, kind := range []string{"ADD", "PUT", "UPDATE", "MERGE", "REMOVE", "STATUS", "PIN", "CONFIRM", "TAG", "RETAG", "EXPOSURES"} {
		sum := 0
		for i := range c.Ops {
			o := &c.Ops[i]
			switch {
			case o.Kind != kind:
			case kind == "TAG":
				sum += o.votes()
			case kind == "RETAG":
				sum += len(o.Support)
			case kind == "EXPOSURES":
				sum += len(o.Seen)
			default:
				sum++
			}
		}
		if sum > 0 {
			n = append(n, float64(sum))
		}
	}
	if len(c.Refused) > 0 {
		n = append(n, float64(len(c.Refused)))
	}
	return n
}

// reflections is the number of reflections that a delta covers.
func (c *change) reflections() (n int) {
	for _, s := range c.Covers {
		if s.Evidence != nil && !c.More {
			n++
		}
	}
	return n
}

// changesBullets reports whether a delta changes more than votes and outcomes, or is by a person.
func (c *change) changesBullets() bool {
	return c.Author != "curator" || slices.ContainsFunc(c.Ops, func(o changeOp) bool { return !o.onlyCounts() })
}

// onlyCounts reports whether an operation only changes votes or outcomes.
func (o *changeOp) onlyCounts() bool {
	return o.Kind == "TAG" || o.Kind == "RETAG" || o.Kind == "EXPOSURES" || o.Kind == "CONFIRM"
}
