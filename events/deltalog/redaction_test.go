package deltalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/natsd"
	"debrief/playbook"
	"debrief/playbook/history"
)

// erasure is a book with the texts of a person, in a store on disk.
type erasure struct {
	*testing.T
	dir string
	js  jetstream.JetStream
	s   *deltalog.Store
	w   *deltalog.Writer
	at  []deltalog.Position
}

// canaries are texts of the person: a user, a session, an excerpt, a bullet, a reason and a rejected proposal.
var canaries = []string{"canary-user", "canary-session", "canary-excerpt", "canary-bullet", "canary-reason", "canary-proposal"}

// newErasure writes the log of a book with a person's executions among those of others, and forgets the person.
func newErasure(t *testing.T) *erasure {
	t.Helper()
	x := &erasure{T: t, dir: t.TempDir()}
	srv, err := natsd.Start(natsd.Config{Dir: x.dir, Sync: "1m"})
	check(t, err)
	t.Cleanup(srv.Close)
	nc, err := srv.Connect()
	check(t, err)
	t.Cleanup(nc.Close)
	conn, err := bus.Open(t.Context(), nc, bus.Options{})
	check(t, err)
	x.js = conn.JetStream()
	x.s = deltalog.New(x.js)
	x.w = writer(t, x.s, "b")
	for i := range 12 {
		x.learn(i)
	}
	check(t, x.w.Flush(t.Context()))
	f, err := history.Forget(x.s.History(t.Context(), "b"), playbook.Selector{User: "canary-user"})
	check(t, err)
	x.commit(&playbook.Delta{
		Author: "ann", Reason: "canary-reason", Forget: &playbook.Selector{User: "canary-user"}, Covers: []playbook.Cover{{ID: "forget", Seq: 100}},
		Ops: history.OpsBetween(x.w.State().Playbook(), f.Playbook),
	})
	check(t, x.w.Flush(t.Context()))
	check(t, x.s.ReadLog(t.Context(), "b", func(r *deltalog.Record) error {
		x.at = append(x.at, deltalog.Position{Seq: r.Seq, Chain: [32]byte(r.Chain)})
		return nil
	}))
	return x
}

// learn commits the delta of one execution. Every third is of the person.
func (x *erasure) learn(i int) {
	x.Helper()
	e := &playbook.Evidence{Execution: fmt.Sprintf("%d-abcdef01", i+1), Sample: fmt.Sprint("s", i), User: "bob", Excerpt: "How many books?", Outcome: "success", Score: 1}
	content, reason := fmt.Sprint("lesson of bob ", i), ""
	if i%3 == 0 {
		e.User, e.Session, e.Excerpt = "canary-user", "canary-session", "canary-excerpt"
		content, reason = fmt.Sprint("canary-bullet ", i), "canary-reason"
	}
	x.commit(&playbook.Delta{
		Author: history.Curator, Covers: []playbook.Cover{{ID: fmt.Sprint("r", i), Seq: uint64(i + 1), Evidence: e}}, Time: time.Unix(int64(i), 0).UTC(),
		Ops:      []playbook.Op{{Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(i+1)), Section: "others", Content: content, Support: []int{0}, Reason: reason}},
		Rejected: []playbook.Rejection{{Op: playbook.Op{Kind: playbook.Add, Content: "canary-proposal", Support: []int{0}}, Reason: reason}}[:1-min(i%3, 1)],
	})
}

func (x *erasure) commit(d *playbook.Delta) {
	x.Helper()
	commit(x, x.w, func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{d}, nil })
}

// erase erases the person with a store. It returns after the first error. A list that is in the log already is not written again.
func (x *erasure) erase(s *deltalog.Store) error {
	x.Helper()
	r, err := history.NewRedactor(s.History(x.Context(), "b"), func(e *playbook.Evidence) bool { return e.User == "canary-user" }, nil)
	if err != nil {
		return err
	}
	versions, err := s.Redact(x.Context(), "b", r.Redact)
	if err != nil {
		return err
	}
	w, err := s.Writer(x.Context(), "b")
	if err != nil {
		return err
	}
	if len(versions) > 0 {
		list := &playbook.Delta{Author: "ann", Redacted: versions}
		if _, err := w.Commit(x.Context(), func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{list}, nil }); err != nil {
			return err
		}
	}
	if err := w.Flush(x.Context()); err != nil {
		return err
	}
	_, err = s.RemoveRedacted(x.Context(), "b")
	return err
}

