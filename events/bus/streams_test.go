package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/natsd"
	"debrief/events/streams"
)

func TestConcurrentOpensCreateStreamsOnce(t *testing.T) {
	t.Parallel()
	srv := serve(t, natsd.Config{})
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			nc, err := srv.Connect()
			if err != nil {
				t.Error(err)
				return
			}
			c, err := Open(t.Context(), nc, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
				if _, err := c.Consumers.open(t.Context(), role); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	c := open(t, srv, fastPolicy)
	all0, err := c.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all0 {
		names = append(names, s.Name)
	}
	if want := []string{"TASKS", "EXECUTIONS", "REFLECTIONS", "DELTAS", "DEAD", "REDACTIONS", "KV_playbook", "KV_window", "KV_state", "KV_contexts", "KV_vectors", "KV_runs", "KV_openruns", "KV_captures", "KV_attempts", "KV_erasures", "OBJ_blobs"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestStreamConfigurations(t *testing.T) {
	t.Parallel()
	c := connectNew(t, Policy{})
	const day = 24 * time.Hour
	for name, want := range map[string]jetstream.StreamConfig{
		"TASKS":       {Retention: jetstream.WorkQueuePolicy, MaxAge: 30 * day},
		"EXECUTIONS":  {MaxAge: 30 * day},
		"REFLECTIONS": {MaxAge: 30 * day},
		"DELTAS":      {DenyPurge: true},
		"REDACTIONS":  {DenyPurge: true},
		"DEAD":        {MaxAge: 7 * day},
		"KV_playbook": {AllowAtomicPublish: true},
		"KV_window":   {MaxAge: 30 * day, Discard: jetstream.DiscardOld, MaxMsgs: 400_000},
		"KV_state":    {MaxAge: 30 * day, Discard: jetstream.DiscardOld, MaxMsgs: 250_000},
		"KV_contexts": {MaxAge: 7 * day, Discard: jetstream.DiscardOld, MaxMsgs: 250_000},
		"KV_openruns": {MaxAge: 7 * day, Discard: jetstream.DiscardNew, MaxMsgs: 400_000},
		"KV_captures": {MaxAge: 37 * day, Discard: jetstream.DiscardOld, MaxMsgs: 4_000_000},
		"KV_vectors":  {MaxAge: 30 * day, Discard: jetstream.DiscardOld, MaxMsgs: 250_000},
	} {
		if want.MaxMsgs == 0 {
			want.Discard, want.MaxMsgs = jetstream.DiscardNew, -1
		}
		s, err := c.js.Stream(t.Context(), name)
		if err != nil {
			t.Error(err)
			continue
		}
		got := s.CachedInfo().Config
		if got.Retention != want.Retention || got.MaxAge != want.MaxAge || got.DenyPurge != want.DenyPurge || got.AllowAtomicPublish != want.AllowAtomicPublish {
			t.Errorf("%s: got %+v", name, got)
		}
		if got.Discard != want.Discard || got.MaxMsgs != want.MaxMsgs || got.MaxBytes != -1 || got.Storage != jetstream.FileStorage || got.Duplicates != 2*time.Minute || !got.AllowDirect || got.Replicas != 1 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	blobs, err := c.js.Stream(t.Context(), "OBJ_blobs")
	if err != nil {
		t.Fatal(err)
	}
	if age := blobs.CachedInfo().Config.MaxAge; age < 30*day {
		t.Errorf("blobs are kept %s, shorter than what refers to them", age)
	}
	if _, err := c.js.KeyValue(t.Context(), events.BucketPlaybook); err != nil {
		t.Errorf("not a bucket: %v", err)
	}
}

func TestUnsuitableStreamError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		have          jetstream.StreamConfig
		stream, field string
	}{
		"retention": {jetstream.StreamConfig{Name: "TASKS", Subjects: events.TaskSubjects(""), AllowDirect: true}, "TASKS", "retention"},
		"subject":   {jetstream.StreamConfig{Name: "EXECUTIONS", Subjects: []string{"debrief.execution.*"}, AllowDirect: true}, "EXECUTIONS", "subjects"},
		"direct":    {jetstream.StreamConfig{Name: "DELTAS", Subjects: []string{"debrief.delta.*"}}, "DELTAS", "allow_direct"},
		"batches":   {jetstream.StreamConfig{Name: "KV_playbook", Subjects: []string{"$KV.playbook.>"}, AllowDirect: true}, "KV_playbook", "allow_atomic"},
		"overlap":   {jetstream.StreamConfig{Name: "MINE", Subjects: []string{"debrief.>"}}, "TASKS", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, err := serve(t, natsd.Config{}).Connect()
			if err != nil {
				t.Fatal(err)
			}
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateStream(t.Context(), test.have); err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), nc, Options{})
			if unsuitable := (*streams.ConfigError)(nil); !errors.As(err, &unsuitable) || unsuitable.Stream != test.stream || unsuitable.Field != test.field {
				t.Errorf("got %v, want a ConfigError of %q in stream %s", err, test.field, test.stream)
			}
		})
	}
}

