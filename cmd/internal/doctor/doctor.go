// Package doctor looks at everything that a pipeline rests on, from the server to the model, and says of what is wrong how
// to mend it. It changes nothing.
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

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/denied"
	"debrief/events/liveness"
	"debrief/events/redact"
)

// Result is how a check ended.
type Result string

// The results, in the order of worse.
const (
	OK   Result = "ok"
	Warn Result = "warn" // to be known; the pipeline works
	Fail Result = "FAIL"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"check"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	Mend   string `json:"mend,omitempty"`
}

// Exam is a series of checks.
type Exam struct{ Checks []Check }

// Add notes a check; the mend of one that is ok is left out.
func (x *Exam) Add(name string, r Result, mend, format string, args ...any) {
	if r == OK {
		mend = ""
	}
	x.Checks = append(x.Checks, Check{name, r, fmt.Sprintf(format, args...), mend})
}

// Failed is how many checks failed.
func (x *Exam) Failed() (n int) {
	for _, c := range x.Checks {
		if c.Result == Fail {
			n++
		}
	}
	return n
}

// least is the oldest server that has what the view is written with: atomic batches.
var least = [2]int{2, 12}

// Server looks at the server itself. Where is its name for people; empty is its address.
func (x *Exam) Server(nc *nats.Conn, where string) {
	where = cmp.Or(where, redact.Address(nc.ConnectedUrl()))
	rtt, err := nc.RTT()
	if err != nil {
		x.Add("server", Fail, "see whether the server is up and the network lets you through", "%s does not answer: %v", where, err)
		return
	}
	var major, minor int
	_, err = fmt.Sscanf(nc.ConnectedServerVersion(), "%d.%d", &major, &minor)
	r := OK
	if err != nil || major < least[0] || major == least[0] && minor < least[1] {
		r = Fail
	}
	x.Add("server", r, fmt.Sprintf("run nats-server %d.%d or newer: older ones have no atomic batches", least[0], least[1]),
		"%s, version %s, answers in %s", where, nc.ConnectedServerVersion(), rtt.Round(10*time.Microsecond))
}

// JetStream looks at the account's room, and reports whether there is any point in going on.
func (x *Exam) JetStream(ctx context.Context, js jetstream.JetStream) bool {
	i, err := denied.Call(ctx, denied.Of(js), "$JS.API.INFO", js.AccountInfo)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		x.Add("jetstream", Fail, "start the server with JetStream (-js, or jetstream {} in its configuration), and enable it for the account", "is not enabled: %v", err)
		return false
	case err != nil:
		x.Add("jetstream", Warn, "give the user the right to publish $JS.API.INFO", "the account's room cannot be read: %v", err)
		return true
	}
	most := i.Limits.MaxStore
	if most <= 0 {
		x.Add("jetstream", OK, "", "%s stored, no limit of the account", size(i.Store))
		return true
	}
	if i.Store > uint64(most) {
		x.Add("jetstream", Fail, "free space on the server's disk, since 'debrief up' lowers the limit while that is nearly full; or raise the account's limit (max_file)",
			"%s stored, more than the limit of %s: the server takes nothing new", size(i.Store), size(uint64(most)))
		return true
	}
	share := float64(i.Store) / float64(most)
	r := OK
	switch {
	case share > 0.95:
		r = Fail
	case share > 0.8:
		r = Warn
	}
	x.Add("jetstream", r, "give the account more room (max_file; 'debrief up --max-store'), or let what is kept expire earlier",
		"%s of %s stored (%.0f %%)", size(i.Store), size(uint64(most)), 100*share)
	return true
}

const setup = "run 'debrief setup' as the operator, or start a worker that may make it"

// Fixtures looks at streams, buckets and durables, and reports whether all streams are there.
func (x *Exam) Fixtures(ctx context.Context, c *bus.Conn) (whole bool) {
	streams, durables := c.Inspect(ctx)
	whole = x.present("streams", "make what is missing: "+setup, Fail, streams)
	x.present("durables", "a role makes its own when it first starts, where it may; else "+setup, Warn, durables)
	var lagging, full []string
	leaderless, clustered, read := false, false, 0
	for _, f := range streams {
		if f.Err == nil && !f.Missing {
			read++
		}
	}
	for _, f := range slices.Concat(streams, durables) {
		clustered = clustered || f.Replicas > 1
		leaderless = leaderless || f.Replicas > 1 && f.Leader == ""
		for _, p := range f.Lagging {
			lagging = append(lagging, f.Name+" on "+p)
		}
		if f.MaxBytes > 0 && f.Bytes > f.MaxBytes/5*4 {
			full = append(full, fmt.Sprintf("%s %s of %s", f.Name, size(f.Bytes), size(f.MaxBytes)))
		}
	}
	switch {
	case leaderless:
		x.Add("replicas", Fail, "bring the cluster's servers up: a stream without a majority of them takes nothing", "a stream has no leader")
	case len(lagging) > 0:
		x.Add("replicas", Warn, "bring those servers up, or give them time to catch up; another loss stops the streams", "offline or behind: %s", some(lagging))
	case clustered:
		x.Add("replicas", OK, "", "every stream has its leader, and nobody is behind")
	case read > 0:
		x.Add("replicas", OK, "", "one server: what it stores is on this one machine, so take backups")
	}
	if len(full) > 0 {
		x.Add("room", Warn, "raise max_bytes of the stream, or have its readers catch up: a full one takes nothing more", "nearly full: %s", some(full))
	}
	return whole
}

