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
	"debrief/events/chat"
)

// The retry budget of a program's model client in events/chat/openai. It starts with ten retries. Each first attempt adds a
// fifth of a retry, and each second a tenth. Concurrent calls can all take the last retry.
const (
	retryShare   = 0.2
	retriesFull  = 10
	retryTrickle = 0.1 // a second
	atATime      = 16
)

// maxRetries returns the maximum number of retries of all programs for a number of first attempts and a time.
func maxRetries(programs, firsts int, d time.Duration) int {
	return int(retryShare*float64(firsts)) + programs*(retriesFull+atATime+int(retryTrickle*d.Seconds())+1)
}

// maxLocalRetries returns the maximum number of retries of a held message in a time: after 1, 2, 3 … 10, 10 … seconds.
func maxLocalRetries(d time.Duration) (n int) {
	for at := time.Duration(0); at < d; n++ {
		at += time.Duration(min(n+1, 10)) * time.Second
	}
	return n
}

// TestModelFails injects all modelFaults: busy, out of quota, errors, no response, no listener, and invalid answers of any
// size. No message may be lost, dead-lettered or use delivery attempts on the first fault. Workers must keep their memory
// and request limits. In the long form each fault lasts for a while; else they are mixed:
// DEBRIEF_LONG=1 go test ./integration -run TestModelFails -v -timeout 20m
func TestModelFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(chooseSeed(t), 0))
	_, url := startServer(t)
	model := newFaultyModel(t, startModel(t, 10*time.Millisecond))
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
		mixed := slices.Clone(modelFaults)
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		model.befall(t, ctx, conn, f, 3*time.Second, mixed...)
		rows = append(rows, f)
	} else {
		for _, m := range modelFaults {
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
		// With one fault after the other, a message can meet a second fault while others are answered. The worker then
		// attributes the fault to the message, which uses a delivery attempt.
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
	// A task needs a call of the generator, one of the reflector and at most one of the curator.
	most := 3*len(tasks) + (atATime+atATime+8)*maxLocalRetries(took)
	t.Logf("%d tasks in %s: %d requests, %d of them retries; allowed are %d first attempts and %d retries",
		len(tasks), took.Round(time.Second), asked, retried, most, maxRetries(3, firsts, took))
	if firsts > most || retried > maxRetries(3, firsts, took) {
		t.Errorf("%d first attempts and %d retries are more than allowed", firsts, retried)
	}
	for _, p := range workers {
		peak, err := peakBytes(p.pid())
		if err != nil {
			continue // not available on this system
		}
		t.Logf("%s: peak memory %.1f MB", p.name, float64(peak)/1e6)
		if peak > maxResident {
			t.Errorf("%s: peak memory: got %d bytes, want at most %d", p.name, peak, maxResident)
		}
	}
	for _, f := range rows {
		f.lost = a.lost()
		f.report(t)
	}
}

// maxResident limits the memory of a worker during faults, in bytes.
const maxResident = 200 << 20

// befall injects faults for a while, and then waits until each role has stored a message.
func (m *faultyModel) befall(t *testing.T, ctx context.Context, conn *bus.Conn, f *fault, d time.Duration, modelFaults ...modelFault) {
	t.Helper()
	_, _, before := m.counts()
	m.setFault(t, modelFaults...)
	pause(ctx, d)
	m.setFault(t)
	over := time.Now()
	_, _, after := m.counts()
	for range max(after-before, 1) { // refused connections are not counted
		f.hit()
	}
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		awaitMore(t, ctx, conn, role, f.name)
	}
	f.recovered(time.Since(over))
	t.Logf("%s: %d requests had faults; all roles stored again after %s", f.name, after-before, time.Since(over).Round(time.Millisecond))
}

// breakAfter is the number of failures that opens the circuit breaker of a model's client.
const breakAfter = 10

