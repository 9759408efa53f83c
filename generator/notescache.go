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

// notesEntry is immutable after ready is closed.
type notesEntry struct {
	ready   chan struct{}
	readAt  time.Time
	list    []*events.Note
	damaged int
	err     error
}

// get returns reflections that are at most age old. Otherwise it reads them once for all concurrent callers. If that
// read fails, each waiting caller reads itself, because the failure may be the deadline of the first caller.
func (c *notesCache) get(
	ctx context.Context, key notesKey, age time.Duration, read func() ([]*events.Note, int, error),
) ([]*events.Note, int, error) {
	n, owner := c.entry(key, age)
	if owner {
		n.list, n.damaged, n.err = read()
		n.readAt = time.Now()
		close(n.ready)
		return n.list, n.damaged, n.err
	}
	select {
	case <-n.ready:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	if n.err != nil {
		return read()
	}
	return n.list, n.damaged, nil
}

// entry returns the cached entry of a key. If owner is true, the caller must fill the entry and close ready.
func (c *notesCache) entry(key notesKey, age time.Duration) (n *notesEntry, owner bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = c.entries[key]
	if n != nil {
		select {
		case <-n.ready:
			if n.err == nil && time.Since(n.readAt) < age {
				return n, false
			}
		default:
			return n, false
		}
	}
	if c.entries == nil || len(c.entries) >= maxPlaybooks {
		c.entries = make(map[notesKey]*notesEntry)
	}
	n = &notesEntry{ready: make(chan struct{})}
	c.entries[key] = n
	return n, true
}
