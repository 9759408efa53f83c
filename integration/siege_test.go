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

// siege is what befalls curators that race on one book while reflections come in. The longer form:
// DEBRIEF_LONG=1 go test ./integration -run TestEveryReflectionCountsOnce -v -timeout 20m
type siege struct {
	reflections int
	over        time.Duration // of publishing
	curators    int
	rounds      int // of all crash points
	kills       int // of curators, at random moments
	serverKills int
	freezes     int // of curators, at random moments, longer than the ack wait
	zombies     int // frozen with a delta about to be sent
	settle      time.Duration
}

// ackWait of the curators here, the least there is: work of the dead goes to the living soon.
const ackWait = time.Second

// TestEveryReflectionCountsOnce: real curators race on one book, and are killed at every labelled point of their
// commit and at random, frozen until others have had their work, and left without a server. Every reflection and edit
// that was published has its effect once, also those published twice.
func TestEveryReflectionCountsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	s := siege{
		reflections: 500, over: 5 * time.Second, curators: 3, rounds: 1, kills: 2, serverKills: 1, freezes: 1, zombies: 1,
		settle: 40 * time.Second,
	}
	if os.Getenv(longEnv) != "" {
		s = siege{
			reflections: 31_000, over: 450 * time.Second, curators: 3, rounds: 20, kills: 160, serverKills: 15, freezes: 25,
			zombies: 25, settle: 4 * time.Minute,
		}
	} else {
		t.Parallel()
	}
	s.run(t, chooseSeed(t))
}

// besieged is one curator, and the wire that it is killed by. Who strikes at it locks it until it is up again.
type besieged struct {
	sync.Mutex
	*process
	tap *wiretap
}

// besiege starts so many curators, each on a wire of its own.
func besiege(t testing.TB, n int, url string, start func(t testing.TB, name, url string) *process) []*besieged {
	t.Helper()
	all := make([]*besieged, n)
	for i := range all {
		b := &besieged{tap: tap(t, url)}
		b.process = start(t, fmt.Sprint("curator", i+1), b.tap.url)
		b.tap.watch(b.process)
		all[i] = b
	}
	return all
}

// startCurator starts a curator without a model: lessons become bullets as they are.
func startCurator(t testing.TB, name, url string) *process {
	t.Helper()
	return startWorker(t, name, events.RoleCurator, "--nats", url, "--ack-wait", ackWait.String())
}

func (s siege) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	server, url := startServer(t)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), s.over+s.settle)
	defer cancel()
	curators := besiege(t, s.curators, url, startCurator)
	c := crew{server: server, roles: map[string][]*process{}}
	for _, b := range curators {
		c.roles[events.RoleCurator] = append(c.roles[events.RoleCurator], b.process)
	}
	books := []*truth{newTruth(t, ctx, conn, "raced"), newTruth(t, ctx, conn, "beside")}
	seen, watched := map[playbook.Book]map[uint64]sighting{}, []func(){}
	for _, h := range books {
		sightings, wait := follow(t, ctx, conn, h.book)
		seen[h.book], watched = sightings, append(watched, wait)
	}

	began := time.Now()
	tolls := newToll(conn)
	quiet := make(chan struct{})
	var all sync.WaitGroup
	publisher := rand.New(rand.NewPCG(rng.Uint64(), 0))
	all.Go(func() { s.publish(t, ctx, conn, publisher, books, tolls, quiet) })
	s.strike(t, ctx, rng, curators, c, tolls)
	tolls.waits.Wait()
	close(quiet)
	all.Wait()
	awaitSettled(t, ctx, conn)
	tolls.requeued = requeueDead(t, ctx, conn, 0)
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
	sum := summary{toll: tolls, took: time.Since(began)}
	for _, h := range books {
		ledgers[h.book].seen = seen[h.book]
		a := ledgers[h.book].check()
		h.check(a)
		sum.add(h, ledgers[h.book], a)
	}
	sum.report(t)
	s.demand(t, tolls)
}

