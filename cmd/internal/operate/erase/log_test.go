package erase

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/erasure"
	"debrief/playbook"
)

// startCurator runs a curator without a model, until the end of the test or of stop.
func (d *desk) startCurator(t *testing.T) (stop func()) {
	t.Helper()
	role, err := curator.New(nil, curator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- program.Run(ctx, d.conn, role) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// learn adds a bullet that rests on the run of a user.
func (d *desk) learn(t *testing.T, user string) {
	t.Helper()
	d.learnText(t, "b", user, canary(user, "bullet"))
}

// learnText adds a bullet to a playbook that rests on the run of a user.
func (d *desk) learnText(t *testing.T, book playbook.Book, user, content string) {
	t.Helper()
	e := &events.Execution{
		Book: book, ID: events.ExecutionID(book, "", user+"-learned", 0), RunID: user + "-learned", User: user, Session: canary(user, "session"),
		Question: canary(user, "excerpt"), Started: time.Now().UTC().Add(-time.Minute),
	}
	r, err := d.conn.Publish(t.Context(), e, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bus.Request[events.EditReply](t.Context(), d.conn, &events.Edit{
		Book: book, ID: events.NewID(), Author: "learn", Reason: canary(user, "why"), Created: time.Now().UTC(),
		Ops:      []playbook.Op{{Kind: playbook.Add, Section: "misc", Content: content}},
		Evidence: []playbook.Evidence{e.Evidence(r.Handle)},
	}, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestErasedTextsLeaveTheLog erases one of two users from whom a playbook has learned. The log stays readable and whole.
func TestErasedTextsLeaveTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t)
	d.startCurator(t)
	d.learn(t, "ann")
	d.learn(t, "bob")
	texts := func(user string) (found []string) {
		data := d.files(t)
		for _, place := range []string{"session", "excerpt", "why", "bullet"} {
			if bytes.Contains(data, []byte(canary(user, place))) {
				found = append(found, place)
			}
		}
		return found
	}
	if len(texts("ann")) != 4 || len(texts("bob")) != 4 {
		t.Fatalf("before: got the texts %v and %v, want four of each", texts("ann"), texts("bob"))
	}
	bob := events.AdviceLine{Bullet: "misc-00002", Wording: events.WordingOf(canary("bob", "bullet"))}
	lines := adviceLines{{Bullet: "misc-00001", Wording: events.WordingOf(canary("ann", "bullet"))}, bob}
	d.advice = &lines
	out := d.erase(t, erasure.Request{User: "ann"})
	if out.Runs != 1 || out.Versions == 0 {
		t.Errorf("got %+v, want one run and changed versions", out)
	}
	if !slices.Equal(lines, adviceLines{bob}) {
		t.Errorf("advice of others: got the lines %+v, want %+v", lines, bob)
	}
	logs := deltalog.New(d.conn.JetStream())
	found, err := logs.Verify(t.Context(), "b")
	if err != nil || found.Damaged() {
		t.Errorf("got %+v and error %v, want a log without damage", found, err)
	}
	p, err := deltalog.Load(t.Context(), d.conn, "b")
	if err != nil {
		t.Fatal(err)
	}
	for b := range p.All() {
		if p.Len() != 1 || b.Content != canary("bob", "bullet") {
			t.Errorf("got %d bullets, one with %q; want only that of bob", p.Len(), b.Content)
		}
	}
	before, err := logs.PlaybookAt(t.Context(), "b", 1)
	if err != nil || before.Len() != 1 {
		t.Errorf("got %v and error %v, want the first version with one bullet", before, err)
	}
	if out := d.erase(t, erasure.Request{User: "nobody"}); out.Versions != 0 || out.Removed != 0 {
		t.Errorf("a second erasure: got %+v, want nothing to remove", out)
	}
	d.learn(t, "cleo") // the log goes on
	d.stop()
	if got := texts("ann"); len(got) > 0 {
		t.Errorf("after: the texts of ann are still at %v", got)
	}
	if len(texts("bob")) != 4 {
		t.Errorf("after: got the texts of bob at %v, want four", texts("bob"))
	}
}

// TestOtherPlaybooksAreReadOnce erases a user whose runs taught nothing. Each search reads the log of a playbook once.
func TestOtherPlaybooksAreReadOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann")
	d.startCurator(t)
	d.learnText(t, "other", "bob", canary("bob", "bullet"))
	var reads, searches atomic.Int64
	requests, err := d.conn.NATS().Subscribe("$JS.API.DIRECT.GET.DELTAS", func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte(`"`+events.KindDelta.Subject("other")+`"`)) && bytes.Contains(m.Data, []byte(`"batch"`)) {
			reads.Add(1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	e := d.eraser()
	e.Progress = func(step string) {
		if step == `search the log of playbook "other"` {
			searches.Add(1)
		}
	}
	if err := e.store.Add(t.Context(), &erasure.Request{ID: events.NewID(), User: "ann", Created: time.Now().UTC(), By: "operator"}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := requests.Drain(); err != nil {
		t.Fatal(err)
	}
	if searches.Load() == 0 || reads.Load() != searches.Load() {
		t.Errorf("got %d reads of the log in %d searches, want one in each", reads.Load(), searches.Load())
	}
}

// TestErasedNamesLeaveSelectors erases a user whom a person, and another eraser, have made the playbook forget before.
func TestErasedNamesLeaveSelectors(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const user = "anneliese"
	for name, earlier := range map[string]playbook.Selector{"by user": {User: user}, "by session": {Session: canary(user, "session")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDesk(t, t.TempDir())
			d.startCurator(t)
			d.learn(t, user)
			d.send(t, &events.Edit{Book: "b", Forget: &earlier})
			d.erase(t, erasure.Request{User: user})
			p, err := deltalog.Load(t.Context(), d.conn, "b")
			if err != nil || p.Len() != 0 {
				t.Errorf("got %d bullets and error %v, want none", p.Len(), err)
			}
			d.stop()
			if bytes.Contains(d.files(t), []byte(user)) {
				t.Error("the name of the user is still stored")
			}
		})
	}
}

// TestInterruptedRebuildIsRepeated interrupts an erasure when the deltas are removed, and before the view is written again. The next call
// writes the view, and a further call has nothing to write.
func TestInterruptedRebuildIsRepeated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, t.TempDir())
	d.startCurator(t)
	d.learn(t, "ann")
	d.learn(t, "bob")
	r := erasure.Request{ID: events.NewID(), User: "ann", Created: time.Now().UTC()}
	if err := erasure.NewStore(d.conn.JetStream()).Add(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	e := New(d.conn, nil)
	e.settle = 10 * time.Millisecond
	send := e.Edit
	interrupted := errors.New("interrupted")
	e.Edit = func(ctx context.Context, edit *events.Edit) error {
		if edit.Rebuild {
			return interrupted
		}
		return send(ctx, edit)
	}
	if _, err := e.Run(t.Context()); !errors.Is(err, interrupted) {
		t.Fatalf("got error %v, want %v", err, interrupted)
	}
	for call, want := range []int{1, 0} {
		rebuilds := 0
		e.Edit = func(ctx context.Context, edit *events.Edit) error {
			if edit.Rebuild {
				rebuilds++
			}
			return send(ctx, edit)
		}
		if _, err := e.Run(t.Context()); err != nil || rebuilds != want {
			t.Errorf("call %d after the interruption: got %d rebuilds and error %v, want %d", call+1, rebuilds, err, want)
		}
	}
	d.stop()
	if bytes.Contains(d.files(t), []byte(canary("ann", "bullet"))) {
		t.Error("the files still have the removed bullet")
	}
}

// send sends an edit of a person and waits for the curator.
func (d *desk) send(t *testing.T, e *events.Edit) {
	t.Helper()
	e.ID, e.Author, e.Created = events.NewID(), "cleo", time.Now().UTC()
	reply, err := bus.Request[events.EditReply](t.Context(), d.conn, e, bus.PublishOptions{})
	if err == nil {
		err = reply.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// copyBook copies the bullets of a playbook into another one.
func (d *desk) copyBook(t *testing.T, from, to playbook.Book, isFork bool) {
	t.Helper()
	p, err := deltalog.Load(t.Context(), d.conn, from)
	if err != nil {
		t.Fatal(err)
	}
	e := &events.Edit{Book: to}
	if isFork {
		e.Fork = &playbook.Fork{Of: from, At: playbook.VersionLabel(p.Version(), nil)}
	}
	for b := range p.All() {
		e.Ops = append(e.Ops, playbook.Op{Kind: playbook.Put, Bullet: b.ID, PutBullet: b})
	}
	d.send(t, e)
}

// TestErasedTextsLeaveCopies erases a user from whom a playbook has learned, after its bullets were copied: into a fork, a fork of the fork, by
// an import, and by a change of a bullet, as a promotion makes it. A playbook in which a person wrote the text before stays as it is.
func TestErasedTextsLeaveCopies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t)
	d.startCurator(t)
	lesson, own := canary("ann", "bullet"), canary("cleo", "own words")
	add := func(b playbook.Book, content string) {
		d.send(t, &events.Edit{Book: b, Ops: []playbook.Op{{Kind: playbook.Add, Section: "misc", Content: content}}})
	}
	change := func(b playbook.Book, content string) {
		d.send(t, &events.Edit{Book: b, Ops: []playbook.Op{{Kind: playbook.Update, Bullet: "misc-00001", Section: "misc", Content: content}}})
	}
	other := strings.ToUpper(lesson)
	add("before", "another text")
	d.learn(t, "ann")
	d.learn(t, "bob")
	d.copyBook(t, "b", "fork", true)
	d.copyBook(t, "fork", "forkfork", true)
	d.copyBook(t, "b", "import", false)
	d.send(t, &events.Edit{Book: "forkfork", Ops: []playbook.Op{{Kind: playbook.Pin, Bullet: "misc-00001", Pinned: true}}})
	add("changed", own)
	change("changed", lesson)
	change("changed", own)
	add("other", other)
	forms := map[string]string{
		"plain": lesson, "hex": hex.EncodeToString([]byte(lesson)), "base64": base64.StdEncoding.EncodeToString([]byte(lesson))[:20],
	}
	count := func() map[string]int {
		data, found := d.files(t), map[string]int{}
		for form, text := range forms {
			found[form] = bytes.Count(data, []byte(text))
		}
		return found
	}
	if n := count()["plain"]; n < 10 { // an edit, a delta and a key of the view for each of four copies
		t.Fatalf("before: found the text %d times, want at least 10", n)
	}

	out := d.erase(t, erasure.Request{User: "ann"})
	if out.Runs != 1 || out.Versions == 0 {
		t.Errorf("got %+v, want one run and changed versions", out)
	}
	logs := deltalog.New(d.conn.JetStream())
	for b, want := range map[playbook.Book][]string{
		"b": {canary("bob", "bullet")}, "fork": {canary("bob", "bullet")}, "forkfork": {canary("bob", "bullet")}, "import": {canary("bob", "bullet")},
		"changed": {own}, "before": {"another text"}, "other": {other},
	} {
		p, err := deltalog.Load(t.Context(), d.conn, b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for bullet := range p.All() {
			got = append(got, bullet.Content)
		}
		if !slices.Equal(got, want) {
			t.Errorf("playbook %q: got the bullets %q, want %q", b, got, want)
		}
		if found, err := logs.Verify(t.Context(), b); err != nil || found.Damaged() {
			t.Errorf("playbook %q: got %+v and error %v, want a log without damage", b, found, err)
		}
	}
	if again := d.erase(t, erasure.Request{User: "nobody"}); again.Versions != 0 || again.Removed != 0 {
		t.Errorf("a second erasure: got %+v, want nothing to remove", again)
	}
	d.copyBook(t, "fork", "later", true) // the logs go on
	d.stop()
	for form, n := range count() {
		if n > 0 {
			t.Errorf("after: the text of ann is still in the files %d times, %s", n, form)
		}
	}
}

// TestTextsOfOthersStay erases a user whose lesson another playbook has, too: from another user, or from a person before.
func TestTextsOfOthersStay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, test := range []string{"written before", "learned from bob"} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			d := startDesk(t)
			d.startCurator(t)
			lesson := canary("ann", "bullet")
			if test == "written before" {
				d.send(t, &events.Edit{Book: "other", Ops: []playbook.Op{{Kind: playbook.Add, Section: "misc", Content: lesson}}})
			}
			d.learn(t, "ann")
			if test != "written before" {
				d.learnText(t, "other", "bob", lesson)
				d.copyBook(t, "other", "fork", true)
			}
			d.erase(t, erasure.Request{User: "ann"})
			for _, b := range []playbook.Book{"other", "fork"} {
				p, err := deltalog.Load(t.Context(), d.conn, b)
				if err != nil {
					t.Fatal(err)
				}
				if exists := b == "other" || test != "written before"; exists && p.FindByContent(lesson) == nil {
					t.Errorf("playbook %q has lost its bullet", b)
				}
			}
			if p, err := deltalog.Load(t.Context(), d.conn, "b"); err != nil || p.Len() != 0 {
				t.Errorf("got %d bullets and error %v, want none", p.Len(), err)
			}
		})
	}
}
