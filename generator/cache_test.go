package generator

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"debrief/playbook"
)

func (f *fixture) newCache() *playbookCache {
	s := newPlaybookCache(f.store, &embeddingCache{}, false, time.Second)
	f.Cleanup(s.close)
	return s
}

// currentVersion returns the version and the number of bullets that a prompt uses now.
func (p *cachedPlaybook) currentVersion() (version uint64, bullets int) {
	_ = p.withIndex(func(ix *playbookIndex) error {
		version, bullets = ix.version, ix.bullets.Len()
		return nil
	})
	return version, bullets
}

func TestEmptyPlaybookIsFollowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.newCache()
	b, err := s.get(t.Context(), "new")
	f.ok(err)
	if version, n := b.currentVersion(); version != 0 || n != 0 {
		t.Fatalf("got version %d with %d bullets, want the empty playbook", version, n)
	}
	for v := range uint64(3) {
		f.commit("new", bullet(v+1, 0)...)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		f.ok(b.follower.Wait(ctx, v+1))
		cancel()
		if version, n := b.currentVersion(); version != v+1 || n != int(v+1) {
			t.Errorf("got version %d with %d bullets, want version %d", version, n, v+1)
		}
	}
}

func TestCacheEvictsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("book-0", bullet(1, 0)...)
	s := f.newCache()
	for i := range maxPlaybooks + 3 {
		if _, err := s.get(t.Context(), playbook.Book(fmt.Sprint("book-", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range map[int]bool{0: false, 2: false, 3: true, maxPlaybooks + 2: true} {
		if _, got := s.entries[playbookKey{book: playbook.Book(fmt.Sprint("book-", i))}]; got != want {
			t.Errorf("book-%d in the cache: got %v, want %v", i, got, want)
		}
	}
	if len(s.entries) != maxPlaybooks {
		t.Errorf("got %d books in the cache, want %d", len(s.entries), maxPlaybooks)
	}
	b, err := s.get(t.Context(), "book-0")
	f.ok(err)
	if version, _ := b.currentVersion(); version != 1 {
		t.Errorf("opened again: got version %d, want 1", version)
	}
}

// A caller that gets an entry during its eviction can still use the index. After close nothing is followed.
func TestCacheIsSafeDuringEviction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newPlaybookCache(f.store, &embeddingCache{}, false, time.Second)
	for i := range maxPlaybooks - 1 { // entries that need no server, to reach the limit
		s.entries[playbookKey{book: playbook.Book(fmt.Sprint("idle-", i))}] = &cachedPlaybook{lastUsed: time.Now().Add(time.Hour)}
	}
	f.commit("x", bullet(1, 0)...)
	f.commit("y", bullet(1, 0)...)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 10 {
				b, err := s.get(t.Context(), playbook.Book([]string{"x", "y"}[(i+j)%2]))
				if err != nil {
					t.Error(err)
					return
				}
				if version, _ := b.currentVersion(); version != 1 {
					t.Errorf("got version %d, want 1", version)
				}
			}
		})
	}
	all.Wait()
	s.close()
	if _, err := s.get(t.Context(), "x"); err == nil {
		t.Error("a closed cache returned a playbook")
	}
}

func TestPinnedVersionsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	f := newFixture(t)
	s := f.newCache()
	for v := range uint64(maxPinned + 5) {
		f.commit("b", bullet(v+1, 0)...)
	}
	for v := range uint64(maxPinned + 5) {
		at := v + 1
		today, err := s.get(t.Context(), "b")
		f.ok(err)
		b, err := s.pinned(t.Context(), today, "b", at)
		f.ok(err)
		if version, n := b.currentVersion(); version != at || n != int(at) {
			t.Errorf("version %d: got version %d with %d bullets", at, version, n)
		}
		if len(s.entries) > maxPinned+1 { // the newest version too
			t.Errorf("got %d entries, want at most %d", len(s.entries), maxPinned+1)
		}
	}
}
