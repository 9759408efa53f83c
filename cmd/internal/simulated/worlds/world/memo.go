package world

import "sync"

// maxMemo is the maximum number of entries of a Memo.
const maxMemo = 50_000

// Memo caches the results of a pure function of a text. The zero value is ready for use. It is safe for concurrent use and
// empties itself when it is full.
type Memo[V any] struct {
	mu sync.RWMutex
	m  map[string]entry[V]
}

type entry[V any] struct {
	value V
	ok    bool
}

// Get returns the value for a text. It calls read if the value is not cached.
func (c *Memo[V]) Get(text string, read func(string) V) V {
	v, _ := c.Find(text, func(text string) (V, bool) { return read(text), true })
	return v
}

// Find returns the value for a text, or false without one. It calls read if the result is not cached.
func (c *Memo[V]) Find(text string, read func(string) (V, bool)) (V, bool) {
	c.mu.RLock()
	e, ok := c.m[text]
	c.mu.RUnlock()
	if ok {
		return e.value, e.ok
	}
	e.value, e.ok = read(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxMemo {
		c.m = make(map[string]entry[V])
	}
	c.m[text] = e
	return e.value, e.ok
}
