package bus

import (
	"slices"
	"sync"
	"time"

	"debrief/events"
)

// State is the state of a role, for health checks and users.
type State string

// The states of a role. Running, Serving and Stopped are healthy.
const (
	Running     State = "running"
	Serving     State = "serving"     // the role serves requests, and takes no messages
	Unavailable State = "unavailable" // a dependency does not answer; the role holds the messages that need it
	Paused      State = "paused"      // the model's output is useless; the role holds the messages with useless output, has released the others, and probes
	Stopped     State = "stopped"
)

// RoleHealth is the state of a role and its reason.
type RoleHealth struct {
	Role   string    `json:"role"`
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// Waiting is why a running role waits now, such as "rate limited: …" or "the model is slow: …"; empty if it does not.
	Waiting string `json:"waiting,omitempty"`
	// Misconfigured is set if a person must change a setting or the account: the model refuses every request, or has given no useful
	// output since the start.
	Misconfigured bool `json:"misconfigured,omitempty"`
}

// Healthy reports whether the role runs, serves requests or was stopped on request.
func (h RoleHealth) Healthy() bool {
	return h.takesWork() || h.State == Stopped
}

// Health has the states of the roles that a connection runs, for health checks and users. Conn.Run sets them.
// Health is safe for concurrent use.
type Health struct {
	*link
	mu                sync.Mutex
	roles             []RoleHealth
	dependencies      []missingDependency
	waiting           map[string]func() string // by role, see Worker.Waiting
	disconnectedSince time.Time                // time of the first call of Roles without a connection; zero while connected
}

// missingDependency is a dependency of a role that is unavailable.
type missingDependency struct {
	role, dependency, reason string
	since                    time.Time
}

// set sets the health of a role from now on. It reports whether the state changed.
func (h *Health) set(health RoleHealth) bool {
	health.Since = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.roles, func(r RoleHealth) bool { return r.Role == health.Role })
	if i < 0 {
		h.roles = append(h.roles, health)
		return true
	}
	hasChanged := h.roles[i].State != health.State
	if !hasChanged {
		health.Since = h.roles[i].Since
	}
	h.roles[i] = health
	return hasChanged
}

// setWaiting sets the function that returns why a role waits.
func (h *Health) setWaiting(role string, waiting func() string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = make(map[string]func() string)
	}
	h.waiting[role] = waiting
}

// SetDependencyError sets why a dependency of a role is unavailable; nil means that it is available again. Meanwhile Roles shows
// the role as unavailable, although it continues without the dependency.
func (h *Health) SetDependencyError(role, dependency string, err error) {
	if !h.setDependency(role, dependency, err) {
		return
	}
	line := h.log.Info()
	state, loggable := Running, ""
	if err != nil {
		line = h.log.Warn()
		state, loggable = Unavailable, Loggable(err)
	}
	line.Str(events.LogRole, role).Str("state", string(state)).Str("lacks", dependency).Str("reason", loggable).Msg("state changed")
}

// setDependency sets or clears the error of a dependency. It reports whether the dependency failed or recovered.
func (h *Health) setDependency(role, dependency string, err error) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.dependencies, func(l missingDependency) bool { return l.role == role && l.dependency == dependency })
	switch {
	case err == nil && i < 0:
		return false
	case err == nil:
		h.dependencies = slices.Delete(h.dependencies, i, i+1)
	case i < 0:
		h.dependencies = append(h.dependencies, missingDependency{role: role, dependency: dependency, reason: err.Error(), since: time.Now()})
	default:
		h.dependencies[i].reason = err.Error()
		return false
	}
	return true
}

// Roles returns the state of every role that this connection has run, or that lacks a dependency. Without a connection
// all running roles are unavailable, including idle ones.
func (h *Health) Roles() []RoleHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.roles)
	for i := range all {
		if waiting := h.waiting[all[i].Role]; waiting != nil && all[i].State == Running {
			all[i].Waiting = waiting()
		}
	}
	all = h.withDependencies(all)
	if h.nc.IsConnected() || h.nc.IsDraining() {
		h.disconnectedSince = time.Time{}
		return all
	}
	if h.disconnectedSince.IsZero() {
		h.disconnectedSince = time.Now()
	}
	for i := range all {
		all[i] = all[i].withoutConnection(h.disconnectedSince)
	}
	return all
}

// takesWork reports whether a role handles messages or serves requests.
func (h RoleHealth) takesWork() bool { return h.State == Running || h.State == Serving }

// withDependencies makes the roles that lack a dependency unavailable. The oldest outage of a role determines its state.
func (h *Health) withDependencies(all []RoleHealth) []RoleHealth {
	for _, l := range h.dependencies {
		i := slices.IndexFunc(all, func(r RoleHealth) bool { return r.Role == l.role })
		if i < 0 { // a role that takes no messages, such as a generator that only serves requests
			i = len(all)
			all = append(all, RoleHealth{Role: l.role, State: Running})
		}
		if all[i].takesWork() {
			all[i] = RoleHealth{Role: l.role, State: Unavailable, Reason: l.dependency + ": " + l.reason, Since: l.since}
		}
	}
	return all
}

// withoutConnection returns the health of a role without a connection since a time. A more specific state from before that time stays.
func (h RoleHealth) withoutConnection(since time.Time) RoleHealth {
	causedByDisconnection := h.State == Unavailable && h.Since.After(since)
	if !h.takesWork() && !causedByDisconnection {
		return h
	}
	return RoleHealth{Role: h.Role, State: Unavailable, Reason: "no connection to the server", Since: since}
}
