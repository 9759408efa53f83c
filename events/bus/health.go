package bus

import (
	"sync"
	"time"
)

// State is what a role is doing, for health checks and people.
type State string

// The states of a role. Running and Stopped are healthy.
const (
	Running     State = "running"
	Unavailable State = "unavailable" // something it needs does not answer; it holds its work and takes no more
	Paused      State = "paused"      // the model's output is useless; it keeps what that was for, gave the rest back, and probes
	Outdated    State = "outdated"    // there are messages of a newer schema; it takes no more until it is replaced
	Stopped     State = "stopped"
)

// RoleHealth is the state of one role and why.
type RoleHealth struct {
	Role   string    `json:"role"`
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// Healthy reports whether the role works or was asked to stop.
func (h RoleHealth) Healthy() bool { return h.State == Running || h.State == Stopped }

type health struct {
	mu    sync.Mutex
	roles []RoleHealth
}

// set reports whether the state changed.
func (h *health) set(role string, s State, reason string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.roles {
		if r := &h.roles[i]; r.Role == role {
			if r.State == s {
				r.Reason = reason
				return false
			}
			*r = RoleHealth{role, s, reason, time.Now()}
			return true
		}
	}
	h.roles = append(h.roles, RoleHealth{role, s, reason, time.Now()})
	return true
}

// Health is the state of every role that this connection has run.
func (c *Conn) Health() []RoleHealth {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	return append([]RoleHealth(nil), c.health.roles...)
}
