package generator

import (
	"context"
	"sync"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// notesCache caches the newest reflections of playbooks for a short time. Many tasks of one playbook need the same
// reflections, and to read them costs the server more than the rest of a context costs the generator.
type notesCache struct {
	mu      sync.Mutex
	entries map[playbook.Book]*notesEntry
}

// notesEntry has the reflections of a playbook as they were last read.
type notesEntry struct {
	lock    chan struct{} // holds one element while a caller uses the other fields; a caller can wait for it until its context ends
	readAt  time.Time
	notes   []*events.Note
	damaged int // number of invalid entries
}

// get returns the reflections of a playbook and the number of invalid entries. The reflections are at most age old: if necessary, get calls read,
// once for all concurrent callers. If that call fails, each waiting caller calls read itself, because the failure may be the deadline of the first
// caller.
func (c *notesCache) get(
	ctx context.Context, b playbook.Book, age time.Duration, read func() ([]*events.Note, int, error),
) ([]*events.Note, int, error) {
	n := c.entry(b)
	select {
	case n.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	defer func() { <-n.lock }()
	if time.Since(n.readAt) >= age {
		notes, damaged, err := read()
		if err != nil {
			return notes, damaged, err
		}
		n.readAt, n.notes, n.damaged = time.Now(), notes, damaged
	}
	return n.notes, n.damaged, nil
}

// entry returns the entry of a playbook. If the cache is full, it first drops all entries.
func (c *notesCache) entry(b playbook.Book) *notesEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.entries[b]
	if n == nil {
		if c.entries == nil || len(c.entries) >= maxPlaybooks {
			c.entries = make(map[playbook.Book]*notesEntry)
		}
		n = &notesEntry{lock: make(chan struct{}, 1)}
		c.entries[b] = n
	}
	return n
}
