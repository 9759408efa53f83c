package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// outage configures faults of the network and the processes of a pipeline under a steady load. The long form:
// DEBRIEF_LONG=1 go test ./integration -run TestNetworkFails -v -timeout 20m
type outage struct {
	rounds int           // rounds of all faults, each in random order
	apart  int           // number of times that a worker's connections become silent
	pace   time.Duration // interval of tasks
	settle time.Duration
}

// networkAckWait is the ack wait of the workers. Faults that must outlast it take 1.5 times as long.
const networkAckWait = 2 * time.Second

// TestNetworkFails delays, throttles, resets, half-closes and silences connections between workers and server, and freezes
// and kills workers. Each confirmed task must be answered, reflected on and counted once. A message may only be
// dead-lettered after all its delivery attempts.
func TestNetworkFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	o := outage{rounds: 1, apart: 1, pace: 25 * time.Millisecond, settle: time.Minute}
	if os.Getenv(longEnv) != "" {
		o = outage{rounds: 12, apart: 12, pace: 50 * time.Millisecond, settle: 3 * time.Minute}
	}
	o.run(t, chooseSeed(t))
}

// faultyRole holds the workers of a role, each with a faultyProxy.
type faultyRole struct {
	role    string
	workers []*process
	wires   []*faultyProxy
}

func (a *faultyRole) each(f func(*faultyProxy)) {
	for _, w := range a.wires {
		f(w)
	}
}

// output is the stream of each role's results.
var output = map[string]string{
	events.RoleGenerator: events.StreamExecutions, events.RoleReflector: events.StreamReflections, events.RoleCurator: events.StreamDeltas,
}

// strike injects a fault at all workers of a role at once, and returns after the end of the fault. A message stored after
// that has passed through the fault.
type strike struct {
	*fault
	on func(ctx context.Context, rng *rand.Rand, a *faultyRole)
}

const oneEffectOrLetter = "each submitted task is applied once, or a dead letter after 5 attempts"

// strikes returns all faults.
func strikes() []strike {
	lasting := func(now networkFault, least, most time.Duration) func(context.Context, *rand.Rand, *faultyRole) {
		return func(ctx context.Context, rng *rand.Rand, a *faultyRole) {
			a.each(func(w *faultyProxy) { w.setFault(now) })
			pause(ctx, least+time.Duration(rng.Int64N(int64(most-least))))
			a.each(func(w *faultyProxy) { w.setFault(calm) })
		}
	}
	atRandom := func(f func(*rand.Rand, *faultyRole)) func(context.Context, *rand.Rand, *faultyRole) {
		return func(ctx context.Context, rng *rand.Rand, a *faultyRole) {
			pause(ctx, time.Duration(rng.Int64N(int64(300*time.Millisecond))))
			f(rng, a)
		}
	}
	row := func(name string, on func(context.Context, *rand.Rand, *faultyRole)) strike {
		return strike{&fault{name: name, promise: oneEffectOrLetter}, on}
	}
	return []strike{
		row("network delays by 50 to 200 ms", lasting(delayed, time.Second, 1500*time.Millisecond)),
		row("network drips, 16 KB/s", lasting(dripping, time.Second, 1500*time.Millisecond)),
		row("network drops all data, longer than the ack wait", lasting(swallowed, networkAckWait*3/2, networkAckWait*2)),
		row("network resets connections", atRandom(func(_ *rand.Rand, a *faultyRole) { a.each((*faultyProxy).cut) })),
		row("network half-closes connections", atRandom(func(rng *rand.Rand, a *faultyRole) {
			fromServer := rng.IntN(2) == 0
			a.each(func(w *faultyProxy) { w.halfClose(fromServer) })
		})),
		row("SIGSTOP of a role's workers, longer than the ack wait", func(ctx context.Context, _ *rand.Rand, a *faultyRole) {
			for _, p := range a.workers {
				_ = p.signal(syscall.SIGSTOP) // fails while the process is restarted
			}
			pause(ctx, networkAckWait*3/2)
			for _, p := range a.workers {
				_ = p.signal(syscall.SIGCONT)
			}
		}),
		row("SIGKILL of all of a role's workers", atRandom(func(_ *rand.Rand, a *faultyRole) {
			for _, p := range a.workers {
				p.kill()
			}
			for _, p := range a.workers {
				if err := p.start(); err != nil {
					p.t.Error(err)
				}
			}
		})),
	}
}

