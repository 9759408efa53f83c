package direct_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"debrief/events/bus/bustest"
	"debrief/events/direct"
	"debrief/events/natserr"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// connect returns a connection to a new server.
func connect(t testing.TB) *nats.Conn {
	t.Helper()
	return bustest.Server(t)()
}

// stream creates the stream S with the subjects s.>.
func stream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func publish(t rapid.TB, js jetstream.JetStream, m *nats.Msg) {
	t.Helper()
	if _, err := js.PublishMsg(context.Background(), m); err != nil {
		t.Fatal(err)
	}
}

func read(t rapid.TB, nc *nats.Conn, q direct.Query) (all []direct.Message) {
	t.Helper()
	err := direct.Read(context.Background(), nc, "S", q, func(m direct.Message) error {
		all = append(all, m)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// brief formats messages without their headers.
func brief(all []direct.Message) (lines []string) {
	for _, m := range all {
		lines = append(lines, fmt.Sprintf("%d %s %s", m.Seq, m.Subject, m.Data))
	}
	return lines
}

// TestReadReturnsMatchingMessages compares random queries with a list of the messages.
func TestReadReturnsMatchingMessages(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js := stream(t, nc)
	var stored []direct.Message
	rapid.Check(t, func(t *rapid.T) {
		subject := rapid.SampledFrom([]string{"s.a", "s.b", "s.c", "s.c.d"})
		for range rapid.IntRange(0, 5).Draw(t, "more") {
			m := direct.Message{Subject: subject.Draw(t, "subject"), Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data")}
			publish(t, js, &nats.Msg{Subject: m.Subject, Data: m.Data})
			m.Seq = uint64(len(stored) + 1)
			stored = append(stored, m)
		}
		from := rapid.Uint64Range(0, uint64(len(stored)+2)).Draw(t, "from")
		var want []direct.Message
		q := direct.Query{From: from}
		if rapid.Bool().Draw(t, "last") {
			q.Last = rapid.SliceOfNDistinct(subject, 1, 4, rapid.ID[string]).Draw(t, "subjects")
			last := map[string]direct.Message{}
			for _, m := range stored {
				last[m.Subject] = m
			}
			for _, m := range stored {
				if slices.Contains(q.Last, m.Subject) && last[m.Subject].Seq == m.Seq && m.Seq >= from {
					want = append(want, m)
				}
			}
		} else {
			q.Subject = rapid.SampledFrom([]string{"s.a", "s.*", "s.c.>", "s.>", "s.nobody"}).Draw(t, "pattern")
			for _, m := range stored {
				tokens := strings.Count(m.Subject, ".")
				switch {
				case m.Seq < from:
				case m.Subject == q.Subject, q.Subject == "s.>", q.Subject == "s.*" && tokens == 1, q.Subject == "s.c.>" && tokens == 2:
					want = append(want, m)
				}
			}
		}
		if diff := cmp.Diff(brief(want), brief(read(t, nc, q))); diff != "" {
			t.Fatalf("%+v:\n%s", q, diff)
		}
		one := subject.Draw(t, "one")
		m, err := direct.NewReader(nc, nil).Last(context.Background(), "S", one)
		if err != nil {
			t.Fatal(err)
		}
		at := -1
		for i := range stored {
			if stored[i].Subject == one {
				at = i
			}
		}
		switch {
		case (m == nil) != (at < 0):
			t.Fatalf("last of %s: got %v, want the message at %d", one, m, at)
		case m != nil && (m.Seq != uint64(at+1) || m.Subject != one || !bytes.Equal(m.Data, stored[at].Data)):
			t.Fatalf("last of %s: got %v, want %v", one, m, stored[at])
		}
	})
}

// TestReadContinuesAfterFullReply covers the limits of messages and bytes. Read continues at the right sequence.
func TestReadContinuesAfterFullReply(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js := stream(t, nc)
	var last []string
	large := make([]byte, 900<<10)
	for i := range 20 {
		last = append(last, fmt.Sprintf("s.large.%d", i))
		publish(t, js, &nats.Msg{Subject: last[i], Data: large})
	}
	const small = 3*1000 + 1 // the last reply has one message
	for i := range small {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: fmt.Sprint("s.small.", i)}); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	for _, test := range []struct {
		name string
		q    direct.Query
		want int
	}{
		{"all", direct.Query{Subject: "s.>"}, 20 + small},
		{"as many as two answers hold", direct.Query{Subject: "s.small.*", From: 20 + small - 2000 + 1}, 2000},
		{"the last of large ones", direct.Query{Last: last}, 20},
		{"the last of as many as can be asked for", direct.Query{Last: subjects(direct.MaxLast)}, direct.MaxLast},
	} {
		got := read(t, nc, test.q)
		ordered := slices.IsSortedFunc(got, func(a, b direct.Message) int { return int(a.Seq) - int(b.Seq) })
		if len(got) != test.want || !ordered || got[0].Seq+uint64(test.want)-1 != got[test.want-1].Seq {
			t.Errorf("%s: got %d messages, want %d, each once and in order", test.name, len(got), test.want)
		}
	}
	err := direct.Read(t.Context(), nc, "S", direct.Query{Last: subjects(direct.MaxLast + 1)}, nil)
	if err == nil || !strings.Contains(err.Error(), `"413"`) {
		t.Errorf("the last of one more: got %v, want the status of the server", err)
	}
}

func subjects(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint("s.small.", i))
	}
	return list
}

// TestSlowCallerLosesNoMessage: the whole reply arrives before the first message is handled.
func TestSlowCallerLosesNoMessage(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js := stream(t, nc)
	const answer = 1000
	for range answer + 1 {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: "s.a"}); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	before, calls := nc.Stats().InMsgs, 0
	err := direct.Read(t.Context(), nc, "S", direct.Query{Subject: "s.a"}, func(direct.Message) error {
		for calls == 0 && nc.Stats().InMsgs < before+answer+1 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		calls++
		return nil
	})
	if err != nil || calls != answer+1 {
		t.Errorf("got %d messages (%v), want %d", calls, err, answer+1)
	}
}

