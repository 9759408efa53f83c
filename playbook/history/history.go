// Package history answers questions about the past of a playbook from its log of deltas: the lineage of a bullet, the
// effects of an execution, the difference between two states, and the state without some executions.
//
// Like package playbook it is pure. It reads a log once or twice through a function, wherever the log is stored. Its
// memory grows with the answer or with the number of bullets, not with the length of the log. It does not read chain hashes. A caller that
// needs them, to label versions, records them in the function.
package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"debrief/playbook"
)

// Log reads a log from its beginning. It calls the function for every delta, in order, until that returns an error, and
// returns the error. The functions of this package call a Log once or twice, and return its errors unchanged.
type Log func(func(*playbook.Delta) error) error

// Curator is the author of changes that come from reflections. All other authors are persons.
const Curator = "curator"

// change contains the deltas of a change that took effect, in order.
type change []*playbook.Delta

// last returns the delta with which the change took effect. It holds the covers, the author and the reason of all of
// them.
func (c change) last() *playbook.Delta { return c[len(c)-1] }

// support returns the covers that support an operation in a part of the change. Op.Support has indices into the covers of the last part. An
// edit has no such indices in its early parts: all of its covers support each operation there.
func (c change) support(part *playbook.Delta, op *playbook.Op) []playbook.Cover {
	last := c.last()
	if part.More && last.Author != Curator {
		return last.Covers
	}
	var covers []playbook.Cover
	for _, s := range op.Support {
		if s >= 0 && s < len(last.Covers) { // indices of rejections and of early parts are not validated
			covers = append(covers, last.Covers[s])
		}
	}
	return covers
}

// errEnough ends the reading of a log without an error.
var errEnough = errors.New("read enough of the log")

// changes calls fn for each change that took effect up to the version newest. It ends early if fn returns errEnough.
func (log Log) changes(newest uint64, fn func(change) error) error {
	var parts playbook.ChangeAssembler
	err := log(func(d *playbook.Delta) error {
		if d.Version > newest {
			return errEnough
		}
		if c := change(parts.Add(d)); c != nil {
			return fn(c)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// endOfLog is a version after the end of every log.
const endOfLog = math.MaxUint64

// sameState reports whether two bullets have the same condition, content and counters. It ignores times, as the state hash does.
func sameState(a, b *playbook.Bullet) bool {
	sameStatus := a.Status == b.Status || a.Shown() && b.Shown()
	return a.Section == b.Section && a.When == b.When && a.Content == b.Content && a.Helpful == b.Helpful && a.Harmful == b.Harmful &&
		a.Neutral == b.Neutral && a.Pinned == b.Pinned && sameStatus
}

// sameEvidence reports whether two bullets have the same evidence, which sameState ignores.
func sameEvidence(a, b *playbook.Bullet) bool {
	sameSupport := a.Replaces == b.Replaces && a.Contests == b.Contests && slices.Equal(a.SupportBySource, b.SupportBySource)
	return sameSupport && sameOrigin(a, b) && a.CurrentExperiment() == b.CurrentExperiment()
}

// sameOrigin reports whether two bullets were learned from the same executions and have the same approval.
func sameOrigin(a, b *playbook.Bullet) bool {
	return a.InferredSupport == b.InferredSupport && a.OnlyInferred == b.OnlyInferred && a.Approved == b.Approved && slices.Equal(a.LearnedFrom, b.LearnedFrom)
}

// Difference is a bullet that differs between two states. Before or After is nil if that state does not have the bullet.
type Difference struct {
	Before *playbook.Bullet `json:"before"`
	After  *playbook.Bullet `json:"after"`
}

// ID returns the id of the bullet.
func (d Difference) ID() playbook.BulletID {
	if d.After != nil {
		return d.After.ID
	}
	return d.Before.ID
}

// Diff returns the differences between two states, sorted by bullet id.
func Diff(before, after *playbook.Playbook) []Difference { return diff(before, after, sameState) }

// diff returns the bullets for which same is false, or that only one state has.
func diff(before, after *playbook.Playbook, same func(a, b *playbook.Bullet) bool) []Difference {
	var found []Difference
	for b := range before.All() {
		if a := after.Bullet(b.ID); a == nil || a != b && !same(b, a) {
			found = append(found, Difference{b, a})
		}
	}
	for a := range after.All() {
		if before.Bullet(a.ID) == nil {
			found = append(found, Difference{nil, a})
		}
	}
	slices.SortFunc(found, func(a, b Difference) int { return strings.Compare(string(a.ID()), string(b.ID())) })
	return found
}

// OpsBetween returns the operations that turn one state into another, including the evidence of bullets.
func OpsBetween(from, to *playbook.Playbook) []playbook.Op {
	var ops []playbook.Op
	for _, d := range diff(from, to, func(a, b *playbook.Bullet) bool { return sameState(a, b) && sameEvidence(a, b) }) {
		if d.After == nil {
			ops = append(ops, playbook.Op{Kind: playbook.Remove, Bullet: d.ID()})
			continue
		}
		whole := *d.After
		ops = append(ops, playbook.Op{Kind: playbook.Put, Bullet: whole.ID, PutBullet: &whole})
	}
	return ops
}

// VersionNotFoundError is returned for a version after the end of the log.
type VersionNotFoundError struct {
	Version, Newest uint64
}

func (e *VersionNotFoundError) Error() string {
	return fmt.Sprintf("version %d not found: the newest is %d", e.Version, e.Newest)
}
