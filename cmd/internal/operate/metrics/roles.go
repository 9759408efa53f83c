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
	"debrief/events/natserr"
)

// SetStoreLimit sets the size limit of a server that runs in this process, in bytes. Call it before Watch.
func (m *Metrics) SetStoreLimit(bytes int64) { m.storeLimit = bytes }

// Watch adds the metrics of the roles on a connection, and of the connection.
//
// Metrics of the roles have the label role: generator, reflector, curator. Package events/liveness computes the level. A value that the
// server reports is the same in every process of the role, and is absent while the server does not respond: see debrief_server_answers.
func (m *Metrics) Watch(conn *bus.Conn, watch *liveness.Process) {
	c := &connection{conn: conn, followerLag: m.followerLag, storeLimit: m.storeLimit}
	conn.Stats.OnStored(m.playbooks.addStored)
	m.register(c.collect, func(to scrape) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		r := watch.Check(ctx)
		report(to, r)
		m.playbooks.collectWaiting(ctx, to, conn, r)
	})
}

// scrapeTimeout limits the requests to the server in a scrape, whose own timeout is longer (Handler).
const scrapeTimeout = 3 * time.Second

var (
	roleLevel        = describe("debrief_role_level", "Level of the role: 0 green, 1 yellow, 2 red.", "role")
	roleState        = describe("debrief_role_state", "State of the role: 1 for the current state.", "role", "state")
	roleSince        = describe("debrief_role_state_seconds", "Time in the current state.", "role")
	roleWaiting      = describe("debrief_role_waiting_messages", "Messages that wait for the role, not delivered yet.", "role")
	roleInFlight     = describe("debrief_role_in_flight_messages", "Messages delivered to a worker of the role and not acknowledged.", "role")
	roleOldest       = describe("debrief_role_oldest_seconds", "Age of the oldest waiting message; 0 without one.", "role")
	roleSinceSuccess = describe("debrief_role_since_success_seconds", "Time since the last success in this process, or since the start of the role.", "role")
	roleSinceEffect  = describe("debrief_role_since_effect_seconds", "Time since the last success with an effect (stored events or a delta) in this process, or since the start of the role.", "role")
	roleHandling     = describe("debrief_role_handling_seconds", "Duration of successful calls of the handler; quantiles over the last 256.", "role")
	roleResults      = describe("debrief_role_results_total", "Deliveries in this process, by result; handled ones stored no events.", "role", "result")
	roleDead         = describe("debrief_dead_letters", "Dead letters of the role that are stored.", "role")
	roleDeltas       = describe("debrief_deltas_applied_total", "Deltas that this process applied to playbooks.", "role")
	streamBytes      = describe("debrief_stream_bytes", "Size of the stream that the role reads.", "role")
	streamLimit      = describe("debrief_stream_limit_bytes", "Size limit of the stream that the role reads; 0 means no limit.", "role")
	streamRetention  = describe("debrief_stream_retention_seconds", "Retention of the stream that the role reads; 0 means unlimited.", "role")
	serverAnswers    = describe("debrief_server_answers", "1 if the server reported the backlog at this scrape.")

	states = []bus.State{bus.Running, bus.Unavailable, bus.Paused}
)

// report writes the metrics of the roles of a process.
func report(to scrape, r liveness.Report) {
	to.Gauge(serverAnswers, flag(r.Error == ""))
	for i := range r.Roles {
		processMetrics(to, &r.Roles[i], r.Time)
		if r.Error == "" {
			serverMetrics(to, &r.Roles[i], r.Time)
		}
	}
}

// processMetrics writes the values of a role that the process knows.
func processMetrics(to scrape, r *liveness.Role, now time.Time) {
	v, role := &r.Stats, r.Role
	to.Gauge(roleLevel, float64(r.Level.Rank()), role)
	for _, s := range states {
		isServing := s == bus.Running && r.State == bus.Serving // a role without a model runs as configured
		to.Gauge(roleState, flag(r.State == s || isServing), role, string(s))
	}
	to.Gauge(roleSince, age(now, r.Since), role)
	to.Gauge(roleSinceSuccess, age(now, v.LastSuccess, v.Started), role)
	to.Gauge(roleSinceEffect, age(now, v.LastEffect, v.Started), role)
	quantiles := map[float64]float64{0.5: v.P50.Seconds(), 0.95: v.P95.Seconds()}
	to <- prometheus.MustNewConstSummary(roleHandling, v.Calls, v.TotalDuration.Seconds(), quantiles, role)
	for _, counted := range []struct {
		result string
		n      uint64
	}{{"stored", v.Stored}, {"handled", v.Handled}, {"retried", v.Retried}, {"dead", v.Dead}} {
		to.Counter(roleResults, float64(counted.n), role, counted.result)
	}
	if role == events.RoleCurator {
		to.Counter(roleDeltas, float64(v.Deltas), role)
	}
}

