package liveness

import (
	"cmp"
	"context"
	"math"
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
	Stats   bus.RoleStats `json:"stats"`
	Backlog bus.Backlog   `json:"backlog"`
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
	vitals := p.conn.Stats.Roles()
	for _, h := range p.conn.Health.Roles() {
		if h.State == bus.Stopped {
			continue
		}
		role := Role{RoleHealth: h}
		if i := slices.IndexFunc(vitals, func(v bus.RoleStats) bool { return v.Role == h.Role }); i >= 0 {
			role.Stats = vitals[i]
		}
		backlog, err := p.conn.Consumers.Backlog(ctx, h.Role)
		role.Backlog = backlog
		if err != nil {
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
	v := r.Stats
	m := measureWork(r.Role, r.Backlog, now)
	m.Workers = 1
	m.State = r.State
	m.Reason = r.Reason
	m.InState = since(now, r.Since)
	m.Waiting = r.Waiting
	m.Misconfigured = r.Misconfigured
	if !r.RoleHealth.Healthy() {
		m.Unhealthy = 1
	}
	hasFinished := !v.LastSuccess.IsZero() && !v.LastDelivery.After(v.LastSuccess)
	if r.Backlog.Pending == 0 && hasFinished {
		m.Pending = 0 // other workers have the messages in flight; this worker has finished its own
	}
	m.SinceSuccess = since(now, lastSuccess(r))
	m.SinceLearned = min(since(now, v.LastEffect), since(now, v.Started))
	m.WithoutLearning = v.SuccessesSinceEffect
	m.P95 = v.P95
	m.DeadLetters = v.DeadSinceSuccess
	m.Outcomes = v.OutcomesSinceChange
	m.Failures = v.FailuresSinceChange
	m.Replies = v.Replies
	m.SinceMalformed = since(now, v.Replies.LastMalformed)
	m.Panics = v.Panics
	m.SincePanic = since(now, v.LastPanic)
	m.PanicReason = v.LastPanicReason
	return m
}

// lastSuccess returns the time of the last success of a worker, else of its role, else of the start of the worker. The start comes last,
// because a worker that crashes again and again must not reset the time.
func lastSuccess(r Role) time.Time {
	switch {
	case !r.Stats.LastSuccess.IsZero():
		return r.Stats.LastSuccess
	case !r.Backlog.LastAck.IsZero():
		return r.Backlog.LastAck
	}
	return r.Stats.Started
}

// measureWork returns the measurements that the server provides.
func measureWork(role string, w bus.Backlog, now time.Time) measurements {
	m := measurements{
		Role:      role,
		Learns:    role == events.RoleReflector || role == events.RoleCurator,
		Pending:   w.Pending + uint64(max(w.InFlight, 0)),
		Retention: w.Retention,
		Bytes:     w.Bytes,
		MaxBytes:  w.MaxBytes,
		Outdated:  w.Outdated,
	}
	if !w.Oldest.IsZero() {
		m.Oldest = since(now, w.Oldest)
	}
	return m
}

// add adds the measurements of another worker of the role.
func (m *measurements) add(o measurements) {
	// One running worker is enough to learn. Without a running worker, the state of the worker that changed last counts, because
	// learning stopped with it.
	replaces := m.State != bus.Running && (o.State == bus.Running || o.InState < m.InState)
	if m.Workers == 0 || replaces {
		m.State = o.State
		m.Reason = o.Reason
		m.InState = o.InState
		m.Misconfigured = o.Misconfigured
	}
	m.Waiting = cmp.Or(m.Waiting, o.Waiting)
	m.Workers++
	m.Unhealthy += o.Unhealthy
	m.SinceSuccess = min(m.SinceSuccess, o.SinceSuccess)
	m.SinceLearned = min(m.SinceLearned, o.SinceLearned)
	m.WithoutLearning += o.WithoutLearning
	m.P95 = max(m.P95, o.P95)
	m.DeadLetters += o.DeadLetters
	m.Outcomes += o.Outcomes
	m.Failures += o.Failures
	m.Replies = m.Replies.Add(o.Replies)
	m.SinceMalformed = min(m.SinceMalformed, o.SinceMalformed)
	if m.Panics == 0 || o.Panics > 0 && o.SincePanic < m.SincePanic {
		m.SincePanic = o.SincePanic
		m.PanicReason = o.PanicReason
	}
	m.Panics += o.Panics
}

// never is the time since an event that did not happen.
const never time.Duration = math.MaxInt64

// since returns the time since t, at least 0 because clocks may differ, and never for a zero t.
func since(now, t time.Time) time.Duration {
	if t.IsZero() {
		return never
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
	m := measureWork(role, w, now)
	m.State = bus.Stopped
	m.SinceSuccess = never
	m.SinceLearned = never
	m.SinceMalformed = never
	for _, r := range reports {
		for _, worker := range r.Roles {
			if worker.Role == role && worker.State != bus.Stopped {
				m.add(measure(worker, now))
				s.add(worker)
			}
		}
	}
	s.Verdict = assess(m, cmp.Or(floor, Floor))
	return s
}

// add adds a running worker.
func (s *RoleSummary) add(worker Role) {
	v := worker.Stats
	s.Workers++
	s.States[string(worker.State)]++
	s.P50 = max(s.P50, v.P50)
	s.P95 = max(s.P95, v.P95)
	s.Stored += v.Stored
	s.Handled += v.Handled
	s.Retried += v.Retried
	s.Deltas += v.Deltas
	s.Rejected += v.Rejected
}

// Public returns the report without texts of models and servers, and without paths of files and names of tokens. It is for endpoints that
// others can reach. The reasons for waiting and for panics stay: they have no such text, see chat.Waiting and bus.RoleStats.
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
	r.Roles = roles
	if r.Gateway != nil {
		g := *r.Gateway
		g.Reasons = slices.Clone(g.Reasons)
		for i, problem := range g.Problems {
			if problem == Tokens { // the reason ends with the error, which names the file and the token
				g.Reasons[i], _, _ = strings.Cut(g.Reasons[i], ": ")
			}
		}
		r.Gateway = &g
	}
	r.Error = ""
	if r.Store != "" {
		r.Store = "closed"
	}
	return r
}
