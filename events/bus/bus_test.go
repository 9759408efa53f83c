package bus

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/natsd"
	"debrief/events/natserr"
)

func TestPublishReturnsSequenceAndDuplicate(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	e := execution("main", "a")
	first, again := publish(t, c, e), publish(t, c, e)
	want := Receipt{Seq: 1, Handle: events.NewHandle(1, e.ID), Trace: first.Trace}
	if first != want || first.Trace == "" {
		t.Errorf("got %+v, want %+v", first, want)
	}
	if want.Duplicate, want.Trace = true, ""; again != want {
		t.Errorf("again: got %+v, want %+v", again, want)
	}
	if n := count(t, c, events.StreamExecutions); n != 1 {
		t.Errorf("stored %d times", n)
	}
}

func TestInvalidEventIsNotPublished(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	for name, subject := range map[string]string{"a stream's": "debrief.edit.main", "the server's": "$JS.API.STREAM.PURGE.DELTAS", "a wildcard": "_INBOX.>"} {
		if _, err := c.Publish(t.Context(), task("main", 1), PublishOptions{ReplyTo: subject}); err == nil || !strings.Contains(err.Error(), "header Debrief-Reply: ") || !isDiscard(err) {
			t.Errorf("reply to %s subject: got %v", name, err)
		}
	}
	if n := count(t, c, events.StreamTasks); n != 0 {
		t.Errorf("stored %d", n)
	}
}

func TestReplySubjectOutsideInboxesIsDeadLettered(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	got, err := c.nc.SubscribeSync("debrief.edit.main")
	if err != nil {
		t.Fatal(err)
	}
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	data, err := events.Marshal(task("main", 1)) // without the check of Publish
	if err != nil {
		t.Fatal(err)
	}
	header := nats.Header(events.SchemaHeader())
	header.Set(events.HeaderReply, "debrief.edit.main")
	if _, err := c.js.PublishMsg(t.Context(), &nats.Msg{Subject: "debrief.task.main", Header: header, Data: data}); err != nil {
		t.Fatal(err)
	}
	if l := letters(t, c, 1)[0]; l.Code != events.DeadInvalid || !strings.Contains(l.Reason, "header Debrief-Reply: ") {
		t.Errorf("got %s, %q, want the field reply to be invalid", l.Code, l.Reason)
	}
	awaitIdle(t, c, events.RoleGenerator)
	if n, _, _ := got.Pending(); n != 0 || count(t, c, events.StreamReflections) != 0 {
		t.Errorf("%d messages reached the subject", n)
	}
}

func TestReplyIsSentAfterAnswerIsStored(t *testing.T) {
	t.Parallel()
	srv := serve(t, natsd.Config{})
	c, requester := open(t, srv, fastPolicy), open(t, srv, fastPolicy)
	long := strings.Repeat("a long story ", MaxInline/10)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		r := answer(d)
		switch d.Event.(*events.Task).ID {
		case "task-1":
			r.Events[0].(*events.Execution).Answer = long
		case "task-2":
			r.Reply = []byte("decided")
		case "task-3":
			return Result{Err: Discard(errors.New("the task asks\r\nfor the impossible"))}
		}
		return r
	})})
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for n, want := range []struct{ answer, reply, refused string }{
		{"42", "", ""}, {long, "", ""}, {"", "decided", ""}, {"", "", "the task asks for the impossible"},
	} {
		got, err := requester.Request(ctx, task("main", n), PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Error != want.refused || want.reply != "" && string(got.Data) != want.reply {
			t.Errorf("%d: got %q refused %q, want %+v", n, got.Data, got.Error, want)
		}
		if want.answer == "" {
			continue
		}
		seq, is, err := got.Handle.Parse()
		if err != nil {
			t.Fatal(err)
		}
		s, err := requester.js.Stream(ctx, events.StreamExecutions)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			t.Fatalf("%d: the reply came before %d was stored: %v", n, seq, err)
		}
		if m.Header.Get(events.HeaderHandle) != "" {
			t.Errorf("%d: what is stored has the header of the reply", n)
		}
		e := new(events.Execution)
		if err := events.Unmarshal(got.Data, e); err != nil {
			t.Fatal(err)
		}
		if e.Answer != want.answer || !is(e.ID) {
			t.Errorf("%d: got %d bytes of answer, want %d; handle %s", n, len(e.Answer), len(want.answer), got.Handle)
		}
	}
}