// found returns the canaries in the files of a stream, or of all streams if the name is empty.
func (x *erasure) found(stream string) (found []string) {
	x.Helper()
	check(x, filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/"+stream) {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		for _, canary := range canaries {
			if bytes.Contains(data, []byte(canary)) {
				found = append(found, canary+" in "+strings.TrimPrefix(path, x.dir))
			}
		}
		return err
	}))
	return found
}

// checkErased checks the log of the book, and all ways to read it, against the state before.
func (x *erasure) checkErased(want *playbook.Playbook) {
	x.Helper()
	n := 0
	check(x, x.s.ReadLog(x.Context(), "b", func(r *deltalog.Record) error {
		n++
		isRedacted := r.Version == 13 || r.Version < 13 && r.Version%3 == 1
		if (r.Redaction != nil) != isRedacted {
			x.Errorf("version %d: redacted: got %t, want %t", r.Version, r.Redaction != nil, isRedacted)
		}
		return nil
	}))
	if newest := int(want.Version()); n < newest {
		x.Errorf("the log has %d deltas, want at least %d", n, newest)
	}
	for _, at := range [][]deltalog.Position{x.at, x.at[3:4]} {
		n := 0
		check(x, x.s.Records(x.Context(), "b", at, func(r *deltalog.Record) error { n++; return nil }))
		if n != len(at) {
			x.Errorf("read %d deltas by their positions, want %d", n, len(at))
		}
	}
	check(x, x.s.DeltasAfter(x.Context(), "b", x.at[0].Seq, func(*deltalog.Record) error { return nil }))
	w := writer(x, deltalog.New(x.js), "b")
	x.checkState("opened from the view", w, want)
	check(x, w.Rebuild(x.Context()))
	x.checkState("rebuilt from the log", w, want)
	if ok, err := w.State().Covers((&playbook.Cover{ID: "r3", Evidence: &playbook.Evidence{}}).Key()); !ok || err != nil {
		x.Errorf("an erased execution is no longer covered (%v)", err)
	}
	v, err := x.s.Verify(x.Context(), "b")
	check(x, err)
	for _, f := range v.Findings {
		if f.Severity != deltalog.Note && f.Severity != deltalog.Missing { // its stream of reflections is empty
			x.Errorf("verify: %v", f)
		}
		if f.Code == deltalog.FindingErasure {
			x.Errorf("verify: %v", f)
		}
	}
	if len(v.Redacted) != 5 || v.Redacted[0].Author != "ann" || v.Redacted[0].Listed == 0 {
		x.Errorf("verify: got redacted versions %+v, want 5 by ann", v.Redacted)
	}
}

func (x *erasure) checkState(how string, w *deltalog.Writer, want *playbook.Playbook) {
	x.Helper()
	if got := w.State().Playbook(); got.StateHash() != want.StateHash() || got.Checksum() != want.Checksum() {
		x.Errorf("%s: got %d bullets, want the %d of before", how, got.Len(), want.Len())
	}
}

func TestErasedTextsVanish(t *testing.T) {
	t.Parallel()
	x := newErasure(t)
	want := x.w.State().Playbook().Clone()
	for stream, n := range map[string]int{events.StreamDeltas: len(canaries), "KV_playbook": 2} {
		if found := x.found(stream); len(found) < n {
			t.Fatalf("control: stream %s contains %v before the erasure, want the canaries", stream, found)
		}
	}
	idle := writer(t, x.s, "b") // opened before, and reads on afterwards
	reader := x.s.Reader("b")
	check(t, reader.Read(t.Context(), func(*deltalog.Record) error { return nil }))
	follower, wait, err := x.s.Follow(t.Context(), "b")
	check(t, err)
	defer wait()

	check(t, x.erase(x.s))
	check(t, x.s.RewriteView(t.Context()))

	if found := x.found(""); len(found) > 0 {
		t.Errorf("after the erasure: %v", found)
	}
	x.checkErased(want)
	check(t, idle.Refresh(t.Context()))
	x.checkState("a writer that was open", idle, want)
	check(t, x.w.CheckView(t.Context()))
	x.learn(13) // the log goes on
	check(t, x.w.Flush(t.Context()))
	check(t, reader.Read(t.Context(), func(*deltalog.Record) error { return nil }))
	check(t, follower.Wait(t.Context(), x.w.State().Playbook().Version()))
	follower.Read(func(p *playbook.Playbook, _ []byte) {
		if p.StateHash() != x.w.State().Playbook().StateHash() {
			t.Error("the follower has another state")
		}
		for _, f := range p.Admission().Forgotten {
			if f.Selector.User != "" {
				t.Errorf("the view still names %q", f.Selector.User)
			}
		}
	})
	p, err := x.s.PlaybookAt(t.Context(), "b", 4)
	check(t, err)
	if b := p.Bullet(playbook.MintID("others", 4)); b == nil || b.Content != playbook.ErasedContent(4, 0) {
		t.Errorf("version 4: got bullet %+v, want an erased text", b)
	}
}

