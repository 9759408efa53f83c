// Package history is what a log of deltas says about the past: where a bullet comes from and what became of an execution,
// what lies between two states, and how things would stand had some executions never been. Like package playbook it is
// pure: a log comes in as its deltas, wherever they are kept, and is read once or twice. What is kept of it in memory
// grows with the answer, or with the bullets, and not with the log. Who needs chain hashes, to label versions, notes them
// while it reads.
package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"debrief/playbook"
)

// Log reads a log from its beginning: it calls the function for every delta, in order, until that returns an error.
type Log func(func(*playbook.Delta) error) error

// Curator is the author of the changes that reflections bring. All other authors are people.
const Curator = "curator"

// change is the deltas of a change that took effect, in order.
type change []*playbook.Delta

// last is the delta that it took effect with. It says for all of them what they cover, by whom and why.
func (c change) last() *playbook.Delta { return c[len(c)-1] }

// support is what an operation of one part of the change rests on.
func (c change) support(part *playbook.Delta, op *playbook.Op) []playbook.Cover {
	last := c.last()
	if part.More && last.Author != Curator {
		return last.Covers
	}
	var covers []playbook.Cover
	for _, s := range op.Support {
		if s >= 0 && s < len(last.Covers) { // of a rejection, and of an early part, nothing has checked it
			covers = append(covers, last.Covers[s])
		}
	}
	return covers
}

var errEnough = errors.New("read enough of the log")

// changes reads the changes that took effect up to a version. The function ends it early with errEnough.
func (log Log) changes(newest uint64, fn func(change) error) error {
	var parts playbook.Parts
	err := log(func(d *playbook.Delta) error {
		if d.Version > newest {
			return errEnough
		}
		if c := change(parts.Take(d)); c != nil {
			return fn(c)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// all is as far as a log goes.
const all = math.MaxUint64

// same reports whether two bullets say and count the same; times aside, as in a state hash.
func same(a, b *playbook.Bullet) bool {
	return a.Section == b.Section && a.Content == b.Content && a.Helpful == b.Helpful && a.Harmful == b.Harmful &&
		a.Neutral == b.Neutral && a.Pinned == b.Pinned && a.Shown() == b.Shown() && (a.Shown() || a.Status == b.Status) &&
		(a.Rule == nil) == (b.Rule == nil) && (a.Rule == nil || *a.Rule == *b.Rule)
}

// Difference is one bullet that is not the same in two states; Was or Is is nil where there is none.
type Difference struct {
	Was *playbook.Bullet `json:"was"`
	Is  *playbook.Bullet `json:"is"`
}

// ID is the bullet's.
func (d Difference) ID() playbook.BulletID {
	if d.Is != nil {
		return d.Is.ID
	}
	return d.Was.ID
}

// sameEvidence reports whether as much is known of two bullets and for the same reasons, which people do not see as a
// difference between two states.
func sameEvidence(a, b *playbook.Bullet) bool {
	x, y := a.TheCase(), b.TheCase()
	return a.Replaces == b.Replaces && slices.Equal(a.Backing, b.Backing) && slices.Equal(x.Recent, y.Recent) &&
		x.Number == y.Number && x.Share == y.Share && x.Seconded == y.Seconded &&
		x.Shown == y.Shown && x.Withheld == y.Withheld && x.Open == y.Open
}

// Between is what is not the same in two states, by id.
func Between(was, is *playbook.Playbook) []Difference { return between(was, is, same) }

func between(was, is *playbook.Playbook, same func(a, b *playbook.Bullet) bool) []Difference {
	var found []Difference
	for b := range was.All() {
		if now := is.Bullet(b.ID); now == nil || now != b && !same(b, now) {
			found = append(found, Difference{b, now})
		}
	}
	for b := range is.All() {
		if was.Bullet(b.ID) == nil {
			found = append(found, Difference{nil, b})
		}
	}
	slices.SortFunc(found, func(a, b Difference) int { return strings.Compare(string(a.ID()), string(b.ID())) })
	return found
}

// Towards is the operations that turn one state into another, what is known of the bullets included.
func Towards(from, to *playbook.Playbook) []playbook.Op {
	var ops []playbook.Op
	for _, d := range between(from, to, func(a, b *playbook.Bullet) bool { return same(a, b) && sameEvidence(a, b) }) {
		if d.Is == nil {
			ops = append(ops, playbook.Op{Kind: playbook.Remove, Bullet: d.ID()})
			continue
		}
		whole := *d.Is
		ops = append(ops, playbook.Op{Kind: playbook.Put, Bullet: whole.ID, Whole: &whole})
	}
	return ops
}

// NoVersionError is returned when a log has no such version.
type NoVersionError struct {
	Version, Newest uint64
}

func (e *NoVersionError) Error() string {
	return fmt.Sprintf("there is no version %d: the newest is %d", e.Version, e.Newest)
}
