package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// maxBooks is the number of playbooks that stay in Logs, and the number that stay in Books.
const maxBooks = 256

// Logs is the index of the logs of all playbooks. Each request first reads the new deltas, so its result is that of the whole log at
// that time. It is safe for concurrent use.
type Logs struct {
	conn     *bus.Conn
	store    *deltalog.Store
	activity *Activity // receives the new deltas
	open     *lru.Cache[playbook.Book, *entry]
}

// entry is the index of one log.
type entry struct {
	mu     sync.Mutex
	reader *deltalog.Reader
	log    *bookLog
}

func newLogs(conn *bus.Conn, activity *Activity) *Logs {
	open, _ := lru.New[playbook.Book, *entry](maxBooks) // fails only for a size of 0
	return &Logs{conn: conn, store: deltalog.New(conn.JetStream()), activity: activity, open: open}
}

// followAll reads the new deltas of all logs. before is the last sequence of the stream at the previous call, or 0: then, and if the stream has
// lost its end, followAll reads all logs. Otherwise it reads those with deltas after it. It returns the last sequence now.
func (x *Logs) followAll(ctx context.Context, before uint64) (last uint64, err error) {
	state, err := streamState(ctx, x.conn, events.StreamDeltas)
	last = state.LastSeq
	if err != nil || last == before {
		return last, err
	}
	var books []playbook.Book
	if before == 0 || last < before {
		books, err = x.store.BooksWithLog(ctx)
	} else {
		books, err = x.store.BooksSince(ctx, before+1)
	}
	for _, b := range books {
		err = errors.Join(err, x.follow(ctx, b))
	}
	return last, err
}

// streamState returns the state of a stream. The state of a missing stream is zero: the role that creates it has not started yet.
func streamState(ctx context.Context, conn *bus.Conn, name string) (state jetstream.StreamState, err error) {
	stream, err := conn.JetStream().Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("open stream %s: %w", name, err)
	}
	return stream.CachedInfo().State, nil
}

// follow reads the new deltas of a log. If the index is full, it reads them for the activity only. It ignores a damaged log and deltas of a
// newer program, because the status reports them.
func (x *Logs) follow(ctx context.Context, b playbook.Book) (err error) {
	if x.open.Len() == maxBooks && !x.open.Contains(b) {
		err = x.store.DeltasAfter(ctx, b, x.activity.lastRead(b), func(r *deltalog.Record) error {
			x.activity.add(b, r)
			return nil
		})
	} else {
		err = x.read(ctx, b, func(*bookLog) error { return nil })
	}
	if IsDamaged(err) {
		return nil
	}
	return err
}

// read reads the new deltas of a log, for the index and for the activity, and calls fn with the index of the log. fn must not keep it.
func (x *Logs) read(ctx context.Context, b playbook.Book, fn func(*bookLog) error) error {
	if err := b.Validate(); err != nil {
		return err
	}
	e := entryOf(x.open, b)
	e.mu.Lock()
	defer e.mu.Unlock()
	err := x.update(ctx, b, e)
	if errors.Is(err, deltalog.ErrBrokenLog) { // the server may have lost the end of the log, or the log was replaced: read all of it
		x.activity.forget(b)
		err = x.update(ctx, b, e)
	}
	if err != nil {
		return explain.LogError(err)
	}
	if len(e.log.deltas) == 0 { // clients may request any name: keep no entry for one that does not exist
		x.open.Remove(b)
	}
	return fn(e.log)
}

// update reads the new deltas of a log. The caller holds the lock of the entry.
func (x *Logs) update(ctx context.Context, b playbook.Book, e *entry) error {
	if e.log == nil {
		e.reader, e.log = x.store.Reader(b), newBookLog(b)
	}
	err := e.reader.Read(ctx, func(r *deltalog.Record) error {
		if err := e.log.add(r); err != nil {
			return err
		}
		x.activity.add(b, r)
		return nil
	})
	if errors.Is(err, deltalog.ErrBrokenLog) { // the next update begins again; after other errors, such as of a client that left, it continues
		e.log = nil
	}
	return err
}

// entryOf returns the entry of a playbook, and adds a missing one. At the limit this removes the entry that was used least recently.
func entryOf[T any](open *lru.Cache[playbook.Book, *T], b playbook.Book) *T {
	if e, ok := open.Get(b); ok {
		return e
	}
	e := new(T)
	if other, ok, _ := open.PeekOrAdd(b, e); ok { // another request was faster
		return other
	}
	return e
}

