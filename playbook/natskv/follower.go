package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// parsePubAck is the sequence in the server's answer to a publish.
func parsePubAck(data []byte) (uint64, error) {
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("publish ack: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	return ack.Seq, nil
}

// Follower mirrors a book's view in memory, always at a whole version.
type Follower struct {
	s    *Store
	book playbook.Book

	mu    sync.RWMutex
	p     playbook.Playbook
	chain []byte
	moved chan struct{} // closed and replaced whenever the version moves

	// Owned by the goroutine that follows.
	pending map[playbook.BulletID]*playbook.Bullet
	keys    map[string]playbook.BulletID
	misfits int
}

// tornLimit is how many heads in a row may not fit before the follower reads the view afresh. One misfit is a batch
// seen halfway; the next head settles it.
const tornLimit = 3

// Follow mirrors a book until the context ends. It returns when the mirror has the version that the view had at the
// call; wait, which the caller must call after ending the context, returns when everything has stopped.
func (s *Store) Follow(ctx context.Context, b playbook.Book) (f *Follower, wait func(), err error) {
	if err := b.Validate(); err != nil {
		return nil, nil, err
	}
	f = &Follower{s: s, book: b, moved: make(chan struct{})}
	first, err := s.last(ctx, viewStream, viewPrefix+events.HeadKey(b))
	if err != nil {
		return nil, nil, fmt.Errorf("follow playbook %q: %w", b, err)
	}
	var want uint64
	if first != nil {
		e, err := parseEntry(b, *first)
		if err != nil {
			return nil, nil, fmt.Errorf("follow playbook %q: %w", b, err)
		}
		if e.head != nil {
			want = e.head.Version
		}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	loaded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := f.Wait(loaded, want); err != nil {
		stop()
		<-done
		return nil, nil, fmt.Errorf("follow playbook %q: version %d did not arrive: %w", b, want, err)
	}
	return f, func() { stop(); <-done }, nil
}

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

var errTorn = errors.New("view does not fit its head")

// run follows with one consumer after the other: a pull ordered consumer resumes at once when the server returns,
// where the bucket's own watch took ten seconds.
func (f *Follower) run(ctx context.Context) {
	for try := 0; ctx.Err() == nil; try++ {
		f.pending = make(map[playbook.BulletID]*playbook.Bullet)
		f.keys = make(map[string]playbook.BulletID)
		f.misfits = 0
		if f.follow(ctx) == nil {
			return
		}
		if pause(ctx, min(try*10, 70)) != nil {
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
	defer context.AfterFunc(ctx, it.Stop)()
	first := true
	for {
		m, err := it.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		md, err := m.Metadata()
		if err != nil {
			return err
		}
		e, err := parseEntry(f.book, message{seq: md.Sequence.Stream, subject: m.Subject(), header: m.Headers(), data: m.Data()})
		if err != nil {
			return err
		}
		if err := f.take(m.Subject(), e, first); err != nil {
			return err
		}
		first = first && e.head == nil
	}
}

// take takes one value; a head moves the mirror. The first head after a fresh start replaces everything.
func (f *Follower) take(subject string, e entry, fresh bool) error {
	switch {
	case e.bullet != nil:
		f.pending[e.bullet.ID] = e.bullet
		f.keys[subject] = e.bullet.ID
		return nil
	case e.head == nil:
		if id, ok := f.keys[subject]; ok {
			f.pending[id] = nil
		}
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.pending
	if fresh {
		for b := range f.p.All() {
			if _, ok := changed[b.ID]; !ok {
				changed[b.ID] = nil
			}
		}
	}
	if !f.p.Mirror(e.head.Version, e.head.Last, changed, e.head.Count, e.head.Sum) {
		if f.misfits++; f.misfits >= tornLimit || fresh {
			return errTorn
		}
		return nil
	}
	f.misfits = 0
	f.pending = make(map[playbook.BulletID]*playbook.Bullet)
	f.chain = e.head.Chain
	close(f.moved)
	f.moved = make(chan struct{})
	return nil
}
