package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"debrief/events"
)

// clusterFaults configures the faults of a cluster of three servers. The long form:
// DEBRIEF_LONG=1 go test ./integration -run TestAClusterLosesServers -v -timeout 20m
type clusterFaults struct {
	kills, pauses, unplugs, splits int
	most                           int           // of these, chosen by the seed; 0 is all
	rolls                          int           // rolling restarts
	hold                           time.Duration // maximum, after the others have continued without the server
	settle                         time.Duration
}

// TestAClusterLosesServers kills, pauses, disconnects, partitions and restarts the servers of a cluster under a steady load.
// Each acknowledged task must have one effect or a dead letter. All replicas of the log must be equal, and the view must
// equal the folded log.
func TestAClusterLosesServers(t *testing.T) {
	t.Parallel()
	u := clusterFaults{kills: 1, pauses: 1, unplugs: 1, splits: 1, most: 1, settle: time.Minute}
	if os.Getenv(longEnv) != "" {
		u = clusterFaults{kills: 6, pauses: 6, unplugs: 6, splits: 6, rolls: 2, hold: 8 * time.Second, settle: 3 * time.Minute}
	}
	u.run(t, chooseSeed(t))
}

// serverFault is a kind of fault, with functions that inject and end it.
type serverFault struct {
	what         string
	times        int
	strike, lift func(context.Context, *node) error

	row *fault
}

func (u clusterFaults) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	began := time.Now()
	c := startCluster(t, ctx, workersPerRole)
	supervised := c.supervise(ctx)
	c.awaitHealthy(ctx)
	conn := c.connect(ctx, c.urls())
	t.Logf("%.1f s: the cluster is up", time.Since(began).Seconds())

	l := &load{tasks: invoices(rng, 30_000), done: make(chan struct{})}
	roaming := l.submit(t, ctx, conn, 100*time.Millisecond)
	pinned := map[string]*submitter{}
	for _, n := range c.nodes {
		pinned[n.name] = l.submit(t, ctx, c.connect(ctx, n.url), 500*time.Millisecond)
	}
	awaitLearning(t, ctx, conn)
	seen, unfollow := follow(t, ctx, conn, desk)
	t.Logf("%.1f s: it learns", time.Since(began).Seconds())

	blows := c.blows(u)
	struck := shuffled(rng, blows)
	if u.most > 0 {
		struck = struck[:u.most]
	}
	for _, b := range struck {
		u.strike(t, ctx, rng, c, b, roaming, pinned, began)
	}
	rolling := u.roll(t, ctx, c, roaming, began)

	ids := l.stop()
	settling, stop := context.WithTimeout(ctx, u.settle)
	defer stop()
	awaitSettled(t, settling, conn)
	awaitView(t, ctx, conn, desk)
	awaitReplicas(t, ctx, conn)
	again := supervised()
	lost := 0
	for _, n := range c.nodes { // each reads its replicas
		lost = max(lost, u.check(t, ctx, c, n, ids, func(l *ledger) { l.seen = seen }))
	}
	c.dismiss(ctx)
	unfollow()
	t.Logf("%.1f s: %d tasks; workers were started again %d times", time.Since(began).Seconds(), len(ids), again)
	for _, b := range blows {
		if slices.Contains(struck, b) {
			b.row.lost = lost
			b.row.report(t)
		}
	}
	if u.rolls > 0 {
		rolling.lost = lost
		rolling.report(t)
	}
}

func (c *cluster) blows(u clusterFaults) []*serverFault {
	blows := []*serverFault{
		{what: "SIGKILL of the server that leads a stream, of three", times: u.kills, strike: c.kill, lift: c.boot},
		{what: "pause of the server that leads a stream, of three", times: u.pauses, strike: c.freeze, lift: c.thaw},
		{what: "the server that leads a stream, of three, is off the network", times: u.unplugs, strike: c.unplug, lift: c.plug},
		{what: "the server that leads a stream, of three, is cut off from the others, not from its clients", times: u.splits, strike: c.cut, lift: c.join},
	}
	for _, b := range blows {
		b.row = &fault{name: b.what, promise: oneEffect}
	}
	return blows
}

const oneEffect = "each acknowledged message has its effect once"

