package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// curatorRace configures the faults of curators that race on one book under load. The long form:
// DEBRIEF_LONG=1 go test ./integration -run TestEveryReflectionCountsOnce -v -timeout 20m
type curatorRace struct {
	reflections int
	over        time.Duration // of publishing
	curators    int
	rounds      int // rounds of all crash points
	kills       int // of curators, at random
	serverKills int
	freezes     int           // of curators, at random, longer than the ack wait
	zombies     int           // curators frozen before they send a delta
	idle        time.Duration // without progress, after which the test fails
}

// ackWait is the ack wait of the curators. It is the minimum, so that messages of killed curators are redelivered soon.
const ackWait = time.Second

// TestEveryReflectionCountsOnce has real curators race on one book. It kills them at every crash point of a commit and at
// random, freezes them until others have their messages, and kills the server. Each published reflection and edit must have
// its effect once, also if it was published twice.
func TestEveryReflectionCountsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	s := curatorRace{
		reflections: 500, over: 5 * time.Second, curators: 3, rounds: 1, kills: 2, serverKills: 1, freezes: 1, zombies: 1,
		idle: 2 * time.Minute,
	}
	if os.Getenv(longEnv) != "" {
		s = curatorRace{
			reflections: 31_000, over: 450 * time.Second, curators: 3, rounds: 20, kills: 160, serverKills: 15, freezes: 25,
			zombies: 25, idle: 4 * time.Minute,
		}
	} else {
		t.Parallel()
	}
	s.run(t, chooseSeed(t))
}

// racingCurator is a curator with its crashProxy. A fault locks it until it is ready again.
type racingCurator struct {
	sync.Mutex
	*process
	newCrashProxy *crashProxy
}

// startCurators starts n curators, each with a crashProxy.
func startCurators(t testing.TB, n int, url string, start func(t testing.TB, name, url string) *process) []*racingCurator {
	t.Helper()
	all := make([]*racingCurator, n)
	for i := range all {
		b := &racingCurator{newCrashProxy: newCrashProxy(t, url)}
		b.process = start(t, fmt.Sprint("curator", i+1), b.newCrashProxy.url)
		b.newCrashProxy.watch(b.process)
		all[i] = b
	}
	return all
}

// startCurator starts a curator without a model: insights become bullets unchanged.
func startCurator(t testing.TB, name, url string) *process {
	t.Helper()
	return startWorker(t, name, events.RoleCurator, "--nats", url, "--ack-wait", ackWait.String())
}

func (s curatorRace) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	server, url := startServer(t)
	conn := connect(t, url)
	curators := startCurators(t, s.curators, url, startCurator)
	ctx, cancel := whileStreamsMove(t, conn, s.idle, events.RoleCurator)
	defer cancel()
	c := processes{server: server, roles: map[string][]*process{}}
	for _, b := range curators {
		c.roles[events.RoleCurator] = append(c.roles[events.RoleCurator], b.process)
	}
	books := []*expectedBook{newExpectedBook(t, ctx, conn, "raced"), newExpectedBook(t, ctx, conn, "beside")}
	seen, watched := map[playbook.Book]map[uint64]sighting{}, []func(){}
	for _, h := range books {
		sightings, wait := follow(t, ctx, conn, h.book)
		seen[h.book], watched = sightings, append(watched, wait)
	}

	began := time.Now()
	stats := newRaceStats(conn)
	quiet := make(chan struct{})
	var all sync.WaitGroup
	publisher := rand.New(rand.NewPCG(rng.Uint64(), 0))
	all.Go(func() { s.publish(t, ctx, conn, publisher, books, stats, quiet) })
	s.strike(t, ctx, rng, curators, c, stats)
	stats.waits.Wait()
	close(quiet)
	all.Wait()
	awaitSettled(t, ctx, conn)
	stats.requeued = len(requeueDead(t, ctx, conn))
	awaitSettled(t, ctx, conn)
	for _, h := range books {
		awaitView(t, ctx, conn, h.book)
	}
	ledgers := map[playbook.Book]*ledger{}
	for _, h := range books {
		l, err := h.ledger(ctx, conn)
		if err != nil {
			t.Fatal(err)
		}
		ledgers[h.book] = l
	}
	c.dismiss(t)
	for _, wait := range watched {
		wait()
	}
	sum := summary{raceStats: stats, took: time.Since(began)}
	for _, h := range books {
		ledgers[h.book].seen = seen[h.book]
		a := ledgers[h.book].check()
		h.check(a)
		sum.add(h, ledgers[h.book], a)
	}
	sum.report(t)
	s.checkStrikes(t, stats)
}

