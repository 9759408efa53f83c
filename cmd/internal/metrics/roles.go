package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/liveness"
)

// StoreLimit says how many bytes the server's streams may take, where it runs in this process. It is to be said before
// Watch.
func (m *Metrics) StoreLimit(bytes int64) { m.most = bytes }

// Watch adds the roles that run on a connection, and the connection.
func (m *Metrics) Watch(conn *bus.Conn, watch *liveness.Process) {
	m.registry.MustRegister(&roles{watch: watch})
	m.registry.MustRegister(&connection{conn: conn, behind: m.behind, most: m.most})
}

// patience bounds a question to the server: who asks us has little more.
const patience = 3 * time.Second

var (
	roleLevel    = describe("debrief_role_level", "Verdict on the role: 0 green, 1 yellow, 2 red.", "role")
	roleState    = describe("debrief_role_state", "What the role is doing: 1 for the state that it is in.", "role", "state")
	roleSince    = describe("debrief_role_state_seconds", "How long it has been in that state.", "role")
	roleWaiting  = describe("debrief_role_waiting_messages", "Messages that wait for the role, not delivered yet.", "role")
	roleInFlight = describe("debrief_role_in_flight_messages", "Messages delivered to a worker of the role and not settled.", "role")
	roleOldest   = describe("debrief_role_oldest_seconds", "Age of what has waited longest; 0 when nothing waits.", "role")
	roleSettled  = describe("debrief_role_settled_seconds", "Since a message last went well in this process, or since the role began.", "role")
	roleLearned  = describe("debrief_role_learned_seconds", "Since that last had an effect in this process, or since the role began.", "role")
	roleHandling = describe("debrief_role_handling_seconds", "Duration of calls of the handler that went well; quantiles over the last 256.", "role")
	roleResults  = describe("debrief_role_results_total", "What became of deliveries in this process.", "role", "result")
	roleDead     = describe("debrief_dead_letters", "Dead letters of the role that are stored.", "role")
	roleDeltas   = describe("debrief_deltas_applied_total", "Deltas that this process applied to playbooks.", "role")
	roleRejected = describe("debrief_operations_rejected_total", "Operations that were asked for and not done, with the reason in the log of the playbook.", "role")
	streamBytes  = describe("debrief_stream_bytes", "Size of the stream that the role reads.", "role")
	streamLimit  = describe("debrief_stream_limit_bytes", "Most that it may hold; 0 is no limit of its own.", "role")
	streamKeep   = describe("debrief_stream_keep_seconds", "How long it keeps a message; 0 is for ever.", "role")
	answers      = describe("debrief_server_answers", "1 if the server said, just now, what waits.")

	ofRoles = []*prometheus.Desc{
		roleLevel, roleState, roleSince, roleWaiting, roleInFlight, roleOldest, roleSettled, roleLearned, roleHandling, roleResults,
		roleDead, roleDeltas, roleRejected, streamBytes, streamLimit, streamKeep, answers,
	}
	states = []bus.State{bus.Running, bus.Unavailable, bus.Paused, bus.Outdated}
)

// roles collects the verdict on the roles of a process and what it rests on.
type roles struct{ watch *liveness.Process }

func (r *roles) Describe(to chan<- *prometheus.Desc) {
	for _, d := range ofRoles {
		to <- d
	}
}

func (r *roles) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	report(to, r.watch.Check(ctx))
}

func report(to chan<- prometheus.Metric, r liveness.Report) {
	gauge(to, answers, flag(r.Error == ""))
	for i := range r.Roles {
		own(to, &r.Roles[i], r.Time)
		if r.Error == "" {
			shared(to, &r.Roles[i], r.Time)
		}
	}
}

