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

// offlineRun is a replay of the demo's tasks in a separate directory.
type offlineRun struct {
	testing.TB
	dir  string
	args []string
}

// demoRun returns a replay with epochs and batches in one process.
func demoRun(t testing.TB, tasks string, more ...string) *offlineRun {
	t.Helper()
	dir := t.TempDir()
	args := []string{
		"train", filepath.Join(tasks, "train.jsonl"), "--validation", filepath.Join(tasks, "held-out.jsonl"), "--test", filepath.Join(tasks, "held-out.jsonl"),
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

// runOnce runs the replay, and kills it after a time. It reports whether the replay finished.
func (r *offlineRun) runOnce(kill time.Duration) bool {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	if kill > 0 {
		ctx, cancel = context.WithTimeout(r.Context(), kill)
	}
	defer cancel()
	cmd := exec.CommandContext(ctx, program(r, "debrief"), r.args...) // the end of the context sends SIGKILL
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil && ctx.Err() == nil {
		r.Fatalf("%v\n%s", err, tail(out.String(), 2000))
	}
	return err == nil
}

// runReport holds the fields of report.json that are compared separately.
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

// result returns the report, and the report without the parts that may differ.
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

// TestKilledReplayHasSameResult kills and resumes a replay, including its server and workers, at random. Report and playbook
// must equal those of an undisturbed replay byte for byte. The long form has 20 kills and 5 epochs of the demo's tasks.
func TestKilledReplayHasSameResult(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(chooseSeed(t), 2))
	train, epochs, kills, least, latency := 80, "2", 5, 0.2, "0s"
	if os.Getenv("DEBRIEF_LONG") != "" {
		train, epochs, kills, least, latency = 200, "5", 20, 0.9, "50ms" // slow enough for all kills
	}
	tasks := demoTasks(t, train)
	begun := time.Now()
	calm := demoRun(t, tasks, "--epochs", epochs, "--simulated", "--latency", latency, "--data", filepath.Join(t.TempDir(), "calm"))
	calm.runOnce(0)
	took := time.Since(begun)
	want, wantSame := calm.result()
	if want.After.Accuracy < least {
		t.Fatalf("undisturbed run: got %+v", want.After)
	}

	r := demoRun(t, tasks, "--epochs", epochs, "--simulated", "--latency", latency, "--data", filepath.Join(t.TempDir(), "killed"))
	killed := 0
	alive := func() time.Duration { // at least until it works
		return max(250*time.Millisecond, took/40+time.Duration(rng.Int64N(int64(took)/30)))
	}
	f := &fault{name: "SIGKILL of a whole training run, with server and roles", promise: "the same report as an undisturbed run, byte for byte"}
	for killed < kills && !r.runOnce(alive()) { // it may finish before the last kill
		killed++
		f.hit()
	}
	r.runOnce(0)
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
	if more := calls(got) - calls(want); more > killed*2*16 { // the calls in flight at a kill: the slots of both roles
		t.Errorf("%d calls were repeated, more than were in flight at %d kills", more, killed)
	}
}

// TestReplayOutlivesWorkers kills the runner and the workers of a replay, which are separate processes.
func TestReplayOutlivesWorkers(t *testing.T) {
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
	calm.runOnce(0)
	want, wantSame := calm.result()

	r := demoRun(t, tasks, "--nats", url)
	for i, arg := range r.args {
		if arg == "trained" {
			r.args[i] = "disturbed"
		}
	}
	f := &fault{name: "SIGKILL of the workers and the command of a training run", promise: "the same report as an undisturbed run, byte for byte"}
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
	for killed < 5 && !r.runOnce(time.Duration(300+100*killed)*time.Millisecond) {
		killed++
		f.hit()
	}
	r.runOnce(0)
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
