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
	sampleInterval  = 15 * time.Second // of the health of the roles
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

// Activity has the newest changes of all playbooks, the health of the roles, and the number of dead letters, for live pages. It is safe for
// concurrent use.
type Activity struct {
	conn *bus.Conn

	mu      sync.Mutex
	read    map[playbook.Book]uint64 // sequence of the last delta
	changes []Change                 // oldest first; at most twice maxChanges
	sampled Sample
	roles   map[string]liveness.RoleSummary // replaced, not changed
	running []string                        // processes that sent a report at the last sample; replaced, not changed
	dead    uint64
	changed chan struct{} // closed and replaced at each change of the fields above

	closed chan struct{} // closed at the end of Index.Run
}

func newActivity(conn *bus.Conn) *Activity {
	return &Activity{conn: conn, read: map[playbook.Book]uint64{}, changed: make(chan struct{}), closed: make(chan struct{})}
}

// lastRead returns the sequence of the last delta of a playbook that the activity has.
func (a *Activity) lastRead(b playbook.Book) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.read[b]
}

// add adds the change of a delta of the log, if the activity does not have it.
func (a *Activity) add(b playbook.Book, r *deltalog.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Seq <= a.read[b] {
		return
	}
	a.read[b] = r.Seq
	end := len(a.changes)
	for end > 0 && a.changes[end-1].Time.After(r.Time) { // the changes of another playbook
		end--
	}
	a.changes = slices.Insert(a.changes, end, newChange(b, r))
	if len(a.changes) > 2*maxChanges {
		a.changes = slices.Clone(a.changes[maxChanges:])
	}
	a.notify()
}

// forget removes the changes of a playbook whose log was replaced.
func (a *Activity) forget(b playbook.Book) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.read, b)
	a.changes = slices.DeleteFunc(a.changes, func(c Change) bool { return c.Book == b })
	a.notify()
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

// sample replaces the health of the roles. It returns the pause before the next sample, which is short while a role has no worker, so that
// pages soon show a started worker.
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
	a.sampled, a.roles, a.running = s, roles, nil
	for _, r := range reports {
		a.running = append(a.running, r.Process)
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
	Sample  Sample                          // the last one; its time is zero before
	Roles   map[string]liveness.RoleSummary // health at the last sample; nil before the first
	Running []string                        // processes that sent a report at the last sample
	Dead    uint64                          // number of dead letters
	// Changed is closed at the next change of the state.
	Changed <-chan struct{}
}

// State returns the current state. The caller must not change its maps.
func (a *Activity) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest := slices.Clone(a.changes[max(0, len(a.changes)-maxChanges):])
	return State{Changes: newest, Sample: a.sampled, Roles: a.roles, Running: a.running, Dead: a.dead, Changed: a.changed}
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
