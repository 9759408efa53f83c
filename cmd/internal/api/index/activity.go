package index

import (
	"context"
	"slices"
	"sync"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/operate/doctor"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/liveness"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Limits of the activity in memory.
const (
	maxChanges      = 2000             // newest changes
	maxSamples      = 240              // of the lag: one hour
	sampleInterval  = 15 * time.Second // of the lag and the health
	missingInterval = 2 * time.Second  // the same, while a role has no worker
	maxReason       = 200              // bytes of the reason of a change
	maxLessons      = 3                // lessons of a change
	maxLesson       = 300              // bytes of the text of a lesson
)

// Change is a version of a playbook.
type Change struct {
	Book    playbook.Book `json:"book"`
	Version uint64        `json:"version"`
	Label   string        `json:"label"`
	Time    time.Time     `json:"time"`
	Author  string        `json:"author"`
	Reason  string        `json:"reason,omitempty"`
	Covers  string        `json:"covers,omitempty" doc:"What the version covers, for people."`
	Summary string        `json:"summary" doc:"The changes, for people."`
	Lessons []Lesson      `json:"lessons,omitempty" doc:"The first bullets with a new text."`
	ChangeCounts

	seq uint64 // of the delta
}

// Lesson is a bullet with a new text.
type Lesson struct {
	Bullet playbook.BulletID `json:"bullet"`
	Text   string            `json:"text" doc:"Beginning of the text of the bullet."`
	New    bool              `json:"new" doc:"The bullet was added, not changed."`
}

// ChangeCounts are numbers of operations on bullets.
type ChangeCounts struct {
	Added   int `json:"added" doc:"Bullets that were added."`
	Changed int `json:"changed" doc:"Bullets with a new text, section, state or pin, or merged."`
	Removed int `json:"removed" doc:"Bullets that were removed."`
	Votes   int `json:"votes" doc:"Votes and outcomes of experiments."`
}

func (c *ChangeCounts) add(d ChangeCounts) {
	c.Added += d.Added
	c.Changed += d.Changed
	c.Removed += d.Removed
	c.Votes += d.Votes
}

// Sample is the lag of the roles at a time: the number of messages that wait or are in progress.
type Sample struct {
	Time time.Time         `json:"time"`
	Lag  map[string]uint64 `json:"lag" doc:"Messages that wait or are in progress, by role."`
}

// Activity has the newest changes of all playbooks, the lag of the roles over time, and the number of dead letters, for live pages.
// It is safe for concurrent use.
type Activity struct {
	conn *bus.Conn

	mu      sync.Mutex
	read    map[playbook.Book]uint64 // sequence of the last delta
	changes []Change                 // oldest first
	samples []Sample
	roles   map[string]liveness.RoleSummary // replaced, not changed
	running []string                        // processes that sent a report at the last sample; replaced, not changed
	dead    uint64
	changed chan struct{} // closed and replaced at each change of the fields above

	closed chan struct{} // closed at the end of Index.Run
}

func newActivity(conn *bus.Conn) *Activity {
	return &Activity{conn: conn, read: map[playbook.Book]uint64{}, changed: make(chan struct{}), closed: make(chan struct{})}
}

// changeCollector collects the changes of a playbook that the activity does not have yet. Its owner reads the log, calls add for each delta,
// and gives the changes to the activity with addChanges.
type changeCollector struct {
	book playbook.Book
	last uint64 // sequence of the last delta that the activity or the collector has
	all  []Change
}

// collector returns a collector without changes.
func (a *Activity) collector(b playbook.Book) *changeCollector {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &changeCollector{book: b, last: a.read[b]}
}

// add adds a delta of the log, if the activity does not have it.
func (c *changeCollector) add(r *deltalog.Record) error {
	if r.Seq <= c.last {
		return nil
	}
	c.last = r.Seq
	c.all = append(c.all, newChange(c.book, r))
	if len(c.all) > maxChanges {
		c.all = slices.Delete(c.all, 0, maxChanges/2)
	}
	return nil
}

// addChanges adds the changes of a collector, except those that another collector has added meanwhile.
func (a *Activity) addChanges(c *changeCollector) {
	a.mu.Lock()
	defer a.mu.Unlock()
	isKnown := func(change Change) bool { return change.seq <= a.read[c.book] }
	added := slices.DeleteFunc(c.all, isKnown)
	if len(added) == 0 {
		return
	}
	a.read[c.book] = c.last
	all := slices.Concat(a.changes, added) // a new list, because readers have the old one
	slices.SortStableFunc(all, func(a, b Change) int { return a.Time.Compare(b.Time) })
	a.changes = slices.Clone(all[max(0, len(all)-maxChanges):])
	a.notify()
}

// forget removes the changes of a playbook whose log was replaced.
func (a *Activity) forget(b playbook.Book) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.read, b)
	a.changes = slices.DeleteFunc(slices.Clone(a.changes), func(c Change) bool { return c.Book == b })
}

