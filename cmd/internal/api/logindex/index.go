// Package logindex keeps an index of the logs of playbooks in memory, so that a page about a bullet, an execution or an old version
// reads only the deltas that it shows. An Index reads each log once and then follows it. Each request first reads the new deltas, so
// its result is that of the whole log at that time.
package logindex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/versions"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// maxBooks is the number of playbooks whose logs stay in the index.
const maxBooks = 256

// Intervals of following the logs.
const (
	pollInterval = 2 * time.Second
	retryDelay   = 10 * time.Second // after a failed read
)

// Index is an index of the logs of all playbooks. It is safe for concurrent use.
type Index struct {
	conn  *bus.Conn
	store *deltalog.Store
	step  int // bytes of a log between checkpoints, at first

	mu    sync.Mutex
	open  *simplelru.LRU[playbook.Book, *entry]
	parts []*bulletPart // used last, newest first
}

// Limits of the parts of logs that stay in memory, because a page reads the same part several times.
const (
	maxParts = 4
	partIdle = 5 * time.Second
)

// bulletPart is the part of a log that concerns a bullet.
type bulletPart struct {
	book    playbook.Book
	id      playbook.BulletID
	log     *bookLog
	version int // of the log
	used    time.Time
	records []*deltalog.Record
}

// entry is the index of one log.
type entry struct {
	mu     sync.Mutex
	reader *deltalog.Reader
	log    *bookLog
}

// New returns an empty index.
func New(conn *bus.Conn) *Index {
	open, _ := simplelru.NewLRU[playbook.Book, *entry](maxBooks, nil) // fails only for a size of 0
	return &Index{conn: conn, store: deltalog.New(conn.JetStream()), step: checkpointStep, open: open}
}