// shuffled returns each fault as often as configured, in random order.
func shuffled(rng *rand.Rand, kinds []*serverFault) (all []*serverFault) {
	for _, b := range kinds {
		all = append(all, slices.Repeat([]*serverFault{b}, b.times)...)
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// strike injects a fault at the leader of a stream until the others have continued without it. It then waits until the
// cluster is complete and all work is done.
func (u clusterFaults) strike(t *testing.T, ctx context.Context, rng *rand.Rand, c *cluster, b *serverFault, roaming *submitter, pinned map[string]*submitter, began time.Time) {
	t.Helper()
	stream, n := c.victim(t, ctx, rng, roaming, u.hold > 0)
	t.Logf("%5.1f s: %s: %s, which leads %s; the client is at %s", time.Since(began).Seconds(), b.what, n.name, stream, roaming.conn.NATS().ConnectedServerName())
	struck := time.Now()
	if err := b.strike(ctx, n); err != nil {
		t.Fatalf("%s: %s: %v", b.what, n.name, err)
	}
	gone := time.Now()
	eventually(t, time.Minute, "publishes are acknowledged while "+n.name+" is away", func() error {
		if !roaming.since(gone) {
			return fmt.Errorf("none for %s", time.Since(struck))
		}
		return nil
	})
	c.leader(t, ctx, roaming, stream, n)
	if u.hold > 0 {
		pause(ctx, time.Duration(rng.Int64N(int64(u.hold))))
	}
	lifted := time.Now()
	if err := b.lift(ctx, n); err != nil {
		t.Fatalf("%s: %s: %v", b.what, n.name, err)
	}
	c.awaitHealthy(ctx)
	awaitCaughtUp(t, ctx, roaming.conn)
	caught := time.Now()
	eventually(t, time.Minute, "clients of "+n.name+" come back", func() error {
		if !pinned[n.name].since(lifted) {
			return fmt.Errorf("not for %s", time.Since(lifted))
		}
		return nil
	})
	b.row.hit()
	b.row.took("clients cannot publish for", roaming.outage(struck, caught))
	b.row.took("a client that knows only this server for", pinned[n.name].outage(struck, time.Now()))
	b.row.took("after the fault it catches up in", caught.Sub(lifted))
	t.Logf("%5.1f s: %s, %s of %s: away for %.1f s, publishes failed for %.1f s, caught up in %.1f s", struck.Sub(began).Seconds(),
		b.what, n.name, stream, lifted.Sub(struck).Seconds(), roaming.outage(struck, caught).Seconds(), caught.Sub(lifted).Seconds())
}

// victim chooses a server that leads a stream. With whichever, half of the streams are TASKS. Without it, victim prefers a
// server to which the client is not connected, so that the client need not detect the fault first.
func (c *cluster) victim(t *testing.T, ctx context.Context, rng *rand.Rand, s *submitter, whichever bool) (stream string, n *node) {
	t.Helper()
	streams := []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections, events.StreamDeltas, viewStream}
	if whichever {
		stream = streams[0]
		if rng.IntN(2) == 0 {
			stream = streams[1+rng.IntN(len(streams)-1)]
		}
		return stream, c.leader(t, ctx, s, stream, nil)
	}
	for _, stream = range streams {
		if n = c.leader(t, ctx, s, stream, nil); n.name != s.conn.NATS().ConnectedServerName() {
			break
		}
	}
	return stream, n
}

// leader waits for a leader of the stream other than away, and returns it.
func (c *cluster) leader(t *testing.T, ctx context.Context, s *submitter, stream string, away *node) (n *node) {
	t.Helper()
	eventually(t, time.Minute, "stream "+stream+" has a leader", func() error {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		st, err := s.conn.JetStream().Stream(try, stream)
		if err != nil {
			return err
		}
		if n = c.node(st.CachedInfo().Cluster.Leader); n == nil || n == away {
			return fmt.Errorf("it is led by %q", st.CachedInfo().Cluster.Leader)
		}
		return nil
	})
	return n
}

// roll restarts the servers one at a time.
func (u clusterFaults) roll(t *testing.T, ctx context.Context, c *cluster, roaming *submitter, began time.Time) *fault {
	t.Helper()
	row := &fault{name: "rolling restart of three servers", promise: oneEffect}
	for range u.rolls {
		struck := time.Now()
		for _, n := range c.nodes {
			if err := c.shutdown(ctx, n); err != nil {
				t.Fatal(err)
			}
			if err := c.boot(ctx, n); err != nil {
				t.Fatal(err)
			}
			c.awaitHealthy(ctx)
		}
		awaitCaughtUp(t, ctx, roaming.conn)
		row.hit()
		row.took("clients cannot publish for", roaming.outage(struck, time.Now()))
		t.Logf("%5.1f s: rolling restart: took %.1f s, publishes failed for %.1f s", struck.Sub(began).Seconds(),
			time.Since(struck).Seconds(), roaming.outage(struck, time.Now()).Seconds())
	}
	return row
}

// check audits what one server holds, and returns how much was lost or counted twice.
func (u clusterFaults) check(t *testing.T, ctx context.Context, c *cluster, n *node, ids []string, with func(*ledger)) int {
	t.Helper()
	l, err := readLedger(ctx, c.connect(ctx, n.url).JetStream(), desk)
	if err != nil {
		t.Fatal(err)
	}
	l.tasks = ids
	with(l)
	a := l.check()
	for i, p := range a.problems {
		if i == 20 {
			t.Errorf("%s: and %d more", n.name, len(a.problems)-i)
			break
		}
		t.Errorf("%s: %s", n.name, p)
	}
	for _, letter := range a.letters {
		t.Logf("%s: dead letter: %s", n.name, letter)
	}
	t.Logf("%s: %d executions stored, %d distinct; %d reflections stored, %d distinct; %d deltas, %d bullets; %d versions seen by the follower; %d dead letters",
		n.name, len(l.executions), len(a.answered), len(l.reflections), len(a.reflected), len(l.deltas), a.fold.Len(), len(l.seen), len(a.letters))
	return len(a.problems)
}
