package liveness

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"debrief/events"
	"debrief/events/bus"
)

// Report is the health of one process.
type Report struct {
	Level   Level     `json:"level"`
	Program string    `json:"program"`
	Version string    `json:"version"` // of the program: module version or VCS revision
	Process string    `json:"process"` // a unique id, new at each start
	Time    time.Time `json:"time"`
	Error   string    `json:"error,omitempty"` // server error; the verdicts then use only data of this process
	Store   string    `json:"store,omitempty"` // reason for a closed store; empty while the store is open
	Roles   []Role    `json:"roles"`
	Gateway *Gateway  `json:"gateway,omitempty"` // nil without a gateway that had calls or a problem
}

// Role is the health of a role in one process.
type Role struct {
	bus.RoleHealth
	Verdict
	Vitals bus.RoleStats `json:"stats"`
	Work   bus.Backlog   `json:"backlog"`
}

// Process reports the health of the roles in one process.
type Process struct {
	conn    *bus.Conn
	program string
	id      string
	floor   time.Duration
	calls   *Calls
}

// NewProcess returns a Process for the roles on a connection. A floor of 0 selects the default Floor.
func NewProcess(conn *bus.Conn, program string, floor time.Duration) *Process {
	return &Process{conn: conn, program: program, id: nuid.Next(), floor: cmp.Or(floor, Floor)}
}

// Gateway adds the gateway that counts its calls. Call it before the first check.
func (p *Process) Gateway(calls *Calls) { p.calls = calls }

// version returns the module version or VCS revision of this program.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value
		}
	}
	return v
})

// Check returns the health of every role that this process has started and not stopped. Without a server connection
// the roles become unavailable, and red after the floor.
func (p *Process) Check(ctx context.Context) Report {
	now := time.Now()
	r := Report{Level: Green, Program: p.program, Version: version(), Process: p.id, Time: now.UTC(), Roles: []Role{}}
	if err := p.conn.StoreError(); err != nil {
		r.Level, r.Store = Red, err.Error()
	}
	if p.calls != nil {
		r.Gateway = p.calls.health()
	}
	if r.Gateway != nil {
		r.Level = Worse(r.Level, r.Gateway.Level)
	}
	vitals := p.conn.RoleStats()
	for _, h := range p.conn.Health() {
		if h.State == bus.Stopped {
			continue
		}
		role := Role{RoleHealth: h}
		if i := slices.IndexFunc(vitals, func(v bus.RoleStats) bool { return v.Role == h.Role }); i >= 0 {
			role.Vitals = vitals[i]
		}
		var err error
		if role.Work, err = p.conn.Backlog(ctx, h.Role); err != nil {
			r.Error = err.Error()
		}
		role.Verdict = assess(measure(role, now), p.floor)
		if err != nil && role.Level == Green {
			role.add(Yellow, NoBacklog, "the server did not report the waiting messages")
		}
		r.Level = Worse(r.Level, role.Level)
		r.Roles = append(r.Roles, role)
	}
	return r
}

// measure returns the measurements for one worker.
func measure(r Role, now time.Time) measurements {
	f := measureWork(r.Role, r.Work, now)
	f.Workers, f.State, f.Reason, f.InState, f.Misconfigured = 1, r.State, r.Reason, since(now, r.Since), r.Misconfigured
	if !r.RoleHealth.Healthy() {
		f.Unhealthy = 1
	}
	if v := r.Vitals; r.Work.Pending == 0 && !v.LastSuccess.IsZero() && !v.LastDelivery.After(v.LastSuccess) {
		f.Pending = 0 // other workers have the messages in flight; this worker has finished its own
	}
	f.SinceSuccess = since(now, r.Vitals.LastSuccess)
	if r.Vitals.LastSuccess.IsZero() && r.Work.LastAck.IsZero() {
		f.SinceSuccess = since(now, r.Vitals.Started)
	} else if r.Vitals.LastSuccess.IsZero() { // a worker that crashes repeatedly: its start must not reset the time
		f.SinceSuccess = since(now, r.Work.LastAck)
	}
	f.SinceLearned = min(since(now, r.Vitals.LastEffect), since(now, r.Vitals.Started))
	f.P95, f.WithoutLearning, f.DeadLetters = r.Vitals.P95, r.Vitals.SuccessesSinceEffect, r.Vitals.DeadSinceSuccess
	f.Outcomes, f.Failures = r.Vitals.OutcomesSinceChange, r.Vitals.FailuresSinceChange
	f.Replies, f.SinceMalformed = r.Vitals.Replies, since(now, r.Vitals.Replies.LastMalformed)
	f.Panics, f.SincePanic, f.PanicReason = r.Vitals.Panics, since(now, r.Vitals.LastPanic), r.Vitals.LastPanicReason
	return f
}

