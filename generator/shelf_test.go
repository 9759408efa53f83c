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
	s := newShelf(h.store, &vectors{}, time.Second)
	h.Cleanup(s.close)
	return s
}

// at is the version that a prompt sees now, and how many bullets it could show.
func (b *book) at() (version uint64, bullets int) {
	_ = b.use(func(pg *page) error {
		version, bullets = pg.version, pg.index.Len()
		return nil
	})
	return version, bullets
}

func TestABookIsFollowedFromBeforeItsFirstVersion(t *testing.T) {
	t.Parallel()
	h := build(t)
	s := h.shelf()
	b, err := s.open(t.Context(), "new", nil)
	h.ok(err)
	if version, n := b.at(); version != 0 || n != 0 {
		t.Fatalf("got version %d with %d bullets, want the empty page", version, n)
	}
	for v := range uint64(3) {
		h.learn("new", bullet(v+1, 0)...)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		h.ok(b.f.Wait(ctx, v+1))
		cancel()
		if version, n := b.at(); version != v+1 || n != int(v+1) {
			t.Errorf("got version %d with %d bullets, want version %d", version, n, v+1)
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
		if _, got := s.books[place{book: playbook.Book(fmt.Sprint("book-", i))}]; got != want {
			t.Errorf("book-%d on the shelf: got %v, want %v", i, got, want)
		}
	}
	if len(s.books) != maxBooks {
		t.Errorf("got %d books on the shelf, want %d", len(s.books), maxBooks)
	}
	b, err := s.open(t.Context(), "book-0", nil)
	h.ok(err)
	if version, _ := b.at(); version != 1 {
		t.Errorf("opened again: got version %d, want 1", version)
	}
}

// TestAShelfIsSafeWhileItEvicts: a book may be let go while somebody opens it; who opened it gets its page, and nothing
// is followed when the shelf is closed.
func TestAShelfIsSafeWhileItEvicts(t *testing.T) {
	t.Parallel()
	h := build(t)
	s := newShelf(h.store, &vectors{}, time.Second)
	for i := range maxBooks - 1 { // books that need no server, to get to the limit
		s.books[place{book: playbook.Book(fmt.Sprint("idle-", i))}] = &book{used: time.Now().Add(time.Hour)}
	}
	h.learn("x", bullet(1, 0)...)
	h.learn("y", bullet(1, 0)...)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 10 {
				b, err := s.open(t.Context(), playbook.Book([]string{"x", "y"}[(i+j)%2]), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if version, _ := b.at(); version != 1 {
					t.Errorf("got version %d, want 1", version)
				}
			}
		})
	}
	all.Wait()
	s.close()
	if _, err := s.open(t.Context(), "x", nil); err == nil {
		t.Error("a shelf that is closed opens books")
	}
}

func TestPinnedPagesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	s := h.shelf()
	for v := range uint64(maxPins + 5) {
		h.learn("b", bullet(v+1, 0)...)
	}
	for v := range uint64(maxPins + 5) {
		at := v + 1
		b, err := s.open(t.Context(), "b", &at)
		h.ok(err)
		if version, n := b.at(); version != at || n != int(at) {
			t.Errorf("version %d: got version %d with %d bullets", at, version, n)
		}
		if len(s.books) > maxPins {
			t.Errorf("%d pages are kept, more than %d", len(s.books), maxPins)
		}
	}
}
