package capture

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"debrief/events"
)

// recent holds the latest values that this process has written. The next call of a run comes a few milliseconds after the last one, and
// a direct read may be answered by a server that lacks the newest messages. It is safe for concurrent use.
type recent struct {
	mu         sync.Mutex
	runs       *simplelru.LRU[events.ID, revision]
	references *simplelru.LRU[string, []written]
	blocks     *simplelru.LRU[events.ID, Block]
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
	// NewLRU fails only for a size of 0.
	runs, _ := simplelru.NewLRU[events.ID, revision](maxRecentRuns, nil)
	references, _ := simplelru.NewLRU[string, []written](maxRecentReferences, nil)
	blocks, _ := simplelru.NewLRU[events.ID, Block](maxRecentBlocks, nil)
	return recent{runs: runs, references: references, blocks: blocks}
}

// run returns the newest known revision of a run: got, or a newer one that this process has written.
func (c *recent) run(id events.ID, got revision) revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.runs.Get(id); ok && r.newer(got) {
		return r
	}
	return got
}

// newer reports whether r is a later state of a run than other, which may have no run.
func (r revision) newer(other revision) bool {
	switch {
	case other.run == nil:
		return true
	case r.Closed != other.Closed:
		return r.Closed // the revisions of the two buckets cannot be compared
	}
	return r.rev > other.rev
}

func (c *recent) putRun(r *run, rev uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := revision{r, rev}
	if old, ok := c.runs.Get(r.ID); !ok || next.newer(old) {
		c.runs.Add(r.ID, next)
	}
}

// merge returns the stored references of a key, followed by newer ones that this process has added. The map seqs has the sequence of the
// stored value of each token, also of a deleted value.
func (c *recent) merge(key string, f found, seqs map[string]uint64) found {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, _ := c.references.Get(key)
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
	old, _ := c.references.Get(key)
	list := slices.DeleteFunc(slices.Clone(old), func(w written) bool { return w.token == token })
	if len(list) >= maxReferences {
		list = list[1:]
	}
	c.references.Add(key, append(list, written{ref, token, seq}))
}

// namesOpenRun reports whether the cache has a reference of this key to an open run.
func (c *recent) namesOpenRun(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, _ := c.references.Get(key)
	return slices.ContainsFunc(list, func(w written) bool {
		r, ok := c.runs.Get(w.Run)
		return ok && r.open()
	})
}

// block returns the block of a run.
func (c *recent) block(id events.ID) (Block, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocks.Get(id)
}

func (c *recent) putBlock(id events.ID, b Block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks.Add(id, b)
}

// inProcess counts the calls of this process between Start and the end of Finish. A fast model replies before the run of its call
// is stored. It is safe for concurrent use.
type inProcess struct {
	mu     sync.Mutex
	starts map[string]int // number of calls by place.start
}

func (p *inProcess) add(start string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts[start] += n
	if p.starts[start] <= 0 {
		delete(p.starts, start)
	}
}

func (p *inProcess) has(start string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts[start] > 0
}