// publish publishes events in bursts, so that the curators race with batches: four of five events for the first book. It
// publishes some of them again later. It ends when quiet is closed, after all faults.
func (s curatorRace) publish(t *testing.T, ctx context.Context, conn *bus.Conn, rng *rand.Rand, books []*expectedBook, d *raceStats, quiet <-chan struct{}) {
	const burst = 20
	pace := time.NewTicker(s.over * burst / time.Duration(s.reflections))
	defer pace.Stop()
	for n := 0; ; {
		for range burst {
			h := books[0]
			if n++; n%5 == 0 {
				h = books[1]
			}
			err := h.publish(ctx, conn, h.next(rng))
			if err == nil && n%25 == 24 {
				err = h.repeat(ctx, conn, h.published[rng.IntN(len(h.published))])
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		if d.large.Load() && n/burst%4 == 0 { // each burst would be more than busy curators can commit
			if err := books[0].publish(ctx, conn, books[0].largeEdit()); err != nil {
				t.Error(err)
				return
			}
		}
		select {
		case <-quiet:
			if n >= s.reflections {
				return
			}
		default:
		}
		<-pace.C
	}
}

// strike injects all faults at curators and server, and returns when all are ready again.
func (s curatorRace) strike(t *testing.T, ctx context.Context, rng *rand.Rand, curators []*racingCurator, c processes, d *raceStats) {
	began := time.Now()
	var all sync.WaitGroup
	// each calls strike n times, evenly spread, in a goroutine. strike returns when all processes are ready again.
	each := func(n int, strike func(own *rand.Rand, i int)) {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		all.Go(func() {
			for i := range n {
				at := s.over * time.Duration(2*i+1) / time.Duration(2*n)
				pause(ctx, time.Until(began.Add(at)))
				if ctx.Err() != nil {
					return
				}
				strike(own, i)
			}
		})
	}
	victim := func(own *rand.Rand) *racingCurator {
		b := curators[own.IntN(len(curators))]
		b.Lock()
		return b
	}
	each(s.rounds*len(crashPoints), func(own *rand.Rand, i int) {
		p := crashPoints[i%len(crashPoints)]
		b := victim(own)
		defer b.Unlock()
		d.large.Store(p.name == midChange.name || p.name == midBatch.name)
		defer d.large.Store(false)
		if b.runTrap(t, ctx, p, 0) != nil {
			d.add(p.name)
			d.hit(t, ctx, &d.atPoint)
			b.restart(t, ctx, own)
		}
	})
	each(s.kills, func(own *rand.Rand, _ int) {
		b := victim(own)
		defer b.Unlock()
		if b.killLife(b.current()) {
			d.add(killedAtRandom)
			d.hit(t, ctx, &d.atAll)
		}
		b.restart(t, ctx, own)
	})
	each(s.serverKills, func(own *rand.Rand, _ int) {
		c.server.kill()
		d.add(killedServer)
		d.hit(t, ctx, &d.server)
		pause(ctx, time.Duration(own.Int64N(int64(300*time.Millisecond))))
		if err := c.server.start(); err != nil {
			t.Error(err)
		}
	})
	each(s.freezes, func(own *rand.Rand, _ int) {
		b := victim(own)
		defer b.Unlock()
		if b.signal(syscall.SIGSTOP) == nil {
			pause(ctx, 2*ackWait)
			_ = b.signal(syscall.SIGCONT) // the lock prevents other faults
			d.add(frozenAtRandom)
			d.hit(t, ctx, &d.freeze)
		}
	})
	each(s.zombies, func(own *rand.Rand, _ int) {
		b := victim(own)
		defer b.Unlock()
		if trap := b.runTrap(t, ctx, frozenAtDelta, 2*ackWait); trap != nil {
			d.add(frozenAtDelta.name)
			d.hit(t, ctx, &d.freeze)
			if trap.refused {
				d.add(refusedLate)
			}
		}
	})
	done, over := make(chan struct{}), make(chan struct{})
	go func() { defer close(over); c.keep(t, done) }()
	all.Wait()
	close(done)
	<-over
	c.revive(t)
}

// runTrap sets a trap for a curator and waits until it has struck.
func (b *racingCurator) runTrap(t *testing.T, ctx context.Context, p crashPoint, freeze time.Duration) *trap {
	trap := b.newCrashProxy.arm(p, freeze)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	select {
	case <-trap.struck:
		return trap
	case <-ctx.Done():
		t.Errorf("%s: %s did not reach it", p.name, b.name)
		b.newCrashProxy.disarm(trap)
		return nil
	}
}

// restart starts a killed curator after a short delay.
func (b *racingCurator) restart(t *testing.T, ctx context.Context, rng *rand.Rand) {
	pause(ctx, time.Duration(rng.Int64N(int64(300*time.Millisecond))))
	if err := b.start(); err != nil {
		t.Error(err)
	}
}

// requeueDead publishes the messages of all dead letters again, as an operator would, and returns the letters. Workers are
// killed more often here than the failure policy allows for.
func requeueDead(t *testing.T, ctx context.Context, conn *bus.Conn) []*events.DeadLetter {
	t.Helper()
	letters, err := readAll(ctx, conn.JetStream(), events.StreamDead, events.DeadSubject("", ""))
	if err != nil {
		t.Fatal(err)
	}
	var all []*events.DeadLetter
	for _, m := range letters {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			t.Fatal(err)
		}
		letter := e.(*events.DeadLetter)
		all = append(all, letter)
		if err := publishAgain(ctx, conn, letter.Subject, letter.Header, letter.Data); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// checkStrikes checks that each crash point was used as often as planned.
func (s curatorRace) checkStrikes(t *testing.T, d *raceStats) {
	t.Helper()
	for _, p := range crashPoints {
		if got := d.struck[p.name]; got != s.rounds {
			t.Errorf("killed %s: %d times, want %d", p.name, got, s.rounds)
		}
	}
	for what, want := range map[string]int{
		killedAtRandom: s.kills, killedServer: s.serverKills, frozenAtRandom: s.freezes, frozenAtDelta.name: s.zombies,
	} {
		if got := d.struck[what]; got < want*9/10 { // a curator without a server may be down already
			t.Errorf("%s: %d times, want %d", what, got, want)
		}
	}
}
