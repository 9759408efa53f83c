package generator

import (
	"context"
	"time"

	"debrief/playbook"
)

// Meter receives durations. Its methods are called concurrently and must not block.
type Meter interface {
	// ContextBuilt records the time to build a whole context.
	ContextBuilt(took time.Duration)
	// Recalled records the part of it spent on recall.
	Recalled(took time.Duration)
	// Assembled records the part of it spent on assembly.
	Assembled(took time.Duration)
	// PlaybookDelay records the delay between the flush of a playbook version and its arrival in memory.
	PlaybookDelay(ago time.Duration)
}

type noMeter struct{}

func (noMeter) ContextBuilt(time.Duration)  {}
func (noMeter) Recalled(time.Duration)      {}
func (noMeter) Assembled(time.Duration)     {}
func (noMeter) PlaybookDelay(time.Duration) {}

// VersionLag returns the largest number of versions by which a playbook in memory is behind its stored version. It
// returns 0 while Run is not active.
func (g *Generator) VersionLag(ctx context.Context) (uint64, error) {
	builder := g.builder.Load()
	if builder == nil {
		return 0, nil
	}
	return builder.playbooks.versionLag(ctx)
}

func (c *playbookCache) versionLag(ctx context.Context) (uint64, error) {
	known := make(map[playbook.Book]uint64)
	c.mu.Lock()
	for key, entry := range c.entries {
		if key.pinned {
			continue
		}
		select {
		case <-entry.ready:
			if entry.follower != nil { // loaded without error
				known[key.book] = entry.follower.Version()
			}
		default:
		}
	}
	c.mu.Unlock()
	return c.store.MaxViewLag(ctx, known)
}
