package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// Settings of the longer form: DEBRIEF_LONG=1 go test ./integration -run TestProcessesDie -v -timeout 20m. A run is
// repeated, as far as timing can be, with the DEBRIEF_SEED that it printed.
const longEnv, seedEnv = "DEBRIEF_LONG", "DEBRIEF_SEED"

// storm is how much goes wrong while so many tasks are handed in.
type storm struct {
	tasks      int
	over       time.Duration // of handing in
	kills      int           // of each role
	serverKill int
	settle     time.Duration // longest wait for the rest
}

// TestProcessesDie: with real processes that are killed at random moments and started again, every task is answered
// once, every reflection counts once, and the view is what the log folds to.
func TestProcessesDie(t *testing.T) {
	s := storm{tasks: 500, over: 5 * time.Second, kills: 1, settle: time.Minute}
	if os.Getenv(longEnv) != "" {
		s = storm{tasks: 6000, over: 100 * time.Second, kills: 25, serverKill: 6, settle: 5 * time.Minute}
	} else {
		t.Parallel()
	}
	s.run(t, chooseSeed(t))
}

// chooseSeed is the seed of this run, and of the one before it when the environment says so.
func chooseSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedEnv); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
		seed = n
	}
	t.Logf("%s=%d", seedEnv, seed)
	return seed
}

// crew is the processes that a storm kills.
type crew struct {
	server *process
	roles  map[string][]*process
}

func (s storm) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	server, url := startServer(t)
	model := startModel(t, 20*time.Millisecond)
	c := crew{server: server, roles: map[string][]*process{}}
	for role, n := range map[string]int{events.RoleGenerator: 2, events.RoleReflector: 3, events.RoleCurator: 2} {
		for i := range n {
			// Work of the dead goes to the living after the ack wait.
			c.roles[role] = append(c.roles[role], startWorker(t, fmt.Sprint(role, i+1), role,
				"--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--ack-wait", "2s"))
		}
	}
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), s.over+s.settle)
	defer cancel()
	seen, watched := follow(t, ctx, conn, desk)

	tasks := invoices(rng, s.tasks)
	var all sync.WaitGroup
	all.Go(func() { s.handIn(t, ctx, conn, tasks) })
	rows := s.strike(t, ctx, rng, conn, c)
	all.Wait()
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, desk)
	l, err := readLedger(ctx, conn.JetStream(), desk)
	if err != nil {
		t.Fatal(err)
	}
	c.dismiss(t)
	watched()
	l.seen = seen
	for _, task := range tasks {
		l.tasks = append(l.tasks, task.ID)
	}
	a := l.check()
	for _, p := range a.problems {
		t.Error(p)
	}
	for _, letter := range a.letters {
		t.Log("dead letter: ", letter)
	}
	if len(a.letters) > 0 && s.kills == 1 {
		t.Errorf("%d dead letters, want none where a message cannot have met five kills", len(a.letters))
	}
	t.Logf("%d tasks: %d executions stored, %d distinct; %d reflections stored, %d distinct; %d deltas, %d bullets; %d versions seen by the follower; %d dead letters",
		len(tasks), len(l.executions), len(a.answered), len(l.reflections), len(a.reflected), len(l.deltas), a.fold.Len(), len(seen), len(a.letters))
	a.checkLearned(t)
	for _, f := range rows {
		f.lost = a.lost()
		f.report(t)
	}
}

// handIn hands in the tasks at an even pace. What the server did not confirm is handed in again under its id.
func (s storm) handIn(t *testing.T, ctx context.Context, conn *bus.Conn, tasks []*events.Task) {
	pace := time.NewTicker(s.over / time.Duration(len(tasks)))
	defer pace.Stop()
	for _, task := range tasks {
		if err := submit(ctx, conn, task); err != nil {
			t.Error(err)
			return
		}
		<-pace.C
	}
}