// measureWork returns the measurements that the server provides.
func measureWork(role string, w bus.Backlog, now time.Time) measurements {
	f := measurements{
		Role: role, Pending: w.Pending + uint64(max(w.InFlight, 0)), Retention: w.Retention, Bytes: w.Bytes, MaxBytes: w.MaxBytes, Blocked: w.Blocked,
		Learns: role == events.RoleReflector || role == events.RoleCurator,
	}
	if !w.Oldest.IsZero() {
		f.Oldest = since(now, w.Oldest)
	}
	return f
}

// since returns the time since t, at least 0 because clocks may differ. For a zero t it returns the maximum
// duration.
func since(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 1<<63 - 1
	}
	return max(now.Sub(t), 0)
}

// StoreErrors returns the different reasons for closed stores.
func StoreErrors(reports []Report) (reasons []string) {
	for _, r := range reports {
		if r.Store != "" && !slices.Contains(reasons, r.Store) {
			reasons = append(reasons, r.Store)
		}
	}
	return reasons
}

// RoleSummary is the health of a role in all processes.
type RoleSummary struct {
	bus.Backlog
	Verdict
	Role    string         `json:"role"`
	Workers int            `json:"workers"`
	States  map[string]int `json:"states"` // number of workers by state
	P50     time.Duration  `json:"p50_ns"` // of the slowest worker
	P95     time.Duration  `json:"p95_ns"`
	// Sums over the running workers. The counts of earlier workers are lost.
	Stored   uint64 `json:"stored"`
	Handled  uint64 `json:"handled"`
	Retried  uint64 `json:"retried"`
	Deltas   uint64 `json:"deltas"`
	Rejected uint64 `json:"rejected"`
}

// Summarize returns the health of a role, from the state of the server and the reports of processes.
func Summarize(role string, w bus.Backlog, reports []Report, now time.Time, floor time.Duration) RoleSummary {
	s := RoleSummary{Backlog: w, Role: role, States: map[string]int{}}
	f := measureWork(role, w, now)
	f.State, f.SinceSuccess, f.SinceLearned, f.SinceMalformed = bus.Stopped, since(now, time.Time{}), since(now, time.Time{}), since(now, time.Time{})
	for _, r := range reports {
		for _, own := range r.Roles {
			if own.Role != role || own.State == bus.Stopped {
				continue
			}
			one := measure(own, now)
			s.Workers++
			s.States[string(own.State)]++
			f.Unhealthy += one.Unhealthy
			// One running worker is enough to learn. Without one, learning stopped when the last worker stopped.
			if f.Workers == 0 || f.State != bus.Running && (one.State == bus.Running || one.InState < f.InState) {
				f.State, f.Reason, f.InState, f.Misconfigured = one.State, one.Reason, one.InState, one.Misconfigured
			}
			f.Workers++
			f.SinceSuccess, f.SinceLearned = min(f.SinceSuccess, one.SinceSuccess), min(f.SinceLearned, one.SinceLearned)
			f.WithoutLearning += one.WithoutLearning
			f.DeadLetters += one.DeadLetters
			f.Outcomes, f.Failures = f.Outcomes+one.Outcomes, f.Failures+one.Failures
			f.Replies, f.SinceMalformed = f.Replies.Add(one.Replies), min(f.SinceMalformed, one.SinceMalformed)
			if f.Panics == 0 || one.Panics > 0 && one.SincePanic < f.SincePanic {
				f.SincePanic, f.PanicReason = one.SincePanic, one.PanicReason
			}
			f.Panics += one.Panics
			f.P95, s.P50, s.P95 = max(f.P95, one.P95), max(s.P50, own.Vitals.P50), max(s.P95, own.Vitals.P95)
			s.Stored += own.Vitals.Stored
			s.Handled += own.Vitals.Handled
			s.Retried += own.Vitals.Retried
			s.Deltas += own.Vitals.Deltas
			s.Rejected += own.Vitals.Rejected
		}
	}
	s.Verdict = assess(f, cmp.Or(floor, Floor))
	return s
}

// Public returns the report without texts of models and servers, for endpoints that others can reach.
func (r Report) Public() Report {
	roles := slices.Clone(r.Roles)
	for i := range roles {
		role := &roles[i]
		role.Reasons = slices.Clone(role.Reasons)
		for j, text := range role.Reasons {
			role.Reasons[j] = strings.TrimSuffix(text, because(role.Reason))
		}
		role.Reason = ""
	}
	r.Roles, r.Error = roles, ""
	if r.Store != "" {
		r.Store = "closed"
	}
	return r
}
