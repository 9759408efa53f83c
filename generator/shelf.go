package generator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"debrief/playbook"
	"debrief/playbook/natskv"
)

// shelf holds the books that tasks ask for, followed in memory, and the old versions that some of them pin.
type shelf struct {
	store *natskv.Store
	most  int // bullets on a page

	ctx     context.Context // of the followers
	stop    context.CancelFunc
	closing sync.WaitGroup // of evicted books

	mu    sync.Mutex
	books map[playbook.Book]*book
	pins  map[pin]*page
}

// Bounds of what a shelf holds. Past them the book that was not used for longest goes, and all of the old versions.
const (
	maxBooks = 128
	maxPins  = 32
)

type pin struct {
	book    playbook.Book
	version uint64
}

// book is one followed playbook with its page, made anew when the version has moved.
type book struct {
	used time.Time // under shelf.mu

	opening sync.Mutex
	f       *natskv.Follower
	wait    func()
	gone    bool // evicted: who gets here too late takes the book that is in its place

	mu   sync.Mutex
	page *page
}

func newShelf(store *natskv.Store, most int) *shelf {
	ctx, stop := context.WithCancel(context.Background())
	return &shelf{store: store, most: most, ctx: ctx, stop: stop, books: map[playbook.Book]*book{}, pins: map[pin]*page{}}
}

func (s *shelf) close() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.books {
		b.close()
	}
	s.closing.Wait()
}

func (b *book) close() {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.gone = true
	if b.wait != nil {
		b.wait()
	}
}

// open is the page of a book, at the newest version or at the one that is pinned.
func (s *shelf) open(ctx context.Context, name playbook.Book, version *uint64) (*page, error) {
	if version != nil {
		return s.pinned(ctx, pin{name, *version})
	}
	b, err := s.followed(name)
	if err != nil {
		return nil, err
	}
	return b.newest(s.most), nil
}

func (b *book) newest(most int) *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.page == nil || b.page.version != b.f.Version() {
		b.f.Read(func(p *playbook.Playbook, _ []byte) { b.page = newPage(p, most) })
	}
	return b.page
}

func (s *shelf) followed(name playbook.Book) (*book, error) {
	for {
		b := s.book(name)
		gone, err := b.open(s, name)
		if err != nil {
			return nil, err
		}
		if !gone {
			return b, nil
		}
	}
}

// book is the book's place on the shelf, made where there is none.
func (s *shelf) book(name playbook.Book) *book {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books[name]
	if b == nil {
		if len(s.books) >= maxBooks {
			s.evict()
		}
		b = &book{}
		s.books[name] = b
	}
	b.used = time.Now()
	return b
}

// open begins to follow the book, if nobody has yet. It reports whether the book was evicted before.
func (b *book) open(s *shelf, name playbook.Book) (gone bool, err error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.f != nil || b.gone {
		return b.gone, nil
	}
	b.f, b.wait, err = s.store.Follow(s.ctx, name)
	return false, err
}

// evict lets go of the book that was not used for longest. Who has its page keeps that.
func (s *shelf) evict() {
	var oldest playbook.Book
	for name, b := range s.books {
		if o := s.books[oldest]; o == nil || b.used.Before(o.used) {
			oldest = name
		}
	}
	b := s.books[oldest]
	delete(s.books, oldest)
	s.closing.Go(b.close) // not here: it may be opening
}

// pinned is a page at a version, folded from the log the first time.
func (s *shelf) pinned(ctx context.Context, at pin) (*page, error) {
	s.mu.Lock()
	pg := s.pins[at]
	s.mu.Unlock()
	if pg != nil {
		return pg, nil
	}
	p, err := s.store.At(ctx, at.book, at.version)
	if err != nil {
		return nil, fmt.Errorf("open version %d of playbook %q: %w", at.version, at.book, err)
	}
	pg = newPage(p, s.most)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pins) >= maxPins {
		clear(s.pins)
	}
	s.pins[at] = pg
	return pg, nil
}
