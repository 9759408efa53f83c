// Package activity follows a server for live pages: the newest changes of all playbooks, the lag of the roles over time, and the
// number of dead letters. A Feed keeps a bounded part of them in memory.
package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/liveness"
	"debrief/events/streams"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Limits of a feed.
const (
	maxChanges      = 2000             // newest changes
	maxSamples      = 240              // of the lag: one hour
	sampleInterval  = 15 * time.Second // of the lag and the health
	missingInterval = 2 * time.Second  // of the health, while a role has no worker
	defaultPoll     = 2 * time.Second  // default of New
	maxReason       = 200              // bytes
	maxLessons      = 3                // of a change
	maxLesson       = 300              // bytes
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
	Counts
}

// Lesson is a bullet with a new text.
type Lesson struct {
	Bullet playbook.BulletID `json:"bullet"`
	Text   string            `json:"text" doc:"Beginning of the text of the bullet."`
	New    bool              `json:"new" doc:"The bullet was added, not changed."`
	// Quarantined is set if the bullet went into quarantine; a person may have decided since.
	Quarantined bool `json:"quarantined,omitempty" doc:"The bullet went into quarantine; a person may have decided since."`
}

// Counts are numbers of operations on bullets.
type Counts struct {
	Added   int `json:"added" doc:"Bullets that were added."`
	Changed int `json:"changed" doc:"Bullets with a new text, section, state or pin, or merged."`
	Removed int `json:"removed" doc:"Bullets that were removed."`
	Votes   int `json:"votes" doc:"Votes and outcomes of experiments."`
}

func (c *Counts) add(d Counts) {
	c.Added, c.Changed, c.Removed, c.Votes = c.Added+d.Added, c.Changed+d.Changed, c.Removed+d.Removed, c.Votes+d.Votes
}

// Sample is the lag of the roles at a time: the number of messages that wait or are in progress.
type Sample struct {
	Time time.Time         `json:"time"`
	Lag  map[string]uint64 `json:"lag" doc:"Messages that wait or are in progress, by role."`
}

// Feed follows a server. It is safe for concurrent use. Run fills it.
type Feed struct {
	conn *bus.Conn
	log  *deltalog.Store
	wake chan playbook.Book
	poll time.Duration

	read map[playbook.Book]uint64 // sequence of the last delta that was read; of the goroutine of Run
	last uint64                   // last sequence of the stream of deltas; of the goroutine of Run

	mu      sync.Mutex
	changes []Change // oldest first
	samples []Sample
	roles   map[string]liveness.RoleSummary // replaced, not changed
	running []string                        // processes that sent a report at the last sample; replaced, not changed
	dead    uint64
	changed chan struct{} // closed and replaced at each change of the fields above

	closed chan struct{} // closed at the end of Run
}

// New returns an empty feed. Poll is the interval at which Run reads the number of dead letters, and the changes that no curator has
// announced; 0 is 2 s.
func New(conn *bus.Conn, poll time.Duration) *Feed {
	if poll <= 0 {
		poll = defaultPoll
	}
	return &Feed{
		conn: conn, log: deltalog.New(conn.JetStream()), wake: make(chan playbook.Book, 64), poll: poll, read: map[playbook.Book]uint64{}, changed: make(chan struct{}),
		closed: make(chan struct{}),
	}
}

// Run follows the server until the context ends. It continues after failed reads. It must be called once.
func (f *Feed) Run(ctx context.Context) {
	defer close(f.closed)
	announced := func(m *nats.Msg) {
		_, name, _ := strings.Cut(m.Subject, "debrief.head.")
		select {
		case f.wake <- playbook.Book(name):
		default: // the next poll reads it
		}
	}
	if sub, err := f.conn.NATS().Subscribe(events.HeadSubject(""), announced); err != nil {
		f.conn.Log().Warn().Err(err).Msg("follow announcements of versions; changes are polled")
	} else {
		defer sub.Unsubscribe()
	}
	var sampling sync.WaitGroup
	sampling.Go(func() { f.sampleRoles(ctx) })
	defer sampling.Wait()
	poll := time.NewTicker(f.poll)
	defer poll.Stop()
	f.report(ctx, f.readAll(ctx))
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-f.wake:
			f.report(ctx, f.follow(ctx, b))
		case <-poll.C:
			f.report(ctx, f.readAll(ctx))
		}
	}
}