// own is what the process knows of a role.
func own(to chan<- prometheus.Metric, r *liveness.Role, now time.Time) {
	v, role := &r.Vitals, r.Role
	gauge(to, roleLevel, float64(r.Level.Rank()), role)
	for _, s := range states {
		gauge(to, roleState, flag(r.State == s), role, string(s))
	}
	gauge(to, roleSince, age(now, r.Since), role)
	gauge(to, roleSettled, age(now, v.Settled, v.Started), role)
	gauge(to, roleLearned, age(now, v.Learned, v.Started), role)
	to <- prometheus.MustNewConstSummary(roleHandling, v.Calls, v.Took.Seconds(), map[float64]float64{0.5: v.P50.Seconds(), 0.95: v.P95.Seconds()}, role)
	for _, n := range []struct {
		result string
		n      uint64
	}{{"stored", v.Stored}, {"handled", v.Handled}, {"retried", v.Retried}, {"dead", v.Dead}} {
		count(to, roleResults, float64(n.n), role, n.result)
	}
	if role == events.RoleCurator {
		count(to, roleDeltas, float64(v.Deltas), role)
		count(to, roleRejected, float64(v.Rejected), role)
	}
}

// shared is what the server knows of it.
func shared(to chan<- prometheus.Metric, r *liveness.Role, now time.Time) {
	w, role := &r.Work, r.Role
	gauge(to, roleWaiting, float64(w.Pending), role)
	gauge(to, roleInFlight, float64(w.InFlight), role)
	gauge(to, roleOldest, age(now, w.Oldest), role)
	gauge(to, roleDead, float64(w.Dead), role)
	gauge(to, streamBytes, float64(w.Bytes), role)
	gauge(to, streamLimit, float64(w.MaxBytes), role)
	gauge(to, streamKeep, w.Keep.Seconds(), role)
}

// age is how long ago the first of these was that ever was, 0 if none was. Clocks of two machines may differ.
func age(now time.Time, when ...time.Time) float64 {
	for _, t := range when {
		if !t.IsZero() {
			return max(now.Sub(t), 0).Seconds()
		}
	}
	return 0
}

var (
	connected  = describe("debrief_nats_connected", "1 while the connection to the server stands.")
	reconnects = describe("debrief_nats_reconnects_total", "How often it was made anew.")
	natsMsgs   = describe("debrief_nats_messages_total", "Messages over it.", "direction")
	natsBytes  = describe("debrief_nats_bytes_total", "Payload bytes over it.", "direction")
	notStoring = describe("debrief_store_closed", "1 while nothing can be stored: the server's disk is nearly full, or a stream acknowledges nothing.")
	storeBytes = describe("debrief_store_bytes", "What the account's streams take on disk.")
	storeLimit = describe("debrief_store_limit_bytes", "How much they may take; 0 is no limit, or one that is not known.")
	following  = describe("debrief_follower_behind_versions", "How many versions of its view the book in memory that is furthest behind lacks.")
)

// connection collects how the connection fares, and what the server says of the account.
type connection struct {
	conn   *bus.Conn
	behind func(context.Context) (uint64, error)
	most   int64

	mu      sync.Mutex
	refused time.Time // when the server last did not say how full it is
}

func (c *connection) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connected, reconnects, natsMsgs, natsBytes, notStoring, storeBytes, storeLimit, following} {
		to <- d
	}
}

func (c *connection) Collect(to chan<- prometheus.Metric) {
	nc := c.conn.NATS()
	gauge(to, connected, flag(nc.Status() == nats.CONNECTED))
	s := nc.Stats()
	count(to, reconnects, float64(s.Reconnects))
	count(to, natsMsgs, float64(s.InMsgs), "in")
	count(to, natsMsgs, float64(s.OutMsgs), "out")
	count(to, natsBytes, float64(s.InBytes), "in")
	count(to, natsBytes, float64(s.OutBytes), "out")

	gauge(to, notStoring, flag(c.conn.Store() != nil))

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.store(ctx, to)
	if c.behind == nil {
		return
	}
	if n, err := c.behind(ctx); err == nil {
		gauge(to, following, float64(n))
	}
}

// storePause is how long a server is not asked again that did not say how full it is: a user may lack the right to know,
// and each refusal is a line in the log.
const storePause = 5 * time.Minute

func (c *connection) store(ctx context.Context, to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.refused) < storePause {
		return
	}
	a, err := c.conn.JetStream().AccountInfo(ctx)
	if err != nil {
		c.refused = time.Now()
		return
	}
	gauge(to, storeBytes, float64(a.Store))
	gauge(to, storeLimit, float64(max(a.Limits.MaxStore, c.most, 0)))
}
