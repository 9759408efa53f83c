package deltalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// Follower mirrors a book's view in memory. The mirror is always at a complete version. It is safe for concurrent use.
type Follower struct {
	s    *Store
	book playbook.Book

	mu      sync.RWMutex
	p       playbook.Playbook
	chain   []byte
	changed chan struct{} // closed and replaced at each new version

	loaded  chan struct{} // closed at the first complete version
	loadErr chan error    // the error that prevents loading; buffers one

	// The following fields belong to the goroutine of run.
	pending    map[playbook.BulletID]*playbook.Bullet // bullets read since the last matching head; nil means deleted
	keys       map[string]playbook.BulletID           // by their key
	mismatches int                                    // heads in a row that did not match the bullets
	reloading  bool                                   // the view is read from its start, and no head has matched yet
	failedAt   time.Time                              // since when the view cannot be read; zero if it can
	stalled    bool                                   // Store.OnStalled was called with an error
}

// maxMismatches is the number of mismatching heads in a row after which the follower reads the view from the start. A
// single mismatch is normal: the read saw a part of a batch, or began in the middle of a large change.
const maxMismatches = 3

// Follow mirrors a book until the context ends. It returns when the mirror has a complete version of the view, the
// newest at the call or a later one. The caller must call stop at the end; it stops the mirror and returns when all its
// goroutines have ended.
func (s *Store) Follow(ctx context.Context, b playbook.Book) (f *Follower, stop func(), err error) {
	if err := b.Validate(); err != nil {
		return nil, nil, err
	}
	f = &Follower{s: s, book: b, changed: make(chan struct{}), loaded: make(chan struct{}), loadErr: make(chan error, 1)}
	h, _, err := s.readHead(ctx, b)
	if err != nil {
		return nil, nil, fmt.Errorf("follow playbook %q: %w", b, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	stop = func() { cancel(); <-done }
	if h == nil { // the book has no view yet
		return f, stop, nil
	}
	select {
	case <-f.loaded:
		return f, stop, nil
	case err = <-f.loadErr:
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(loadTimeout):
		err = errPartialView
	}
	stop()
	return nil, nil, fmt.Errorf("follow playbook %q: %w", b, err)
}

// loadTimeout bounds the wait of Follow for a complete view. A curator that dies while it writes a large change leaves a
// partial view; another curator completes it within 15 seconds.
const loadTimeout = 30 * time.Second

// Read calls fn with the newest version and its chain hash. The function must not keep the playbook; it may keep bullets.
func (f *Follower) Read(fn func(p *playbook.Playbook, chain []byte)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	fn(&f.p, f.chain)
}

// Version returns the version of the mirror.
func (f *Follower) Version() uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.p.Version()
}

// Changed returns a channel that is closed at the next version.
func (f *Follower) Changed() <-chan struct{} {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.changed
}

// Wait returns when the mirror has the version or a later one, or when the context ends.
func (f *Follower) Wait(ctx context.Context, version uint64) error {
	for {
		f.mu.RLock()
		current, changed := f.p.Version(), f.changed
		f.mu.RUnlock()
		if current >= version {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

var errPartialView = errors.New("the view is incomplete: a curator is writing a large change, or died while writing it; a running curator completes it")

// run follows the view and starts again after an error, until the context ends.
func (f *Follower) run(ctx context.Context) {
	defer f.reportRead(nil)
	for try := 0; ctx.Err() == nil; try++ {
		f.pending = make(map[playbook.BulletID]*playbook.Bullet)
		f.keys = make(map[string]playbook.BulletID)
		f.mismatches, f.reloading = 0, true
		err := f.follow(ctx)
		if err == nil {
			return
		}
		if !f.reloading {
			try = 0 // the follower had loaded the view: begin with a short pause again
		}
		f.reportRead(err)
		wait := min(time.Duration(try)*100*time.Millisecond, time.Second)
		if natserr.IsDenied(err) {
			wait = 5 * time.Second // each attempt adds a line to the server's log
		}
		_ = events.Sleep(ctx, wait)
	}
}

// stallAfter is the time after which an unreadable view is reported. A reconnect or a large change takes less.
const stallAfter = 5 * time.Second

// reportRead records the result of reading the view. It reports an error after stallAfter, and a denied permission at once,
// because only an operator can fix that.
func (f *Follower) reportRead(err error) {
	if err == nil {
		f.failedAt = time.Time{}
		if f.stalled {
			f.stalled = false
			f.s.OnStalled(f.book, nil)
		}
		return
	}
	if f.failedAt.IsZero() {
		f.failedAt = time.Now()
	}
	if !natserr.IsDenied(err) && time.Since(f.failedAt) < stallAfter {
		return
	}
	if !errors.Is(err, errPartialView) { // Follow has its own timeout for a partial view
		select {
		case f.loadErr <- err:
		default:
		}
	}
	if f.s.OnStalled != nil {
		f.stalled = true
		f.s.OnStalled(f.book, err)
	}
}

// The follower reads the view when a curator announces a version. While a replica does not have that version yet, it
// reads again with growing pauses from minPoll on. It reads at least every maxPoll.
const minPoll, maxPoll = time.Millisecond, 2 * time.Second

// follow reads the new messages of the view whenever a version is announced, until ctx ends. It creates no consumer, because a user with
// the permission to create one can make it deliver to any subject. Without announcements it polls every maxPoll. It returns nil only
// after the end of ctx.
func (f *Follower) follow(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	var announced atomic.Uint64 // the newest announced version
	sub, err := f.s.nc.Subscribe(events.HeadSubject(f.book), func(m *nats.Msg) {
		version, err := strconv.ParseUint(string(m.Data), 10, 64)
		if err != nil || version <= announced.Load() {
			return
		}
		announced.Store(version)
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	connected, stop := context.WithCancel(ctx) // ends at the next reconnect
	defer stop()
	defer f.s.onReconnect(stop)()
	next := uint64(1)        // sequence of the first message of the view that was not read yet
	wait := time.Duration(0) // until the next read
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-connected.Done():
			return nats.ErrDisconnected
		case <-wake:
			if wait > minPoll { // else the next read comes at once anyway
				wait = minPoll
				t.Reset(wait)
			}
			continue
		case <-t.C:
		}
		var err error
		next, err = f.readNew(connected, next)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if f.mismatches > 0 {
			f.reportRead(errPartialView)
		} else {
			f.reportRead(nil)
		}
		if f.p.Version() >= announced.Load() {
			wait = maxPoll
		} else { // the replica that answered lags
			wait = min(max(2*wait, minPoll), maxPoll)
		}
		t.Reset(wait)
	}
}

// readNew reads the messages of the view that are new, from the sequence next on. It returns the sequence for the next call.
func (f *Follower) readNew(ctx context.Context, next uint64) (uint64, error) {
	if !f.reloading && len(f.pending) == 0 {
		m, err := f.s.last(ctx, viewStream, viewPrefix+events.HeadKey(f.book))
		if err != nil {
			return next, err
		}
		isRead := m != nil && m.Seq < next
		if isRead || m != nil && f.applyRecent(*m) {
			return max(next, m.Seq+1), nil
		}
	}
	err := f.s.scanView(ctx, viewPrefix+string(f.book)+".>", next, func(m direct.Message) error {
		next = m.Seq + 1
		return f.apply(m)
	})
	return next, err
}

// applyRecent advances the mirror with the recent bullets of a head. It returns false if the view must be scanned: the keys were
// written since the version of the mirror, or repaired. A scan costs more, because the server walks all keys of the view.
func (f *Follower) applyRecent(m direct.Message) bool {
	h := parseHead(m)
	if h == nil || h.Partial || h.Since > f.p.Version() {
		return false
	}
	h.readRecent(f.book, f.p.Version(), f.set)
	if !f.advance(h, m.Stored()) {
		clear(f.pending)
		return false
	}
	return true
}

// onReconnect calls fn once after the next reconnect. The server may have lost the end of a stream, so a reader must not
// continue at its old sequence: it would see nothing until the stream reaches that sequence again.
func (s *Store) onReconnect(fn func()) (stop func()) {
	connected := s.nc.StatusChanged(nats.CONNECTED)
	stopped := make(chan struct{})
	go func() {
		select {
		case <-connected:
			fn()
		case <-stopped:
		}
	}()
	return func() {
		close(stopped)
		s.nc.RemoveStatusListener(connected)
	}
}

// apply processes the next message of the view. A complete head advances the mirror.
func (f *Follower) apply(m direct.Message) error {
	h, isHead := readMessage(f.book, m, f.set)
	isDeleted := h == nil && m.Deleted()
	isPartial := h != nil && h.Partial
	if !isHead || isDeleted || isPartial {
		return nil
	}
	if h == nil || !f.advance(h, m.Stored()) { // the head is unreadable, or does not match
		return f.countMismatch()
	}
	return nil
}

// set records the value of a key. An unreadable value is ignored: the next head does not match.
func (f *Follower) set(key string, v value) {
	if v.bullet != nil {
		f.pending[v.bullet.ID] = v.bullet
		f.keys[key] = v.bullet.ID
	} else if id, ok := f.keys[key]; ok && len(v.data) == 0 {
		f.pending[id] = nil
	}
}

// countMismatch counts a head that does not match the bullets. It returns errPartialView if there are too many in a row.
func (f *Follower) countMismatch() error {
	f.mismatches++
	if f.mismatches >= maxMismatches {
		return errPartialView
	}
	return nil
}

// advance moves the mirror to the version of a head if the bullets read so far match it. While the follower reloads the
// view, the first matching head replaces the whole mirror.
func (f *Follower) advance(h *head, stored time.Time) bool {
	changed := f.pending
	if f.reloading { // a bullet of the mirror that was not read is no longer in the view
		changed = maps.Clone(f.pending)
		for b := range f.p.All() {
			if _, ok := changed[b.ID]; !ok {
				changed[b.ID] = nil
			}
		}
	}
	wasReloading, before := f.reloading, f.p.Version()
	if !f.update(h, changed) {
		return false
	}
	f.mismatches, f.reloading = 0, false
	f.pending = make(map[playbook.BulletID]*playbook.Bullet)
	if !wasReloading && h.Version != before && f.s.OnFollowerDelay != nil { // the first head may be old
		f.s.OnFollowerDelay(max(time.Since(stored), 0)) // the clocks of the two machines may differ
	}
	return true
}

// update applies changed bullets and a head to the mirror. It returns false and changes nothing if they do not match.
func (f *Follower) update(h *head, changed map[playbook.BulletID]*playbook.Bullet) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.p.ApplyChanges(h.Version, h.Last, changed, h.Count, h.Sum) {
		return false
	}
	h.copyTo(&f.p)
	f.chain = h.Chain
	close(f.changed)
	f.changed = make(chan struct{})
	select {
	case <-f.loaded:
	default:
		close(f.loaded)
	}
	return true
}
