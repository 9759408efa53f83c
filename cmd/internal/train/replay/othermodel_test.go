package replay

import (
	"context"
	"errors"
	"testing"
	"time"

	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/reflector"
)

// startRoles starts the roles with a model of a name. Stop waits until they have stopped.
func startRoles(t *testing.T, conn *bus.Conn, m chat.Model, name string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- program.Run(ctx, conn, bustest.Must(generator.New(m, nil, generator.Config{Slots: 4, ModelName: name})), bustest.Must(reflector.New(m, reflector.Config{Slots: 4})), bustest.Must(curator.New(m, curator.Config{})))
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// eventually waits until a condition holds, for at most 20 seconds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not reached in 20 s: %s", what)
		}
	}
}

// TestInterruptedRunLeavesOneLetter interrupts a run whose tasks wait, and starts a generator with another model. The tasks of the run
// share one dead letter. The run continues with its own model and asks nothing twice. The letter stays: a
// person drops it, and a requeue counts nothing twice.
func TestInterruptedRunLeavesOneLetter(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, HoldInterval: 20 * time.Millisecond})
	mine, others := open(t, 1, nil).model, open(t, 1, nil).model
	s := sets(16, 4)
	s.Validation, s.Test = nil, nil
	c, o := Config{Batch: 16}, Options{Name: "r", Model: "mine"}
	waiting := func() int {
		ids, err := conn.Events.PendingTasks(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		return len(ids)
	}
	letters := func() (all []*bus.Letter) {
		err := conn.DeadLetters.List(t.Context(), bus.LetterFilter{}, func(l *bus.Letter) error {
			all = append(all, l)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}

	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := Run(ctx, conn, c, s, o); ended <- err }()
	eventually(t, "all tasks wait", func() bool { return waiting() == len(s.Train.Tasks) })
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want an interrupted run", err)
	}

	stop := startRoles(t, conn, others, "other")
	eventually(t, "no task waits", func() bool { return waiting() == 0 })
	stop()
	all := letters()
	if len(all) != 1 || all[0].Code != events.DeadOtherModel || all[0].Shared != "r" || others.calls.Load() > 0 {
		t.Fatalf("got %d letters and %d calls of the other model, want 1 shared letter and no call: %+v", len(all), others.calls.Load(), all)
	}

	defer startRoles(t, conn, mine, "mine")()
	out, err := Run(t.Context(), conn, c, s, o)
	if err != nil {
		t.Fatal(err)
	}
	if out.Report.Epochs[0].Train.N != len(s.Train.Tasks) || len(out.Report.Losses) > 0 {
		t.Errorf("got %d answers and the losses %v", out.Report.Epochs[0].Train.N, out.Report.Losses)
	}
	if got := out.Report.Cost.Generator.Calls; got != len(s.Train.Tasks) {
		t.Errorf("the generator made %d calls for %d tasks", got, len(s.Train.Tasks))
	}
	if n := len(letters()); n != 1 {
		t.Errorf("got %d letters after the run, want the shared one", n)
	}
}

// TestGeneratorWithOtherModelEndsRun also covers a shared letter from before the run: the run ends again.
func TestGeneratorWithOtherModelEndsRun(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
	m := open(t, 1, nil).model
	defer startRoles(t, conn, m, "other")()
	s := sets(16, 4)
	s.Validation, s.Test = nil, nil
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := Run(ctx, conn, Config{Batch: 16}, s, Options{Name: "r", Model: "mine"}); !errors.As(err, new(*OtherModelError)) {
			t.Errorf("got %v, want an error about the model", err)
		}
		cancel()
	}
	if n := m.calls.Load(); n > 0 {
		t.Errorf("the other model got %d calls", n)
	}
}
