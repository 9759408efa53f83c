package capture

import (
	"slices"
	"sync"

	"debrief/events"
	"debrief/events/streams"
)

// recent holds the latest values that this process has written. A direct read may come from a server that lacks the newest messages, and
// the next call of a run comes a few milliseconds after the last one. It is safe for concurrent use.
type recent struct {
	mu         sync.Mutex
	runs       fifo[events.ID, revision]
	references fifo[string, []written]
	blocks     fifo[events.ID, string]
}

// revision is a run with its revision in the bucket.
type revision struct {
	*run // not changed anymore
	rev  uint64
}

// written is a reference with its sequence in the bucket.
type written struct {
	reference
	seq uint64
}

// Limits of the cache, in entries. A run has some KB, most of it the text of its block, which it shares with the cache of blocks.
const (
	maxRecentRuns       = 4096
	maxRecentReferences = 4 * maxRecentRuns
	maxRecentBlocks     = 1024
)

func newRecent() recent {
	return recent{
		runs: newFIFO[events.ID, revision](maxRecentRuns), references: newFIFO[string, []written](maxRecentReferences),
		blocks: newFIFO[events.ID, string](maxRecentBlocks),
	}
}

// run returns the newest known revision of a run: got, or a newer one that this process has written.
func (c *recent) run(id events.ID, got revision) revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.runs.get(id); ok && r.rev > got.rev {
		return r
	}
	return got
}

func (c *recent) putRun(r *run, rev uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.runs.get(r.ID); !ok || old.rev < rev {
		c.runs.put(r.ID, revision{r, rev})
	}
}

// merge returns the stored references of a key, followed by newer ones that this process has added. Last is the sequence of the
// last stored one.
func (c *recent) merge(key string, stored []reference, last uint64) []reference {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, _ := c.references.get(key)
	for _, w := range own {
		if w.seq > last {
			stored = append(stored, w.reference)
		}
	}
	return stored
}

func (c *recent) addReference(key string, ref reference, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, _ := c.references.get(key)
	if len(list) >= streams.CaptureHistory {
		list = list[1:]
	}
	c.references.put(key, append(slices.Clone(list), written{ref, seq}))
}

// block returns the text of the block of a run.
func (c *recent) block(id events.ID) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocks.get(id)
}

func (c *recent) putBlock(id events.ID, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks.put(id, text)
}

// inProcess counts the calls of this process between Start and the end of Finish. A fast model replies before the run of its call
// is stored. It is safe for concurrent use.
type inProcess struct {
	mu     sync.Mutex
	starts map[string]int // by the start of the run
}

func (p *inProcess) add(start string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.starts[start] += n; p.starts[start] <= 0 {
		delete(p.starts, start)
	}
}

func (p *inProcess) has(start string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts[start] > 0
}

// fifo is a map that drops its oldest entry at a limit.
type fifo[K comparable, V any] struct {
	values map[K]V
	order  []K // a ring; next is the position of the oldest one
	next   int
}

func newFIFO[K comparable, V any](limit int) fifo[K, V] {
	return fifo[K, V]{values: make(map[K]V), order: make([]K, 0, limit)}
}

func (f *fifo[K, V]) get(key K) (V, bool) {
	v, ok := f.values[key]
	return v, ok
}

func (f *fifo[K, V]) put(key K, value V) {
	_, known := f.values[key]
	f.values[key] = value
	switch {
	case known:
	case len(f.order) < cap(f.order):
		f.order = append(f.order, key)
	default:
		delete(f.values, f.order[f.next])
		f.order[f.next] = key
		f.next = (f.next + 1) % len(f.order)
	}
}