// TestMemoryWithHugeAnswers sends answers of 100 MB in parallel until the worker's circuit breaker opens.
func TestMemoryWithHugeAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, url := startServer(t)
	model := newFaultyModel(t, startModel(t, 0))
	health := freeAddress(t)
	worker := startWorkerAt(t, health, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model.url)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := &fault{name: "model: answers of 100 MB, many at a time", promise: "at most 200 MB resident"}
	model.setFault(t, hugeAnswers)
	for _, task := range invoices(rand.New(rand.NewPCG(1, 0)), atATime) {
		if err := submit(ctx, conn, task); err != nil {
			t.Fatal(err)
		}
	}
	awaitState(t, health, "unavailable") // the circuit breaker is open
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
	if peak > maxResident {
		t.Errorf("%d bytes were resident, want at most %d", peak, maxResident)
	}
	f.report(t)
}

// awaitState waits until a program's health check reports the given state of its role.
func awaitState(t *testing.T, health, state string) {
	t.Helper()
	eventually(t, 30*time.Second, "a role that is "+state, func() error {
		status, body, err := get(t.Context(), "http://"+health+"/readyz")
		if err == nil && (status != http.StatusServiceUnavailable || !strings.Contains(body, `"`+state+`"`)) {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
}

// useless is a well-formed answer without usable content.
var useless = modelFault{name: "useless answers", answer: func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id": "1", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "I would rather not say."}}]}`)
}}

// TestUselessAnswersPauseRole gives a reflector a model with unusable answers. The role must pause, report that, and write
// no dead letters. With a working model it must reflect on all executions.
func TestUselessAnswersPauseRole(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, url := startServer(t)
	sane := startModel(t, 0)
	model := newFaultyModel(t, sane)
	startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", sane)
	startWorker(t, "curator", events.RoleCurator, "--nats", url)
	health := freeAddress(t)
	reflector := startWorkerAt(t, health, "reflector", events.RoleReflector, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model.url)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	model.setFault(t, useless)
	f := &fault{name: "model: useless answers", promise: "the role pauses; applied once, no dead letter"}
	tasks := invoices(rand.New(rand.NewPCG(1, 0)), 120)
	for _, task := range tasks {
		if err := submit(ctx, conn, task); err != nil {
			t.Fatal(err)
		}
	}
	awaitState(t, health, "paused")
	// The role pauses after ten messages, while all 16 slots are in use.
	const most = chat.MaxCalls * (10 + 2*16)
	if asked, _, _ := model.counts(); asked > most {
		t.Errorf("%d requests before the role paused, want at most %d", asked, most)
	}
	_, _, struck := model.counts()
	for range struck {
		f.hit()
	}
	model.setFault(t)
	began := time.Now()
	if os.Getenv(longEnv) == "" { // else the next probe resumes the role
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

// TestNoExecutionIsLostWhenModelFails has a model that gives 20 valid replies and then only prose, under a low load. The
// reflector must become red without dead letters, and reflect on all executions after the model is fixed.
func TestNoExecutionIsLostWhenModelFails(t *testing.T) {
	t.Parallel()
	pace, broken := 200*time.Millisecond, 10*time.Second
	if os.Getenv(longEnv) != "" {
		pace, broken = 2*time.Second, 75*time.Second
	}
	_, url := startServer(t)
	sane := startModel(t, 0)
	model := newFaultyModel(t, sane)
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
	model.setFault(t, useless)
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
		t.Errorf("%d of %d requests went to a broken model, want at most %d", struck, asked, most)
	}
	model.setFault(t)
	// A restarted worker resumes at once, without waiting for a probe. Held messages used no delivery attempts.
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

// roleIsRed reports whether a program's health check is red.
func roleIsRed(t *testing.T, health string) bool {
	t.Helper()
	status, _, err := get(t.Context(), "http://"+health+"/healthz")
	if err != nil {
		t.Fatal(err)
	}
	return status == http.StatusServiceUnavailable
}