// Run reads the logs of all playbooks, and then their new deltas, until the context ends, so that requests do not wait for it. It
// continues after failed reads.
func (x *Index) Run(ctx context.Context) {
	var last uint64
	for {
		wait := pollInterval
		x.dropParts()
		end, err := x.follow(ctx, last)
		if last = end; err != nil && ctx.Err() == nil {
			x.conn.Log().Warn().Err(err).Msg("read the logs of playbooks; pages about the past take longer")
			wait = retryDelay
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// follow reads the new deltas of all logs, if the stream is longer than last. It returns the length that it has read.
func (x *Index) follow(ctx context.Context, last uint64) (uint64, error) {
	stream, err := x.conn.JetStream().Stream(ctx, events.StreamDeltas)
	if err != nil {
		return last, fmt.Errorf("open stream %s: %w", events.StreamDeltas, err)
	}
	end := stream.CachedInfo().State.LastSeq
	if end == last {
		return last, nil
	}
	books, err := x.store.BooksWithLog(ctx)
	if err != nil {
		return last, err
	}
	for _, b := range books[:min(maxBooks, len(books))] {
		err := x.read(ctx, b, func(*bookLog) error { return nil })
		if err != nil && !errors.Is(err, deltalog.ErrBrokenLog) && !errors.Is(err, events.ErrNewerSchema) { // the status reports these
			return last, err
		}
	}
	return end, nil
}

// read reads the new deltas of a log, and calls fn with the index of the log. fn must not keep it.
func (x *Index) read(ctx context.Context, b playbook.Book, fn func(*bookLog) error) error {
	if err := b.Validate(); err != nil {
		return err
	}
	e := x.take(b)
	e.mu.Lock()
	defer e.mu.Unlock()
	for try := 0; ; try++ {
		if e.log == nil {
			e.reader, e.log = x.store.Reader(b), newBookLog(b, x.step)
		}
		err := e.reader.Read(ctx, e.log.add)
		if err == nil {
			break
		}
		if !errors.Is(err, deltalog.ErrBrokenLog) {
			return err
		}
		e.log = nil
		if try > 0 { // else the server may have lost the end of the log: read the rest from its beginning
			return versions.LogError(err)
		}
	}
	if len(e.log.at) == 0 { // clients request names that do not exist
		x.mu.Lock()
		x.open.Remove(b)
		x.mu.Unlock()
	}
	return fn(e.log)
}

// take returns the entry of a playbook. At the limit it removes the entry that was used least recently.
func (x *Index) take(b playbook.Book) *entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.open.Get(b)
	if !ok {
		e = new(entry)
		x.open.Add(b, e)
	}
	return e
}

// part returns the deltas of a log whose numbers choose returns, in order.
func (x *Index) part(ctx context.Context, b playbook.Book, choose func(*bookLog) []int) ([]*deltalog.Record, error) {
	var all []*deltalog.Record
	for try := 0; ; try++ {
		var at []deltalog.Position
		span := 0
		err := x.read(ctx, b, func(l *bookLog) error {
			some := choose(l)
			slices.Sort(some)
			some = slices.Compact(some)
			for _, i := range some {
				at = append(at, l.at[i].Position)
			}
			if n := len(some); n > 0 {
				span = some[n-1] - some[0] + 1
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = make([]*deltalog.Record, 0, len(at))
		err = x.store.Records(ctx, b, at, span, func(r *deltalog.Record) error {
			all = append(all, r)
			return nil
		})
		if err == nil || !errors.Is(err, deltalog.ErrBrokenLog) || try > 0 {
			return all, versions.LogError(err)
		}
		x.mu.Lock() // the log was replaced since
		x.open.Remove(b)
		x.mu.Unlock()
	}
}

// logOf returns a log that calls read at its first use.
func logOf(read func() ([]*deltalog.Record, error)) deltalog.Log {
	read = sync.OnceValues(read)
	return func(fn func(*deltalog.Record) error) error {
		all, err := read()
		for _, r := range all {
			if err := fn(r); err != nil {
				return err
			}
		}
		return err
	}
}

// Bullet returns the part of a log that concerns a bullet, or bullets that were merged into it, without the operations on other bullets.
// The log is read at its first use, once.
func (x *Index) Bullet(ctx context.Context, b playbook.Book, id playbook.BulletID) deltalog.Log {
	return logOf(func() ([]*deltalog.Record, error) {
		part := &bulletPart{book: b, id: id}
		var family map[playbook.BulletID]bool
		var known *bulletPart
		var err error
		part.records, err = x.part(ctx, b, func(l *bookLog) []int {
			part.log, part.version = l, len(l.at)
			if known = x.knownPart(part); known != nil {
				return nil
			}
			family = l.family(id)
			return l.concerning(family)
		})
		if known != nil {
			return known.records, nil
		}
		if err != nil {
			return nil, err
		}
		for _, r := range part.records {
			keepFamily(&r.Delta, family)
		}
		x.keepPart(part)
		return part.records, nil
	})
}

// keepFamily removes the operations and rejections of a delta that do not concern some bullets.
func keepFamily(d *playbook.Delta, family map[playbook.BulletID]bool) {
	in := func(id playbook.BulletID) bool { return family[id] }
	d.Ops = slices.Clip(slices.DeleteFunc(d.Ops, func(op playbook.Op) bool { return !family[op.Bullet] && !slices.ContainsFunc(op.Sources, in) }))
	d.Rejected = slices.DeleteFunc(d.Rejected, func(r playbook.Rejection) bool { return !family[r.DuplicateOf] })
}

// knownPart returns the part that is in memory, nil if it is not or the log has grown since.
func (x *Index) knownPart(p *bulletPart) *bulletPart {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range x.parts {
		if k.book == p.book && k.id == p.id && k.log == p.log && k.version == p.version {
			k.used = time.Now()
			return k
		}
	}
	return nil
}

func (x *Index) keepPart(p *bulletPart) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.used = time.Now()
	x.parts = append([]*bulletPart{p}, x.parts[:min(maxParts-1, len(x.parts))]...)
}

// dropParts removes the parts that are not in use any more.
func (x *Index) dropParts() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parts = slices.DeleteFunc(x.parts, func(p *bulletPart) bool { return time.Since(p.used) > partIdle })
}

// Covering returns the part of a log that covers an event, by its id, or an execution, by its handle. The log is read at its first
// use, once.
func (x *Index) Covering(ctx context.Context, b playbook.Book, id string) deltalog.Log {
	return logOf(func() ([]*deltalog.Record, error) {
		return x.part(ctx, b, func(l *bookLog) []int { return l.covering(id) })
	})
}

// Version finds a version of a playbook; see versions.Help for the formats.
func (x *Index) Version(ctx context.Context, b playbook.Book, point string) (at versions.Version, err error) {
	err = x.read(ctx, b, func(l *bookLog) error {
		at, err = versions.Find(b, point, l.outline)
		return err
	})
	return at, err
}

// Delta returns a version that exists, and its delta.
func (x *Index) Delta(ctx context.Context, b playbook.Book, version uint64) (*Version, *playbook.Delta, error) {
	var names []string
	all, err := x.part(ctx, b, func(l *bookLog) []int {
		names = l.namesOf(version)
		if version < 1 || version > uint64(len(l.at)) {
			return nil
		}
		return []int{int(version - 1)}
	})
	if err == nil && len(all) == 0 {
		err = &deltalog.VersionError{Book: b, Version: version}
	}
	if err != nil {
		return nil, nil, err
	}
	v := newVersion(all[0])
	v.Names = names
	return &v, &all[0].Delta, nil
}

// At returns the playbook at a version, and the label of the version. The caller must not change it.
func (x *Index) At(ctx context.Context, b playbook.Book, point string) (*playbook.Playbook, string, error) {
	at, err := x.Version(ctx, b, point)
	if err != nil {
		return nil, "", err
	}
	p, err := x.Playbook(ctx, b, at.Number)
	return p, at.Label(), err
}

// Playbook returns the playbook at a version that exists.
func (x *Index) Playbook(ctx context.Context, b playbook.Book, version uint64) (*playbook.Playbook, error) {
	var p *playbook.Playbook
	rest, err := x.part(ctx, b, func(l *bookLog) (all []int) {
		p = l.checkpoint(version)
		for v := p.Version(); v < min(version, uint64(len(l.at))); v++ {
			all = append(all, int(v))
		}
		return all
	})
	if err != nil {
		return nil, err
	}
	for _, r := range rest {
		if _, err := p.Apply(&r.Delta); err != nil {
			return nil, versions.LogError(fmt.Errorf("playbook %q: %w: %w", b, err, deltalog.ErrBrokenLog))
		}
	}
	if p.Version() != version {
		return nil, &deltalog.VersionError{Book: b, Version: version, Newest: p.Version()}
	}
	return p, nil
}

// Quarantine returns the bullets of a playbook in quarantine, oldest first, with the reason and the evidence from its log.
func (x *Index) Quarantine(ctx context.Context, b playbook.Book, p *playbook.Playbook) (all []*history.Quarantined, err error) {
	err = x.read(ctx, b, func(l *bookLog) error {
		all = l.statuses.Quarantine(p)
		return nil
	})
	return all, err
}

// Decisions returns the latest decisions of the Curator in a log, newest first, and the version of its end.
func (x *Index) Decisions(ctx context.Context, b playbook.Book) (all []history.Decision, version uint64, err error) {
	err = x.read(ctx, b, func(l *bookLog) error {
		all, version = l.statuses.Decisions(), uint64(len(l.at))
		return nil
	})
	return all, version, err
}

// Versions returns at most limit versions of a playbook below end, newest first, and the number of its newest version.
func (x *Index) Versions(ctx context.Context, b playbook.Book, end uint64, limit int) (all []Version, newest uint64, err error) {
	var missing []int
	err = x.read(ctx, b, func(l *bookLog) error {
		newest = uint64(len(l.at))
		all, missing = l.page(end, limit)
		return nil
	})
	if err != nil || len(missing) == 0 {
		return all, newest, err
	}
	old, err := x.part(ctx, b, func(*bookLog) []int { return missing })
	for _, r := range slices.Backward(old) {
		all = append(all, newVersion(r))
	}
	if err != nil {
		return nil, 0, err
	}
	return all, newest, x.read(ctx, b, func(l *bookLog) error {
		for i := range all {
			all[i].Names = l.namesOf(all[i].Version)
		}
		return nil
	})
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

// newVersion returns the version of a delta, without names.
func newVersion(r *deltalog.Record) Version {
	return Version{
		Version: r.Version, Label: playbook.VersionLabel(r.Version, r.Chain), Time: r.Time, Author: strings.Clone(r.Author), Reason: strings.Clone(r.Reason),
		Covers: explain.CoverSummary(&r.Delta), Summary: explain.DeltaSummary(&r.Delta), Bytes: r.Size,
	}
}