func TestOpenKeepsOperatorSettings(t *testing.T) {
	t.Parallel()
	srv := serve(t, natsd.Config{})
	c := open(t, srv, fastPolicy)
	s, err := c.js.Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxAge, cfg.MaxBytes = time.Hour, 1<<20
	if _, err := c.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	open(t, srv, fastPolicy)
	if s, err = c.js.Stream(t.Context(), events.StreamExecutions); err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().Config; got.MaxAge != time.Hour || got.MaxBytes != 1<<20 {
		t.Errorf("got %s and %d bytes", got.MaxAge, got.MaxBytes)
	}
}

func TestConsumersFollowThePolicy(t *testing.T) {
	t.Parallel()
	srv := serve(t, natsd.Config{})
	for _, p := range []Policy{{}, {AckWait: time.Second, AckWaitCurator: time.Minute, MaxAttempts: 7, MaxAckPending: 9, MaxAckPendingCurator: 11}} {
		c := open(t, srv, p)
		for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
			wait, pending := c.policy.AckWait, c.policy.MaxAckPending
			if role == events.RoleCurator {
				wait, pending = min(wait, c.policy.AckWaitCurator), c.policy.MaxAckPendingCurator
			}
			cons, err := c.Consumers.open(t.Context(), role)
			if err != nil {
				t.Fatal(err)
			}
			got := cons.CachedInfo().Config
			if got.AckWait != wait || got.MaxDeliver != -1 || got.MaxAckPending != pending || got.AckPolicy != jetstream.AckExplicitPolicy {
				t.Errorf("%s: got %+v", role, got)
			}
		}
	}
}

func TestLagCountsPendingAndInFlight(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	publishTasks(t, c, "main", 5)
	if got := lag(t, c, events.RoleGenerator); got != (Lag{Pending: 5}) || got.Idle() {
		t.Errorf("a role that never ran: got %+v", got)
	}
	step := make(chan struct{})
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		<-step
		return answer(d)
	})})
	eventually(t, "one in work", func() bool { return lag(t, c, events.RoleGenerator) == Lag{Pending: 4, InFlight: 1, Last: 1} })
	step <- struct{}{}
	step <- struct{}{}
	eventually(t, "two done", func() bool {
		return lag(t, c, events.RoleGenerator) == Lag{Pending: 2, InFlight: 1, Floor: 2, Last: 3}
	})
	close(step)
	eventually(t, "all done", func() bool {
		l := lag(t, c, events.RoleGenerator)
		return l.Idle() && l.Floor == 5
	})
}

