package natskv

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
	"debrief/events/denied"
	"debrief/events/direct"
	"debrief/playbook"
)

// Follower mirrors a book's view in memory, always at a whole version.
type Follower struct {
	s    *Store
	book playbook.Book

	mu    sync.RWMutex
	p     playbook.Playbook
	chain []byte
	moved chan struct{} // closed and replaced whenever the version moves

	loaded chan struct{} // closed with the first whole version
	cannot chan error    // why the view cannot be read; holds one

	// Owned by the goroutine that follows.
	pending map[playbook.BulletID]*playbook.Bullet
	keys    map[string]playbook.BulletID
	misfits int
	fresh   bool      // no head has fitted since this reading began
	failing time.Time // since when the view cannot be read; zero when it can
	stalled bool      // and that was told
}

// tornLimit is how many heads in a row may not fit before the follower reads the view afresh. One misfit is a batch
// seen halfway, or a fresh start in the middle of a large change; the next head settles it.
const tornLimit = 3

// Follow mirrors a book until the context ends. It returns when the mirror has a whole version of the view, the newest
// at the call or a later one; wait, which the caller must call after ending the context, returns when everything has stopped.
func (s *Store) Follow(ctx context.Context, b playbook.Book) (f *Follower, wait func(), err error) {
	if err := b.Validate(); err != nil {
		return nil, nil, err
	}
	f = &Follower{s: s, book: b, moved: make(chan struct{}), loaded: make(chan struct{}), cannot: make(chan error, 1)}
	h, _, err := s.readHead(ctx, b)
	if err != nil {
		return nil, nil, fmt.Errorf("follow playbook %q: %w", b, err)
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	wait = func() { stop(); <-done }
	if h == nil { // nothing to wait for
		return f, wait, nil
	}
	select {
	case <-f.loaded:
		return f, wait, nil
	case err = <-f.cannot:
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(loadWait):
		err = errTorn
	}
	wait()
	return nil, nil, fmt.Errorf("follow playbook %q: %w", b, err)
}

// loadWait is how long Follow waits for a view that is whole. A curator that dies while it writes a large change leaves
// one that is not; another one finds it within 15 seconds.
const loadWait = 30 * time.Second

// Read calls fn with the newest version and its chain hash. Fn must not keep the playbook; the bullets it may keep.
func (f *Follower) Read(fn func(p *playbook.Playbook, chain []byte)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	fn(&f.p, f.chain)
}

// Version is the version the mirror is at.
func (f *Follower) Version() uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.p.Version()
}