// TestStoredStatusIsNotEndOfReply: messages can be stored with any header, such as those of a reply, or of a message
// that was read and published again.
func TestStoredStatusIsNotEndOfReply(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"204", "404", "408", "503", ""} {
		for _, data := range []string{"", "data"} {
			t.Run(fmt.Sprintf("%q with %q", status, data), func(t *testing.T) {
				t.Parallel()
				nc := connect(t)
				js := stream(t, nc)
				header := nats.Header{
					"Status": {status}, "Description": {"No"}, "Nats-Num-Pending": {"0"}, "Nats-Last-Sequence": {"9"},
					"Nats-Sequence": {"none"}, "Nats-Subject": {"elsewhere"}, "KV-Operation": {"DEL"},
				}
				publish(t, js, &nats.Msg{Subject: "s.a", Header: header, Data: []byte(data)})
				first := read(t, nc, direct.Query{Subject: "s.a"})
				if len(first) != 1 {
					t.Fatalf("got %d messages, want 1", len(first))
				}
				publish(t, js, &nats.Msg{Subject: "s.a", Header: first[0].Header, Data: first[0].Data})
				all := read(t, nc, direct.Query{Subject: "s.>"})
				if want := []string{"1 s.a " + data, "2 s.a " + data}; !cmp.Equal(brief(all), want) {
					t.Errorf("got %q, want %q", brief(all), want)
				}
				last := read(t, nc, direct.Query{Last: []string{"s.a", "s.b"}})
				m, err := direct.NewReader(nc, nil).Last(t.Context(), "S", "s.a")
				if err != nil || m == nil {
					t.Fatalf("last: got %v (%v), want a message", m, err)
				}
				last = append(last, *m)
				if want := []string{"2 s.a " + data, "2 s.a " + data}; !cmp.Equal(brief(last), want) {
					t.Errorf("last: got %q, want %q", brief(last), want)
				}
				if !m.Deleted() || m.Header.Get("Status") != status {
					t.Errorf("last: headers %v are not those it was published with", m.Header)
				}
			})
		}
	}
}