// part returns the deltas of a log at the indices that choose returns, in the order of the log. An index may come twice.
func (x *Logs) part(ctx context.Context, b playbook.Book, choose func(*bookLog) []int) (all []*deltalog.Record, err error) {
	var at []deltalog.Position
	err = x.read(ctx, b, func(l *bookLog) error {
		chosen := choose(l)
		slices.Sort(chosen)
		for _, i := range slices.Compact(chosen) {
			at = append(at, l.deltas[i].Position)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = x.store.Records(ctx, b, at, func(r *deltalog.Record) error {
		all = append(all, r)
		return nil
	})
	return all, explain.LogError(err)
}

// logOf returns a log that calls read at its first use, and only then.
func logOf(read func() ([]*deltalog.Record, error)) deltalog.Log {
	readOnce := sync.OnceValues(read)
	return func(fn func(*deltalog.Record) error) error {
		all, err := readOnce()
		for _, r := range all {
			if err := fn(r); err != nil {
				return err
			}
		}
		return err
	}
}

// Bullet returns the part of a log that concerns a bullet and the bullets that were merged into it. The part is read once, at its first use.
func (x *Logs) Bullet(ctx context.Context, b playbook.Book, id playbook.BulletID) deltalog.Log {
	return logOf(func() ([]*deltalog.Record, error) {
		return x.part(ctx, b, func(l *bookLog) []int { return l.concerning(l.family(id)) })
	})
}

// Covering returns the part of a log that covers an event or an execution. id is the id of the event or the handle of the execution. The
// part is read once, at its first use.
func (x *Logs) Covering(ctx context.Context, b playbook.Book, id string) deltalog.Log {
	return logOf(func() ([]*deltalog.Record, error) {
		return x.part(ctx, b, func(l *bookLog) []int { return l.covering(id) })
	})
}

// Version finds a version of a playbook; see explain.VersionHelp for the formats.
func (x *Logs) Version(ctx context.Context, b playbook.Book, point string) (at explain.Version, err error) {
	err = x.read(ctx, b, func(l *bookLog) error {
		at, err = explain.FindVersion(b, point, l.outline)
		return err
	})
	return at, err
}

// Delta returns a version and its delta. It returns a *deltalog.VersionError for a version that does not exist.
func (x *Logs) Delta(ctx context.Context, b playbook.Book, version uint64) (*Version, *playbook.Delta, error) {
	var names []string
	all, err := x.part(ctx, b, func(l *bookLog) []int {
		if version == 0 || version > uint64(len(l.deltas)) {
			return nil
		}
		names = l.namesOf(version)
		return []int{int(version - 1)}
	})
	if err == nil && len(all) == 0 {
		err = &deltalog.VersionError{Book: b, Version: version}
	}
	if err != nil {
		return nil, nil, err
	}
	return newVersion(all[0], names), &all[0].Delta, nil
}

// Health returns the health of a playbook at the end of each day with a change, oldest first. The last day has the newest version, and ends
// at now. It is empty for an unknown playbook.
func (x *Logs) Health(ctx context.Context, b playbook.Book, now time.Time) (days []history.HealthDay, err error) {
	err = x.read(ctx, b, func(l *bookLog) error {
		days = l.health.Days(&l.newest, now)
		return nil
	})
	return days, err
}

// Quarantine returns the bullets of a playbook in quarantine, oldest first, with the reason and the evidence from its log.
func (x *Logs) Quarantine(ctx context.Context, b playbook.Book, p *playbook.Playbook) (all []*history.Quarantined, err error) {
	err = x.read(ctx, b, func(l *bookLog) error {
		all = l.statuses.Quarantine(p)
		return nil
	})
	return all, err
}

// Decisions returns the latest decisions of the Curator in a log, newest first.
func (x *Logs) Decisions(ctx context.Context, b playbook.Book) (all []history.Decision, err error) {
	err = x.read(ctx, b, func(l *bookLog) error {
		all = l.statuses.Decisions()
		return nil
	})
	return all, err
}

// Changes selects versions of a playbook by their changes.
type Changes string

// The selections.
const (
	AllChanges    Changes = "all"
	BulletChanges Changes = "bullets" // without the versions that only change votes and outcomes
)

// Versions returns at most limit selected versions of a playbook below end, newest first, and the number of its newest version.
func (x *Logs) Versions(ctx context.Context, b playbook.Book, end uint64, limit int, changes Changes) (all []*Version, newest uint64, err error) {
	names := map[uint64][]string{} // of the versions
	part, err := x.part(ctx, b, func(l *bookLog) []int {
		newest = uint64(len(l.deltas))
		indices := l.before(end, limit, changes)
		for _, i := range indices {
			v := uint64(i + 1)
			names[v] = l.namesOf(v)
		}
		return indices
	})
	for _, r := range slices.Backward(part) {
		all = append(all, newVersion(r, names[r.Version]))
	}
	return all, newest, err
}

// Version is a version in a list.
type Version struct {
	Version uint64    `json:"version"`
	Label   string    `json:"label"`
	Names   []string  `json:"names,omitempty" doc:"Names of the version."`
	Time    time.Time `json:"time"`
	Author  string    `json:"author"`
	Reason  string    `json:"reason,omitempty"`
	Covers  string    `json:"covers,omitempty" doc:"What the version covers, for people."`
	Summary string    `json:"summary" doc:"The changes, for people."`
	Bytes   int       `json:"bytes" doc:"Size in the log."`
}

func newVersion(r *deltalog.Record, names []string) *Version {
	return &Version{
		Version: r.Version, Label: playbook.VersionLabel(r.Version, r.Chain), Names: names, Time: r.Time, Author: r.Author, Reason: r.Reason,
		Covers: explain.CoverSummary(&r.Delta), Summary: explain.DeltaSummary(&r.Delta), Bytes: r.Size,
	}
}
