package worlds

import (
	"slices"
	"sync"
)

// maxCached is the maximum number of texts in the cache of a function.
const maxCached = 50_000

// Cached returns a pure function of a text with a cache, because an agent reads the same texts again for every task. The cache empties
// itself when it is full. The returned function is safe for concurrent use.
func Cached[V any](read func(text string) V) func(text string) V {
	var mu sync.RWMutex
	values := make(map[string]V)
	return func(text string) V {
		mu.RLock()
		v, ok := values[text]
		mu.RUnlock()
		if ok {
			return v
		}
		v = read(text)
		mu.Lock()
		defer mu.Unlock()
		if len(values) >= maxCached {
			clear(values)
		}
		values[text] = v
		return v
	}
}

// CachedOK is Cached for a function that may find nothing.
func CachedOK[V any](read func(text string) (V, bool)) func(text string) (V, bool) {
	type result struct {
		value V
		ok    bool
	}
	cached := Cached(func(text string) result {
		v, ok := read(text)
		return result{v, ok}
	})
	return func(text string) (V, bool) {
		r := cached(text)
		return r.value, r.ok
	}
}

// Tasks caches lists of tasks by a name, because writing them takes time. The zero value is ready for use. It is safe for
// concurrent use.
type Tasks struct {
	mu    sync.Mutex
	lists map[string][]Task
}

// First returns the first n tasks of a list. If fewer are cached, it calls write for the first n tasks. What write returns for a
// larger n must begin with what it returned before.
func (c *Tasks) First(name string, n int, write func(n int) []Task) []Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lists == nil {
		c.lists = make(map[string][]Task)
	}
	n = max(n, 0)
	if len(c.lists[name]) < n {
		c.lists[name] = write(n)
	}
	return slices.Clone(c.lists[name][:n])
}
