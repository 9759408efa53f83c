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

// Report is how one process is.
type Report struct {
	Level   Level     `json:"level"`
	Program string    `json:"program"`
	Version string    `json:"version"` // of the program: that of the module, or the revision that it was built from
	Process string    `json:"process"` // a name of its own, for as long as it runs
	Time    time.Time `json:"time"`
	Error   string    `json:"error,omitempty"` // why the server could not be asked: then the verdicts rest on this process alone
	Store   string    `json:"store,omitempty"` // why this process can store nothing; empty while it can
	Roles   []Role    `json:"roles"`
}

// Role is how a role is in one process.
type Role struct {
	bus.RoleHealth
	Verdict
	Vitals bus.Vitals `json:"vitals"`
	Work   bus.Work   `json:"work"`
}

// Process watches the roles of one process.
type Process struct {
	conn    *bus.Conn
	program string
	id      string
	floor   time.Duration
}

// Watch is for the roles that run on a connection. A floor of 0 is the default.
func Watch(conn *bus.Conn, program string, floor time.Duration) *Process {
	return &Process{conn, program, nuid.Next(), cmp.Or(floor, Floor)}
}

// version is what this process was built from.
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

// Check judges every role that this process has begun and not stopped. A server that is gone makes it red after
// the floor: the roles say so themselves.
func (p *Process) Check(ctx context.Context) Report {
	now := time.Now()
	r := Report{Level: Green, Program: p.program, Version: version(), Process: p.id, Time: now.UTC(), Roles: []Role{}}
	if why := p.conn.Store(); why != nil {
		r.Level, r.Store = Red, why.Error()
	}
	counted := p.conn.Vitals()
	for _, h := range p.conn.Health() {
		if h.State == bus.Stopped {
			continue
		}
		role := Role{RoleHealth: h}
		if i := slices.IndexFunc(counted, func(v bus.Vitals) bool { return v.Role == h.Role }); i >= 0 {
			role.Vitals = counted[i]
		}
		var err error
		if role.Work, err = p.conn.Work(ctx, h.Role); err != nil {
			r.Error = err.Error()
		}
		role.Verdict = Judge(facts(role, now), p.floor)
		if err != nil && role.Level == Green {
			role.add(Yellow, "the server did not say what waits")
		}
		r.Level = Worse(r.Level, role.Level)
		r.Roles = append(r.Roles, role)
	}
	return r
}

// facts are those of one worker.
func facts(r Role, now time.Time) Facts {
	f := workFacts(r.Role, r.Work, now)
	f.Workers, f.State, f.Reason, f.InState = 1, r.State, r.Reason, since(now, r.Since)
	if !r.RoleHealth.Healthy() {
		f.Ailing = 1
	}
	if v := r.Vitals; r.Work.Pending == 0 && !v.Settled.IsZero() && !v.Taken.After(v.Settled) {
		f.Waiting = 0 // all of it is with others, and this worker has done what it was given
	}
	f.Settled = since(now, r.Vitals.Settled)
	if r.Vitals.Settled.IsZero() && r.Work.Acked.IsZero() {
		f.Settled = since(now, r.Vitals.Started)
	} else if r.Vitals.Settled.IsZero() { // one that dies and starts again and again has no patience of its own
		f.Settled = since(now, r.Work.Acked)
	}
	f.Learned = min(since(now, r.Vitals.Learned), since(now, r.Vitals.Started))
	f.P95, f.Fruitless, f.Buried = r.Vitals.P95, r.Vitals.Fruitless, r.Vitals.Buried
	return f
}

// workFacts are those that the server knows.
func workFacts(role string, w bus.Work, now time.Time) Facts {
	f := Facts{
		Role: role, Waiting: w.Pending + uint64(max(w.InFlight, 0)), Keep: w.Keep, Bytes: w.Bytes, MaxBytes: w.MaxBytes,
		Learns: role == events.RoleReflector || role == events.RoleCurator,
	}
	if !w.Oldest.IsZero() {
		f.Oldest = since(now, w.Oldest)
	}
	return f
}

// since is how long ago something was, for ever when it never was. Clocks of two machines may differ.
func since(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 1<<63 - 1
	}
	return max(now.Sub(t), 0)
}

// Stores returns why processes can store nothing, each reason once.
func Stores(reports []Report) (reasons []string) {
	for _, r := range reports {
		if r.Store != "" && !slices.Contains(reasons, r.Store) {
			reasons = append(reasons, r.Store)
		}
	}
	return reasons
}

// Survey is how a role is in all processes together.
type Survey struct {
	bus.Work
	Verdict
	Role    string         `json:"role"`
	Workers int            `json:"workers"`
	States  map[string]int `json:"states"` // workers by state
	P50     time.Duration  `json:"p50_ns"` // of the slowest worker
	P95     time.Duration  `json:"p95_ns"`
	// Sums over the workers that run: what those before them counted is gone with them.
	Stored   uint64 `json:"stored"`
	Handled  uint64 `json:"handled"`
	Retried  uint64 `json:"retried"`
	Deltas   uint64 `json:"deltas"`
	Rejected uint64 `json:"rejected"`
}

// Combine is how a role is, from what the server knows and what processes reported.
func Combine(role string, w bus.Work, reports []Report, now time.Time, floor time.Duration) Survey {
	s := Survey{Work: w, Role: role, States: map[string]int{}}
	f := workFacts(role, w, now)
	f.State, f.Settled, f.Learned = bus.Stopped, since(now, time.Time{}), since(now, time.Time{})
	for _, r := range reports {
		for _, own := range r.Roles {
			if own.Role != role || own.State == bus.Stopped {
				continue
			}
			one := facts(own, now)
			s.Workers++
			s.States[string(own.State)]++
			f.Ailing += one.Ailing
			// One at work is enough to learn. Where none is, learning stopped with the last.
			if f.Workers == 0 || f.State != bus.Running && (one.State == bus.Running || one.InState < f.InState) {
				f.State, f.Reason, f.InState = one.State, one.Reason, one.InState
			}
			f.Workers++
			f.Settled, f.Learned = min(f.Settled, one.Settled), min(f.Learned, one.Learned)
			f.Fruitless += one.Fruitless
			f.Buried += one.Buried
			f.P95, s.P50, s.P95 = max(f.P95, one.P95), max(s.P50, own.Vitals.P50), max(s.P95, own.Vitals.P95)
			s.Stored += own.Vitals.Stored
			s.Handled += own.Vitals.Handled
			s.Retried += own.Vitals.Retried
			s.Deltas += own.Vitals.Deltas
			s.Rejected += own.Vitals.Rejected
		}
	}
	s.Verdict = Judge(f, cmp.Or(floor, Floor))
	return s
}

// Public is a report without what models and servers said, for a door that others can reach.
func (r Report) Public() Report {
	roles := slices.Clone(r.Roles)
	for i := range roles {
		role := &roles[i]
		role.Because = slices.Clone(role.Because)
		for j, text := range role.Because {
			role.Because[j] = strings.TrimSuffix(text, because(role.Reason))
		}
		role.Reason = ""
	}
	r.Roles, r.Error = roles, ""
	if r.Store != "" {
		r.Store = "closed"
	}
	return r
}