// TestReadNoticesLostMessages: if the connection is replaced while the server sends a reply, the messages on the old one are lost.
func TestReadNoticesLostMessages(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	message := func(seq, before int) *nats.Msg {
		return &nats.Msg{Header: nats.Header{"Nats-Sequence": {fmt.Sprint(seq)}, "Nats-Last-Sequence": {fmt.Sprint(before)}, "Nats-Num-Pending": {"1"}}}
	}
	end := &nats.Msg{Header: nats.Header{"Status": {"204"}, "Nats-Last-Sequence": {"5"}, "Nats-Num-Pending": {"0"}}}
	for name, c := range map[string]struct {
		stream string
		reply  []*nats.Msg
		want   error
	}{
		"none":          {"A", []*nats.Msg{message(2, 0), message(3, 2), message(5, 3), end}, nil},
		"the first":     {"B", []*nats.Msg{message(3, 2), message(5, 3), end}, nats.ErrDisconnected},
		"in the middle": {"C", []*nats.Msg{message(2, 0), message(5, 3), end}, nats.ErrDisconnected},
		"the last":      {"D", []*nats.Msg{message(2, 0), message(3, 2), end}, nats.ErrDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := nc.Subscribe("$JS.API.DIRECT.GET."+c.stream, func(request *nats.Msg) {
				for _, m := range c.reply {
					_ = request.RespondMsg(m)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			err = direct.Read(t.Context(), nc, c.stream, direct.Query{Subject: ">"}, func(direct.Message) error { return nil })
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestMissingStreamReturnsErrNoResponders(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	if err := direct.Read(t.Context(), nc, "S", direct.Query{Subject: "s.>"}, nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("read: got %v, want %v", err, nats.ErrNoResponders)
	}
	if m, err := direct.NewReader(nc, nil).Last(t.Context(), "S", "s.a"); !errors.Is(err, nats.ErrNoResponders) || m != nil {
		t.Errorf("last: got %v (%v), want %v", m, err, nats.ErrNoResponders)
	}
}

// TestDeniedRequests: the server does not answer a denied request, but the Watch of a Reader knows of the denial.
func TestDeniedRequests(t *testing.T) {
	t.Parallel()
	permissions := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"$JS.API.DIRECT.GET.S", "$JS.API.DIRECT.GET.S.>"}}}
	srv, err := server.NewServer(&server.Options{
		DontListen: true, NoSigs: true, NoLog: true, Users: []*server.User{{Username: "u", Password: "p", Permissions: permissions}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserInfo("u", "p"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r := direct.NewReader(nc, natserr.NewWatch(nc))
	_, errOfCount := r.Count(t.Context(), "S", "s.>", 1)
	_, errOfLast := r.Last(t.Context(), "S", "s.a")
	_, errOfGet := r.Get(t.Context(), "S", 1)
	_, errOfNext := r.Next(t.Context(), "S", "s.>", 1)
	for call, err := range map[string]error{
		"read": r.Read(t.Context(), "S", direct.Query{Subject: "s.>"}, nil), "count": errOfCount, "last": errOfLast, "get": errOfGet, "next": errOfNext,
	} {
		if !natserr.IsDenied(err) {
			t.Errorf("%s: got %v, want a denial", call, err)
		}
	}
}

func TestReadEndsWithContext(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js := stream(t, nc)
	for range 5 {
		publish(t, js, &nats.Msg{Subject: "s.a"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	errEnough := errors.New("enough")
	for _, test := range []struct {
		name string
		fn   func() error
		want error
	}{
		{"fn's error", func() error { return errEnough }, errEnough},
		{"the end of the context", func() error { cancel(); return nil }, context.Canceled},
	} {
		calls := 0
		err := direct.Read(ctx, nc, "S", direct.Query{Subject: "s.a"}, func(m direct.Message) error {
			if calls++; calls == 3 {
				return test.fn()
			}
			return nil
		})
		if !errors.Is(err, test.want) || calls != 3 {
			t.Errorf("%s: got %v after %d calls, want %v after 3", test.name, err, calls, test.want)
		}
	}
	if m, err := direct.NewReader(nc, nil).Last(ctx, "S", "s.a"); !errors.Is(err, context.Canceled) || m != nil {
		t.Errorf("last: got %v (%v), want %v", m, err, context.Canceled)
	}
	if n := nc.NumSubscriptions(); n > 1 { // the client keeps one for requests
		t.Errorf("%d subscriptions are left", n)
	}
}

// TestSilentServerReturnsErrTimeout: a silent server is ErrTimeout; a caller with a shorter timeout gets its own error.
func TestSilentServerReturnsErrTimeout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		wait time.Duration // the caller's
		end  func(*nats.Conn)
		want error
	}{
		{"of the server", time.Minute, func(*nats.Conn) {}, nats.ErrTimeout},
		{"for as long as the caller waits", 100 * time.Millisecond, func(*nats.Conn) {}, context.DeadlineExceeded},
		{"of a connection that was closed", time.Minute, (*nats.Conn).Close, nats.ErrConnectionClosed},
	} {
		for call, fn := range map[string]func(context.Context, *nats.Conn) error{
			"read": func(ctx context.Context, nc *nats.Conn) error {
				return direct.Read(ctx, nc, "S", direct.Query{Subject: "s.>"}, nil)
			},
			"last": func(ctx context.Context, nc *nats.Conn) error {
				_, err := direct.NewReader(nc, nil).Last(ctx, "S", "s.a")
				return err
			},
		} {
			t.Run(call+" "+test.name, func(t *testing.T) {
				t.Parallel()
				if testing.Short() && test.want == nats.ErrTimeout {
					t.Skip("waits for the timeout of 5 s: run without -short")
				}
				nc := connect(t)
				// The responder receives the request, but does not answer.
				if _, err := nc.Subscribe("$JS.API.DIRECT.GET.>", func(*nats.Msg) { go test.end(nc) }); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), test.wait)
				defer cancel()
				if err := fn(ctx, nc); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
			})
		}
	}
}
