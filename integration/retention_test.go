package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/bus"
	"debrief/events/streams"
)

// retentionRun is a run in which a day of the retention is a second or less. All ages keep their proportions, so the dependencies
// between the defaults are under test. Only the margin of the blobs has no use here: each payload is written for one message.
type retentionRun struct {
	day   time.Duration
	over  time.Duration // time of submitting, longer than the age of the executions
	every time.Duration // between two tasks; each tenth has a large payload
	kills int
	stall time.Duration // for which no reflector works, shorter than the age of the executions
}

// TestRetentionUnderKills deletes by age while the server and the workers are killed. Each task has its effect once, each large payload
// lives as long as the message that refers to it, and all else is deleted.
func TestRetentionUnderKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	r := retentionRun{day: 500 * time.Millisecond, over: 25 * time.Second, every: 50 * time.Millisecond, kills: 3, stall: 5 * time.Second}
	server, url := startServer(t)
	model := startModel(t, 5*time.Millisecond)
	c := processes{server: server, roles: map[string][]*process{}}
	for _, role := range streams.Roles {
		for i := range 2 {
			c.roles[role] = append(c.roles[role], startWorker(t, fmt.Sprint(role, i+1), role,
				"--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--ack-wait", "2s"))
		}
	}
	done := make(chan struct{})
	var kept sync.WaitGroup
	kept.Go(func() { c.keep(t, done) })
	conn := connect(t, url)
	strike := func(ctx context.Context, rng *rand.Rand) error {
		role := streams.Roles[rng.IntN(len(streams.Roles))]
		for _, p := range []*process{c.server, c.roles[role][0]} {
			p.kill()
			if err := p.start(); err != nil {
				return err
			}
		}
		return nil
	}
	hold := func(_ context.Context, on bool) error {
		signal := syscall.SIGCONT
		if on {
			signal = syscall.SIGSTOP
		}
		var errs []error
		for _, p := range c.roles[events.RoleReflector] {
			errs = append(errs, p.signal(signal))
		}
		return errors.Join(errs...)
	}
	r.run(t, t.Context(), conn, strike, hold)
	close(done)
	kept.Wait()
}

// TestRetentionOnACluster does the same on three servers with three replicas of each stream. It kills the leaders of streams.
//
//	DEBRIEF_LONG=1 go test ./integration -v -timeout 20m -run TestRetentionOnACluster
func TestRetentionOnACluster(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("takes minutes: set " + longEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	r := retentionRun{day: 2 * time.Second, over: 2 * time.Minute, every: 100 * time.Millisecond, kills: 6, stall: 30 * time.Second}
	c := startCluster(t, ctx, workersPerRole)
	supervised := c.supervise(ctx)
	c.awaitHealthy(ctx)
	conn := c.connect(ctx, c.urls())
	strike := func(ctx context.Context, rng *rand.Rand) error {
		stream := []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections, blob.Stream}[rng.IntN(4)]
		n := c.leader(t, ctx, &submitter{conn: conn}, stream, nil)
		if err := c.kill(ctx, n); err != nil {
			return err
		}
		pause(ctx, time.Duration(rng.Int64N(int64(6*time.Second))))
		if err := c.boot(ctx, n); err != nil {
			return err
		}
		c.awaitHealthy(ctx)
		return nil
	}
	hold := func(ctx context.Context, on bool) error {
		var errs []error
		for _, w := range c.workers {
			if !strings.HasPrefix(w.name, events.RoleReflector) {
				continue
			}
			n := &node{containerRef: *w}
			if on {
				errs = append(errs, c.freeze(ctx, n))
			} else {
				errs = append(errs, c.thaw(ctx, n))
			}
		}
		return errors.Join(errs...)
	}
	r.run(t, ctx, conn, strike, hold)
	awaitReplicas(t, ctx, conn)
	t.Logf("workers were started again %d times", supervised())
	c.dismiss(ctx)
}

