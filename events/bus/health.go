package bus

import (
	"slices"
	"sync"
	"time"

	"debrief/events"
)

// State is what a role is doing, for health checks and people.
type State string

// The states of a role. Running and Stopped are healthy.
const (
	Running     State = "running"
	Unavailable State = "unavailable" // something it needs does not answer; it holds what it cannot do without
	Paused      State = "paused"      // the model's output is useless; it holds those messages, gave the rest back, and probes
	Outdated    State = "outdated"    // there are dead letters of a newer schema; it handles everything else
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
	lacks []lack
	away  time.Time // since when nobody who asked found a connection; zero when there is one
}

// lack is something that a role cannot get at.
type lack struct {
	role, what, reason string
	since              time.Time
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

// Lacks notes why a role cannot get at something beside its messages; nil says that it can again. For as long it is shown
// as unavailable, though it works on with what it has.
func (c *Conn) Lacks(role, what string, why error) {
	if !c.health.lack(role, what, why) {
		return
	}
	level, state, loggable := c.log.Info(), Running, ""
	if why != nil {
		level, state, loggable = c.log.Warn(), Unavailable, Loggable(why)
	}
	level.Str(events.LogRole, role).Str("state", string(state)).Str("lacks", what).Str("reason", loggable).Msg("state changed")
}

// lack reports whether that is news.
func (h *health) lack(role, what string, why error) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.lacks, func(l lack) bool { return l.role == role && l.what == what })
	switch {
	case why == nil && i < 0:
		return false
	case why == nil:
		h.lacks = slices.Delete(h.lacks, i, i+1)
	case i < 0:
		h.lacks = append(h.lacks, lack{role, what, why.Error(), time.Now()})
	default:
		h.lacks[i].reason = why.Error()
		return false
	}
	return true
}

// Health is the state of every role that this connection has run, or that lacks something. Without a connection none of
// them runs, also one that has nothing to do and would wait in peace until there is one.
func (c *Conn) Health() []RoleHealth {
	h := &c.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.nc.IsConnected() || c.nc.IsDraining() {
		h.away = time.Time{}
	} else if h.away.IsZero() {
		h.away = time.Now()
	}
	all := slices.Clone(h.roles)
	for _, l := range h.lacks { // the oldest one of a role stands for all
		i := slices.IndexFunc(all, func(r RoleHealth) bool { return r.Role == l.role })
		if i < 0 { // it takes no messages, as a generator that does nothing but serve
			i, all = len(all), append(all, RoleHealth{Role: l.role, State: Running})
		}
		if all[i].State == Running {
			all[i] = RoleHealth{l.role, Unavailable, l.what + ": " + l.reason, l.since}
		}
	}
	for i := range all {
		r := &all[i]
		if h.away.IsZero() || r.State != Running && !(r.State == Unavailable && r.Since.After(h.away)) {
			continue // what it had found out before it knows better
		}
		*r = RoleHealth{r.Role, Unavailable, "there is no connection to the server", h.away}
	}
	return all
}
