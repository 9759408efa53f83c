package bus

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

// bury stores a letter about an event as a role's worker would, and returns it as it is stored.
func bury(t *testing.T, c *Conn, role string, seq uint64, e events.Event, change func(*events.DeadLetter)) *Letter {
	t.Helper()
	subject, header, data, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	l := &events.DeadLetter{Role: role, Code: events.DeadError, Reason: "poison", Stream: source(role), Seq: seq, Subject: subject, Header: header, Data: data, Time: time.Now().UTC()}
	if change != nil {
		change(l)
	}
	if err := c.Bury(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	var last *Letter
	if err := c.Letters(t.Context(), LetterFilter{}, func(l *Letter) error { last = l; return nil }); err != nil {
		t.Fatal(err)
	}
	return last
}

func anExecution(answer string) *events.Execution {
	x := &events.Execution{TaskID: "t1", Question: "What is it?", Answer: answer}
	x.Book = "desk"
	x.ID = events.ExecutionID(x.Book, x.TaskID, 0)
	return x
}

// TestRequeueGivesBackWhatWasGivenUp: the bytes come back as they were, under the event's id, marked, and stored though
// the server remembers that id; the letter is gone then.
func TestRequeueGivesBackWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"in the message": "red", "in a blob": strings.Repeat("red ", MaxInline/4+10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fresh(t, quick)
			first, msg, err := c.publish(t.Context(), anExecution(answer), Marks{Trace: events.NewTrace()})
			if err != nil {
				t.Fatal(err)
			}
			l := bury(t, c, events.RoleReflector, first.Seq, anExecution("red"), func(l *events.DeadLetter) {
				l.Header, l.Data = msg.Header, msg.Data
				l.Header["Nats-Expected-Last-Sequence"] = []string{"99"} // what a server looks at is not repeated
			})
			r, err := c.Requeue(t.Context(), l)
			if err != nil || r.Duplicate || r.Seq == first.Seq {
				t.Fatalf("got %+v (%v), want it stored anew", r, err)
			}
			s, err := c.js.Stream(t.Context(), events.StreamExecutions)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.GetMsg(t.Context(), r.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if id := EventID(got.Header); id != anExecution("").ID || !bytes.Equal(got.Data, msg.Data) || got.Header.Get(events.HeaderRepeat) == "" || got.Header.Get(events.HeaderTrace) == "" {
				t.Errorf("got %s, %v and %d bytes, want %s, marked, and %d bytes", id, got.Header, len(got.Data), anExecution("").ID, len(msg.Data))
			}
			if _, err := c.Letter(t.Context(), l.Handle()); !errors.Is(err, ErrGone) {
				t.Errorf("the letter: got %v, want it gone", err)
			}
		})
	}
}

// TestRequeueRefuses what nobody could handle, and what a worker could have written to have an operator publish it.
func TestRequeueRefuses(t *testing.T) {
	t.Parallel()
	c := fresh(t, quick)
	tests := []struct {
		name, role string
		change     func(*events.DeadLetter)
		want       string
	}{
		{"what is cut short", events.RoleReflector, func(l *events.DeadLetter) { l.Data = l.Data[:20] }, "decode execution"},
		{"what has expired", events.RoleReflector, func(l *events.DeadLetter) {
			l.Header[events.HeaderBlob], l.Data = []string{strings.Repeat("ab", 32)}, nil
		}, "payload expired"},
		{"a delta", events.RoleCurator, func(l *events.DeadLetter) { l.Subject = events.KindDelta.Subject("desk") }, "delta"},
		{"an execution for the curator", events.RoleCurator, nil, "is given does not come as ace.execution.desk"},
		{"what came from another stream", events.RoleReflector, func(l *events.DeadLetter) { l.Stream = events.StreamDeltas }, `does not come as ace.execution.desk from stream "DELTAS"`},
	}
	for i, test := range tests {
		l := bury(t, c, test.role, uint64(i+1), anExecution("red"), test.change)
		if _, err := c.Requeue(t.Context(), l); err == nil || Away(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
		if _, err := c.Letter(t.Context(), l.Handle()); err != nil {
			t.Errorf("%s: the letter: got %v, want it there", test.name, err)
		}
	}
	if s, err := c.Streams(t.Context()); err != nil || s[1].Messages != 0 {
		t.Errorf("got %+v (%v), want nothing published", s, err)
	}
}

// TestLetters are listed by role, book and time; what is none of ours is listed too, and dropped like the others.
func TestLetters(t *testing.T) {
	t.Parallel()
	c := fresh(t, quick)
	bury(t, c, events.RoleReflector, 1, anExecution("red"), nil)
	other := anExecution("blue")
	other.Book = "shelf"
	second := bury(t, c, events.RoleReflector, 2, other, nil)
	if _, err := c.js.PublishMsg(t.Context(), &nats.Msg{Subject: "ace.dead.curator.error.desk.x", Data: []byte{0xdd, 0xff, 0xff, 0xff, 0xff}}, jetstream.WithMsgID("x")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		f    LetterFilter
		want int
	}{
		{"all", LetterFilter{}, 3},
		{"a role's", LetterFilter{Role: events.RoleReflector}, 2},
		{"a book's", LetterFilter{Book: "desk"}, 2},
		{"a role's of a book", LetterFilter{Role: events.RoleReflector, Book: "shelf"}, 1},
		{"those since the second", LetterFilter{Since: second.Stored}, 2},
		{"none", LetterFilter{Role: events.RoleGenerator}, 0},
	} {
		n := 0
		if err := c.Letters(t.Context(), test.f, func(*Letter) error { n++; return nil }); err != nil || n != test.want {
			t.Errorf("%s: got %d (%v), want %d", test.name, n, err, test.want)
		}
	}
	var all []*Letter
	if err := c.Letters(t.Context(), LetterFilter{}, func(l *Letter) error { all = append(all, l); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := all[2]; got.Role != events.RoleCurator || !strings.Contains(got.Reason, "no dead letter that can be read") {
		t.Errorf("got %+v, want it to say that it cannot be read", got.DeadLetter)
	}
	for range 2 { // a second time is no error
		for _, l := range all {
			if err := c.Drop(t.Context(), l); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Letters(t.Context(), LetterFilter{}, func(*Letter) error { return errors.New("is still there") }); err != nil {
		t.Error(err)
	}
}
