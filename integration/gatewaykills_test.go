package integration

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/integration/auditor"
	"debrief/playbook"
)

// callsPass is the guarantee of the gateway for calls.
const callsPass = "each call is answered"

// captureOnce is the guarantee of the gateway for the runs of agents.
const captureOnce = "each run whose final call was answered is stored once"

// TestGatewaysKilledInMidStream kills replicas of the gateway while they stream. Agents repeat their calls at another replica. Each
// run whose final call was answered must be stored once. The long form:
//
//	DEBRIEF_LONG=1 go test ./integration -run TestGatewaysKilledInMidStream -v -timeout 20m
func TestGatewaysKilledInMidStream(t *testing.T) {
	kills, workers, long := 5, 8, os.Getenv(longEnv) != ""
	if long {
		kills, workers = 100, 16
	} else {
		t.Parallel()
	}
	rng := rand.New(rand.NewPCG(chooseSeed(t), 0))
	_, url := startServer(t)
	provider := startProvider(t)
	startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0))
	var replicas []*replica
	for i := range 3 { // the time limits are long: every call is captured, also on a slow machine
		replicas = append(replicas, startReplica(t, fmt.Sprint("gateway", i+1), url, provider, "--run-idle", "2s", "--advice-timeout", "20s"))
	}
	a := newGatewayAgents(t, replicas...)
	if long { // a run whose gateway is killed while it closes the run is stored after half a minute
		a.labels, a.turns = true, 2
	}
	f := &fault{name: "SIGKILL of a gateway in mid-stream", promise: captureOnce}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range workers {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		all.Go(func() { a.work(ctx, own, math.MaxInt) })
	}
	cut := 0
	for range kills {
		r := replicas[rng.IntN(len(replicas))]
		pause(ctx, time.Duration(rng.IntN(150))*time.Millisecond)
		eventually(t, 30*time.Second, "a stream through "+r.name, func() error {
			if r.streams.Load() == 0 {
				return fmt.Errorf("none")
			}
			return nil
		})
		cut += int(r.streams.Load())
		r.kill()
		r.away.Store(true) // after the kill: agents notice the dead gateway by failed calls
		f.hit()
		fell := time.Now()
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		r.awaitConnected()
		r.away.Store(false)
		f.recovered(time.Since(fell))
	}
	stop()
	all.Wait()
	report := a.await(t, connect(t, url), 5*time.Minute)
	t.Logf("%d kills, about %d streams open at them; %d calls answered, %d of them after a repetition, %d not captured", kills, cut, a.answered, a.repeated, a.passed)
	f.lost = len(report.Lost) + len(report.Twice)
	f.report(t)
	if a.repeated == 0 {
		t.Error("no kill has cut a call")
	}
}

// TestCallsPassWhileAllIsKilled kills the server, a replica of the gateway and workers while agents make calls. The other replica
// must answer every call that it gets. Each run that the gateways captured must be stored once and counted once, except that runs
// during a restart of the server may be missing, or in rare cases stored as two. The long form:
//
//	DEBRIEF_LONG=1 go test ./integration -run TestCallsPassWhileAllIsKilled -v -timeout 30m
func TestCallsPassWhileAllIsKilled(t *testing.T) {
	calls, agents, gap, long := 300, 8, 400*time.Millisecond, os.Getenv(longEnv) != ""
	if long {
		calls, agents, gap = 10_000, 24, 2*time.Second
	} else {
		t.Parallel()
	}
	rng := rand.New(rand.NewPCG(chooseSeed(t), 0))
	server, url := startServer(t)
	provider, shared := startProvider(t), []string{"--nats", url, "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0), "--ack-wait", "2s"}
	c := processes{server: server, roles: map[string][]*process{}}
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		for i := range 2 {
			c.roles[role] = append(c.roles[role], startWorker(t, fmt.Sprint(role, i+1), role, shared...))
		}
	}
	stays := startReplica(t, "gateway1", url, provider, "--run-idle", "2s", "--advice-timeout", "5s")
	dies := startReplica(t, "gateway2", url, provider, "--run-idle", "2s", "--advice-timeout", "5s")
	a := newGatewayAgents(t, stays, dies)
	a.labels, a.turns = true, 2
	conn := connect(t, url)
	addBullet(t, conn)
	var all sync.WaitGroup
	for range agents {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		all.Go(func() { a.work(t.Context(), own, calls) })
	}
	s := callLoad{t: t, processes: c, gateway: dies, gap: gap}
	s.strike(rng, func() bool { return a.calls() >= calls })
	all.Wait()
	c.revive(t)
	a.required = func(r *agentRun) bool {
		return r.captured && !s.withoutServer(r)
	}
	report := a.await(t, conn, 2*time.Minute)
	t.Logf("%d calls answered, %d of them after a repetition, %d not captured; calls that failed: %d at the gateway that stayed, %d at the other",
		a.answered, a.repeated, a.passed, a.failures[stays], a.failures[dies])
	s.server.lost, s.replica.lost, s.worker.lost = a.failures[stays], len(report.Lost)+len(report.Twice), len(report.Lost)+len(report.Twice)
	for _, f := range []*fault{&s.server, &s.replica, &s.worker} {
		f.report(t)
	}
	a.checkCounted(t, conn)
}

