package simulated

import (
	"crypto/sha256"
	"sync"
)

const (
	bytesPerToken = 4
	blockTokens   = 64 // tokens of a cached block
)

// Usage is the token usage of one request. Input includes Cached.
type Usage struct{ Input, Cached, Output int }

// cache models the prefix cache of a provider: the cached tokens of a prompt are its longest common prefix with any earlier
// prompt of the same key, in whole blocks. A block is identified by the hash of all bytes up to its end.
type cache struct {
	mu     sync.Mutex
	blocks map[string]map[[16]byte]bool // by key
}

// count returns the usage of a prompt, and adds the prompt to the cache.
func (c *cache) count(key string, prompt []byte) Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks == nil {
		c.blocks = map[string]map[[16]byte]bool{}
	}
	if c.blocks[key] == nil {
		c.blocks[key] = map[[16]byte]bool{}
	}
	u := Usage{Input: len(prompt)/bytesPerToken + 1}
	const size = bytesPerToken * blockTokens
	var chain [16]byte
	for ; len(prompt) >= size; prompt = prompt[size:] {
		sum := sha256.Sum256(append(chain[:], prompt[:size]...))
		copy(chain[:], sum[:])
		if c.blocks[key][chain] { // the blocks before it are cached, too
			u.Cached += blockTokens
		}
		c.blocks[key][chain] = true
	}
	return u
}