func (o outage) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	_, url := startServer(t)
	model := startModel(t, 20*time.Millisecond)
	c := processes{roles: map[string][]*process{}}
	staff := func(role string, n int) *faultyRole {
		a := &faultyRole{role: role}
		for range n {
			w := newFaultyProxy(t, url)
			p := startWorker(t, fmt.Sprint(role, len(c.roles[role])+1), role,
				"--nats", w.url, "--model", "simulated-invoice-desk", "--base-url", model, "--ack-wait", networkAckWait.String())
			a.workers, a.wires = append(a.workers, p), append(a.wires, w)
			c.roles[role] = append(c.roles[role], p)
		}
		return a
	}
	victims := []*faultyRole{staff(events.RoleGenerator, 2), staff(events.RoleReflector, 2), staff(events.RoleCurator, 2)}
	apart := staff(events.RoleReflector, 1)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(o.rounds)*time.Minute+o.settle)
	defer cancel()

	tasks, quiet := invoices(rng, 20_000), make(chan struct{})
	handedIn := make(chan int)
	go func() { handedIn <- o.load(t, ctx, conn, tasks, quiet) }()
	forgotten := &fault{name: "network drops a connection silently", promise: "the worker notices and reconnects; " + oneEffectOrLetter}
	all := strikes()
	var both sync.WaitGroup
	both.Go(func() { o.forget(t, ctx, apart.wires[0], forgotten) })
	both.Go(func() {
		for range o.rounds {
			for _, i := range rng.Perm(len(all)) {
				all[i].befall(t, ctx, rng, conn, victims[rng.IntN(len(victims))])
			}
		}
	})
	done, over := make(chan struct{}), make(chan struct{})
	go func() { defer close(over); c.keep(t, done) }()
	both.Wait()
	close(done)
	<-over
	c.revive(t)
	close(quiet)
	tasks = tasks[:<-handedIn]
	began := time.Now()
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, desk)
	took := time.Since(began)
	l, err := readLedger(ctx, conn.JetStream(), desk)
	if err != nil {
		t.Fatal(err)
	}
	c.dismiss(t)
	for _, task := range tasks {
		l.tasks = append(l.tasks, task.ID)
	}
	a := l.check()
	for _, p := range a.problems {
		t.Error(p)
	}
	for _, letter := range a.letters {
		if !strings.Contains(letter, "after 5 deliveries") {
			t.Errorf("dead letter before the last attempt: %s", letter)
		}
	}
	a.checkLearned(t)
	t.Logf("%d tasks: %d executions stored, %d distinct; %d reflections stored, %d distinct; %d deltas; %d dead letters; all roles idle %s after the last fault",
		len(tasks), len(l.executions), len(a.answered), len(l.reflections), len(a.reflected), len(l.deltas), len(a.letters), took.Round(100*time.Millisecond))
	for _, s := range all {
		s.lost = a.lost()
		s.report(t)
	}
	forgotten.lost = a.lost()
	forgotten.report(t)
}

// load submits tasks at an even pace until quiet is closed, and returns their number.
func (o outage) load(t *testing.T, ctx context.Context, conn *bus.Conn, tasks []*events.Task, quiet <-chan struct{}) int {
	pace := time.NewTicker(o.pace)
	defer pace.Stop()
	for n, task := range tasks {
		select {
		case <-quiet:
			return n
		case <-pace.C:
		}
		if err := submit(ctx, conn, task); err != nil {
			t.Error(err)
			return n
		}
	}
	t.Errorf("%d tasks were too few", len(tasks))
	return len(tasks)
}

// befall injects the fault, and then waits until the role has stored a message.
func (s strike) befall(t *testing.T, ctx context.Context, rng *rand.Rand, conn *bus.Conn, a *faultyRole) {
	s.on(ctx, rng, a)
	over := time.Now()
	awaitMore(t, ctx, conn, a.role, s.name)
	s.hit()
	s.recovered(time.Since(over))
	t.Logf("%s, %ss: stored again after %s", s.name, a.role, time.Since(over).Round(time.Millisecond))
}

// awaitMore waits until a role has stored a message after a fault.
func awaitMore(t *testing.T, ctx context.Context, conn *bus.Conn, role, fault string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	before, err := lastStored(ctx, conn, output[role])
	for err != nil && ctx.Err() == nil { // the server may be down
		before, err = lastStored(ctx, conn, output[role])
	}
	awaitPast(t, ctx, conn, role, before, fault)
}

// awaitPast waits until the last sequence of a role's output exceeds before.
func awaitPast(t *testing.T, ctx context.Context, conn *bus.Conn, role string, before uint64, fault string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		now, err := lastStored(ctx, conn, output[role])
		if err == nil && now > before {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%s: the %ss stored nothing within a minute after it", fault, role)
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// lastStored returns the last sequence of a stream.
func lastStored(ctx context.Context, conn *bus.Conn, stream string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s, err := conn.JetStream().Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.LastSeq, nil
}

// forget repeatedly makes a worker's connections silent, and waits until the worker has connected again. The worker can
// detect that only by missing replies.
func (o outage) forget(t *testing.T, ctx context.Context, w *faultyProxy, f *fault) {
	for range o.apart {
		before, began := w.connected(), time.Now()
		w.kill()
		f.hit()
		try, cancel := context.WithTimeout(ctx, time.Minute)
		for w.connected() == before && try.Err() == nil {
			pause(try, 10*time.Millisecond)
		}
		err := try.Err()
		cancel()
		if err != nil {
			t.Errorf("%s: the worker had not connected again after %s", f.name, time.Since(began))
			return
		}
		f.recovered(time.Since(began))
	}
}

// lost returns the number of events without an effect or with two.
func (a *audit) lost() (n int) {
	for _, p := range a.problems {
		if strings.HasPrefix(p, "lost: ") || strings.HasPrefix(p, "twice: ") {
			n++
		}
	}
	return n
}
