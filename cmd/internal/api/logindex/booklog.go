package logindex

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Limits of the memory of one log.
const (
	maxVersions    = 20_000  // versions whose texts are in memory; older ones are read again
	maxCheckpoints = 12      // playbooks at earlier versions
	checkpointStep = 1 << 20 // bytes of the log between checkpoints, at first
)

// seed is that of the hashes of ids. A delta that is found by a hash is read, so that a collision only costs time.
var seed = maphash.MakeSeed()

// delta is a delta of a log. Its index in bookLog.at is its version minus one.
type delta struct {
	deltalog.Position
	time   time.Time
	change int // index of the first delta of its change
}

// coverage links an event or an execution to a delta that covers it.
type coverage struct {
	id    uint64 // hash
	delta int
}

// bookLog is the index of one log. Its memory is about 100 bytes for a delta, 4 bytes for each bullet that the delta concerns, and 32
// bytes for each execution that it covers.
type bookLog struct {
	book     playbook.Book
	at       []delta
	names    []playbook.Name                // each belongs to the version that got it last
	recent   []Version                      // newest versions, oldest first, without names
	touched  map[playbook.BulletID][]uint32 // deltas that concern a bullet
	merged   map[playbook.BulletID][]playbook.BulletID
	forgets  []int // deltas that forget executions
	covers   []coverage
	changeID string // of the newest delta
	statuses history.Statuses

	now         playbook.Playbook
	checkpoints []*playbook.Playbook // oldest first
	step, since int                  // bytes between checkpoints, and after the last one
}

func newBookLog(b playbook.Book, step int) *bookLog {
	return &bookLog{book: b, touched: map[playbook.BulletID][]uint32{}, merged: map[playbook.BulletID][]playbook.BulletID{}, step: step}
}

// add adds the next delta of the log.
func (l *bookLog) add(r *deltalog.Record) error {
	if _, err := l.now.Apply(&r.Delta); err != nil {
		return fmt.Errorf("playbook %q: %w: %w", l.book, err, deltalog.ErrBrokenLog)
	}
	n := len(l.at)
	d := delta{Position: deltalog.Position{Seq: r.Seq, Chain: [32]byte(r.Chain)}, time: r.Time, change: n}
	if n > 0 && r.ChangeID != "" && r.ChangeID == l.changeID {
		d.change = l.at[n-1].change
	}
	l.at, l.changeID = append(l.at, d), r.ChangeID
	l.addReferences(n, &r.Delta)
	for _, name := range r.Names {
		l.names = append(slices.DeleteFunc(l.names, func(o playbook.Name) bool { return o.Name == name.Name }), name)
	}
	if len(l.recent) == maxVersions {
		l.recent = slices.Clone(l.recent[maxVersions/4:])
	}
	l.recent = append(l.recent, newVersion(r))
	l.statuses.Add(&r.Delta)
	if l.since += r.Size; l.since >= l.step {
		l.addCheckpoint()
	}
	return nil
}

// addReferences records the bullets, events and executions of the delta with index n.
func (l *bookLog) addReferences(n int, d *playbook.Delta) {
	touch := func(id playbook.BulletID) {
		if all := l.touched[id]; id != "" && (len(all) == 0 || all[len(all)-1] != uint32(n)) {
			l.touched[id] = append(all, uint32(n))
		}
	}
	for i := range d.Ops {
		op := &d.Ops[i]
		touch(op.Bullet)
		for _, id := range op.Sources {
			touch(id)
		}
		if op.Kind == playbook.Merge {
			l.merged[op.Bullet] = append(l.merged[op.Bullet], op.Sources...)
		}
	}
	for i := range d.Rejected {
		touch(d.Rejected[i].DuplicateOf)
	}
	if d.Forget != nil {
		l.forgets = append(l.forgets, n)
	}
	for i := range d.Covers {
		c := &d.Covers[i]
		l.covers = append(l.covers, coverage{maphash.String(seed, c.ID), n})
		if c.Evidence != nil {
			l.covers = append(l.covers, coverage{maphash.String(seed, c.Evidence.Execution), n})
		}
	}
}

