package train

import (
	"context"
	"errors"
	"strings"
	"testing"

	"debrief/cmd/internal/cli"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"

	book "debrief/playbook"
)

// TestCountResultsFindsDeadLetters checks that dead letters are matched by the id of the run. The payload may be stored
// outside the letter, and an earlier command may have submitted the run.
func TestCountResultsFindsDeadLetters(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	in := runStates{}
	for _, run := range []struct {
		task, answer string
		book         string
		state        runState
	}{
		{"large", strings.Repeat("x", bus.MaxInline+1), "b", runInFiles},
		{"before", "a", "b", runInFiles | runStored},
		{"not in the files", "a", "b", runStored},
		{"elsewhere", "a", "other", runInFiles},
	} {
		e := &events.Execution{TaskID: run.task, Answer: run.answer}
		e.Book = book.Book(run.book)
		e.ID = events.ExecutionID(e.Book, e.TaskID, 0)
		if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		in[runIDOf(e.ID)] = run.state
	}
	work, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	left := 4
	go func() {
		worked <- conn.Run(work, bus.Worker{Role: events.RoleReflector, Slots: 1, Handle: func(context.Context, []*bus.Delivery) []bus.Result {
			return []bus.Result{{Err: bus.Discard(errors.New("no use"))}}
		}})
	}()
	err := conn.Read(t.Context(), events.StreamDead, events.DeadSubject("", ""), func(bus.Stored) error {
		if left--; left == 0 {
			return bus.ErrStop
		}
		return nil
	})
	stop()
	if err := errors.Join(err, <-worked); err != nil {
		t.Fatal(err)
	}
	res := &learnResult{Executions: 2, DeadReasons: map[string]int{}}
	if err := new(Learn).countResults(t.Context(), &cli.Session{Conn: conn}, "b", in, res); err != nil {
		t.Fatal(err)
	}
	if res.Dead != 2 || res.Reflected != 0 || res.Nothing != 0 || res.DeadReasons["no use"] != 2 {
		t.Errorf("got %+v, want two dead letters", res)
	}
}
