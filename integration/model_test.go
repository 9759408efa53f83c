package integration

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// The retry budget of a program's model client, as cmd/internal/llm has it: each call that is sent earns a fifth of a
// retry, ten are there to begin with and a tenth comes back every second; as many calls as run at a time may see the
// last one and all take it.
const (
	retryShare   = 0.2
	retriesFull  = 10
	retryTrickle = 0.1 // a second
	atATime      = 16
)

// mostRetries is how many retries so many programs may send after so many first attempts in that time.
func mostRetries(programs, firsts int, d time.Duration) int {
	return int(retryShare*float64(firsts)) + programs*(retriesFull+atATime+int(retryTrickle*d.Seconds())+1)
}

// mostHeld is how often what is held is tried again in that time: after 1, 2, 3 … 10, 10 … seconds.
func mostHeld(d time.Duration) (n int) {
	for at := time.Duration(0); at < d; n++ {
		at += time.Duration(min(n+1, 10)) * time.Second
	}
	return n
}

// TestTheModelFails: the server of the model is busy, out of quota, broken, mute, gone, or answers nonsense of any size.
// Nothing is lost, no message is given up on or spends deliveries on a first fault, no worker outgrows its machine, and the
// server is not asked more for being in trouble. In its long form each of these lasts for a while alone, else they come mixed:
// DEBRIEF_LONG=1 go test ./integration -run TestTheModelFails -v -timeout 20m
func TestTheModelFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(chooseSeed(t), 0))
	_, url := startServer(t)
	model := standBefore(t, startModel(t, 10*time.Millisecond))
	var workers []*process
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		workers = append(workers, startWorker(t, role, role, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model.url, "--timeout", "1s"))
	}
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	tasks, quiet, handedIn := invoices(rng, 10_000), make(chan struct{}), make(chan int)
	began := time.Now()
	go func() { handedIn <- outage{pace: 50 * time.Millisecond}.load(t, ctx, conn, tasks, quiet) }()

	awaitMore(t, ctx, conn, events.RoleCurator, "nothing yet")
	var rows []*fault
	const promise = "each task applied once, no dead letter, retries within their budget"
	if os.Getenv(longEnv) == "" {
		f := &fault{name: "model: all of its faults, in turns", promise: promise}
		mixed := slices.Clone(moods)
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		model.befall(t, ctx, conn, f, 3*time.Second, mixed...)
		rows = append(rows, f)
	} else {
		for _, m := range moods {
			f := &fault{name: "model: " + m.name, promise: promise}
			model.befall(t, ctx, conn, f, 5*time.Second, m)
			rows = append(rows, f)
		}
	}
	close(quiet)
	tasks = tasks[:<-handedIn]
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, desk)
	took := time.Since(began)

	l, err := readLedger(ctx, conn.JetStream(), desk)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		l.tasks = append(l.tasks, task.ID)
	}
	a := l.check()
	for _, p := range append(a.problems, a.letters...) {
		t.Error(p)
	}
	a.checkLearned(t)
	for stream, role := range map[string]string{events.StreamTasks: events.RoleGenerator, events.StreamExecutions: events.RoleReflector, events.StreamReflections: events.RoleCurator} {
		cons, err := conn.JetStream().Consumer(ctx, stream, role)
		if err != nil {
			t.Fatal(err)
		}
		// Where one fault follows the other, a message may meet a second one while others are answered: that is taken for
		// its own fault, and spends a delivery.
		at, again := cons.CachedInfo().Delivered, uint64(0)
		if os.Getenv(longEnv) != "" {
			again = at.Stream / 50
		}
		t.Logf("%s: %d deliveries of %d messages", role, at.Consumer, at.Stream)
		if at.Consumer > at.Stream+again {
			t.Errorf("%s: %d deliveries of %d messages, want at most %d more", role, at.Consumer, at.Stream, again)
		}
	}
	asked, retried, _ := model.counts()
	firsts := asked - retried
	// A task is a call of the generator, one of the reflector and at most one of the curator.
	most := 3*len(tasks) + (atATime+atATime+8)*mostHeld(took)
	t.Logf("%d tasks in %s: %d requests, %d of them retries; allowed are %d first attempts and %d retries",
		len(tasks), took.Round(time.Second), asked, retried, most, mostRetries(3, firsts, took))
	if firsts > most || retried > mostRetries(3, firsts, took) {
		t.Errorf("%d first attempts and %d retries are more than allowed", firsts, retried)
	}
	for _, p := range workers {
		peak, err := peakBytes(p.pid())
		if err != nil {
			continue // not on this system
		}
		t.Logf("%s: at most %.1f MB were resident", p.name, float64(peak)/1e6)
		if peak > mostResident {
			t.Errorf("%s: %d bytes were resident, want at most %d", p.name, peak, mostResident)
		}
	}
	for _, f := range rows {
		f.lost = a.lost()
		f.report(t)
	}
}

