package executions

import (
	"hash/maphash"
	"slices"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// row has the fields of an execution that lists filter by.
type row struct {
	seq         uint64
	book        uint64 // hashes; a list checks the execution itself
	owner, user uint64
	session     uint64
	run, task   uint64
	started     int64 // nanoseconds since 1970
	label       events.Label
	shown       []uint32 // numbers of bullets
}

// seed is the seed of the hashes.
var seed = maphash.MakeSeed()

func hash(s string) uint64 { return maphash.String(seed, s) }

// addRow adds an execution. Above the limit it drops the oldest quarter of the rows.
func (x *Index) addRow(seq uint64, e *events.Execution) {
	r := row{seq: seq, book: hash(string(e.Book)), owner: hash(e.Owner), session: hash(e.Session), run: hash(e.RunID), task: hash(e.Origin.Task), user: hash(e.User), started: e.Started.UnixNano(), label: e.Outcome.Label}
	if len(e.Shown) > 0 {
		r.shown = make([]uint32, 0, len(e.Shown))
	}
	for _, b := range e.Shown {
		n, ok := x.bullets[b.ID]
		if !ok {
			n = uint32(len(x.bullets))
			x.bullets[b.ID] = n
		}
		r.shown = append(r.shown, n)
	}
	if len(x.rows) == x.maxRows {
		x.rows, x.dropped = slices.Clone(x.rows[x.maxRows/4:]), true
	}
	x.rows = append(x.rows, r)
}

// Filter selects executions of a playbook. Empty fields select all.
type Filter struct {
	Book      playbook.Book
	Owner     *string // nil: all owners
	Session   string  // name of the session
	Run       string
	Task      string // label
	User      string
	InSession bool // only executions of a session
	Bullet    playbook.BulletID
	Label     events.Label
	Before    time.Time
}

// Matches reports whether an execution of the playbook matches.
func (f *Filter) Matches(e *events.Execution) bool {
	return (f.Owner == nil || e.Owner == *f.Owner) && (f.Session == "" || e.Session == f.Session) && (f.Run == "" || e.RunID == f.Run) &&
		(f.Task == "" || e.Origin.Task == f.Task) && (f.User == "" || e.User == f.User) && (f.Label == "" || e.Outcome.Label == f.Label) &&
		(!f.InSession || e.Session != "") && (f.Before.IsZero() || e.Started.Before(f.Before)) &&
		(f.Bullet == "" || slices.ContainsFunc(e.Shown, func(b events.ShownBullet) bool { return b.ID == f.Bullet }))
}

// row returns the hashes of the fields of the filter.
func (f *Filter) row() *row {
	r := &row{book: hash(string(f.Book)), session: hash(f.Session), run: hash(f.Run), task: hash(f.Task), user: hash(f.User)}
	if f.Owner != nil {
		r.owner = hash(*f.Owner)
	}
	return r
}

// selects reports whether a row has the hashes of the fields that the filter sets.
func (w *row) selects(f *Filter, r *row) bool {
	return r.book == w.book && (f.Owner == nil || r.owner == w.owner) && (f.Session == "" || r.session == w.session) && (f.Run == "" || r.run == w.run) &&
		(f.Task == "" || r.task == w.task) && (f.User == "" || r.user == w.user) && (!f.InSession || r.session != hash(""))
}

// Range returns the sequences that the index covers: from first, up to and including last. Last is 0 for an empty index.
func (x *Index) Range() (first, last uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.dropped {
		first = x.rows[0].seq
	}
	return first, x.seq
}

// Find returns the sequences of at most n executions that match, below end, newest first. Pass next as end to
// find older ones. It is 0 after the oldest.
func (x *Index) Find(f *Filter, end uint64, n int) (found []uint64, next uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	want := f.row()
	bullet, known := x.bullets[f.Bullet]
	if f.Bullet != "" && !known {
		return nil, 0
	}
	at, _ := slices.BinarySearchFunc(x.rows, end, func(r row, end uint64) int { return int(int64(r.seq) - int64(end)) })
	for i := at - 1; i >= 0; i-- {
		r := &x.rows[i]
		if !want.selects(f, r) || f.Label != "" && r.label != f.Label || !f.Before.IsZero() && r.started >= f.Before.UnixNano() || f.Bullet != "" && !slices.Contains(r.shown, bullet) {
			continue
		}
		if found = append(found, r.seq); len(found) == n {
			return found, r.seq
		}
	}
	return found, 0
}

// Counts returns the number of executions that were read of each playbook.
func (x *Index) Counts() map[playbook.Book]int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := map[playbook.Book]int{}
	for b, c := range x.books {
		n := c.total.counts()
		all[b] = n.Executions
	}
	return all
}

// Session is a session in a list.
type Session struct {
	Last       uint64 // sequence of the last execution
	Executions int
}

// Sessions returns the n sessions of a playbook and an owner, nil for all owners, with the newest executions, newest first.
func (x *Index) Sessions(b playbook.Book, owner *string, n int) []Session {
	x.mu.RLock()
	defer x.mu.RUnlock()
	book, none := hash(string(b)), hash("")
	at, all := map[[2]uint64]int{}, []Session{} // by owner and name
	for _, r := range slices.Backward(x.rows) {
		if r.book != book || r.session == none || owner != nil && r.owner != hash(*owner) {
			continue
		}
		key := [2]uint64{r.owner, r.session}
		i, ok := at[key]
		switch {
		case ok:
			all[i].Executions++
		case len(all) < n:
			at[key] = len(all)
			all = append(all, Session{r.seq, 1})
		}
	}
	return all
}