// countDead reads the number of dead letters. It returns the pause before the next read.
func (a *Activity) countDead(ctx context.Context) (pause time.Duration, err error) {
	state, err := streamState(ctx, a.conn, events.StreamDead)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if state.Msgs != a.dead {
		a.dead = state.Msgs
		a.notify()
	}
	return pollInterval, nil
}

// notify wakes the readers. The caller holds the lock.
func (a *Activity) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// sample adds a sample of the lag, and replaces the health of the roles. It returns the pause before the next sample, which is short while a
// role has no worker, so that pages soon show a started worker.
func (a *Activity) sample(ctx context.Context) (pause time.Duration, err error) {
	reports, roles, err := doctor.ReadRoles(ctx, a.conn, liveness.Floor)
	if err != nil {
		return 0, err
	}
	pause = sampleInterval
	s := Sample{Time: time.Now().UTC(), Lag: map[string]uint64{}}
	for role, r := range roles {
		s.Lag[role] = r.Pending + uint64(r.InFlight)
		if r.Workers == 0 {
			pause = missingInterval
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roles, a.running = roles, nil
	for _, r := range reports {
		a.running = append(a.running, r.Process)
	}
	// While a role has no worker, this runs more often than sampleInterval: keep only one of these samples for each interval.
	if n := len(a.samples); n == 0 || s.Time.Sub(a.samples[n-1].Time) >= sampleInterval/2 {
		a.samples = slices.Concat(a.samples[max(0, len(a.samples)-maxSamples+1):], []Sample{s})
	}
	a.notify()
	return pause, nil
}

// newChange returns the change that a delta of the log makes.
func newChange(b playbook.Book, r *deltalog.Record) Change {
	c := Change{
		Book: b, Version: r.Version, Label: playbook.VersionLabel(r.Version, r.Chain), Time: r.Time, Author: r.Author, Reason: text.Clip(r.Reason, maxReason),
		Covers: explain.CoverSummary(&r.Delta), Summary: explain.DeltaSummary(&r.Delta), seq: r.Seq,
	}
	for i := range r.Ops {
		op := &r.Ops[i]
		if len(c.Lessons) < maxLessons && op.Content != "" {
			c.Lessons = append(c.Lessons, Lesson{
				Bullet: op.Bullet, Text: text.Clip(op.Content, maxLesson), New: op.Kind == playbook.Add,
			})
		}
		switch {
		case op.Kind == playbook.Add:
			c.Added++
		case op.Kind == playbook.Remove:
			c.Removed++
		case op.Kind.Counts():
			c.Votes++
		default:
			c.Changed++
		}
	}
	return c
}

// Closed returns a channel that is closed when Index.Run ends.
func (a *Activity) Closed() <-chan struct{} { return a.closed }

// State is the activity at a moment.
type State struct {
	Changes []Change                        // the newest, oldest first
	Samples []Sample                        // of the last hour, oldest first
	Roles   map[string]liveness.RoleSummary // health at the last sample; nil before the first
	Running []string                        // processes that sent a report at the last sample
	Dead    uint64                          // number of dead letters
	// Changed is closed at the next change of the state.
	Changed <-chan struct{}
}

// State returns the current state. The caller must not change its lists and maps.
func (a *Activity) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return State{Changes: a.changes, Samples: a.samples, Roles: a.roles, Running: a.running, Dead: a.dead, Changed: a.changed}
}

// Learned sums the changes since a time, and counts the versions that they made. It includes only playbooks that permitted accepts.
func (s *State) Learned(since time.Time, permitted func(playbook.Book) bool) (n ChangeCounts, versions int) {
	for _, c := range slices.Backward(s.Changes) {
		if c.Time.Before(since) {
			break
		}
		if permitted(c.Book) {
			versions++
			n.add(c.ChangeCounts)
		}
	}
	return n, versions
}
