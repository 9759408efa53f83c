package roles

import "sync"

// maxMemo is the maximum number of entries of a Memo.
const maxMemo = 50_000

// Memo caches the results of a pure function of a text. The zero value is ready for use. It is safe for concurrent use and
// empties itself when it is full.
type Memo[V any] struct {
	mu sync.RWMutex
	m  map[string]V
}

// Get returns the value for a text. It calls read if the value is not cached.
func (c *Memo[V]) Get(text string, read func(string) V) V {
	c.mu.RLock()
	v, ok := c.m[text]
	c.mu.RUnlock()
	if ok {
		return v
	}
	v = read(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxMemo {
		c.m = make(map[string]V)
	}
	c.m[text] = v
	return v
}