// run submits tasks, strikes, and checks the effects. The function hold stops the reflectors, and lets them work again.
func (r retentionRun) run(t *testing.T, ctx context.Context, conn *bus.Conn, strike func(context.Context, *rand.Rand) error, hold func(context.Context, bool) error) {
	rng := rand.New(rand.NewPCG(chooseSeed(t), 0))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ages := r.shorten(t, ctx, conn.JetStream())
	p := &payloads{
		js: conn.JetStream(), blobs: blob.New(conn.JetStream()),
		executions: map[events.ID]events.ID{}, read: map[string]int{}, letters: map[events.ID]string{},
	}
	l := &load{tasks: invoices(rng, int(r.over/r.every)*2), done: make(chan struct{})}
	for i, task := range l.tasks {
		if i%10 == 0 {
			task.Context = fmt.Sprintf("Attachment %d\n%s", i, strings.Repeat("0123456789abcde\n", 40_000))
		}
		p.executions[task.EventID()] = events.ExecutionID(desk, "", task.ID, 0)
	}
	for _, stream := range []string{events.StreamExecutions, events.StreamReflections, events.StreamDead} {
		p.all.Go(func() { p.follow(t, ctx, stream, ages[stream]) })
	}

	l.submit(t, ctx, conn, r.every)
	held := make(chan struct{})
	go func() { // the oldest executions wait for a reflector while servers fail
		defer close(held)
		pause(ctx, r.over/4)
		if err := hold(ctx, true); err != nil {
			t.Error(err)
		}
		pause(ctx, r.stall)
		if err := hold(ctx, false); err != nil {
			t.Error(err)
		}
	}()
	for range r.kills {
		p.publishInvalid(t, ctx)
		pause(ctx, r.over/time.Duration(r.kills+1))
		if err := strike(ctx, rng); err != nil {
			t.Fatal(err)
		}
	}
	<-held
	ids := l.stop()
	settling, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	awaitSettled(t, settling, conn)
	r.checkDeleted(t, ctx, conn.JetStream())
	stop()
	p.all.Wait()
	r.checkEffects(t, conn.JetStream(), ids, p.letters)
	t.Logf("%d tasks; large payloads that were read at the end of the life of their message: %v", len(ids), p.read)
	for _, stream := range []string{events.StreamExecutions, events.StreamDead} {
		if p.read[stream] == 0 {
			t.Errorf("no payload of %s was read at the end of its life", stream)
		}
	}
}

// shorten sets the ages of all streams so that a day is r.day, and returns them.
func (r retentionRun) shorten(t *testing.T, ctx context.Context, js jetstream.JetStream) map[string]time.Duration {
	t.Helper()
	ages := map[string]time.Duration{}
	for _, cfg := range streams.All(1) {
		s, err := js.Stream(ctx, cfg.Name)
		if err != nil {
			t.Fatal(err)
		}
		short := s.CachedInfo().Config
		if short.MaxAge == 0 {
			continue
		}
		age := short.MaxAge
		if cfg.Name == blob.Stream {
			age -= blob.Margin
		}
		short.MaxAge = age / (24 * time.Hour) * r.day
		short.Duplicates = min(short.Duplicates, short.MaxAge)
		ages[cfg.Name] = short.MaxAge
		if _, err := js.UpdateStream(ctx, short); err != nil {
			t.Fatalf("%s: %v", cfg.Name, err)
		}
	}
	return ages
}

// payloads reads the large payloads of stored messages just before the messages expire.
type payloads struct {
	js    jetstream.JetStream
	blobs *blob.Store
	all   sync.WaitGroup

	executions map[events.ID]events.ID // by the id of the task

	mu      sync.Mutex
	read    map[string]int       // number of payloads by stream
	letters map[events.ID]string // code and reason, by the id of the execution or reflection
}

// follow finds the messages of a stream with a large payload, in order, and reads each payload at nine tenths of the message's life.
func (p *payloads) follow(t *testing.T, ctx context.Context, stream string, age time.Duration) {
	for next := uint64(1); ctx.Err() == nil; {
		m, err := p.message(ctx, stream, next)
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		next = m.Sequence + 1
		name := m.Header.Get(events.HeaderBlob)
		if stream == events.StreamDead {
			name = p.addLetter(t, m)
		}
		if name == "" {
			continue
		}
		p.all.Go(func() {
			pause(ctx, time.Until(m.Time.Add(age*9/10)))
			for ctx.Err() == nil {
				_, err := p.blobs.Get(ctx, name)
				switch {
				case err == nil:
					p.mu.Lock()
					p.read[stream]++
					p.mu.Unlock()
					return
				case blob.IsGone(err):
					t.Errorf("%s %d: stored %s ago, age limit %s: %v", stream, m.Sequence, time.Since(m.Time), age, err)
					return
				}
				pause(ctx, 50*time.Millisecond) // a server is away
			}
		})
	}
}