// TestReplyIsFirstStoredAnswer: a worker crashed between its publish and its ack. The answer of the next worker
// differs, but the stored answer counts.
func TestReplyIsFirstStoredAnswer(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	for n, long := range []string{"first", strings.Repeat("first of all ", MaxInline/10)} {
		e := execution("main", task("main", n).ID)
		e.Answer = long
		want := publish(t, c, e)
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		if n == 0 {
			start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
		}
		got, err := c.Request(ctx, task("main", n), PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e = new(events.Execution)
		if err := events.Unmarshal(got.Data, e); err != nil {
			t.Fatal(err)
		}
		if e.Answer != long || got.Handle != want.Handle {
			t.Errorf("got %.20q as %s, want %.20q as %s", e.Answer, got.Handle, long, want.Handle)
		}
	}
}

func TestRequestWithUsedIDReturnsErrDuplicate(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	publish(t, c, task("main", 1))
	if _, err := c.Request(t.Context(), task("main", 1), PublishOptions{}); !errors.Is(err, ErrDuplicate) {
		t.Errorf("got %v, want ErrDuplicate", err)
	}
}

// TestRequestForAnotherAnswerSendsNothing: MessagePack would decode an execution as the reply to an edit, because they share names of fields.
func TestRequestForAnotherAnswerSendsNothing(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	reply, err := Request[events.EditReply](t.Context(), c, task("main", 1), PublishOptions{})
	if n := count(t, c, events.StreamTasks); err == nil || n > 0 {
		t.Errorf("got %+v, %v and %d tasks, want an error and none", reply, err, n)
	}
}

func TestUnansweredRequestEndsWithContextAndStaysQueued(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Request(ctx, task("main", 1), PublishOptions{})
		done <- err
	}()
	eventually(t, "the task is stored", func() bool { return count(t, c, events.StreamTasks) == 1 })
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) || count(t, c, events.StreamTasks) != 1 {
		t.Errorf("got %v, %d tasks queued", err, count(t, c, events.StreamTasks))
	}
}

func TestLargePayloadsAreStoredAsBlobs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	c := connectNew(t, fastPolicy)
	random := make([]byte, 3<<20)
	_, _ = rand.Read(random)
	text := hex.EncodeToString(random)
	var want []*events.Execution
	for i, size := range []int{100, MaxInline - 200, MaxInline + 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		e := execution("main", string(rune('a'+i)))
		e.Answer = text[:size]
		want = append(want, e)
		publish(t, c, e)
	}
	handled := make(chan *events.Execution, len(want))
	start(t, c, Worker{Role: events.RoleReflector, Handle: single(func(_ context.Context, d *Delivery) Result {
		handled <- d.Event.(*events.Execution)
		return Result{}
	})})
	read := await(t, c, events.StreamExecutions, len(want))
	s, err := c.js.Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range want {
		if diff := cmp.Diff(e, read[i].Event, cmpopts.EquateEmpty(), cmp.AllowUnexported(events.Execution{})); diff != "" {
			t.Errorf("%d bytes, read: %.300s", len(e.Answer), diff)
		}
		if got := within(t, handled, "not handled"); got.Answer != e.Answer {
			t.Errorf("%d bytes, handled: got %d bytes of %s", len(e.Answer), len(got.Answer), got.RunID)
		}
		m, err := s.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if byRef := m.Header.Get(events.HeaderBlob) != ""; byRef != (len(e.Answer) > MaxInline) {
			t.Errorf("%d bytes: by reference: %t", len(e.Answer), byRef)
		}
	}
}

// blobTask stores a task with a blob as its payload, and returns the name of the blob.
func blobTask(t *testing.T, c *Conn) (jetstream.ObjectStore, string) {
	t.Helper()
	e := task("main", 1)
	e.Context = strings.Repeat("shelf ", MaxInline/4)
	r := publish(t, c, e)
	s, err := c.js.Stream(t.Context(), events.StreamTasks)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), r.Seq)
	if err != nil {
		t.Fatal(err)
	}
	store, err := c.js.ObjectStore(t.Context(), events.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	return store, m.Header.Get(events.HeaderBlob)
}

// describe stores another description of a blob.
func describe(ctx context.Context, c *Conn, name string, i *jetstream.ObjectInfo) error {
	data, err := json.Marshal(i)
	if err == nil {
		_, err = c.js.Publish(ctx, blob.Prefix+".M."+base64.URLEncoding.EncodeToString([]byte(name)), data)
	}
	return err
}