// addCheckpoint keeps a copy of the newest state. At the limit it drops every second copy.
func (l *bookLog) addCheckpoint() {
	l.checkpoints, l.since = append(l.checkpoints, l.now.Clone()), 0
	if len(l.checkpoints) <= maxCheckpoints {
		return
	}
	kept := l.checkpoints[:0]
	for i, p := range l.checkpoints {
		if i%2 == 1 {
			kept = append(kept, p)
		}
	}
	clear(l.checkpoints[len(kept):])
	l.checkpoints, l.step = kept, 2*l.step
}

// checkpoint returns a copy of the newest known state that is not after a version.
func (l *bookLog) checkpoint(version uint64) *playbook.Playbook {
	if l.now.Version() <= version {
		return l.now.Clone()
	}
	for _, p := range slices.Backward(l.checkpoints) {
		if p.Version() <= version {
			return p.Clone()
		}
	}
	return new(playbook.Playbook)
}

// whole adds the other deltas of the changes that the deltas belong to.
func (l *bookLog) whole(some []int) (all []int) {
	for _, n := range some {
		first := l.at[n].change
		for i := first; i < len(l.at) && l.at[i].change == first; i++ {
			all = append(all, i)
		}
	}
	return all
}

// family returns a bullet and those that were merged into it.
func (l *bookLog) family(id playbook.BulletID) map[playbook.BulletID]bool {
	seen, next := map[playbook.BulletID]bool{id: true}, []playbook.BulletID{id}
	for len(next) > 0 {
		id, next = next[len(next)-1], next[:len(next)-1]
		for _, from := range l.merged[id] {
			if !seen[from] {
				seen[from], next = true, append(next, from)
			}
		}
	}
	return seen
}

// concerning returns the deltas that concern some bullets, and all that forget executions.
func (l *bookLog) concerning(family map[playbook.BulletID]bool) []int {
	some := slices.Clone(l.forgets)
	for id := range family {
		for _, n := range l.touched[id] {
			some = append(some, int(n))
		}
	}
	return l.whole(some)
}

// covering returns the deltas that cover an event with an id, or an execution with a handle.
func (l *bookLog) covering(id string) []int {
	hash := maphash.String(seed, id)
	var some []int
	for _, c := range l.covers {
		if c.id == hash {
			some = append(some, c.delta)
		}
	}
	return l.whole(some)
}

// outline calls fn with the version, time and hash of each delta. The last has the names of all versions.
func (l *bookLog) outline(fn func(*deltalog.Record) error) error {
	var r deltalog.Record
	for i := range l.at {
		d := &l.at[i]
		r.Version, r.Time, r.Seq, r.Chain = uint64(i+1), d.time, d.Seq, d.Chain[:]
		if i == len(l.at)-1 {
			r.Names = l.names
		}
		if err := fn(&r); err != nil {
			return err
		}
	}
	return nil
}

// namesOf returns the names of a version.
func (l *bookLog) namesOf(version uint64) (names []string) {
	for _, n := range l.names {
		if n.Version == version {
			names = append(names, n.Name)
		}
	}
	return names
}

// page returns at most limit versions below end, newest first. Missing are the deltas of the older ones among them, which are not in
// memory.
func (l *bookLog) page(end uint64, limit int) (all []Version, missing []int) {
	last := int(min(end-1, uint64(len(l.at)))) // its version
	first := max(1, last-limit+1)
	old := len(l.at) - len(l.recent) // versions that are not in memory
	for v := last; v >= first && v > old; v-- {
		item := l.recent[v-old-1]
		item.Names = l.namesOf(item.Version)
		all = append(all, item)
	}
	for v := first; v <= min(last, old); v++ {
		missing = append(missing, v-1)
	}
	return all, missing
}
