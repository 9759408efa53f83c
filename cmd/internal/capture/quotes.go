package capture

import (
	"context"
	"slices"

	"debrief/cmd/internal/modelapi"
	"debrief/events/direct"
)

// Turn returns the index of the item of the user that a request works on, or -1. Reminders of a coding agent are no turns.
func Turn(r *modelapi.Request) int { return lastTurnOf(r.Items) }

// Quotes reports whether one of the texts is the first question of an open conversation of the owner. Errors count as no.
func (s *Store) Quotes(ctx context.Context, c *Call, texts []string) bool {
	var keys []string
	for _, text := range texts {
		first := key(c, "start", string(textChain("").add(&modelapi.Item{Role: modelapi.RoleUser, Text: text})), "", "")
		if s.recent.hasReferences(s.open.prefix() + first) {
			return true
		}
		keys = append(keys, first+".*")
	}
	found := false
	_ = s.open.last(ctx, keys, func(m *direct.Message) error { // a call that cannot be read counts as work
		found = found || !m.Deleted()
		return nil
	})
	return found
}

// hasReferences reports whether this process has added references to a key that are still in the cache.
func (c *recent) hasReferences(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, _ := c.references.get(key)
	return slices.ContainsFunc(list, func(w written) bool {
		r, ok := c.runs.get(w.Run)
		return ok && r.open()
	})
}