// faultyJetStream fails once, before or after a number of requests that change something.
type faultyJetStream struct {
	jetstream.JetStream
	left   int // requests until the fault
	before bool
	failed bool
}

var errFault = errors.New("killed")

// step runs a request that changes something, unless it comes after the fault.
func (j *faultyJetStream) step(fn func() error) error {
	if j.failed {
		return errFault
	}
	j.left--
	if j.left < 0 {
		j.failed = true
		if !j.before {
			_ = fn()
		}
		return errFault
	}
	return fn()
}

func (j *faultyJetStream) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (ack *jetstream.PubAck, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = j.step(func() error { ack, err = j.JetStream.PublishMsg(ctx, m, opts...); return err })
	return ack, err
}

func (j *faultyJetStream) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := j.JetStream.Stream(ctx, name)
	return &faultyStream{s, j}, err
}

type faultyStream struct {
	jetstream.Stream
	j *faultyJetStream
}

func (s *faultyStream) SecureDeleteMsg(ctx context.Context, seq uint64) error {
	return s.j.step(func() error { return s.Stream.SecureDeleteMsg(ctx, seq) })
}

// TestErasureGoesOnAfterEachStep kills the erasure before and after each of its writes. Readers find the whole log at once, and the next
// erasure completes it.
func TestErasureGoesOnAfterEachStep(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const steps = 11 // 5 redactions, a list, 5 deltas
	for _, before := range []bool{true, false} {
		for at := range steps {
			t.Run(fmt.Sprintf("step %d, before %t", at, before), func(t *testing.T) {
				t.Parallel()
				x := newErasure(t)
				want := x.w.State().Playbook().Clone()
				j := &faultyJetStream{JetStream: x.js, left: at, before: before}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if err := x.eraseUntil(ctx, j); err == nil {
					t.Fatal("the erasure was not killed")
				}
				x.checkState("after the kill", writer(t, deltalog.New(x.js), "b"), want)
				v, err := x.s.Verify(t.Context(), "b")
				check(t, err)
				if v.Damaged() || v.Version < want.Version() {
					t.Errorf("after the kill: verify finds %v", v.Findings)
				}
				check(t, x.erase(x.s))
				check(t, x.s.RewriteView(t.Context()))
				if found := x.found(""); len(found) > 0 {
					t.Errorf("after the next erasure: %v", found)
				}
				x.checkErased(want)
			})
		}
	}
}

// eraseUntil erases until the fault. A store tries again after a publish without an answer, so it may run until its context ends.
func (x *erasure) eraseUntil(ctx context.Context, j *faultyJetStream) error {
	done := make(chan error, 1)
	go func() { done <- x.erase(deltalog.New(j)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestVerifyFindsChangedRedactions(t *testing.T) {
	t.Parallel()
	x := newErasure(t)
	check(t, x.erase(x.s))
	stream, err := x.js.Stream(t.Context(), events.StreamRedactions)
	check(t, err)
	subject := events.RedactionSubject("b", x.at[3].Seq)
	stored, err := stream.GetLastMsgForSubject(t.Context(), subject)
	check(t, err)
	r, err := events.DecodeRedaction(stored.Data)
	check(t, err)
	r.Delta.Ops[0].Content = "obey me"
	data, err := events.EncodeRedaction(r)
	check(t, err)
	_, err = x.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: data, Header: nats.Header(events.SchemaHeader())})
	check(t, err)
	check(t, stream.DeleteMsg(t.Context(), stored.Sequence))
	v, err := x.s.Verify(t.Context(), "b")
	check(t, err)
	if !v.Damaged() {
		t.Errorf("a changed redaction: got findings %v, want damage", v.Findings)
	}
}

func TestLogIsBrokenWithoutARedaction(t *testing.T) {
	t.Parallel()
	x := newErasure(t)
	check(t, x.erase(x.s))
	stream, err := x.js.Stream(t.Context(), events.StreamRedactions)
	check(t, err)
	stored, err := stream.GetLastMsgForSubject(t.Context(), events.RedactionSubject("b", x.at[3].Seq))
	check(t, err)
	check(t, stream.DeleteMsg(t.Context(), stored.Sequence))
	err = x.s.ReadLog(t.Context(), "b", func(*deltalog.Record) error { return nil })
	if !errors.Is(err, deltalog.ErrBrokenLog) {
		t.Errorf("got %v, want %v", err, deltalog.ErrBrokenLog)
	}
}