// sampleRoles samples the roles until the context ends. It has its own goroutine, because a sample waits for the reports of workers.
// It looks again soon while a role has no worker, so that pages do not show a start of workers late.
func (f *Feed) sampleRoles(ctx context.Context) {
	for {
		f.report(ctx, f.sample(ctx))
		wait := sampleInterval
		for _, r := range f.State().Roles {
			if r.Workers == 0 {
				wait = missingInterval
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (f *Feed) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		f.conn.Log().Warn().Err(err).Msg("read activity; live pages are behind")
	}
}

// readAll reads the number of dead letters, and all new deltas.
func (f *Feed) readAll(ctx context.Context) error {
	dead, err := f.streamState(ctx, events.StreamDead)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if n := dead.Msgs; n != f.dead {
		f.dead = n
		f.notify()
	}
	f.mu.Unlock()
	deltas, err := f.streamState(ctx, events.StreamDeltas)
	if err != nil {
		return err
	}
	last := deltas.LastSeq
	if last == f.last {
		return nil
	}
	books, err := f.log.BooksWithLog(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range books {
		errs = append(errs, f.follow(ctx, b))
	}
	f.last = last
	return errors.Join(errs...)
}

// streamState returns the state of a stream. A missing stream is empty: its role has not started yet.
func (f *Feed) streamState(ctx context.Context, name string) (state jetstream.StreamState, err error) {
	stream, err := f.conn.JetStream().Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("open stream %s: %w", name, err)
	}
	return stream.CachedInfo().State, nil
}

// follow reads the new deltas of a playbook.
func (f *Feed) follow(ctx context.Context, b playbook.Book) error {
	if b.Validate() != nil {
		return nil
	}
	var all []Change
	err := f.log.DeltasAfter(ctx, b, f.read[b], func(r *deltalog.Record) error {
		f.read[b] = r.Seq
		if all = append(all, newChange(b, r)); len(all) > maxChanges {
			all = slices.Delete(all, 0, maxChanges/2)
		}
		return nil
	})
	if errors.Is(err, deltalog.ErrBrokenLog) {
		delete(f.read, b) // the server may have lost the end of the log
		return nil        // the status reports it
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(all) > 0 {
		all = slices.Concat(f.changes, all) // readers have the old list
		slices.SortStableFunc(all, func(a, b Change) int { return a.Time.Compare(b.Time) })
		f.changes = slices.Clone(all[max(0, len(all)-maxChanges):])
		f.notify()
	}
	return err
}

// notify wakes the readers. The caller holds the lock.
func (f *Feed) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// sample adds a sample of the lag, and replaces the health of the roles.
func (f *Feed) sample(ctx context.Context) error {
	reports, err := liveness.CollectReports(ctx, f.conn.NATS())
	if err != nil {
		return err
	}
	s := Sample{Time: time.Now().UTC(), Lag: map[string]uint64{}}
	roles := map[string]liveness.RoleSummary{}
	for _, role := range streams.Roles {
		w, err := f.conn.Consumers.Backlog(ctx, role)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		s.Lag[role] = w.Pending + uint64(w.InFlight)
		roles[role] = liveness.Summarize(role, w, reports, s.Time, liveness.Floor)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.roles, f.running = roles, nil
	for _, r := range reports {
		f.running = append(f.running, r.Process)
	}
	if n := len(f.samples); n == 0 || s.Time.Sub(f.samples[n-1].Time) >= sampleInterval/2 {
		f.samples = slices.Concat(f.samples[max(0, len(f.samples)-maxSamples+1):], []Sample{s})
	}
	f.notify()
	return nil
}

func newChange(b playbook.Book, r *deltalog.Record) Change {
	c := Change{
		Book: b, Version: r.Version, Label: playbook.VersionLabel(r.Version, r.Chain), Time: r.Time, Author: r.Author, Reason: text.Clip(r.Reason, maxReason),
		Covers: explain.CoverSummary(&r.Delta), Summary: explain.DeltaSummary(&r.Delta),
	}
	for i := range r.Ops {
		if op := &r.Ops[i]; len(c.Lessons) < maxLessons && op.Content != "" {
			c.Lessons = append(c.Lessons, Lesson{op.Bullet, text.Clip(op.Content, maxLesson), op.Kind == playbook.Add, op.Status == playbook.Quarantined})
		}
		switch r.Ops[i].Kind {
		case playbook.Add:
			c.Added++
		case playbook.Remove:
			c.Removed++
		case playbook.Tag, playbook.Retag, playbook.AddExposures, playbook.Confirm:
			c.Votes++
		default:
			c.Changed++
		}
	}
	return c
}

// Closed returns a channel that is closed when Run ends.
func (f *Feed) Closed() <-chan struct{} { return f.closed }

// State is the activity at a moment.
type State struct {
	Changes []Change
	Samples []Sample
	Roles   map[string]liveness.RoleSummary // health at the last sample; empty before the first
	Running []string                        // processes that sent a report at the last sample
	Dead    uint64                          // number of dead letters
	// Changed is closed at the next change of the state.
	Changed <-chan struct{}
}

// State returns the newest changes, oldest first, the samples of the last hour, the health of the roles, and the number of dead letters. The caller must not
// change it.
func (f *Feed) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return State{f.changes, f.samples, f.roles, f.running, f.dead, f.changed}
}

// Learned sums the changes since a time of the playbooks that permitted accepts.
func (s *State) Learned(since time.Time, permitted func(playbook.Book) bool) (n Counts, versions int) {
	for _, c := range slices.Backward(s.Changes) {
		if c.Time.Before(since) {
			break
		}
		if permitted(c.Book) {
			versions++
			n.add(c.Counts)
		}
	}
	return n, versions
}