// callLoad kills the processes behind calls.
type callLoad struct {
	processes
	t       *testing.T
	gateway *replica
	gap     time.Duration // between two kills

	server, replica, worker fault
	outages                 []serverOutage
}

// serverOutage is a time without the server.
type serverOutage struct{ from, to time.Time }

// strike kills the gateway and workers in turns, and now and then the server, until done.
func (s *callLoad) strike(rng *rand.Rand, done func() bool) {
	s.server = fault{name: "SIGKILL of the server under calls of models", promise: callsPass}
	s.replica = fault{name: "SIGKILL of a gateway under calls of models", promise: captureOnce}
	s.worker = fault{name: "SIGKILL of a worker under calls of models", promise: captureOnce}
	for i := 0; !done(); i++ {
		pause(s.t.Context(), s.gap/2+time.Duration(rng.Int64N(int64(s.gap))))
		s.revive(s.t)
		down := time.Duration(rng.Int64N(int64(s.gap)))
		switch { // runs between two kills of the server must be stored
		case i%8 == 0:
			o := serverOutage{from: time.Now()}
			s.restart(s.processes.server, down, &s.server)
			s.processes.server.line()              // it listens
			o.to = time.Now().Add(3 * time.Second) // until the gateways are connected, also on a slow machine
			s.outages = append(s.outages, o)
		case i%2 == 1:
			s.restart(s.gateway.process, down, &s.replica)
		default:
			role := []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator}[rng.IntN(3)]
			s.restart(s.roles[role][rng.IntN(2)], down, &s.worker)
		}
	}
}

func (s *callLoad) restart(p *process, down time.Duration, f *fault) {
	p.kill()
	f.hit()
	pause(s.t.Context(), down)
	if err := p.start(); err != nil {
		s.t.Error(err)
	}
}

// withoutServer reports whether the server was away during a run.
func (s *callLoad) withoutServer(r *agentRun) bool {
	return slices.ContainsFunc(s.outages, func(o serverOutage) bool { return r.began.Before(o.to) && o.from.Before(r.ended) })
}

// addBullet adds the bullet that the model of the agents cites.
func addBullet(t *testing.T, conn *bus.Conn) {
	t.Helper()
	e := &events.Edit{
		Book: events.DefaultBook,
		ID:   events.NewID(), Author: "operator", Reason: "test", Created: time.Now().UTC(),
		Ops: []playbook.Op{{Kind: playbook.Add, Section: "desk", Content: "A globe is on the shelf that is seven after its number."}},
	}
	if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitSettled(t, t.Context(), conn)
	awaitView(t, t.Context(), conn, events.DefaultBook)
}

// checkCounted checks that the playbook counts each stored run once.
func (a *gatewayAgents) checkCounted(t *testing.T, conn *bus.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, events.DefaultBook)
	streams, err := auditor.Read(ctx, conn.JetStream())
	if err != nil {
		t.Fatal(err)
	}
	accepted := auditor.Accepted{Tasks: map[string][]string{}}
	for _, r := range a.runs {
		if a.required(r) && r.labelled && citation.MatchString(r.answer) {
			accepted.Tasks[string(events.DefaultBook)] = append(accepted.Tasks[string(events.DefaultBook)], r.id)
		}
	}
	report := auditor.Check(streams, accepted)
	t.Logf("AUDIT of %d runs with an outcome and a bullet: %s", len(accepted.Tasks[string(events.DefaultBook)]), report)
	if report.Votes == 0 {
		t.Error("no run counts for the bullet")
	}
	for _, p := range report.Problems(5) {
		t.Error(p)
	}
}

// await waits until all required runs are stored, and no run is open. It fails the test unless the audit is clean.
func (a *gatewayAgents) await(t *testing.T, conn *bus.Conn, within time.Duration) (report *auditor.RunReport) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		streams, err := auditor.Read(ctx, conn.JetStream())
		if err == nil {
			report = auditor.CheckRuns(streams, a.audited())
		}
		open, openErr := openRuns(ctx, conn)
		if err == nil && openErr == nil && len(report.Lost) == 0 && open == 0 || ctx.Err() != nil {
			break
		}
		pause(ctx, 500*time.Millisecond)
	}
	t.Log("AUDIT ", report)
	for _, p := range report.Doubled {
		t.Log("twice, during a restart of the server: ", p)
	}
	for kind, list := range map[string][]string{"lost": report.Lost, "twice": report.Twice, "wrong": report.Wrong} {
		for _, p := range list[:min(len(list), 5)] {
			t.Errorf("%s: %s", kind, p)
		}
	}
	return report
}

// openRuns returns the number of runs that are not closed.
func openRuns(ctx context.Context, conn *bus.Conn) (int, error) {
	s, err := conn.JetStream().Stream(ctx, "KV_"+events.BucketOpen)
	if err != nil {
		return 0, err
	}
	open, err := readAll(ctx, conn.JetStream(), s.CachedInfo().Config.Name, "$KV."+events.BucketOpen+".o.*")
	return len(slices.DeleteFunc(open, func(m message) bool { return m.header.Get("KV-Operation") != "" })), err
}