func TestScanEndsAndPollFollows(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	stored := func(subject string) (ids []string) {
		t.Helper()
		err := c.Events.Scan(t.Context(), events.StreamExecutions, subject, 1, func(s Stored) error {
			switch e := s.Event.(type) {
			case *events.Execution:
				ids = append(ids, fmt.Sprintf("%d:%s/%s", s.Seq, e.Book, e.RunID))
			default:
				ids = append(ids, fmt.Sprintf("%d:%v", s.Seq, s.Err != nil))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	if got := stored("debrief.execution.*"); len(got) != 0 {
		t.Errorf("empty: got %v", got)
	}
	publish(t, c, execution("a", "1"))
	publish(t, c, execution("b", "2"))
	if _, err := c.js.Publish(t.Context(), "debrief.execution.a", []byte{0xc1}); err != nil {
		t.Fatal(err)
	}
	publish(t, c, execution("a", "3"))
	if got, want := fmt.Sprint(stored("debrief.execution.*")), "[1:a/1 2:b/2 3:true 4:a/3]"; got != want {
		t.Errorf("all: got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(stored(events.KindExecution.Subject("a"))), "[1:a/1 3:true 4:a/3]"; got != want {
		t.Errorf("one book: got %s, want %s", got, want)
	}
	if got := stored(events.KindExecution.Subject("nobody")); len(got) != 0 {
		t.Errorf("no such book: got %v", got)
	}

	seen := make(chan uint64, 9)
	follow := startFunc(t, func(ctx context.Context) error {
		err := c.Events.Poll(ctx, events.StreamExecutions, "debrief.execution.*", 0, time.Millisecond, func(s Stored) error {
			seen <- s.Seq
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("after the context: %w", err)
		}
		return nil
	})
	for want := uint64(1); want <= 6; want++ {
		if want > 4 {
			publish(t, c, execution("c", fmt.Sprint(want)))
		}
		if got := within(t, seen, "not read"); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	follow.stop()
	follow.wait()
	if err := c.Events.Poll(t.Context(), events.StreamExecutions, "debrief.execution.*", 0, time.Millisecond, func(Stored) error { return errHandler }); !errors.Is(err, errHandler) {
		t.Errorf("got %v, want the function's own error", err)
	}
}

func TestIDsNeedNoPayloads(t *testing.T) {
	t.Parallel()
	c := open(t, serve(t, natsd.Config{}), Policy{})
	ids := func() (got []events.ID) {
		if err := c.Events.IDs(t.Context(), events.StreamExecutions, events.KindExecution.Subject("b"), func(id events.ID) { got = append(got, id) }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ids(); len(got) != 0 {
		t.Errorf("got %v of a book without executions", got)
	}
	large := execution("b", "large")
	large.Answer = strings.Repeat("x", MaxInline+1)
	var want []events.ID
	for _, e := range []*events.Execution{execution("b", "1"), execution("other", "1"), large, execution("b", "3")} {
		if _, err := c.Publish(t.Context(), e, PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		if e.Book == "b" {
			want = append(want, e.ID)
		}
	}
	blobs, err := c.js.Stream(t.Context(), blob.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if n := blobs.CachedInfo().State.Msgs; n == 0 {
		t.Fatal("the large execution is not in a blob")
	}
	if err := blobs.Purge(t.Context()); err != nil { // a reader returns its error
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), execution("b", "1"), PublishOptions{Copy: 1}); err != nil { // as a requeue does
		t.Fatal(err)
	}
	if got := ids(); !slices.Equal(got, append(want, want[0])) {
		t.Errorf("got %v, want %v and a copy of the first", got, want)
	}
}

func TestSameLetterIsStoredOnce(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	letter := func(role string, seq uint64) *events.DeadLetter {
		return &events.DeadLetter{Role: role, Code: events.DeadError, Reason: "two\nlines", Stream: "TASKS", Seq: seq, Subject: "debrief.task.main", Data: []byte("x"), Time: time.Now()}
	}
	for _, l := range []*events.DeadLetter{letter("generator", 1), letter("generator", 1), letter("generator", 2), letter("reflector", 1)} {
		if err := c.DeadLetters.Store(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	got := letters(t, c, 3)
	if n := count(t, c, events.StreamDead); n != 3 || got[0].Reason != "two lines" || got[0].Book != "main" {
		t.Errorf("got %d letters, the first %+v", n, got[0])
	}
}

func TestLetterOfAnyMessageFits(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	const secret = "ghp_aB3dE5gHaB3dE5gHaB3dE5gHaB3dE5gH"
	reason := strings.Repeat("é ", 330) + secret + strings.Repeat(" é", 2000) // the limit of a reason is in the secret
	l := &events.DeadLetter{Role: "generator", Code: events.DeadInvalid, Reason: reason, Stream: "TASKS", Seq: 9, Subject: "x.y", Data: make([]byte, 1<<20), Time: time.Now()}
	if err := c.DeadLetters.Store(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	got := letters(t, c, 1)[0]
	if got.Book != unknownBook || len(got.Data) != 1<<20 || len(got.Reason) > 1100 || strings.Contains(got.Reason, "ghp_") {
		t.Errorf("got %s, %d bytes, %q", got.Book, len(got.Data), got.Reason)
	}
}
