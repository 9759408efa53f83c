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
	"debrief/events/deltalog"
	"debrief/playbook"
)

// Settings of the long form: DEBRIEF_LONG=1 go test ./integration -run TestKilledProcesses -v -timeout 20m. DEBRIEF_SEED
// repeats a run with the seed that it printed, except for timing.
const longEnv, seedEnv = "DEBRIEF_LONG", "DEBRIEF_SEED"

// killLoad is the number of tasks and of kills while they are submitted.
type killLoad struct {
	tasks      int
	over       time.Duration // time of submitting
	kills      int           // of each role
	serverKill int
	settle     time.Duration // timeout for the remaining work
}

// TestKilledProcesses kills and restarts real processes at random. Each task must be answered once, each reflection must
// count once, and the view must equal the folded log.
func TestKilledProcesses(t *testing.T) {
	s := killLoad{tasks: 500, over: 5 * time.Second, kills: 1, settle: time.Minute}
	if os.Getenv(longEnv) != "" {
		s = killLoad{tasks: 6000, over: 100 * time.Second, kills: 25, serverKill: 6, settle: 5 * time.Minute}
	} else {
		t.Parallel()
	}
	s.run(t, chooseSeed(t))
}

// chooseSeed returns the seed from the environment, or a random one.
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

// processes are the processes that a test kills.
type processes struct {
	server *process
	roles  map[string][]*process
}

func (s killLoad) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	server, url := startServer(t)
	model := startModel(t, 20*time.Millisecond)
	c := processes{server: server, roles: map[string][]*process{}}
	for role, n := range map[string]int{events.RoleGenerator: 2, events.RoleReflector: 3, events.RoleCurator: 2} {
		for i := range n {
			// After the ack wait the server redelivers the messages of killed workers.
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
	all.Go(func() { s.submitAll(t, ctx, conn, tasks) })
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
		t.Errorf("%d dead letters, want none with fewer than five kills", len(a.letters))
	}
	t.Logf("%d tasks: %d executions stored, %d distinct; %d reflections stored, %d distinct; %d deltas, %d bullets; %d versions seen by the follower; %d dead letters",
		len(tasks), len(l.executions), len(a.answered), len(l.reflections), len(a.reflected), len(l.deltas), a.fold.Len(), len(seen), len(a.letters))
	a.checkLearned(t)
	for _, f := range rows {
		f.lost = a.lost()
		f.report(t)
	}
}

// submitAll submits the tasks at an even pace. It submits a task again, with the same id, until the server confirms it.
func (s killLoad) submitAll(t *testing.T, ctx context.Context, conn *bus.Conn, tasks []*events.Task) {
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

// submit submits a task until the server confirms it.
func submit(ctx context.Context, conn *bus.Conn, task *events.Task) error {
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := conn.Publish(try, task, bus.PublishOptions{})
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("submit %s: %w", task.ID, err)
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

// strike kills processes at random and restarts them. It kills only running processes.
func (s killLoad) strike(t *testing.T, ctx context.Context, rng *rand.Rand, conn *bus.Conn, c processes) (rows []*fault) {
	var all sync.WaitGroup
	began := time.Now()
	victims := func(n int, role, name string, pick func(*rand.Rand) *process) {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		f := &fault{name: "SIGKILL of " + name + " at random", promise: oneEffectOrLetter}
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
	c.revive(t) // workers that exited while the server was down
	return rows
}

// keep restarts workers that exited because the server was unavailable, as a supervisor does.
func (c processes) keep(t *testing.T, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Second):
			c.revive(t)
		}
	}
}

func (c processes) revive(t *testing.T) {
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
			case -1: // killed by the test, which restarts it
			case 4:
				t.Logf("%s exited without a server and is restarted", p.name)
				if err := p.start(); err != nil {
					t.Error(err)
				}
			default:
				t.Errorf("%s ended by itself with exit code %d", p.name, code)
			}
		}
	}
}

// dismiss stops all processes and checks their exit codes.
func (c processes) dismiss(t *testing.T) {
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

// follow records every version that a follower of the book has. wait stops it.
func follow(t *testing.T, ctx context.Context, conn *bus.Conn, book playbook.Book) (seen map[uint64]sighting, wait func()) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	f, followed, err := deltalog.New(conn.JetStream()).Follow(ctx, book)
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

// awaitSettled waits until all roles are idle.
func awaitSettled(t *testing.T, ctx context.Context, conn *bus.Conn) {
	t.Helper()
	for last := ""; ; {
		err := settled(ctx, conn)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("roles are not idle: %s", last)
		}
		last = err.Error()
		pause(ctx, 50*time.Millisecond)
	}
}

func settled(ctx context.Context, conn *bus.Conn) error {
	var waiting []string
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		lag, err := conn.Consumers.Lag(ctx, role)
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

// awaitView waits until the view is at the end of the log. If a curator dies before its flush, the sweep of another one
// updates the view.
func awaitView(t *testing.T, ctx context.Context, conn *bus.Conn, book playbook.Book) {
	t.Helper()
	store := deltalog.New(conn.JetStream())
	eventually(t, 30*time.Second, "view at the end of the log", func() error {
		w, err := store.Writer(ctx, book)
		if err == nil && w.ViewLag() > 0 {
			err = fmt.Errorf("%d versions behind", w.ViewLag())
		}
		return err
	})
}

// checkLearned checks that the playbook contains all rules of the tasks.
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
