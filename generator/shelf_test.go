package generator

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"debrief/playbook"
)

func (h *house) shelf() *shelf {
	s := newShelf(h.store, 30)
	h.Cleanup(s.close)
	return s
}

func TestABookIsFollowedFromBeforeItsFirstVersion(t *testing.T) {
	t.Parallel()
	h := build(t)
	s := h.shelf()
	if pg, err := s.open(t.Context(), "new", nil); err != nil || pg.version != 0 || len(pg.bullets) != 0 {
		t.Fatalf("got %+v, %v; want the empty page", pg, err)
	}
	b, err := s.followed("new")
	h.ok(err)
	for v := range uint64(3) {
		h.learn("new", bullet(v+1, 0)...)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		h.ok(b.f.Wait(ctx, v+1))
		cancel()
		if pg, err := s.open(t.Context(), "new", nil); err != nil || pg.version != v+1 || len(pg.bullets) != int(v+1) {
			t.Errorf("got %+v, %v; want version %d", pg, err, v+1)
		}
	}
}

func TestAShelfLetsGoOfTheLongestUnused(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("book-0", bullet(1, 0)...)
	s := h.shelf()
	for i := range maxBooks + 3 {
		if _, err := s.open(t.Context(), playbook.Book(fmt.Sprint("book-", i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range map[int]bool{0: false, 2: false, 3: true, maxBooks + 2: true} {
		if _, got := s.books[playbook.Book(fmt.Sprint("book-", i))]; got != want {
			t.Errorf("book-%d on the shelf: got %v, want %v", i, got, want)
		}
	}
	if len(s.books) != maxBooks {
		t.Errorf("got %d books on the shelf, want %d", len(s.books), maxBooks)
	}
	if pg, err := s.open(t.Context(), "book-0", nil); err != nil || pg.version != 1 {
		t.Errorf("opened again: got %+v, %v; want version 1", pg, err)
	}
}

// TestAShelfIsSafeWhileItEvicts: a book may be evicted while somebody opens it; who opened it gets its page, and
// nothing is followed when the shelf is closed.
func TestAShelfIsSafeWhileItEvicts(t *testing.T) {
	t.Parallel()
	h := build(t)
	s := newShelf(h.store, 30)
	for i := range maxBooks { // books that need no server, to get to the limit
		s.books[playbook.Book(fmt.Sprint("idle-", i))] = &book{used: time.Now().Add(time.Hour)}
	}
	h.learn("x", bullet(1, 0)...)
	h.learn("y", bullet(1, 0)...)
	var followed []*book
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 10 {
				name := playbook.Book([]string{"x", "y"}[(i+j)%2])
				pg, err := s.open(t.Context(), name, nil)
				if err != nil || pg.version != 1 {
					t.Errorf("got %+v, %v; want version 1", pg, err)
				}
				mu.Lock()
				s.mu.Lock()
				if b := s.books[name]; b != nil {
					followed = append(followed, b)
				}
				s.mu.Unlock()
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.close()
	for _, b := range followed {
		b.opening.Lock()
		if !b.gone {
			t.Error("a book is still followed after the shelf was closed")
		}
		b.opening.Unlock()
	}
}

func TestPinnedPagesAreBounded(t *testing.T) {
	t.Parallel()
	h := build(t)
	s := h.shelf()
	for v := range uint64(maxPins + 5) {
		h.learn("b", bullet(v+1, 0)...)
	}
	for v := range uint64(maxPins + 5) {
		at := v + 1
		if pg, err := s.open(t.Context(), "b", &at); err != nil || pg.version != at || len(pg.bullets) != min(int(at), 30) {
			t.Errorf("version %d: got %+v, %v", at, pg, err)
		}
		if len(s.pins) > maxPins {
			t.Errorf("%d pages are kept, more than %d", len(s.pins), maxPins)
		}
	}
}