func TestMissingOrWrongBlobIsDeadLettered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(context.Context, *Conn, jetstream.ObjectStore, string) error
		want  error
	}{
		"gone": {func(ctx context.Context, c *Conn, _ jetstream.ObjectStore, _ string) error {
			s, err := c.js.Stream(ctx, blob.Stream)
			if err == nil {
				err = s.Purge(ctx)
			}
			return err
		}, blob.ErrExpired},
		"another's": {func(ctx context.Context, c *Conn, s jetstream.ObjectStore, name string) error {
			i, err := s.GetInfo(ctx, name)
			if err != nil {
				return err
			}
			i.NUID, i.Size = "another", uint64(len("something else"))
			if _, err := c.js.Publish(ctx, blob.Prefix+".C."+i.NUID, []byte("something else")); err != nil {
				return err
			}
			return describe(ctx, c, name, i)
		}, blob.ErrInvalid},
		"changed": {func(ctx context.Context, c *Conn, s jetstream.ObjectStore, name string) error {
			i, err := s.GetInfo(ctx, name)
			if err == nil {
				_, err = c.js.Publish(ctx, "$O."+events.BucketBlobs+".C."+i.NUID, []byte("and more"))
			}
			return err
		}, blob.ErrInvalid},
		"too large": {func(ctx context.Context, c *Conn, s jetstream.ObjectStore, name string) error {
			i, err := s.GetInfo(ctx, name)
			if err != nil {
				return err
			}
			i.Size = 64<<20 + 1
			return describe(ctx, c, name, i)
		}, blob.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connectNew(t, fastPolicy)
			store, name := blobTask(t, c)
			if err := test.spoil(t.Context(), c, store, name); err != nil {
				t.Fatal(err)
			}
			if _, err := c.blobs.Get(t.Context(), name); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(context.Context, *Delivery) Result {
				t.Error("the handler saw it")
				return Result{}
			})})
			l := letters(t, c, 1)[0]
			if l.Code != events.DeadInvalid || l.Attempts != 1 || l.Header[events.HeaderBlob][0] != name {
				t.Errorf("got %s, %q after %d attempts, want %s after one", l.Code, l.Reason, l.Attempts, events.DeadInvalid)
			}
			awaitIdle(t, c, events.RoleGenerator)
		})
	}
}

func TestIncompleteBlobDoesNotBlockForever(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	p := fastPolicy
	p.MaxAttempts = 1
	c := connectNew(t, p)
	store, name := blobTask(t, c)
	i, err := store.GetInfo(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.js.Stream(t.Context(), "OBJ_"+events.BucketBlobs)
	if err == nil {
		err = s.Purge(t.Context(), jetstream.WithPurgeSubject("$O."+events.BucketBlobs+".C."+i.NUID))
	}
	if err != nil {
		t.Fatal(err)
	}
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	if l := letters(t, c, 1)[0]; l.Code != events.DeadError || !strings.Contains(l.Reason, name) {
		t.Errorf("got %s, %q, want an error that names the blob", l.Code, l.Reason)
	}
	publish(t, c, task("main", 2))
	await(t, c, events.StreamExecutions, 1)
}

func TestSamePayloadIsStoredOnce(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	data := bytes.Repeat([]byte("x"), MaxInline+1)
	for range 2 {
		name, err := c.blobs.Put(t.Context(), "", data)
		if sum := sha256.Sum256(data); err != nil || name != hex.EncodeToString(sum[:]) {
			t.Fatalf("got %q, %v", name, err)
		}
	}
	s, err := c.js.Stream(t.Context(), "OBJ_"+events.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.LastSeq; n > 10 {
		t.Errorf("%d messages for two puts of one payload", n)
	}
}

func TestMissingJetStreamErrorHidesPassword(t *testing.T) {
	t.Parallel()
	srv := startNATS(t, server.Options{Username: "ops", Password: "s3cret"})
	nc, err := nats.Connect("nats://ops:s3cret@" + srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	_, err = Open(t.Context(), nc, Options{})
	if !noJetStream(err) || !strings.Contains(err.Error(), "debrief credentials") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

func TestClientTimeoutDiffersFromCallerTimeout(t *testing.T) {
	t.Parallel()
	expired, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	if err := natserr.AsTimeout(t.Context(), context.DeadlineExceeded); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("server's: got %v", err)
	}
	if err := natserr.AsTimeout(expired, context.DeadlineExceeded); errors.Is(err, nats.ErrTimeout) {
		t.Errorf("caller's: got %v", err)
	}
}
