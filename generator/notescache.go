package generator

import (
	"context"
	"sync"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// notesCache caches the last reflections of playbooks for a short time. Many tasks of one playbook need the same
// reflections. Reading them costs the server more than the rest of a context costs the generator.
type notesCache struct {
	mu      sync.Mutex
	entries map[notesKey]*notesEntry
}

type notesKey struct {
	book  playbook.Book
	limit int
}

// notesEntry is the last read of the reflections of a key.
type notesEntry struct {
	busy    chan struct{} // has an element while a caller uses the other fields
	readAt  time.Time
	list    []*events.Note
	damaged int
}

// get returns reflections that are at most age old. Otherwise it reads them once for all concurrent callers. If that
// read fails, each waiting caller reads itself, because the failure may be the deadline of the first caller.
func (c *notesCache) get(
	ctx context.Context, key notesKey, age time.Duration, read func() ([]*events.Note, int, error),
) ([]*events.Note, int, error) {
	n := c.entry(key)
	select {
	case n.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	defer func() { <-n.busy }()
	if time.Since(n.readAt) >= age {
		list, damaged, err := read()
		if err != nil {
			return list, damaged, err
		}
		n.readAt, n.list, n.damaged = time.Now(), list, damaged
	}
	return n.list, n.damaged, nil
}

func (c *notesCache) entry(key notesKey) *notesEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.entries[key]
	if n == nil {
		if c.entries == nil || len(c.entries) >= maxPlaybooks {
			c.entries = make(map[notesKey]*notesEntry)
		}
		n = &notesEntry{busy: make(chan struct{}, 1)}
		c.entries[key] = n
	}
	return n
}