// publish publishes in bursts, so that the curators have batches to race with: four of five events for the first book,
// and some of them once more a little later. It goes on until everything that was to strike has struck.
func (s siege) publish(t *testing.T, ctx context.Context, conn *bus.Conn, rng *rand.Rand, books []*truth, d *toll, quiet <-chan struct{}) {
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
		if d.large.Load() {
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

// strike does all that is to be done to the curators and the server, and returns when they are up again.
func (s siege) strike(t *testing.T, ctx context.Context, rng *rand.Rand, curators []*besieged, c crew, d *toll) {
	began := time.Now()
	var all sync.WaitGroup
	// each strikes n times, spread evenly, in a goroutine of its own. What strikes returns when all is up again.
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
	victim := func(own *rand.Rand) *besieged {
		b := curators[own.IntN(len(curators))]
		b.Lock()
		return b
	}
	each(s.rounds*len(crashPoints), func(own *rand.Rand, i int) {
		p := crashPoints[i%len(crashPoints)]
		b := victim(own)
		defer b.Unlock()
		d.large.Store(p.name == midChange.name)
		defer d.large.Store(false)
		if b.spring(t, ctx, p, 0) != nil {
			d.add(p.name)
			d.hit(t, ctx, &d.atPoint)
			b.raise(t, ctx, own)
		}
	})
	each(s.kills, func(own *rand.Rand, _ int) {
		b := victim(own)
		defer b.Unlock()
		if b.killLife(b.current()) {
			d.add(killedAtRandom)
			d.hit(t, ctx, &d.atAll)
		}
		b.raise(t, ctx, own)
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
			_ = b.signal(syscall.SIGCONT) // nobody else ends it while it is locked
			d.add(frozenAtRandom)
			d.hit(t, ctx, &d.freeze)
		}
	})
	each(s.zombies, func(own *rand.Rand, _ int) {
		b := victim(own)
		defer b.Unlock()
		if trap := b.spring(t, ctx, frozenAtDelta, 2*ackWait); trap != nil {
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

// spring sets a trap on a curator and waits until it has struck.
func (b *besieged) spring(t *testing.T, ctx context.Context, p crashPoint, freeze time.Duration) *trap {
	trap := b.tap.arm(p, freeze)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case <-trap.struck:
		return trap
	case <-ctx.Done():
		t.Errorf("%s: %s did not come by it", p.name, b.name)
		b.tap.disarm(trap)
		return nil
	}
}

// raise starts a killed curator again, after a little while.
func (b *besieged) raise(t *testing.T, ctx context.Context, rng *rand.Rand) {
	pause(ctx, time.Duration(rng.Int64N(int64(300*time.Millisecond))))
	if err := b.start(); err != nil {
		t.Error(err)
	}
}

// requeueDead publishes again what became a dead letter after the first so many, as an operator would, and returns how
// many there are now. Who holds a message is killed more often here than the failure policy allows for.
func requeueDead(t *testing.T, ctx context.Context, conn *bus.Conn, from int) int {
	t.Helper()
	letters, err := readAll(ctx, conn.JetStream(), events.StreamDead, events.DeadSubject("", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range letters[from:] {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			t.Fatal(err)
		}
		letter := e.(*events.DeadLetter)
		if err := publishAgain(ctx, conn, letter.Subject, letter.Header, letter.Data); err != nil {
			t.Fatal(err)
		}
	}
	return len(letters)
}

// demand wants every labelled point to have been struck as often as planned.
func (s siege) demand(t *testing.T, d *toll) {
	t.Helper()
	for _, p := range crashPoints {
		if got := d.struck[p.name]; got != s.rounds {
			t.Errorf("killed %s: %d times, want %d", p.name, got, s.rounds)
		}
	}
	for what, want := range map[string]int{
		killedAtRandom: s.kills, killedServer: s.serverKills, frozenAtRandom: s.freezes, frozenAtDelta.name: s.zombies,
	} {
		if got := d.struck[what]; got < want*9/10 { // one that found no server was down already
			t.Errorf("%s: %d times, want %d", what, got, want)
		}
	}
}
