package redact

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// The ids of the bullets in a prompt are redacted several times for each sample: in the execution that is published, and again where the
// execution is handled. So a text without secrets that occurs again is remembered, which makes this four times faster. The texts themselves are compared, because two texts
// can have the same hash by chance, and one of them a secret.
const (
	cacheSlots = 4096 // together with maxCached: at most 4 MiB
	minCached  = 16   // bytes; a shorter text is scanned in about the same time
	maxCached  = 1024
)

// textCache remembers texts without secrets. The zero value is empty. It is safe for concurrent use.
type textCache struct {
	slots [cacheSlots]struct {
		text atomic.Pointer[string]
		last atomic.Uint64 // hash of the last text that was not found; only its second occurrence is remembered
	}
}

var (
	cleanTexts textCache
	cacheSeed  = maphash.MakeSeed()
)

// has reports whether s is remembered. If it is not, repeated reports whether s was also the last text that was not found at its slot. The
// caller should then add it, if it has no secret.
func (c *textCache) has(s string) (found, repeated bool) {
	if len(s) < minCached || len(s) > maxCached {
		return false, false
	}
	h := maphash.String(cacheSeed, s)
	slot := &c.slots[h%cacheSlots]
	if known := slot.text.Load(); known != nil && *known == s {
		return true, true
	}
	return false, slot.last.Swap(h) == h
}

// add remembers s, which has no secret.
func (c *textCache) add(s string) {
	own := strings.Clone(s) // s may be a part of a larger text
	c.slots[maphash.String(cacheSeed, s)%cacheSlots].text.Store(&own)
}
