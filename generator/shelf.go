package generator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"debrief/playbook"
	"debrief/playbook/natskv"
)

// shelf holds the books that tasks ask for, followed in memory, and the old versions that some of them pin.
type shelf struct {
	store   *natskv.Store
	vectors *vectors
	retry   time.Duration // before an embedder is asked again

	ctx     context.Context // of the books
	stop    context.CancelFunc
	closing sync.WaitGroup // a goroutine of each book

	mu    sync.Mutex
	books map[place]*book
}

// place is where a book stands: there is one that is followed, and one for each version that is pinned.
type place struct {
	book    playbook.Book
	pinned  bool
	version uint64
}

// Bounds of what a shelf holds. Past them the one that was not used for longest goes.
const (
	maxBooks = 128
	maxPins  = 32
)

// book is one playbook with its page, brought up to date when the version has moved. A pinned one has no follower.
type book struct {
	page *page
	stop context.CancelFunc

	used time.Time // under shelf.mu

	ready chan struct{}    // closed when it is open, or cannot be opened
	f     *natskv.Follower // these two once it is
	err   error
}

func newShelf(store *natskv.Store, v *vectors, retry time.Duration) *shelf {
	ctx, stop := context.WithCancel(context.Background())
	return &shelf{store: store, vectors: v, retry: retry, ctx: ctx, stop: stop, books: make(map[place]*book)}
}

func (s *shelf) close() {
	s.mu.Lock() // no book begins after this
	s.stop()
	s.mu.Unlock()
	s.closing.Wait()
}

// open is a book, at the newest version or at the one that is pinned.
func (s *shelf) open(ctx context.Context, name playbook.Book, version *uint64) (*book, error) {
	at := place{book: name}
	if version != nil {
		at.pinned, at.version = true, *version
	}
	b, err := s.take(at)
	if err != nil {
		return nil, err
	}
	select {
	case <-b.ready:
		return b, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errClosed = errors.New("the desk is closed")

// take is the book in a place, put there where there is none.
func (s *shelf) take(at place) (*book, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	b := s.books[at]
	if b == nil {
		s.makeRoom(at.pinned)
		ctx, stop := context.WithCancel(s.ctx)
		b = &book{page: newPage(s.vectors, s.retry), stop: stop, ready: make(chan struct{})}
		s.books[at] = b
		s.closing.Go(func() { s.keep(ctx, b, at) })
	}
	b.used = time.Now()
	return b, nil
}

// makeRoom lets go of the books that were not used for longest, or of the pinned versions, while there are as many as
// there may be. Who has a book's page keeps that. One that is being opened stays: else many who open at once could keep
// one another from it for ever.
func (s *shelf) makeRoom(pinned bool) {
	most, n := maxBooks, 0
	if pinned {
		most = maxPins
	}
	var open []place
	for at, b := range s.books {
		if at.pinned != pinned {
			continue
		}
		n++
		select {
		case <-b.ready:
			open = append(open, at)
		default:
		}
	}
	if n < most {
		return
	}
	slices.SortFunc(open, func(a, b place) int { return s.books[a].used.Compare(s.books[b].used) })
	for _, at := range open[:min(len(open), n-most+1)] {
		s.books[at].stop()
		delete(s.books, at)
	}
}

// keep opens a book and keeps it up to date until the context ends. One that cannot be opened leaves its place to the
// next who asks.
func (s *shelf) keep(ctx context.Context, b *book, at place) {
	defer b.stop()
	stopped := func() {}
	if at.pinned {
		p, err := s.store.At(ctx, at.book, at.version)
		if b.err = err; err == nil {
			b.page.turn(p)
		}
	} else {
		b.f, stopped, b.err = s.store.Follow(ctx, at.book)
	}
	if b.err != nil {
		if ctx.Err() != nil {
			b.err = errClosed
		}
		s.mu.Lock()
		if s.books[at] == b {
			delete(s.books, at)
		}
		s.mu.Unlock()
		close(b.ready)
		return
	}
	close(b.ready)
	b.page.debts.work(ctx)
	stopped()
}

// wait waits for a version, for so long at the most. It reports true when that has not come.
func (b *book) wait(ctx context.Context, version uint64, most time.Duration) (stale bool, err error) {
	wait, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if b.f.Wait(wait, version) == nil {
		return false, nil
	}
	return true, ctx.Err()
}

// use calls fn with the page at the newest version, which does not move meanwhile.
func (b *book) use(fn func(*page) error) error {
	pg := b.page
	pg.mu.RLock()
	if b.f != nil && pg.version != b.f.Version() {
		pg.mu.RUnlock()
		pg.mu.Lock()
		b.f.Read(func(p *playbook.Playbook, _ []byte) {
			if p.Version() != pg.version { // else somebody was faster
				pg.turn(p)
			}
		})
		pg.mu.Unlock()
		pg.mu.RLock() // it may have moved on again, which the next one sees
	}
	defer pg.mu.RUnlock()
	return fn(pg)
}
