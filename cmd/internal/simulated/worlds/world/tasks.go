package world

import (
	"slices"
	"sync"
)

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
