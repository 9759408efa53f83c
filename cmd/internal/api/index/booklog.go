package index

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// delta is a delta of a log. Its index in bookLog.deltas is its version minus one.
type delta struct {
	deltalog.Position
	time       time.Time
	change     int      // index of the first delta of its change; a large change has several deltas
	hashes     []uint64 // of the ids of the bullets, events and executions that the delta is about, sorted
	forgets    bool     // the delta forgets executions
	onlyCounts bool     // the Curator made the delta, which only changes votes and outcomes
}

// bookLog is the index of one log. Its memory is about 120 bytes for a delta, and 8 bytes for each id that the delta is about.
type bookLog struct {
	book     playbook.Book
	deltas   []delta
	names    []playbook.Name                           // each once, with the version that got it last
	merged   map[playbook.BulletID][]playbook.BulletID // bullets that were merged into a bullet
	changeID string                                    // of the newest delta
	statuses history.Statuses
	health   history.HealthLog
	newest   playbook.Playbook // at the newest version
}

func newBookLog(b playbook.Book) *bookLog {
	return &bookLog{book: b, merged: map[playbook.BulletID][]playbook.BulletID{}}
}

// add adds the next delta of the log.
func (l *bookLog) add(r *deltalog.Record) error {
	l.health.Add(&r.Delta, &l.newest)
	if _, err := l.newest.Apply(&r.Delta); err != nil {
		return fmt.Errorf("playbook %q: %w: %w", l.book, err, deltalog.ErrBrokenLog)
	}
	n := len(l.deltas)
	d := delta{
		Position: deltalog.Position{Seq: r.Seq, Chain: [32]byte(r.Chain)}, time: r.Time, change: n, hashes: hashesOf(&r.Delta),
		forgets: r.Forget != nil, onlyCounts: r.Author == history.Curator && !r.ChangesBullets(),
	}
	if n > 0 && r.ChangeID != "" && r.ChangeID == l.changeID { // another part of the same change
		d.change = l.deltas[n-1].change
	}
	l.deltas = append(l.deltas, d)
	l.changeID = r.ChangeID
	for i := range r.Ops {
		if op := &r.Ops[i]; op.Kind == playbook.Merge {
			l.merged[op.Bullet] = append(l.merged[op.Bullet], op.Sources...)
		}
	}
	for _, name := range r.Names {
		others := slices.DeleteFunc(l.names, func(o playbook.Name) bool { return o.Name == name.Name })
		l.names = append(others, name)
	}
	l.statuses.Add(&r.Delta)
	return nil
}

// hashesOf returns the sorted hashes of the ids of the bullets, events and executions that a delta is about.
func hashesOf(d *playbook.Delta) []uint64 {
	var all []uint64
	for i := range d.Ops {
		all = append(all, hash(string(d.Ops[i].Bullet)))
		for _, id := range d.Ops[i].Sources {
			all = append(all, hash(string(id)))
		}
	}
	for i := range d.Rejected {
		all = append(all, hash(string(d.Rejected[i].DuplicateOf)))
	}
	for i := range d.Covers {
		all = append(all, hash(d.Covers[i].ID))
		if e := d.Covers[i].Evidence; e != nil {
			all = append(all, hash(e.Execution))
		}
	}
	slices.Sort(all)
	return slices.Clip(slices.Compact(all))
}

var seed = maphash.MakeSeed()

// hash returns 8 bytes that stand for an id in memory. They differ from process to process.
func hash(id string) uint64 { return maphash.String(seed, id) }

// family returns a bullet and those that were merged into it, also by way of other bullets.
func (l *bookLog) family(id playbook.BulletID) map[playbook.BulletID]bool {
	members := map[playbook.BulletID]bool{}
	var add func(playbook.BulletID)
	add = func(id playbook.BulletID) {
		if members[id] {
			return
		}
		members[id] = true
		for _, source := range l.merged[id] {
			add(source)
		}
	}
	add(id)
	return members
}

// concerning returns the indices of the deltas about some bullets, and of all that forget executions.
func (l *bookLog) concerning(family map[playbook.BulletID]bool) []int {
	wanted := map[uint64]bool{}
	for id := range family {
		wanted[hash(string(id))] = true
	}
	return l.changes(func(d *delta) bool {
		return d.forgets || slices.ContainsFunc(d.hashes, func(id uint64) bool { return wanted[id] })
	})
}

// covering returns the indices of the deltas about an event with an id, or an execution with a handle.
func (l *bookLog) covering(id string) []int {
	wanted := hash(id)
	return l.changes(func(d *delta) bool {
		_, found := slices.BinarySearch(d.hashes, wanted)
		return found
	})
}

// changes returns the indices of the deltas that are selected, and of the other deltas of their changes.
func (l *bookLog) changes(selected func(*delta) bool) (all []int) {
	for first := 0; first < len(l.deltas); {
		end := first + 1
		for end < len(l.deltas) && l.deltas[end].change == first {
			end++
		}
		change := l.deltas[first:end]
		if slices.ContainsFunc(change, func(d delta) bool { return selected(&d) }) {
			for i := range change {
				all = append(all, first+i)
			}
		}
		first = end
	}
	return all
}

// outline calls fn with the version, time and hash of each delta. The last has the names of all versions.
func (l *bookLog) outline(fn func(*deltalog.Record) error) error {
	var r deltalog.Record
	for i := range l.deltas {
		d := &l.deltas[i]
		r.Version = uint64(i + 1)
		r.Time = d.time
		r.Seq = d.Seq
		r.Chain = d.Chain[:]
		if i == len(l.deltas)-1 {
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

// before returns the indices of the last selected deltas below a version, at most limit, newest first.
func (l *bookLog) before(end uint64, limit int, changes Changes) (all []int) {
	last := int(min(end-1, uint64(len(l.deltas)))) // version
	for i := last - 1; i >= 0 && len(all) < limit; i-- {
		if changes == AllChanges || !l.deltas[i].onlyCounts {
			all = append(all, i)
		}
	}
	return all
}
