// Package doctor checks everything that a pipeline needs, from the server to the model, and suggests fixes. It
// changes nothing.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/liveness"
	"debrief/events/natserr"
	"debrief/events/redact"
	"debrief/events/streams"
)

// Result is the result of a check.
type Result string

// The results, from best to worst.
const (
	OK   Result = "ok"
	Warn Result = "warn" // worth knowing; the pipeline works
	Fail Result = "FAIL"
)

// Check is one check with its result.
type Check struct {
	Name   string `json:"check"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"`
}

// Report is a series of checks.
type Report struct{ Checks []Check }

// Add adds a check. It drops the fix if the result is OK.
func (x *Report) Add(name string, r Result, fix, format string, args ...any) {
	if r == OK {
		fix = ""
	}
	x.Checks = append(x.Checks, Check{Name: name, Result: r, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// Failed returns the number of failed checks.
func (x *Report) Failed() (n int) {
	for _, c := range x.Checks {
		if c.Result == Fail {
			n++
		}
	}
	return n
}

// minVersion is the oldest supported server version: major, minor. Older servers lack the atomic batches that the view needs.
var minVersion = [2]int{2, 12}

// Server checks the server. where is its name for people; empty selects its address.
func (x *Report) Server(nc *nats.Conn, where string) {
	where = cmp.Or(where, redact.Address(nc.ConnectedUrl()))
	rtt, err := nc.RTT()
	if err != nil {
		x.Add("server", Fail, "check that the server is running and reachable", "%s does not answer: %v", where, err)
		return
	}
	var major, minor int
	_, err = fmt.Sscanf(nc.ConnectedServerVersion(), "%d.%d", &major, &minor)
	r := OK
	if err != nil || slices.Compare([]int{major, minor}, minVersion[:]) < 0 {
		r = Fail
	}
	x.Add("server", r, fmt.Sprintf("run nats-server %d.%d or newer: older ones have no atomic batches", minVersion[0], minVersion[1]),
		"%s, version %s, round trip %s", where, nc.ConnectedServerVersion(), rtt.Round(10*time.Microsecond))
}

// JetStream checks the account's storage. It reports whether further checks are possible.
func (x *Report) JetStream(ctx context.Context, js jetstream.JetStream) bool {
	i, err := natserr.Call(ctx, natserr.WatchOf(js), "$JS.API.INFO", js.AccountInfo)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		x.Add("jetstream", Fail, "start the server with JetStream (-js, or jetstream {} in its configuration), and enable it for the account", "not enabled: %v", err)
		return false
	case err != nil:
		x.Add("jetstream", Warn, "give the user the right to publish $JS.API.INFO", "cannot read the account's storage: %v", err)
		return true
	}
	limit := i.Limits.MaxStore
	if limit <= 0 {
		x.Add("jetstream", OK, "", "%s stored, no limit of the account", size(i.Store))
		return true
	}
	if i.Store > uint64(limit) {
		x.Add("jetstream", Fail, "free space on the server's disk, because 'debrief up' lowers the limit while the disk is nearly full; or raise the account's limit (max_file)",
			"%s stored, more than the limit of %s: the server stores nothing new", size(i.Store), size(uint64(limit)))
		return true
	}
	share := float64(i.Store) / float64(limit)
	r := OK
	switch {
	case share > 0.95:
		r = Fail
	case share > 0.8:
		r = Warn
	}
	x.Add("jetstream", r, "raise the account's limit (max_file; 'debrief up --max-store'), or shorten the retention",
		"%s of %s stored (%.0f %%)", size(i.Store), size(uint64(limit)), 100*share)
	return true
}

const setupHint = "run 'debrief setup' as the operator, or start a worker with the rights to create it"

// Resources checks streams, buckets and durables. It reports whether all streams exist with the right configuration.
func (x *Report) Resources(ctx context.Context, c *bus.Conn) bool {
	if err := bus.CheckRestored(ctx, c.JetStream()); errors.Is(err, bus.ErrRestoring) {
		x.Add("restore", Fail, "repeat it, or empty the server", "%v", err)
	}
	all, durables := readResources(ctx, c)
	streamsOK := x.checkExist("streams", "create them: "+setupHint, Fail, all)
	x.checkExist("durables", "each role creates its own at its first start, if it has the rights; else "+setupHint, Warn, durables)
	x.replicas(all, durables)
	var full []string // nearly full streams
	var runs []string // nearly full buckets of runs
	for _, r := range slices.Concat(all, durables) {
		if isNearlyFull(r.Bytes, r.MaxBytes) {
			full = append(full, fmt.Sprintf("%s %s of %s", r.Name, size(r.Bytes), size(r.MaxBytes)))
		}
		if holdsRuns(r.Name) && isNearlyFull(r.Messages, r.MaxMessages) {
			runs = append(runs, fmt.Sprintf("%s %d of %d values", r.Name, r.Messages, r.MaxMessages))
		}
	}
	if len(full) > 0 {
		x.Add("room", Warn, "raise its size ('debrief setup --NAME-size'), or wait until its readers catch up: a full stream stores nothing", "nearly full: %s", joinSome(full))
	}
	if len(runs) > 0 {
		x.Add("runs", Warn, "if openruns is full, the gateway captures no new runs: end runs, because the limit is fixed; if captures is full, the oldest ids for feedback are forgotten: raise its limit ('debrief setup --captures-values')", "nearly full: %s", joinSome(runs))
	}
	return streamsOK
}

// isNearlyFull reports whether more than 80 % of a limit are used. A limit of 0 means none.
func isNearlyFull(used, limit uint64) bool { return limit > 0 && used > limit/5*4 }

// replicas checks the replicas of streams and durables. It adds no check if no stream could be read.
func (x *Report) replicas(streams, durables []resource) {
	var lagging []string
	leaderless, clustered := false, false
	for _, r := range slices.Concat(streams, durables) {
		clustered = clustered || r.Replicas > 1
		leaderless = leaderless || r.Replicas > 1 && r.Leader == ""
		for _, server := range r.Lagging {
			lagging = append(lagging, r.Name+" on "+server)
		}
	}
	isRead := func(r resource) bool { return r.Err == nil && !r.Missing }
	switch {
	case leaderless:
		x.Add("replicas", Fail, "start the cluster's servers: a stream without a majority stores nothing", "a stream has no leader")
	case len(lagging) > 0:
		x.Add("replicas", Warn, "start these servers, or wait until they catch up; the loss of another server stops the streams", "offline or behind: %s", joinSome(lagging))
	case clustered:
		x.Add("replicas", OK, "", "every stream has a leader, and all replicas are current")
	case slices.ContainsFunc(streams, isRead):
		x.Add("replicas", OK, "", "one server: all data is on one machine, so take backups")
	}
}

// holdsRuns reports whether a stream is a bucket with runs of the gateway. Other buckets with a limit are caches: they are full in
// normal use.
func holdsRuns(name string) bool {
	return name == "KV_"+events.BucketOpen || name == "KV_"+events.BucketCaptures
}

// checkExist adds a check of resources. Its result is ifMissing if some do not exist, and Fail if some cannot be read or have another
// configuration. It reports whether the check is OK.
func (x *Report) checkExist(name, fix string, ifMissing Result, all []resource) bool {
	var absent, bad []string
	for _, r := range all {
		switch {
		case r.Missing:
			absent = append(absent, r.Name)
		case r.Err != nil:
			bad = append(bad, r.Err.Error())
		}
	}
	switch {
	case len(bad) > 0:
		x.Add(name, Fail, "change it as the message says (nats stream edit), or grant the missing right", "%s", joinSome(bad))
	case len(absent) > 0:
		x.Add(name, ifMissing, fix, "missing: %s", joinSome(absent))
	default:
		x.Add(name, OK, "", "all %d exist with the right configuration", len(all))
	}
	return len(bad)+len(absent) == 0
}

// StoreErrors adds a failure for each reason why a worker cannot store events.
func (x *Report) StoreErrors(reasons []string) {
	for _, reason := range reasons {
		x.Add("store", Fail, "free space on the server's disk; then restart a standalone nats-server whose disk was full", "%s", reason)
	}
}

// Clock compares this machine's clock with the clocks of the server and the workers. received is the time at which the reports of the
// workers arrived.
func (x *Report) Clock(ctx context.Context, js jetstream.JetStream, reports []liveness.Report, received time.Time) {
	const maxSkew = 5 * time.Second
	fix := "synchronise the clocks of both machines (NTP): ages, windows and reports use them"
	asked := time.Now()
	s, err := js.Stream(ctx, events.StreamDeltas)
	if err != nil {
		return // another check reports it
	}
	replied := asked.Add(time.Since(asked) / 2) // the server replied about halfway
	skew := s.CachedInfo().TimeStamp.Sub(replied)
	r := OK
	if skew.Abs() > maxSkew {
		r = Warn
	}
	x.Add("clock", r, fix, "the server's clock differs from this machine's by %s", formatSkew(skew))
	for _, w := range reports {
		if skew := w.Time.Sub(received); skew.Abs() > maxSkew {
			x.Add("clock", Warn, fix, "the clock of %s (%s) differs from this machine's by %s", w.Program, w.Process, formatSkew(skew))
		}
	}
}

func formatSkew(d time.Duration) string {
	if d.Abs() < time.Second {
		return "less than a second"
	}
	return d.Abs().Round(time.Second).String()
}

// Workers checks the running workers, the backlog and the dead letters of each role.
func (x *Report) Workers(ctx context.Context, c *bus.Conn, reports []liveness.Report) {
	for _, role := range streams.Roles {
		w, err := c.Consumers.Backlog(ctx, role)
		if err != nil {
			x.Add(role, Fail, "see the checks above", "%v", err)
			continue
		}
		s := liveness.Summarize(role, w, reports, time.Now(), liveness.Floor)
		start := "start one: 'debrief up', or the program of that name"
		fix := "see the reason, the log of the role, and its results with 'debrief tail'"
		if withoutModel(s) {
			fix = modelFix
		}
		switch {
		case s.Workers == 0 && s.Level == liveness.Red:
			x.Add(role, Fail, start, "%s", joinSome(s.Reasons))
		case s.Workers == 0:
			x.Add(role, Warn, start, "no worker is running; %d waiting", s.Pending)
		case s.Level == liveness.Red:
			x.Add(role, Fail, fix, "%s", joinSome(s.Reasons))
		case s.Level == liveness.Yellow:
			x.Add(role, Warn, fix, "%s", joinSome(s.Reasons))
		default:
			x.Add(role, OK, "", "%d running, %d waiting", s.Workers, s.Pending)
		}
		if w.Dead > 0 {
			x.Add(role, Warn, "see the reasons with 'debrief dead list --role "+role+"', then requeue or drop them", "%s", term.Plural(int(w.Dead), "dead letter"))
		}
	}
	versions := map[string]bool{}
	for _, r := range reports {
		versions[r.Version] = true
	}
	if len(versions) > 1 {
		x.Add("versions", Warn, "normal during a rollout; after it restart the old workers", "workers of %d versions are running", len(versions))
	}
}

// joinSome joins the first four texts, and names the number of the others.
func joinSome(all []string) string {
	if len(all) > 4 {
		return strings.Join(all[:4], "; ") + fmt.Sprintf("; and %d more", len(all)-4)
	}
	return strings.Join(all, "; ")
}

func size(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
