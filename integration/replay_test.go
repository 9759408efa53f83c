package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/cmd/internal/report"
	"debrief/events"
)

// offlineRun is a run of the demo's tasks on a directory of its own.
type offlineRun struct {
	testing.TB
	dir  string
	args []string
}

// demoRun is 5 epochs in batches, as the README has it, in the process of the command.
func demoRun(t testing.TB, tasks string, more ...string) *offlineRun {
	t.Helper()
	dir := t.TempDir()
	args := []string{
		"replay", filepath.Join(tasks, "train.jsonl"), "--validation", filepath.Join(tasks, "held-out.jsonl"), "--test", filepath.Join(tasks, "held-out.jsonl"),
		"--name", "trained", "--epochs", "5", "--batch", "40", "--order", "seeded", "--out", filepath.Join(dir, "out"),
	}
	return &offlineRun{t, dir, append(args, more...)}
}

// demoTasks writes the demo's tasks.
func demoTasks(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tasks")
	if out, err := exec.Command(program(t, "debrief"), "demo", "--tasks", dir).CombinedOutput(); err != nil {
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

// result is the report without what may differ.
func (r *offlineRun) result() (full *report.Report, same string) {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "out", report.ReportFile))
	if err != nil {
		r.Fatal(err)
	}
	full = new(report.Report)
	if err := json.Unmarshal(data, full); err != nil {
		r.Fatal(err)
	}
	text, err := report.Comparable(data)
	if err != nil {
		r.Fatal(err)
	}
	return full, string(text)
}

// TestAKilledRunComesOutTheSame: the whole process, server and workers included, is killed 20 times at random moments,
// and goes on. The report is that of an undisturbed run, to the byte, and so is what the playbook says.
func TestAKilledRunComesOutTheSame(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(chooseSeed(t), 2))
	tasks := demoTasks(t)
	begun := time.Now()
	calm := demoRun(t, tasks, "--simulated", "--data", filepath.Join(t.TempDir(), "calm"))
	calm.go1(0)
	took := time.Since(begun)
	want, wantSame := calm.result()
	if want.After.Accuracy < 0.9 {
		t.Fatalf("an undisturbed run comes to %+v", want.After)
	}

	r := demoRun(t, tasks, "--simulated", "--data", filepath.Join(t.TempDir(), "killed"))
	kills := 20
	if testing.Short() {
		kills = 5
	}
	killed := 0
	for killed < kills {
		if r.go1(took/20 + time.Duration(rng.Int64N(int64(took)/4))) {
			break // it came to the end sooner
		}
		killed++
	}
	r.go1(0)
	got, same := r.result()
	if diff := cmp.Diff(wantSame, same); diff != "" {
		t.Errorf("after %d kills the report differs:\n%s", killed, diff)
	}
	if got.Best.StateHash != want.Best.StateHash || got.Final.StateHash != want.Final.StateHash {
		t.Errorf("state hashes: best %s, final %s, undisturbed %s, %s", got.Best.StateHash, got.Final.StateHash, want.Best.StateHash, want.Final.StateHash)
	}
	calls := func(r *report.Report) int { return r.Cost.Generator.Calls + r.Cost.Reflector.Calls }
	t.Logf("undisturbed %.1f s; %d kills, resumed %d times; calls that were stored: %d, undisturbed %d", took.Seconds(), killed, got.Run.Resumed, calls(got), calls(want))
	if more := calls(got) - calls(want); more > killed*2*16 { // what was in flight at a kill: the slots of both roles
		t.Errorf("%d answers were paid for twice, more than were in flight at %d kills", more, killed)
	}
}

// TestARunOutlivesItsWorkers: runner and workers are processes of their own, and each is killed.
func TestARunOutlivesItsWorkers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(chooseSeed(t), 3))
	tasks := demoTasks(t)
	_, url := startServer(t)
	model := startModel(t, 5*time.Millisecond)
	var workers []*process
	for i, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator, events.RoleGenerator, events.RoleReflector} {
		workers = append(workers, startWorker(t, fmt.Sprint(role, i/3+1), role,
			"--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--ack-wait", "1s"))
	}
	calm := demoRun(t, tasks, "--epochs", "2", "--nats", url)
	calm.go1(0)
	want, wantSame := calm.result()

	r := demoRun(t, tasks, "--epochs", "2", "--nats", url)
	for i, arg := range r.args {
		if arg == "trained" {
			r.args[i] = "disturbed"
		}
	}
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
			if err := w.start(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	killed := 0
	for killed < 5 && !r.go1(time.Duration(300+100*killed)*time.Millisecond) {
		killed++
	}
	r.go1(0)
	close(stop)
	<-over
	got, same := r.result()
	if diff := cmp.Diff(wantSame, same); diff != "" {
		t.Errorf("the report differs:\n%s", diff)
	}
	if got.Final.StateHash != want.Final.StateHash || !strings.HasPrefix(got.Run.Book, "disturbed") {
		t.Errorf("book %s: state %s, want %s", got.Run.Book, got.Final.StateHash, want.Final.StateHash)
	}
	t.Logf("%d kills of the runner, resumed %d times", killed, got.Run.Resumed)
}
