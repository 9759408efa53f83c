package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"

	book "debrief/playbook"
)

// TestTheAccountKnowsDeadLetters: by the id of the run that was given up, also where its payload is not in the letter,
// and whichever command handed it in.
func TestTheAccountKnowsDeadLetters(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	in := runs{}
	for _, run := range []struct {
		task, answer string
		book         string
		is           known
	}{
		{"large", strings.Repeat("x", bus.MaxInline+1), "b", isMine},
		{"before", "a", "b", isMine | wasStored},
		{"of nobody here", "a", "b", wasStored},
		{"elsewhere", "a", "other", isMine},
	} {
		e := &events.Execution{TaskID: run.task, Answer: run.answer}
		e.Book = book.Book(run.book)
		e.ID = events.ExecutionID(e.Book, e.TaskID, 0)
		if _, err := conn.Publish(t.Context(), e, bus.Marks{}); err != nil {
			t.Fatal(err)
		}
		in[runIDOf(e.ID)] = run.is
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
	res := &learned{Executions: 2, DeadReasons: map[string]int{}}
	if err := new(learn).account(t.Context(), &session{Conn: conn}, "b", in, res); err != nil {
		t.Fatal(err)
	}
	if res.Dead != 2 || res.Reflected != 0 || res.Nothing != 0 || res.DeadReasons["no use"] != 2 {
		t.Errorf("got %+v, want two dead letters", res)
	}
}
