package simulated

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/generator"
	"debrief/reflector"
)

// TestMoreRoundsGiveFewerWrongAnswers runs without a curator, so that the playbook stays empty. Answers can only improve
// by the insights of earlier rounds.
func TestMoreRoundsGiveFewerWrongAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const samples = 40
	problem := map[int]int{}
	for _, rounds := range []int{1, 3} {
		last := lastExecutions(t, rounds, samples)
		for id, e := range last {
			if e.Outcome.Label != events.Success {
				problem[rounds]++
			}
			if len(e.PreviousRounds) >= rounds || e.Origin.Round != len(e.PreviousRounds) || e.Turn != 1 {
				t.Errorf("%s: round %d after %d tries in turn %d, of %d rounds", id, e.Origin.Round, len(e.PreviousRounds), e.Turn, rounds)
			}
		}
	}
	t.Logf("wrong final answers of %d: %d with one round, %d with three", samples, problem[1], problem[3])
	if problem[3] > problem[1]*3/4 {
		t.Errorf("got %d wrong final answers of %d with three rounds and %d with one, want clearly fewer", problem[3], samples, problem[1])
	}
}

// lastExecutions runs the samples with up to the given number of rounds and returns the last execution of each task.
func lastExecutions(t *testing.T, rounds, samples int) map[string]*events.Execution {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{})
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	m := newClient(Options{})
	working, dismiss := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- bustest.Must(generator.New(m, nil, generator.Config{})).Run(working, conn) }()
	go func() { ended <- bustest.Must(reflector.New(m, reflector.Config{Rounds: rounds})).Run(working, conn) }()
	defer func() {
		dismiss()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}()
	tasks, _ := Tasks(1)
	for i := range tasks[:samples] {
		task := tasks[i]
		task.Book = "b"
		if _, err := conn.Publish(ctx, &task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	idle := func() error { // both roles idle, and no message stored between the two checks
		before, err := conn.Streams(ctx)
		if err != nil {
			return err
		}
		for _, role := range []string{events.RoleGenerator, events.RoleReflector} {
			if lag, err := conn.Consumers.Lag(ctx, role); err != nil || !lag.Idle() {
				return fmt.Errorf("%s: %+v, %v", role, lag, err)
			}
		}
		after, err := conn.Streams(ctx)
		if err == nil && !reflect.DeepEqual(before, after) {
			err = errors.New("a message was stored during the check")
		}
		return err
	}
	for err := idle(); err != nil; err = idle() {
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	last := map[string]*events.Execution{}
	err := conn.Events.Scan(ctx, events.StreamExecutions, events.KindExecution.Subject("b"), 1, func(s bus.Stored) error {
		e := s.Event.(*events.Execution)
		if old := last[e.RunID]; old == nil || e.Origin.Round > old.Origin.Round {
			last[e.RunID] = e
		}
		return nil
	})
	if err != nil || len(last) != samples {
		t.Fatalf("got %d of %d tasks answered, %v", len(last), samples, err)
	}
	return last
}