// mostResident bounds a worker in trouble, in bytes.
const mostResident = 200 << 20

// befall lets a model's server fail for a while, and waits until each role has stored something again.
func (m *badModel) befall(t *testing.T, ctx context.Context, conn *bus.Conn, f *fault, d time.Duration, moods ...mood) {
	t.Helper()
	_, _, before := m.counts()
	m.turnTo(t, moods...)
	pause(ctx, d)
	m.turnTo(t)
	over := time.Now()
	_, _, after := m.counts()
	for range max(after-before, 1) { // nobody counts connections that are refused
		f.hit()
	}
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		awaitMore(t, ctx, conn, role, f.name)
	}
	f.recovered(time.Since(over))
	t.Logf("%s: %d requests were met; all roles at work after %s", f.name, after-before, time.Since(over).Round(time.Millisecond))
}

// breakAfter is how many failures a model's client takes before it asks no more for a while.
const breakAfter = 10

// TestHugeAnswersFillNoMemory: as many answers of 100 MB at a time as a worker takes before it asks no more.
func TestHugeAnswersFillNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, url := startServer(t)
	model := standBefore(t, startModel(t, 0))
	health := freeAddress(t)
	worker := startWorkerAt(t, health, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model.url)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := &fault{name: "model: answers of 100 MB, many at a time", promise: "at most 200 MB resident"}
	model.turnTo(t, hugeAnswers)
	for _, task := range invoices(rand.New(rand.NewPCG(1, 0)), atATime) {
		if err := submit(ctx, conn, task); err != nil {
			t.Fatal(err)
		}
	}
	awaitState(t, health, "unavailable") // has had enough of them
	_, _, struck := model.counts()
	for range struck {
		f.hit()
	}
	if struck < breakAfter {
		t.Errorf("%d requests, want %d", struck, breakAfter)
	}
	peak, err := peakBytes(worker.pid())
	if err != nil {
		t.Skip(err)
	}
	t.Logf("at most %.1f MB were resident", float64(peak)/1e6)
	if peak > mostResident {
		t.Errorf("%d bytes were resident, want at most %d", peak, mostResident)
	}
	f.report(t)
}

// awaitState returns when a program's health check says that its role is in a state that is no good one.
func awaitState(t *testing.T, health, state string) {
	t.Helper()
	eventually(t, 30*time.Second, "a role that is "+state, func() error {
		r, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if body, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"`+state+`"`) {
			return fmt.Errorf("%s %s", r.Status, body)
		}
		return nil
	})
}

// useless is an answer that is well-formed and no use.
var useless = mood{name: "useless answers", answer: func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id": "1", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "I would rather not say."}}]}`)
}}

