package auditor

import (
	"cmp"
	"slices"
)

// opNumbers returns the numbers of the sentence about an operation, without quoted texts.
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

// exposureNumbers returns the number and the mean of the outcomes of each arm, and the number of those taken back.
func exposureNumbers(all []exposure) (n []float64) {
	undone := 0
	for _, arm := range []string{"shown", "withheld", "open"} {
		count, sum := 0, 0
		for _, x := range all {
			switch {
			case x.Arm != arm:
			case x.Undo:
				count, sum, undone = count-1, sum-x.Score, undone+1
			default:
				count, sum = count+1, sum+x.Score
			}
		}
		if count > 0 {
			n = append(n, float64(count), float64(sum)/10/float64(count))
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
