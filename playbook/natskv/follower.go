package natskv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

	// Owned by the goroutine that follows.
	pending map[playbook.BulletID]*playbook.Bullet
	keys    map[string]playbook.BulletID
	misfits int
	fresh   bool // no head has fitted since this consumer began
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
	f = &Follower{s: s, book: b, moved: make(chan struct{}), loaded: make(chan struct{})}
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

// run follows with one consumer after the other: a pull ordered consumer resumes at once when the server returns,
// where the bucket's own watch took ten seconds.
func (f *Follower) run(ctx context.Context) {
	for try := 0; ctx.Err() == nil; try++ {
		f.pending = make(map[playbook.BulletID]*playbook.Bullet)
		f.keys = make(map[string]playbook.BulletID)
		f.misfits, f.fresh = 0, true
		if f.follow(ctx) == nil {
			return
		}
		if !f.fresh {
			try = 0 // it went well for a while
		}
		if pause(ctx, min(try*10, 30)) != nil {
			return
		}
	}
}

func (f *Follower) follow(ctx context.Context) error {
	cons, err := f.s.js.OrderedConsumer(ctx, viewStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{viewPrefix + string(f.book) + ".>"},
	})
	if err != nil {
		return err
	}
	it, err := cons.Messages()
	if err != nil {
		return err
	}
	defer it.Stop()
	// The iterator's own Stop is not heard while it makes itself a new consumer; the end of a context is.
	same, stop := context.WithCancel(ctx)
	defer stop()
	defer f.s.onReconnect(stop)()
	for {
		m, err := it.Next(jetstream.NextContext(same))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.take(direct.Message{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}); err != nil {
			return err
		}
	}
}

// onReconnect calls fn once when the server is back. It may have lost the end of a stream in between, and a consumer
// that goes on from where it was would wait until the sequences that it knows are reached again.
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
	case e.head == nil:
		if id, ok := f.keys[m.Subject]; ok && m.Removed() {
			f.pending[id] = nil
		}
		return nil
	case e.head.Partial:
		return nil
	}
	return f.move(e.head)
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
		if f.misfits++; f.misfits >= tornLimit {
			return errTorn
		}
		return nil
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