// TestUselessAnswersPauseTheRole: a reflector whose model answers nothing of use stops asking, says so, and gives nothing
// up; with a better model, everything is learned.
func TestUselessAnswersPauseTheRole(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, url := startServer(t)
	sane := startModel(t, 0)
	model := standBefore(t, sane)
	startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", sane)
	startWorker(t, "curator", events.RoleCurator, "--nats", url)
	health := freeAddress(t)
	reflector := startWorkerAt(t, health, "reflector", events.RoleReflector, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model.url)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	model.turnTo(t, useless)
	f := &fault{name: "model: useless answers", promise: "the role pauses; applied once, no dead letter"}
	tasks := invoices(rand.New(rand.NewPCG(1, 0)), 120)
	for _, task := range tasks {
		if err := submit(ctx, conn, task); err != nil {
			t.Fatal(err)
		}
	}
	awaitState(t, health, "paused")
	// A message is asked about twice. Twenty decide, and as many as there are slots are in work meanwhile.
	if asked, _, _ := model.counts(); asked > 2*(20+2*16) {
		t.Errorf("%d requests before the role paused, want at most %d", asked, 2*(20+2*16))
	}
	_, _, struck := model.counts()
	for range struck {
		f.hit()
	}
	model.turnTo(t)
	began := time.Now()
	if os.Getenv(longEnv) == "" { // else it finds out by itself, with its next probe
		if code, err := reflector.stop(); err != nil || code != 0 {
			t.Errorf("stop: exit code %d, %v", code, err)
		}
		if err := reflector.start(); err != nil {
			t.Fatal(err)
		}
	}
	awaitMore(t, ctx, conn, events.RoleReflector, f.name)
	f.recovered(time.Since(began))
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, desk)
	l, err := readLedger(ctx, conn.JetStream(), desk)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		l.tasks = append(l.tasks, task.ID)
	}
	a := l.check()
	for _, p := range append(a.problems, a.letters...) {
		t.Error(p)
	}
	f.lost = a.lost()
	f.report(t)
}

// TestAModelThatBreaksAfterHealthyTrafficCostsNoExecution: 20 replies are good, then all are prose, while tasks trickle in.
// The reflector goes red and gives nothing up; once the model is repaired, everything is learned.
func TestAModelThatBreaksAfterHealthyTrafficCostsNoExecution(t *testing.T) {
	t.Parallel()
	pace, broken := 200*time.Millisecond, 10*time.Second
	if os.Getenv(longEnv) != "" {
		pace, broken = 2*time.Second, 75*time.Second
	}
	_, url := startServer(t)
	sane := startModel(t, 0)
	model := standBefore(t, sane)
	startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", sane)
	startWorker(t, "curator", events.RoleCurator, "--nats", url)
	health := freeAddress(t)
	reflector := startWorkerAt(t, health, "reflector", events.RoleReflector, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model.url)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tasks := invoices(rand.New(rand.NewPCG(1, 0)), 20+int(broken/pace))
	for _, task := range tasks[:20] {
		if err := submit(ctx, conn, task); err != nil {
			t.Fatal(err)
		}
	}
	awaitSettled(t, ctx, conn)
	model.turnTo(t, useless)
	began := time.Now()
	red := time.Duration(0)
	for _, task := range tasks[20:] {
		if err := submit(ctx, conn, task); err != nil {
			t.Fatal(err)
		}
		pause(ctx, pace)
		if red == 0 && roleIsRed(t, health) {
			red = time.Since(began)
		}
	}
	awaitState(t, health, "paused")
	if n, err := lastStored(ctx, conn, events.StreamDead); n != 0 || err != nil {
		t.Errorf("%d dead letters while no output was useful (%v)", n, err)
	}
	asked, _, struck := model.counts()
	t.Logf("%d executions while the model was broken for %s: %d requests, red after %s", len(tasks)-20, time.Since(began).Round(time.Second), struck, red.Round(time.Second))
	if os.Getenv(longEnv) != "" && (red == 0 || red > time.Minute) {
		t.Errorf("red after %s, want within a minute", red)
	}
	if most := 2 * (20 + 2*16); struck > most {
		t.Errorf("%d of %d requests met a broken model, want at most %d", struck, asked, most)
	}
	model.turnTo(t)
	// A new life finds out at once, and not with the next probe. What was held cost no attempt.
	reflector.kill()
	if err := reflector.start(); err != nil {
		t.Fatal(err)
	}
	awaitSettled(t, ctx, conn)
	awaitView(t, ctx, conn, desk)
	l, err := readLedger(ctx, conn.JetStream(), desk)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		l.tasks = append(l.tasks, task.ID)
	}
	a := l.check()
	for _, p := range append(a.problems, a.letters...) {
		t.Error(p)
	}
}

// roleIsRed reports whether a program's health check says that learning is red.
func roleIsRed(t *testing.T, health string) bool {
	t.Helper()
	r, err := http.Get("http://" + health + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	return r.StatusCode == http.StatusServiceUnavailable
}
