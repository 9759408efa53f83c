package capture

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"debrief/events"
)

// recent holds the latest values that this process has written: the next call of a run comes a few milliseconds after the last one, and
// a direct read may be answered by a server that lacks the newest messages. It also holds the runs that were read for their blocks of
// advice. It is safe for concurrent use.
type recent struct {
	mu         sync.Mutex
	runs       *simplelru.LRU[events.ID, revision]
	references *simplelru.LRU[string, []storedReference]
}

// revision is a run with its revision in the bucket.
type revision struct {
	*run // not changed anymore
	rev  uint64
}

// Limits of the cache, in entries. A run has some KB, most of it the text of its block.
const (
	maxRecentRuns       = 4096
	maxRecentReferences = 4 * maxRecentRuns
)

func newRecent() recent {
	// NewLRU fails only for a size of 0.
	runs, _ := simplelru.NewLRU[events.ID, revision](maxRecentRuns, nil)
	references, _ := simplelru.NewLRU[string, []storedReference](maxRecentReferences, nil)
	return recent{runs: runs, references: references}
}

// newestRun returns the newest known revision of a run: got, or a newer one in the cache.
func (c *recent) newestRun(id events.ID, got revision) revision {
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

func (c *recent) putRun(r revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.runs.Get(r.ID); !ok || r.newer(old) {
		c.runs.Add(r.ID, r)
	}
}

// merge returns the references of a key, oldest first: the stored ones, and those that this process has added since. Of references with the
// same token only the newest counts. A reference without a run is left out: it was deleted, or is not readable.
func (c *recent) merge(key string, stored []storedReference) []storedReference {
	c.mu.Lock()
	defer c.mu.Unlock()
	added, _ := c.references.Get(key)
	for _, a := range added {
		i := indexOfToken(stored, a.token)
		switch {
		case i < 0:
			stored = append(stored, a)
		case stored[i].seq < a.seq:
			stored = append(slices.Delete(stored, i, i+1), a)
		}
	}
	return slices.DeleteFunc(stored, func(s storedReference) bool { return s.Run == "" })
}

func indexOfToken(list []storedReference, token string) int {
	return slices.IndexFunc(list, func(s storedReference) bool { return s.token == token })
}

func (c *recent) addReference(key string, added storedReference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, _ := c.references.Get(key)
	list := slices.DeleteFunc(slices.Clone(old), func(s storedReference) bool { return s.token == added.token })
	if len(list) >= maxReferences {
		list = list[1:]
	}
	c.references.Add(key, append(list, added))
}

// namesOpenRun reports whether the cache has a reference of this key to an open run.
func (c *recent) namesOpenRun(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, _ := c.references.Get(key)
	return slices.ContainsFunc(list, func(s storedReference) bool {
		r, ok := c.runs.Get(s.Run)
		return ok && r.isOpen()
	})
}

// inProcess counts the calls of this process between Start and the end of Finish. A fast model replies before the run of its call is stored.
// While such a call is counted, the next call of its conversation waits for the run. inProcess is safe for concurrent use.
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