func (x *Exam) present(name, mend string, missing Result, all []bus.Fixture) bool {
	var gone, bad []string
	for _, f := range all {
		switch {
		case f.Missing:
			gone = append(gone, f.Name)
		case f.Err != nil:
			bad = append(bad, f.Err.Error())
		}
	}
	switch {
	case len(bad) > 0:
		x.Add(name, Fail, "set it as the message says (nats stream edit), or give the user the right that is missing", "%s", some(bad))
	case len(gone) > 0:
		x.Add(name, missing, mend, "missing: %s", some(gone))
	default:
		x.Add(name, OK, "", "all %d are there and set as needed", len(all))
	}
	return len(bad)+len(gone) == 0
}

// Stores adds a failure for each reason of a worker that cannot store events.
func (x *Exam) Stores(reasons []string) {
	for _, why := range reasons {
		x.Add("store", Fail, "free space on the server's disk; a nats-server of its own, whose disk was full, has to be restarted after that", "%s", why)
	}
}

// Clock holds this machine's clock against the server's and the workers'.
func (x *Exam) Clock(ctx context.Context, js jetstream.JetStream, reports []liveness.Report, heard time.Time) {
	const much = 5 * time.Second
	mend := "have both machines keep the time (NTP): ages, windows and reports are by the clock"
	asked := time.Now()
	s, err := js.Stream(ctx, events.StreamDeltas)
	if err != nil {
		return // said elsewhere
	}
	took := time.Since(asked)
	r, skew := OK, s.CachedInfo().TimeStamp.Sub(asked.Add(took/2))
	if skew.Abs() > much {
		r = Warn
	}
	x.Add("clock", r, mend, "the server's is %s from this machine's", apart(skew))
	for _, w := range reports {
		if skew := w.Time.Sub(heard); skew.Abs() > much {
			x.Add("clock", Warn, mend, "that of %s (%s) is %s from this machine's", w.Program, w.Process, apart(skew))
		}
	}
}

func apart(d time.Duration) string {
	if d.Abs() < time.Second {
		return "less than a second"
	}
	return d.Abs().Round(time.Second).String()
}

// Workers looks at who works, and at what waits, is lost soon, or was given up.
func (x *Exam) Workers(ctx context.Context, c *bus.Conn, reports []liveness.Report) {
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		w, err := c.Work(ctx, role)
		if err != nil {
			x.Add(role, Fail, "see the checks above", "%v", err)
			continue
		}
		s := liveness.Combine(role, w, reports, time.Now(), liveness.Floor)
		start := "start one: 'debrief up', or the program of that name"
		switch {
		case s.Workers == 0 && s.Level == liveness.Red:
			x.Add(role, Fail, start, "%s", some(s.Because))
		case s.Workers == 0:
			x.Add(role, Warn, start, "none runs; %s for it", waits(s.Pending))
		case s.Level == liveness.Red:
			x.Add(role, Fail, "see 'debrief status' and the log of the role", "%s", some(s.Because))
		case s.Level == liveness.Yellow:
			x.Add(role, Warn, "see 'debrief status'", "%s", some(s.Because))
		default:
			x.Add(role, OK, "", "%d at work, %d waiting", s.Workers, s.Pending)
		}
		if w.Dead > 0 {
			x.Add(role, Warn, "look why with 'debrief dead list --role "+role+"', then requeue or drop them", "of dead letters there are %d", w.Dead)
		}
	}
	versions := map[string]bool{}
	for _, r := range reports {
		versions[r.Version] = true
	}
	if len(versions) > 1 {
		x.Add("versions", Warn, "fine while a new version rolls out; then restart the old ones", "workers of %d versions run side by side", len(versions))
	}
}

func waits(n uint64) string {
	if n == 0 {
		return "nothing waits"
	}
	return fmt.Sprintf("%d wait", n)
}

func some(all []string) string {
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