// message returns the first message of a stream from a sequence on.
func (p *payloads) message(ctx context.Context, stream string, seq uint64) (*jetstream.RawStreamMsg, error) {
	try, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := p.js.Stream(try, stream)
	if err != nil {
		return nil, err
	}
	return s.GetMsg(try, seq, jetstream.WithGetMsgSubject(">"))
}

// addLetter records a dead letter, and returns the name of the payload of its message.
func (p *payloads) addLetter(t *testing.T, m *jetstream.RawStreamMsg) (name string) {
	e, err := events.Decode(m.Subject, m.Header, m.Data)
	if err != nil {
		t.Errorf("dead letter %d: %v", m.Sequence, err)
		return ""
	}
	letter := e.(*events.DeadLetter)
	id := bus.EventID(letter.Header)
	if letter.Stream == events.StreamTasks {
		id = p.executions[id]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.letters[id] = fmt.Sprintf("%s by the %s after %d attempts: %s", letter.Code, letter.Role, letter.Attempts, letter.Reason)
	return nats.Header(letter.Header).Get(events.HeaderBlob)
}

// publishInvalid publishes a task that becomes a dead letter: its large payload is no task.
func (p *payloads) publishInvalid(t *testing.T, ctx context.Context) {
	t.Helper()
	subject, header, _, err := events.Encode(&events.Task{Book: desk, ID: "invalid", Question: "?"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "publish an invalid task", func() error {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		name, err := p.blobs.Put(try, "", fmt.Appendf(nil, "no task of %s", time.Now()))
		if err != nil {
			return err
		}
		header[events.HeaderBlob] = []string{name}
		_, err = p.js.PublishMsg(try, &nats.Msg{Subject: subject, Header: header}, jetstream.WithMsgID(name))
		return err
	})
}

// checkDeleted waits until the retention has deleted the oldest messages, and checks that the log is whole.
func (r retentionRun) checkDeleted(t *testing.T, ctx context.Context, js jetstream.JetStream) {
	t.Helper()
	for _, stream := range []string{events.StreamExecutions, events.StreamReflections, events.StreamDead, blob.Stream, "KV_" + events.BucketState} {
		eventually(t, time.Minute, stream+" deletes by age", func() error {
			s, err := js.Stream(ctx, stream)
			if err == nil && s.CachedInfo().State.FirstSeq <= 1 {
				err = errors.New("the first message is stored")
			}
			return err
		})
	}
	s, err := js.Stream(ctx, events.StreamDeltas)
	if err != nil {
		t.Fatal(err)
	}
	if state := s.CachedInfo().State; state.FirstSeq != 1 || state.Msgs != state.LastSeq {
		t.Errorf("the log has lost deltas: %+v", state)
	}
}

// checkEffects checks that the log covers the execution of each task once, or that it has a dead letter of another reason than a lost payload.
func (r retentionRun) checkEffects(t *testing.T, js jetstream.JetStream, ids []string, letters map[events.ID]string) {
	t.Helper()
	deltas, err := readAll(context.WithoutCancel(t.Context()), js, events.StreamDeltas, events.KindDelta.Subject(desk))
	if err != nil {
		t.Fatal(err)
	}
	covered := map[events.ID]int{}
	for _, m := range deltas {
		d, err := events.DecodeDelta(m.data)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range d.Covers {
			covered[events.ID(c.ID)]++
		}
	}
	wrong := 0
	for _, id := range ids {
		execution := events.ExecutionID(desk, "", id, 0)
		n, letter := covered[execution], letters[execution]
		if letter != "" {
			t.Logf("task %s is covered %d times; dead letter: %s", id, n, letter)
		}
		if n != 1 && (letter == "" || strings.Contains(letter, blob.ErrExpired.Error())) {
			wrong++
			t.Logf("task %s is covered %d times", id, n)
		}
	}
	if wrong > 0 || len(ids) == 0 {
		t.Errorf("%d of %d tasks do not have one effect", wrong, len(ids))
	}
}