// Wait returns when the mirror is at a version or past it.
func (f *Follower) Wait(ctx context.Context, version uint64) error {
	for {
		f.mu.RLock()
		at, moved := f.p.Version(), f.moved
		f.mu.RUnlock()
		if at >= version {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

var errTorn = errors.New("the view is not whole: a large change is being written, or was when its curator died; a running curator completes it")

// run follows in one look at the view after the other, and begins anew where that fails.
func (f *Follower) run(ctx context.Context) {
	defer f.read(nil)
	for try := 0; ctx.Err() == nil; try++ {
		f.pending = make(map[playbook.BulletID]*playbook.Bullet)
		f.keys = make(map[string]playbook.BulletID)
		f.misfits, f.fresh = 0, true
		err := f.follow(ctx)
		if err == nil {
			return
		}
		if !f.fresh {
			try = 0 // it went well for a while
		}
		f.read(err)
		rest := min(try*10, 30)
		if refused(err) {
			rest = refusedRest // each try is a line in the server's log
		}
		if pause(ctx, rest) != nil {
			return
		}
	}
}

// refusedRest is for pause: about five seconds.
const refusedRest = 70

// stallAfter is how long a view may be unreadable before that is told: a reconnect passes, and so does a large change.
const stallAfter = 5 * time.Second

// read notes how a look at the view ended. A refusal is told at once: it does not pass by itself.
func (f *Follower) read(err error) {
	if err == nil {
		f.failing = time.Time{}
		if f.stalled {
			f.stalled = false
			f.s.Stalled(f.book, nil)
		}
		return
	}
	if f.failing.IsZero() {
		f.failing = time.Now()
	}
	if !refused(err) && time.Since(f.failing) < stallAfter {
		return
	}
	if !errors.Is(err, errTorn) { // for which Follow has a patience of its own
		select {
		case f.cannot <- err:
		default:
		}
	}
	if f.s.Stalled != nil {
		f.stalled = true
		f.s.Stalled(f.book, err)
	}
}

func refused(err error) bool {
	var e *denied.Error
	return errors.As(err, &e)
}

// The follower reads the view when its Curator announces a version, again with growing pauses while a replica does not have
// that version yet, and at least every lookLast.
const lookFirst, lookLast = time.Millisecond, 2 * time.Second

// follow reads the new entries of the view whenever a version is announced. It makes no consumer: a user that may make one can
// have it deliver to any subject. Without announcements it goes on, only slower.
func (f *Follower) follow(ctx context.Context) error {
	written := make(chan struct{}, 1)
	var heard atomic.Uint64 // the newest version that was announced
	sub, err := f.s.nc.Subscribe(events.HeadSubject(f.book), func(m *nats.Msg) {
		version, err := strconv.ParseUint(string(m.Data), 10, 64)
		if err != nil || version <= heard.Load() {
			return
		}
		heard.Store(version)
		select {
		case written <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	same, stop := context.WithCancel(ctx)
	defer stop()
	defer f.s.onReconnect(stop)()
	next, wait := uint64(1), time.Duration(0)
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-same.Done():
			return nats.ErrDisconnected
		case <-written:
			if wait > lookFirst {
				wait = lookFirst
				t.Reset(wait)
			}
			continue
		case <-t.C:
		}
		err := f.s.scan(same, viewStream, viewPrefix+string(f.book)+".>", next, func(m direct.Message) error {
			next = m.Seq + 1
			first, before := f.fresh, f.p.Version()
			if err := f.take(m); err != nil {
				return err
			}
			if !first && f.p.Version() != before && f.s.Followed != nil { // the first head was there before
				f.s.Followed(max(time.Since(m.Stored()), 0)) // another machine's clock
			}
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if f.misfits > 0 {
			f.read(errTorn)
		} else {
			f.read(nil)
		}
		if wait = min(max(2*wait, lookFirst), lookLast); f.p.Version() >= heard.Load() {
			wait = lookLast
		}
		t.Reset(wait)
	}
}

// onReconnect calls fn once when the server is back. It may have lost the end of a stream in between, and who goes on from
// where he was would wait until the sequences that he knows are reached again.
func (s *Store) onReconnect(fn func()) (stop func()) {
	back, over := s.nc.StatusChanged(nats.CONNECTED), make(chan struct{})
	go func() {
		select {
		case <-back:
			fn()
		case <-over:
		}
	}()
	return func() {
		close(over)
		s.nc.RemoveStatusListener(back)
	}
}

// take takes one value; a whole head moves the mirror.
func (f *Follower) take(m direct.Message) error {
	e := parseEntry(f.book, m)
	switch {
	case e.bullet != nil:
		f.pending[e.bullet.ID] = e.bullet
		f.keys[m.Subject] = e.bullet.ID
		return nil
	case e.head == nil && m.Removed():
		if id, ok := f.keys[m.Subject]; ok {
			f.pending[id] = nil
		}
		return nil
	case e.head == nil && m.Subject == viewPrefix+events.HeadKey(f.book): // nobody can read it
		return f.misfit()
	case e.head == nil:
		return nil
	case e.head.Partial:
		return nil
	}
	return f.move(e.head)
}

// misfit counts a head that does not fit.
func (f *Follower) misfit() error {
	if f.misfits++; f.misfits >= tornLimit {
		return errTorn
	}
	return nil
}

// move brings the mirror to a head, if what came before it fits. The first head that does after a fresh start replaces
// everything.
func (f *Follower) move(h *head) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.pending
	if f.fresh {
		changed = maps.Clone(f.pending)
		for b := range f.p.All() {
			if _, ok := changed[b.ID]; !ok {
				changed[b.ID] = nil
			}
		}
	}
	if !f.p.Mirror(h.Version, h.Last, changed, h.Count, h.Sum) {
		return f.misfit()
	}
	f.p.SetGate(h.Gate)
	f.misfits, f.fresh = 0, false
	f.pending = make(map[playbook.BulletID]*playbook.Bullet)
	f.chain = h.Chain
	close(f.moved)
	f.moved = make(chan struct{})
	select {
	case <-f.loaded:
	default:
		close(f.loaded)
	}
	return nil
}