// serverMetrics writes the values of a role that the server reports.
func serverMetrics(to scrape, r *liveness.Role, now time.Time) {
	w, role := &r.Backlog, r.Role
	to.Gauge(roleWaiting, float64(w.Pending), role)
	to.Gauge(roleInFlight, float64(w.InFlight), role)
	to.Gauge(roleOldest, age(now, w.Oldest), role)
	to.Gauge(roleDead, float64(w.Dead), role)
	to.Gauge(streamBytes, float64(w.Bytes), role)
	to.Gauge(streamLimit, float64(w.MaxBytes), role)
	to.Gauge(streamRetention, w.Retention.Seconds(), role)
}

// age returns the seconds since the first of these times that is not zero, 0 if all are zero. It returns 0 for a later time, because
// the clocks of two machines may differ.
func age(now time.Time, when ...time.Time) float64 {
	for _, t := range when {
		if !t.IsZero() {
			return max(now.Sub(t), 0).Seconds()
		}
	}
	return 0
}

var (
	connected      = describe("debrief_nats_connected", "1 while connected to the server.")
	reconnects     = describe("debrief_nats_reconnects_total", "Reconnects to the server.")
	natsMsgs       = describe("debrief_nats_messages_total", "Messages over the connection.", "direction")
	natsBytes      = describe("debrief_nats_bytes_total", "Payload bytes over the connection.", "direction")
	storeClosed    = describe("debrief_store_closed", "1 while nothing can be stored: the server's disk is nearly full, or a stream does not acknowledge.")
	storeBytes     = describe("debrief_store_bytes", "Disk use of the account's streams.")
	storeLimit     = describe("debrief_store_limit_bytes", "Limit of the disk use; 0 means no limit or an unknown one.")
	followerBehind = describe("debrief_follower_behind_versions", "Versions by which the book in memory that is furthest behind lags its view.")
)

// connection collects the metrics of the connection and of the account.
type connection struct {
	conn        *bus.Conn
	followerLag func(context.Context) (uint64, error) // nil without a follower
	storeLimit  int64

	mu        sync.Mutex
	refusedAt time.Time // time of the last refusal to report the account's use
}

func (c *connection) collect(to scrape) {
	nc := c.conn.NATS()
	to.Gauge(connected, flag(nc.Status() == nats.CONNECTED))
	s := nc.Stats()
	to.Counter(reconnects, float64(s.Reconnects))
	to.Counter(natsMsgs, float64(s.InMsgs), "in")
	to.Counter(natsMsgs, float64(s.OutMsgs), "out")
	to.Counter(natsBytes, float64(s.InBytes), "in")
	to.Counter(natsBytes, float64(s.OutBytes), "out")

	to.Gauge(storeClosed, flag(c.conn.StoreError() != nil))

	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.store(ctx, to)
	if c.followerLag == nil {
		return
	}
	if n, err := c.followerLag(ctx); err == nil {
		to.Gauge(followerBehind, float64(n))
	}
}

// storePause is the pause after the server refused to report the account's use. A user may lack that right, and the
// server logs each refusal.
const storePause = 5 * time.Minute

// store writes the use of the store, if the server reports it.
func (c *connection) store(ctx context.Context, to scrape) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.refusedAt) < storePause {
		return
	}
	js := c.conn.JetStream() // it has no answer for a user without the right: Call gets the refusal from the connection
	a, err := natserr.Call(ctx, natserr.WatchOf(js), "$JS.API.INFO", js.AccountInfo)
	if natserr.IsDenied(err) {
		c.refusedAt = time.Now()
	}
	if err != nil {
		return
	}
	to.Gauge(storeBytes, float64(a.Store))
	to.Gauge(storeLimit, float64(max(a.Limits.MaxStore, c.storeLimit, 0)))
}
