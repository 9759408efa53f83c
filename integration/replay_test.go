package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
)

// offlineRun is a run of the demo's tasks on a directory of its own.
type offlineRun struct {
	testing.TB
	dir  string
	args []string
}

// demoRun is some epochs in batches, in the process of the command.
func demoRun(t testing.TB, tasks string, more ...string) *offlineRun {
	t.Helper()
	dir := t.TempDir()
	args := []string{
		"replay", filepath.Join(tasks, "train.jsonl"), "--validation", filepath.Join(tasks, "held-out.jsonl"), "--test", filepath.Join(tasks, "held-out.jsonl"),
		"--name", "trained", "--batch", "40", "--order", "seeded", "--validate-every", "0", "--out", filepath.Join(dir, "out"),
	}
	return &offlineRun{t, dir, append(args, more...)}
}

// demoTasks writes the demo's tasks.
func demoTasks(t testing.TB, train int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tasks")
	if out, err := exec.Command(program(t, "debrief"), "demo", "--tasks", dir, "--train", fmt.Sprint(train), "--held-out", fmt.Sprint(train)).CombinedOutput(); err != nil {
		t.Fatalf("write the tasks: %v\n%s", err, out)
	}
	return dir
}

// go1 runs until the end, or until it is killed after a while; it reports whether it came to the end.
func (r *offlineRun) go1(kill time.Duration) bool {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	if kill > 0 {
		ctx, cancel = context.WithTimeout(r.Context(), kill)
	}
	defer cancel()
	cmd := exec.CommandContext(ctx, program(r, "debrief"), r.args...) // the context's end is a SIGKILL
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil && ctx.Err() == nil {
		r.Fatalf("%v\n%s", err, tail(out.String(), 2000))
	}
	return err == nil
}

// runReport is what of report.json is looked at by itself.
type runReport struct {
	After       struct{ Accuracy float64 }
	Best, Final struct {
		StateHash string `json:"state_hash"`
	}
	Run struct {
		Book    string
		Resumed int
	}
	Cost struct{ Generator, Reflector struct{ Calls int } }
}

// result is the report, and the report without what may differ.
func (r *offlineRun) result() (full *runReport, same string) {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "out", "report.json"))
	if err != nil {
		r.Fatal(err)
	}
	full = new(runReport)
	rest := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(data, full), json.Unmarshal(data, &rest)); err != nil {
		r.Fatal(err)
	}
	for _, differs := range []string{"run", "timing", "cost"} {
		delete(rest, differs)
	}
	text, err := json.MarshalIndent(rest, "", " ")
	if err != nil {
		r.Fatal(err)
	}
	return full, string(text)
}

// TestAKilledRunComesOutTheSame: the whole process, server and workers included, is killed at random moments, and goes on.
// The report is that of an undisturbed run, to the byte, and so is what the playbook says. In its long form those are 20
// kills of 5 epochs of the demo's tasks.
func TestAKilledRunComesOutTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(chooseSeed(t), 2))
	train, epochs, kills, least, latency := 80, "2", 5, 0.2, "0s"
	if os.Getenv("DEBRIEF_LONG") != "" {
		train, epochs, kills, least, latency = 200, "5", 20, 0.9, "50ms" // so long that so many kills find it at work
	}
	tasks := demoTasks(t, train)
	begun := time.Now()
	calm := demoRun(t, tasks, "--epochs", epochs, "--simulated", "--latency", latency, "--data", filepath.Join(t.TempDir(), "calm"))
	calm.go1(0)
	took := time.Since(begun)
	want, wantSame := calm.result()
	if want.After.Accuracy < least {
		t.Fatalf("an undisturbed run comes to %+v", want.After)
	}

	r := demoRun(t, tasks, "--epochs", epochs, "--simulated", "--latency", latency, "--data", filepath.Join(t.TempDir(), "killed"))
	killed := 0
	alive := func() time.Duration { // at least until it is at work
		return max(250*time.Millisecond, took/40+time.Duration(rng.Int64N(int64(took)/30)))
	}
	f := &fault{name: "SIGKILL of a whole replay, server and roles in it", promise: "the report of an undisturbed run, to the byte"}
	for killed < kills && !r.go1(alive()) { // else it came to the end sooner
		killed++
		f.hit()
	}
	r.go1(0)
	got, same := r.result()
	if diff := cmp.Diff(wantSame, same); diff != "" {
		t.Errorf("after %d kills the report differs:\n%s", killed, diff)
	}
	f.report(t)
	if got.Best.StateHash != want.Best.StateHash || got.Final.StateHash != want.Final.StateHash {
		t.Errorf("state hashes: best %s, final %s, undisturbed %s, %s", got.Best.StateHash, got.Final.StateHash, want.Best.StateHash, want.Final.StateHash)
	}
	calls := func(r *runReport) int { return r.Cost.Generator.Calls + r.Cost.Reflector.Calls }
	t.Logf("undisturbed %.1f s; %d kills, resumed %d times; calls that were stored: %d, undisturbed %d", took.Seconds(), killed, got.Run.Resumed, calls(got), calls(want))
	if more := calls(got) - calls(want); more > killed*2*16 { // what was in flight at a kill: the slots of both roles
		t.Errorf("%d answers were paid for twice, more than were in flight at %d kills", more, killed)
	}
}

// TestARunOutlivesItsWorkers: runner and workers are processes of their own, and each is killed.
func TestARunOutlivesItsWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(chooseSeed(t), 3))
	tasks := demoTasks(t, 60)
	_, url := startServer(t)
	model := startModel(t, 5*time.Millisecond)
	var workers []*process
	for i, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator, events.RoleGenerator, events.RoleReflector} {
		workers = append(workers, startWorker(t, fmt.Sprint(role, i/3+1), role,
			"--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--ack-wait", "1s"))
	}
	calm := demoRun(t, tasks, "--nats", url)
	calm.go1(0)
	want, wantSame := calm.result()

	r := demoRun(t, tasks, "--nats", url)
	for i, arg := range r.args {
		if arg == "trained" {
			r.args[i] = "disturbed"
		}
	}
	f := &fault{name: "SIGKILL of workers and of the runner of a replay", promise: "the report of an undisturbed run, to the byte"}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(200+rng.IntN(400)) * time.Millisecond):
			}
			w := workers[rng.IntN(len(workers))]
			w.kill()
			f.hit()
			if err := w.start(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	killed := 0
	for killed < 5 && !r.go1(time.Duration(300+100*killed)*time.Millisecond) {
		killed++
		f.hit()
	}
	r.go1(0)
	close(stop)
	<-over
	got, same := r.result()
	if diff := cmp.Diff(wantSame, same); diff != "" {
		t.Errorf("the report differs:\n%s", diff)
	}
	f.report(t)
	if got.Final.StateHash != want.Final.StateHash || !strings.HasPrefix(got.Run.Book, "disturbed") {
		t.Errorf("book %s: state %s, want %s", got.Run.Book, got.Final.StateHash, want.Final.StateHash)
	}
	t.Logf("%d kills of the runner, resumed %d times", killed, got.Run.Resumed)
}
