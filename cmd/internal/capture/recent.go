package capture

import (
	"slices"
	"sync"

	"debrief/events"
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

// written is a reference with the last token of its key, and its sequence in the bucket.
type written struct {
	reference
	token string
	seq   uint64
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

// run returns the newest known revision of a run: got, or a newer one that this process has written. A closed run is newer than an
// open one: they have other buckets.
func (c *recent) run(id events.ID, got revision) revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.runs.get(id); ok && r.newer(got) {
		return r
	}
	return got
}

// newer reports whether r is a later state of a run than other.
func (r revision) newer(other revision) bool {
	if other.run == nil || r.Closed != other.Closed {
		return other.run == nil || r.Closed
	}
	return r.rev > other.rev
}

func (c *recent) putRun(r *run, rev uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := revision{r, rev}
	if old, ok := c.runs.get(r.ID); !ok || next.newer(old) {
		c.runs.put(r.ID, next)
	}
}

// merge returns the stored references of a key, followed by newer ones that this process has added. Seqs has the sequence of the
// stored value of each token, also of deleted ones.
func (c *recent) merge(key string, f found, seqs map[string]uint64) found {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, _ := c.references.get(key)
	for _, w := range own {
		if seq, stored := seqs[w.token]; stored && seq >= w.seq {
			continue
		}
		if i := slices.Index(f.tokens, w.token); i >= 0 {
			f.tokens, f.refs = slices.Delete(f.tokens, i, i+1), slices.Delete(f.refs, i, i+1)
		}
		f.tokens, f.refs = append(f.tokens, w.token), append(f.refs, w.reference)
	}
	return f
}

func (c *recent) addReference(key, token string, ref reference, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, _ := c.references.get(key)
	list := slices.DeleteFunc(slices.Clone(old), func(w written) bool { return w.token == token })
	if len(list) >= maxReferences {
		list = list[1:]
	}
	c.references.put(key, append(list, written{ref, token, seq}))
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
