package index

import (
	"debrief/cmd/internal/api/worth"
	"debrief/events"
	"debrief/playbook"
)

// maxSessions is the number of sessions with a random arm, of all playbooks, that can grow. One takes at most 250 bytes, so all take 25 MB.
// At this limit, add forgets the oldest quarter. Their values stay in the sums, and a run that continues one of them begins a new session.
const maxSessions = 100_000

// comparison has the sessions with a random arm, and their sums per playbook.
type comparison struct {
	sessions map[uint64]worth.Session // by the hash of playbook, owner and session
	order    []uint64                 // keys of sessions, oldest first
	limit    int
	sums     map[playbook.Book]*worth.Sums
}

func newComparison() comparison {
	return comparison{sessions: map[uint64]worth.Session{}, limit: maxSessions, sums: map[playbook.Book]*worth.Sums{}}
}

// add adds an execution, if it has a random arm.
func (c *comparison) add(e *events.Execution, dollars float64) {
	if !worth.Counts(e) {
		return
	}
	key := sessionKey(e)
	if _, ok := c.sessions[key]; !ok {
		if len(c.order) == c.limit {
			for _, old := range c.order[:c.limit/4] {
				delete(c.sessions, old)
			}
			c.order = append(c.order[:0], c.order[c.limit/4:]...)
		}
		c.order = append(c.order, key)
	}
	c.change(e.Book, key, func(s *worth.Session) { s.Add(e, dollars) })
}

// revise replaces the outcome of an execution that was added.
func (c *comparison) revise(e *events.Execution, before, after events.Outcome) {
	key := sessionKey(e)
	if _, ok := c.sessions[key]; ok && worth.Counts(e) {
		c.change(e.Book, key, func(s *worth.Session) { s.Revise(before, after) })
	}
}

func (c *comparison) change(b playbook.Book, key uint64, fn func(*worth.Session)) {
	before := c.sessions[key]
	after := before
	fn(&after)
	c.sessions[key] = after
	if c.sums[b] == nil {
		c.sums[b] = new(worth.Sums)
	}
	c.sums[b].Replace(&before, &after)
}

// sessionKey returns the key of the session of an execution. A run without a session is a session of its own, with all its rounds.
func sessionKey(e *events.Execution) uint64 {
	name := "run/" + e.RunID
	if e.Session != "" {
		name = "session/" + e.Session
	}
	return hash(string(e.Book) + "\x00" + e.Owner + "\x00" + name)
}

// Worth returns the comparison of the sessions with and without a playbook. share is the control share now. last is the last sequence of the
// stream.
func (x *Executions) Worth(b playbook.Book, share playbook.Share, last uint64) *worth.Report {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := x.compared.sums[b].Report(b, share)
	r.Through, r.Behind = x.seq, last-min(last, x.seq)
	return r
}
