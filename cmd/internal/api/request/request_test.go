package request

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/playbook"
)

// replyWith answers each event of a kind with a header and a payload.
func replyWith(t *testing.T, conn *bus.Conn, kind events.Kind, header nats.Header, payload any) {
	t.Helper()
	data, err := events.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := conn.NATS().Subscribe(kind.Subject("b"), func(m *nats.Msg) {
		to, err := events.ReplySubject(m.Header)
		if err != nil {
			t.Error(err)
			return
		}
		err = conn.NATS().PublishMsg(&nats.Msg{Subject: to, Header: header, Data: data})
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) { // a repeated request may arrive while the test ends
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}

func edit() *events.Edit {
	e := &events.Edit{Book: "b", ID: events.NewID(), Author: "ann", Rebuild: true, Created: time.Now()}
	return e
}

func TestEdit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		header  nats.Header
		reply   events.EditReply
		version uint64
		refused []events.Refusal
		dead    string
	}{
		{name: "applied", reply: events.EditReply{Version: 7}, version: 7},
		{
			name: "refused", reply: events.EditReply{Version: 7, Refused: []events.Refusal{{Code: playbook.ReasonChanged, Text: "it changed"}}},
			version: 7, refused: []events.Refusal{{Code: playbook.ReasonChanged, Text: "it changed"}},
		},
		{name: "dead-lettered", header: nats.Header{events.HeaderError: {"no worker finished it"}}, dead: "no worker finished it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, _ := bustest.Open(t, bus.Policy{})
			replyWith(t, conn, events.KindEdit, test.header, &test.reply)
			e := edit()
			d, err := Edit(t.Context(), conn, e, bus.PublishOptions{})
			var version uint64
			if d != nil {
				version = d.Version
			}
			var refused *events.RefusedError
			if errors.As(err, &refused) != (len(test.refused) > 0) || refused != nil && refused.Refused[0] != test.refused[0] {
				t.Errorf("got error %v, want the refusals %v", err, test.refused)
			}
			var dead *bus.DeadLetterError
			if errors.As(err, &dead) != (test.dead != "") || dead != nil && (dead.Reason != test.dead || dead.ID != e.ID || dead.Kind != events.KindEdit) {
				t.Errorf("got error %v, want the dead letter %q", err, test.dead)
			}
			if version != test.version {
				t.Errorf("got version %d, want %d", version, test.version)
			}
		})
	}
}

func TestTask(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	replyWith(t, conn, events.KindTask, nats.Header{events.HeaderHandle: {"3-0123abcd"}}, &events.Execution{ID: "e", Answer: "42"})
	task := &events.Task{Book: "b", ID: "t", Question: "?", Created: time.Now()}
	e, reply, err := Task(t.Context(), conn, task, bus.PublishOptions{})
	if err != nil || e.Answer != "42" || e.Book != "b" || reply.Handle != "3-0123abcd" {
		t.Fatalf("got %+v, %+v, %v", e, reply, err)
	}
	if _, _, err := Task(t.Context(), conn, task, bus.PublishOptions{}); !errors.Is(err, bus.ErrDuplicate) {
		t.Errorf("second submission: got error %v, want ErrDuplicate", err)
	}
}
