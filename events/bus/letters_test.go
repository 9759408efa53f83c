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
	"debrief/events/streams"
)

// storeLetter stores a letter of an event like a worker of the role, and returns the stored letter.
func storeLetter(t *testing.T, c *Conn, role string, seq uint64, e events.Event, change func(*events.DeadLetter)) *Letter {
	t.Helper()
	subject, header, data, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	l := &events.DeadLetter{Role: role, Code: events.DeadError, Reason: "poison", Stream: streams.Input(role), Seq: seq, Subject: subject, Header: header, Data: data, Time: time.Now().UTC()}
	if change != nil {
		change(l)
	}
	if err := c.DeadLetters.Store(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	var last *Letter
	if err := c.DeadLetters.List(t.Context(), LetterFilter{}, func(l *Letter) error { last = l; return nil }); err != nil {
		t.Fatal(err)
	}
	return last
}

func deskExecution(answer string) *events.Execution {
	x := &events.Execution{Book: "desk", RunID: "t1", Question: "What is it?", Answer: answer}
	x.ID = events.ExecutionID(x.Book, "", x.RunID, 0)
	return x
}

// TestRequeuePublishesOriginalEvent: the message has the original bytes and id, is marked, and is stored although the
// server remembers the id. Then the letter is deleted.
func TestRequeuePublishesOriginalEvent(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"in the message": "red", "in a blob": strings.Repeat("red ", MaxInline/4+10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connectNew(t, fastPolicy)
			first, msg, err := c.publisher.publish(t.Context(), deskExecution(answer), PublishOptions{Trace: events.NewTrace()})
			if err != nil {
				t.Fatal(err)
			}
			l := storeLetter(t, c, events.RoleReflector, first.Seq, deskExecution("red"), func(l *events.DeadLetter) {
				l.Header, l.Data = msg.Header, msg.Data
				l.Header["Nats-Expected-Last-Sequence"] = []string{"99"} // server headers are not copied
			})
			r, err := c.DeadLetters.Requeue(t.Context(), l)
			if err != nil || r.Duplicate || r.Seq == first.Seq {
				t.Fatalf("got %+v (%v), want it stored again", r, err)
			}
			s, err := c.js.Stream(t.Context(), events.StreamExecutions)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.GetMsg(t.Context(), r.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if id := EventID(got.Header); id != deskExecution("").ID || !bytes.Equal(got.Data, msg.Data) || got.Header.Get(events.HeaderRepeat) == "" || got.Header.Get(events.HeaderTrace) == "" {
				t.Errorf("got %s, %v and %d bytes, want %s, marked, and %d bytes", id, got.Header, len(got.Data), deskExecution("").ID, len(msg.Data))
			}
			if _, err := c.DeadLetters.Get(t.Context(), l.Handle()); !errors.Is(err, ErrNotFound) {
				t.Errorf("the letter: got %v, want it gone", err)
			}
		})
	}
}

// TestRequeueRejectsInvalidLetters covers events that no role can handle, and letters that a malicious worker could
// write.
func TestRequeueRejectsInvalidLetters(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	tests := []struct {
		name, role string
		change     func(*events.DeadLetter)
		names      string
	}{
		{"truncated data", events.RoleReflector, func(l *events.DeadLetter) { l.Data = l.Data[:20] }, "execution"},
		{"expired payload", events.RoleReflector, func(l *events.DeadLetter) {
			l.Header[events.HeaderBlob], l.Data = []string{strings.Repeat("ab", 32)}, nil
		}, strings.Repeat("ab", 32)},
		{"a delta", events.RoleCurator, func(l *events.DeadLetter) { l.Subject = events.KindDelta.Subject("desk") }, "delta"},
		{"an execution for the curator", events.RoleCurator, nil, "curator"},
		{"from another stream", events.RoleReflector, func(l *events.DeadLetter) { l.Stream = events.StreamDeltas }, events.StreamDeltas},
	}
	for i, test := range tests {
		l := storeLetter(t, c, test.role, uint64(i+1), deskExecution("red"), test.change)
		if _, err := c.DeadLetters.Requeue(t.Context(), l); !isDiscard(err) || IsUnavailable(err) || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: got %v, want a permanent error that names %s", test.name, err, test.names)
		}
		if _, err := c.DeadLetters.Get(t.Context(), l.Handle()); err != nil {
			t.Errorf("%s: the letter: got %v, want it there", test.name, err)
		}
	}
	if s, err := c.Streams(t.Context()); err != nil || s[1].Messages != 0 {
		t.Errorf("got %+v (%v), want nothing published", s, err)
	}
}

// TestLetters lists by role, book and time. It also lists and drops messages that are not letters.
func TestLetters(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	storeLetter(t, c, events.RoleReflector, 1, deskExecution("red"), nil)
	other := deskExecution("blue")
	other.Book = "shelf"
	second := storeLetter(t, c, events.RoleReflector, 2, other, nil)
	if _, err := c.js.PublishMsg(t.Context(), &nats.Msg{Subject: "debrief.dead.curator.error.desk.x", Data: []byte{0xdd, 0xff, 0xff, 0xff, 0xff}}, jetstream.WithMsgID("x")); err != nil {
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
		if err := c.DeadLetters.List(t.Context(), test.f, func(*Letter) error { n++; return nil }); err != nil || n != test.want {
			t.Errorf("%s: got %d (%v), want %d", test.name, n, err, test.want)
		}
	}
	var all []*Letter
	if err := c.DeadLetters.List(t.Context(), LetterFilter{}, func(l *Letter) error { all = append(all, l); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := all[2]; got.Role != events.RoleCurator || got.Stream != events.StreamDead || got.Seq != got.LetterSeq || got.Reason == "" {
		t.Errorf("got %+v, want the unreadable letter itself as the original", got.DeadLetter)
	}
	for range 2 { // the second returns no error
		for _, l := range all {
			if err := c.DeadLetters.Drop(t.Context(), l); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.DeadLetters.List(t.Context(), LetterFilter{}, func(*Letter) error { return errors.New("is still there") }); err != nil {
		t.Error(err)
	}
}