// submit hands in a task until the server confirms it.
func submit(ctx context.Context, conn *bus.Conn, task *events.Task) error {
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := conn.Publish(try, task, bus.Marks{})
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("hand in %s: %w", task.ID, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// strike kills processes at random moments and starts them again. Each is only killed when it is up, so that every kill
// hits something.
func (s storm) strike(t *testing.T, ctx context.Context, rng *rand.Rand, conn *bus.Conn, c crew) (rows []*fault) {
	var all sync.WaitGroup
	began := time.Now()
	victims := func(n int, role, name string, pick func(*rand.Rand) *process) {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		f := &fault{name: "SIGKILL of " + name + " at random", promise: countsOnce}
		rows = append(rows, f)
		all.Go(func() {
			span := s.over * 9 / 10 / time.Duration(n)
			for i := range n {
				at := s.over/20 + span*time.Duration(i) + time.Duration(own.Int64N(int64(span*8/10)))
				pause(ctx, time.Until(began.Add(at)))
				p := pick(own)
				before, err := lastStored(ctx, conn, output[role])
				for err != nil && ctx.Err() == nil { // the server may be down
					before, err = lastStored(ctx, conn, output[role])
				}
				p.kill()
				f.hit()
				fell := time.Now()
				down := time.Duration(own.Int64N(int64(500 * time.Millisecond)))
				t.Logf("%5.1f s: killed %s, back in %s", time.Since(began).Seconds(), p.name, down.Round(time.Millisecond))
				pause(ctx, down)
				if err := p.start(); err != nil {
					t.Error(err)
				}
				awaitPast(t, ctx, conn, role, before, f.name)
				f.recovered(time.Since(fell))
			}
		})
	}
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		victims(s.kills, role, "a "+role, func(own *rand.Rand) *process { return c.roles[role][own.IntN(len(c.roles[role]))] })
	}
	if s.serverKill > 0 {
		victims(s.serverKill, events.RoleGenerator, "the server", func(*rand.Rand) *process { return c.server })
	}
	done := make(chan struct{})
	over := make(chan struct{})
	go func() { defer close(over); c.keep(t, done) }()
	all.Wait()
	close(done)
	<-over
	c.revive(t) // who came up while the server was down
	return rows
}

// keep starts again, as a supervisor does, a worker that ended by itself because it found no server.
func (c crew) keep(t *testing.T, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Second):
			c.revive(t)
		}
	}
}

func (c crew) revive(t *testing.T) {
	for _, role := range c.roles {
		for _, p := range role {
			p.mu.Lock()
			cmd, ended := p.cmd, p.ended
			p.mu.Unlock()
			select {
			case <-ended:
			default:
				continue
			}
			switch code := cmd.ProcessState.ExitCode(); code {
			case -1: // killed: who did it starts it
			case 4:
				t.Logf("%s found no server and is started again", p.name)
				if err := p.start(); err != nil {
					t.Error(err)
				}
			default:
				t.Errorf("%s ended by itself with exit code %d", p.name, code)
			}
		}
	}
}

// dismiss stops everyone and wants each to end well.
func (c crew) dismiss(t *testing.T) {
	var all sync.WaitGroup
	for _, role := range c.roles {
		for _, p := range role {
			all.Go(func() {
				if code, err := p.stop(); err != nil || code != 0 {
					t.Errorf("stop %s: exit code %d, %v", p.name, code, err)
				}
			})
		}
	}
	all.Wait()
}

// follow records every version of the book that a follower shows. Call wait to stop.
func follow(t *testing.T, ctx context.Context, conn *bus.Conn, book playbook.Book) (seen map[uint64]sighting, wait func()) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	f, followed, err := natskv.New(conn.JetStream()).Follow(ctx, book)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	seen = map[uint64]sighting{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			var at uint64
			f.Read(func(p *playbook.Playbook, chain []byte) {
				at = p.Version()
				if _, ok := seen[at]; !ok {
					seen[at] = sighting{p.StateHash(), string(chain)}
				}
			})
			if f.Wait(ctx, at+1) != nil {
				return
			}
		}
	}()
	return seen, func() { stop(); <-done; followed() }
}

// awaitSettled waits until no role has anything left to do.
func awaitSettled(t *testing.T, ctx context.Context, conn *bus.Conn) {
	t.Helper()
	for last := ""; ; {
		err := settled(ctx, conn)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("did not settle: %s", last)
		}
		last = err.Error()
		pause(ctx, 50*time.Millisecond)
	}
}

func settled(ctx context.Context, conn *bus.Conn) error {
	var waiting []string
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		lag, err := conn.Lag(ctx, role)
		if err != nil {
			return err
		}
		if !lag.Idle() {
			waiting = append(waiting, fmt.Sprintf("%s: %d wait, %d are in work", role, lag.Pending, lag.InFlight))
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("%s", strings.Join(waiting, "; "))
	}
	return nil
}

// awaitView waits until the view is at the end of the log: a curator that died before its flush leaves that to the
// sweep of another.
func awaitView(t *testing.T, ctx context.Context, conn *bus.Conn, book playbook.Book) {
	t.Helper()
	store := natskv.New(conn.JetStream())
	eventually(t, 30*time.Second, "view at the end of the log", func() error {
		w, err := store.Writer(ctx, book)
		if err == nil && w.Lag() > 0 {
			err = fmt.Errorf("%d versions behind", w.Lag())
		}
		return err
	})
}

// checkLearned: what the desk taught is in the book, whoever died on the way.
func (a *audit) checkLearned(t *testing.T) {
	t.Helper()
	var text strings.Builder
	for b := range a.fold.All() {
		fmt.Fprintln(&text, b.Content)
	}
	for region, tax := range taxes {
		if want := fmt.Sprintf("For region %s the region tax is %d %%", region, tax); !strings.Contains(text.String(), want) {
			t.Errorf("the playbook lacks %q:\n%s", want, text.String())
		}
	}
}
