package erase

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/operate/backup"
	"debrief/cmd/internal/operate/doctor"
	"debrief/events"
	"debrief/events/blob"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/erasure"
	"debrief/playbook"
)

// TestErasedDataLeavesTheFiles searches the files of the server for the texts of two users, before and after one of them is erased. A text
// in base64 or a compressed one would not be found: the server stores messages as they are, and programs do not encode texts.
func TestErasedDataLeavesTheFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann", "bob")
	for _, user := range []string{"ann", "bob"} {
		if got := d.found(t, user); len(got) != len(places) {
			t.Fatalf("before: got the texts of %s at %v, want all of %v", user, got, places)
		}
	}
	out := d.erase(t, erasure.Request{User: "ann"})
	if len(out.Done) != 1 || out.Runs != 1 || out.Removed == 0 {
		t.Errorf("got %+v, want one request, one run, and messages", out)
	}
	if damage, err := doctor.CheckDamage(t.Context(), d.conn, 1<<30); err != nil || len(damage) > 0 {
		t.Errorf("got the damage %v and error %v, want none", damage, err)
	}
	d.checkBob(t)
	d.checkErased(t, "ann")
	if got := strings.Join(d.found(t, "bob"), " "); got != strings.Join(withoutReplaced(), " ") {
		t.Errorf("after: got the texts of bob at %v", got)
	}
}

var digits = regexp.MustCompile("[0-9]+")

// TestEraseContinues interrupts an erasure at each of its steps, once. The next one ends the work.
func TestEraseContinues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann", "bob")
	r := erasure.Request{ID: events.NewID(), User: "ann", Created: time.Now().UTC()}
	if err := erasure.NewStore(d.conn.JetStream()).Add(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	interrupted := map[string]bool{} // steps without their numbers
	for done := false; !done; {
		ctx, cancel := context.WithCancel(t.Context())
		e := New(d.conn, nil)
		e.settle = time.Millisecond
		e.Progress = func(step string) {
			if kind := digits.ReplaceAllString(step, "n"); !interrupted[kind] {
				interrupted[kind] = true
				cancel()
			}
		}
		_, err := e.Run(ctx)
		done = err == nil
		cancel()
	}
	if steps := len(interrupted); steps < 2*len(searched) { // each is searched, and most have messages to remove
		t.Errorf("interrupted at %d steps, want at least %d: %v", steps, 2*len(searched), interrupted)
	}
	d.checkBob(t)
	d.checkErased(t, "ann")
}

// TestEraseAfterAKillBeforeTheTombstone: a process was killed after it had stored a request, and before its tombstone.
func TestEraseAfterAKillBeforeTheTombstone(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann", "bob")
	r := erasure.Request{ID: events.NewID(), User: "ann", Created: time.Now().UTC()}
	if err := erasure.NewStore(d.conn.JetStream()).Add(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	bucket, err := d.conn.JetStream().Stream(t.Context(), erasure.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.erasures."+string(r.ID))); err != nil {
		t.Fatal(err)
	}
	e := New(d.conn, nil)
	e.settle = time.Millisecond
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.checkBob(t)
	d.checkErased(t, "ann")
}

// TestLateRunsCount checks that the tombstone counts the runs of all searches: a worker that knows the tombstone late stores another run.
func TestLateRunsCount(t *testing.T) {
	t.Parallel()
	d := startDesk(t)
	began := time.Now().UTC().Add(-time.Minute)
	publish := func(run string) {
		x := &events.Execution{Book: "b", ID: events.ExecutionID("b", "", run, 0), RunID: run, User: "ann", Question: "q", Started: began}
		if _, err := d.conn.Publish(t.Context(), x, bus.PublishOptions{}); err != nil {
			t.Error(err)
		}
	}
	publish("1")
	publish("2")
	r := erasure.Request{ID: events.NewID(), User: "ann", Created: time.Now().UTC()}
	if err := erasure.NewStore(d.conn.JetStream()).Add(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	e := New(d.conn, nil)
	e.settle = time.Millisecond
	isLate := true
	e.Progress = func(step string) {
		if isLate && strings.HasPrefix(step, "wait until") {
			isLate = false
			publish("late")
		}
	}
	out, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out.Runs != 3 || out.Done[0].Runs != 3 {
		t.Errorf("got %+v and the tombstone %+v, want 3 runs in both", out, out.Done[0])
	}
}

// TestRunsWithAClockAheadAreErased: a client says when its run began. A run that was stored before the erasure did not begin after it.
func TestRunsWithAClockAheadAreErased(t *testing.T) {
	t.Parallel()
	d := startDesk(t, "bob")
	ahead := time.Now().UTC().Add(24 * time.Hour)
	e := &events.Execution{
		Book: "b", ID: events.ExecutionID("b", "", "ahead", 0), RunID: "ahead", User: "ann", Session: canary("ann", "session"), Started: ahead,
		Question: canary("ann", "question"), Answer: canary("ann", "answer") + strings.Repeat(canary("ann", "large"), bus.MaxInline/10),
	}
	task := &events.Task{Book: "b", ID: "ahead-waits", User: "ann", Question: canary("ann", "task"), Created: ahead}
	for _, event := range []events.Event{e, task} {
		if _, err := d.conn.Publish(t.Context(), event, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if out := d.erase(t, erasure.Request{User: "ann"}); out.Runs != 1 {
		t.Errorf("got %+v, want one run", out)
	}
	d.checkBob(t)
	d.checkErased(t, "ann")
}

// TestLaterRunsStay checks that the runs of a user after an erasure are new data, also when another user is erased later.
func TestLaterRunsStay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	d := startDesk(t)
	d.erase(t, erasure.Request{User: "ann"})
	later := &events.Execution{
		Book: "b", ID: events.ExecutionID("b", "", "later", 0), RunID: "later", User: "ann", Question: "q", Started: time.Now().UTC(),
	}
	if _, err := d.conn.Publish(t.Context(), later, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	d.erase(t, erasure.Request{User: "bob"})
	s, err := d.conn.JetStream().Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("got %d executions, want 1", n)
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	id := string(events.NewID())
	for _, test := range []struct {
		data string
		want string
	}{
		{"\xb6" + id + "A", id},
		{`{"x":"` + id + `"}`, id},
		{"$KV.openruns.run." + id, id},
		{"x17-ab12cd34", ""},
		{"\xab17-ab12cd34\x81", "17-ab12cd34"},
		{"17-ab12cd3", ""},
	} {
		got := ""
		mentions([]byte(test.data), func(s string) bool { got = s; return true })
		if got != test.want {
			t.Errorf("%q: got %q, want %q", test.data, got, test.want)
		}
	}
}

// TestEraseWholePlaybook checks that a playbook goes with its log, and that another one stays.
func TestEraseWholePlaybook(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann")
	logs := deltalog.New(d.conn.JetStream())
	for _, b := range []playbook.Book{"b", "other"} {
		w, err := logs.Writer(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Commit(t.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
			op := playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "misc", Content: canary("ann", "bullet-"+string(b))}
			return []*playbook.Delta{{Ops: []playbook.Op{op}, Author: "ann", Time: time.Now().Add(-time.Minute)}}, nil
		})
		if err == nil {
			err = w.Flush(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	erased, kept := []byte(canary("ann", "bullet-b")), []byte(canary("ann", "bullet-other"))
	if !bytes.Contains(d.files(t), erased) {
		t.Fatal("before: the text of the bullet is not in the files")
	}
	d.erase(t, erasure.Request{Book: "b"})
	books, err := logs.AllBooks(t.Context())
	if err != nil || !slices.Equal(books, []playbook.Book{"other"}) {
		t.Errorf("got playbooks %v and error %v, want only the other one", books, err)
	}
	d.checkErased(t, "ann")
	if data := d.files(t); bytes.Contains(data, erased) || !bytes.Contains(data, kept) {
		t.Error("after: want only the bullet of the other playbook in the files")
	}
}

// TestErasePlaybookThatChanges changes a playbook after the request to erase it, and while its log is removed. It must be gone, and be able to
// begin again, which later erasures leave alone.
func TestErasePlaybookThatChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t)
	logs := deltalog.New(d.conn.JetStream())
	open := func() *deltalog.Writer {
		w, err := logs.Writer(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	add := func(w *deltalog.Writer) {
		t.Helper()
		_, err := w.Commit(t.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
			op := playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("misc", s.Playbook().Version()+1), Section: "misc", Content: fmt.Sprint("Rule ", s.Playbook().Version())}
			return []*playbook.Delta{{Ops: []playbook.Op{op}, Author: "ann", Time: time.Now()}}, nil
		})
		if err == nil {
			err = w.Flush(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w := open()
	add(w)
	e := d.eraser()
	if err := e.store.Add(t.Context(), &erasure.Request{ID: events.NewID(), Book: "b", Created: time.Now().UTC()}); err != nil {
		t.Fatal(err)
	}
	add(w)
	e.Edit = func(ctx context.Context, edit *events.Edit) error { // the curator
		if w := open(); !edit.Rebuild || w.Rebuild(ctx) != nil || w.Flush(ctx) != nil {
			t.Errorf("cannot handle the edit %+v", edit)
		}
		return nil
	}
	// A writer continues the log between the search for deltas and that for late ones, then before the newest one is removed, and at last another
	// one begins again before the view is removed.
	steps := []struct {
		step string
		add  func()
	}{
		{"search " + events.StreamRedactions, func() { add(w) }},
		{"of " + events.StreamDeltas, func() { add(w) }},
		{"wait until every worker knows the erasure", func() {}},
		{"of " + "KV_" + events.BucketPlaybook, func() { add(open()) }},
	}
	e.Progress = func(step string) {
		if len(steps) > 0 && strings.HasSuffix(step, steps[0].step) {
			steps[0].add()
			steps = steps[1:]
		}
	}
	if _, err := e.Run(t.Context()); err != nil || len(steps) > 0 {
		t.Fatalf("got %v, and %d writes to come", err, len(steps))
	}
	d.erase(t, erasure.Request{User: "nobody"})
	w = open()
	if p := w.State().Playbook(); p.Version() != 1 || p.Len() != 1 || w.LostVersion() != "" {
		t.Errorf("got version %d with %d bullets and a loss of %q, want the new playbook", p.Version(), p.Len(), w.LostVersion())
	}
}

// TestRestoredDataIsErasedAgain restores a backup that was made before an erasure.
func TestRestoredDataIsErasedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann", "bob")
	older := backUp(t, d.conn)
	d.erase(t, erasure.Request{User: "ann"})
	if err := older.Restore(t.Context(), d.conn, 1, true); err != nil {
		t.Fatal(err)
	}
	if got := d.found(t, "ann"); len(got) < len(places)-2 { // two texts were replaced before the backup
		t.Fatalf("after the restore: got the texts of ann at %v, want nearly all of %v", got, places)
	}
	e := d.eraser()
	out, err := e.Run(t.Context())
	if err != nil || out.Runs != 1 {
		t.Errorf("got %+v and error %v, want one run", out, err)
	}
	if again, err := e.hasWork(t.Context()); err != nil || again {
		t.Errorf("got more work %t, error %v", again, err)
	}
	e.settle = time.Hour // without work there is nothing to wait for
	if out, err := e.Run(t.Context()); err != nil || out.Removed > 0 {
		t.Errorf("without work: got %+v and error %v", out, err)
	}
	d.checkBob(t)
	other := startDesk(t) // the files of a backup are compressed
	if err := backUp(t, d.conn).Restore(t.Context(), other.conn, 1, true); err != nil {
		t.Fatal(err)
	}
	other.stop()
	if got := other.found(t, "ann"); len(got) > 0 || len(other.found(t, "bob")) == 0 {
		t.Errorf("got the texts of ann at %v in a newer backup, want only those of bob", got)
	}
	d.checkErased(t, "ann")
}

// backUp returns a new backup, in the directory of the test.
func backUp(t *testing.T, conn *bus.Conn) *backup.Manifest {
	t.Helper()
	dir, err := backup.NewDir(filepath.Join(t.TempDir(), "backup"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := dir.Create(t.Context(), conn, "test"); err != nil {
		t.Fatal(err)
	}
	m, err := backup.Verify(dir.Name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestQuotedRunsStay checks that another user's run stays although it quotes ids of the erased one, as a copy of a log would.
func TestQuotedRunsStay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t)
	ctx, began := t.Context(), time.Now().UTC().Add(-time.Minute)
	store := func(user, question string) (*events.Execution, events.Handle) {
		e := &events.Execution{
			Book: "b", ID: events.ExecutionID("b", "", user, 0), RunID: user, User: user, Session: user, Question: question, Started: began,
		}
		r, err := d.conn.Publish(ctx, e, bus.PublishOptions{})
		if err == nil {
			err = d.windows.Add(ctx, "b", "", user, events.NewInteraction(r.Handle, e))
		}
		if err != nil {
			t.Fatal(err)
		}
		return e, r.Handle
	}
	ann, handle := store("ann", "q")
	quote := "see " + string(handle) + " and " + string(ann.ID)
	bob, _ := store("bob", quote)
	d.put(t, "openruns", "run.AAAAAAAAAAAAAAAAAAAAAA", &gatewayRun{ID: "AAAAAAAAAAAAAAAAAAAAAA", User: "bob", Book: "b", Session: "bob", Started: began, Question: quote})
	d.erase(t, erasure.Request{User: "ann"})
	if list, _, err := d.windows.Interactions(ctx, "b", "", "bob"); err != nil || len(list) != 1 {
		t.Errorf("got %d turns of bob and error %v, want 1", len(list), err)
	}
	if list, _, err := d.windows.Interactions(ctx, "b", "", "ann"); err != nil || len(list) != 0 {
		t.Errorf("got %d turns of ann and error %v, want none", len(list), err)
	}
	for stream, want := range map[string]uint64{events.StreamExecutions: 1, "KV_" + events.BucketOpen: 1} {
		s, err := d.conn.JetStream().Stream(ctx, stream)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.CachedInfo().State.Msgs; got != want {
			t.Errorf("%s: got %d messages, want %d", stream, got, want)
		}
	}
	filter := erasure.NewFilter(d.conn.JetStream())
	if err := filter.Check(ctx, bob); err != nil {
		t.Errorf("the run of bob: got %v, want no error", err)
	}
}

// TestTwoErasersAtOnce lets two erasers carry out the same requests.
func TestTwoErasersAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann", "bob")
	store := erasure.NewStore(d.conn.JetStream())
	for _, user := range []string{"ann", "cleo"} {
		if err := store.Add(t.Context(), &erasure.Request{ID: events.NewID(), User: user, Created: time.Now().UTC()}); err != nil {
			t.Fatal(err)
		}
	}
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			e := d.eraser()
			_, err := e.Run(t.Context())
			errs <- err
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	all, err := store.Tombstones(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tombstone := range all {
		if tombstone.Done.IsZero() {
			t.Errorf("tombstone %s is not done", tombstone.ID)
		}
	}
	if pending, err := store.Requests(t.Context()); err != nil || len(pending) > 0 {
		t.Errorf("got %d requests and error %v, want none", len(pending), err)
	}
	d.checkBob(t)
	d.checkErased(t, "ann")
}

// TestUnreadableBlobs: descriptions of blobs that cannot be read, or that name the chunks of other blobs, end no erasure, and the payloads of
// others stay.
func TestUnreadableBlobs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann", "bob")
	agent, err := blob.New(d.conn.JetStream()).PutAgent(t.Context(), agentOf("ann"))
	if err != nil {
		t.Fatal(err)
	}
	for _, description := range []struct{ name, text string }{
		{"other", "no JSON"}, {"other", `{"nuid":"*"}`}, {agent.Ref, `{"nuid":">"}`},
	} {
		at := blob.Prefix + ".M." + base64.URLEncoding.EncodeToString([]byte(description.name))
		if _, err := d.conn.JetStream().Publish(t.Context(), at, []byte(description.text)); err != nil {
			t.Fatal(err)
		}
	}
	d.erase(t, erasure.Request{User: "ann"})
	d.checkErased(t, "ann")
	if got := strings.Join(d.found(t, "bob"), " "); got != strings.Join(withoutReplaced(), " ") {
		t.Errorf("got the texts of bob at %v, want all", got)
	}
}

// TestEraseWithoutCurator ends with the error of an edit that no curator has decided on. Nothing is gone from the streams then, and the next
// call ends the work. The dead letters of others have new ids.
func TestEraseWithoutCurator(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := startDesk(t, "ann", "bob")
	stop := d.startCurator(t)
	d.learn(t, "ann")
	stop()
	r := erasure.Request{ID: events.NewID(), User: "ann", Created: time.Now().UTC()}
	if err := erasure.NewStore(d.conn.JetStream()).Add(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	e := d.eraser()
	wait := e.Edit
	e.Edit = func(ctx context.Context, edit *events.Edit) error {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		return wait(ctx, edit)
	}
	if _, err := e.Run(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("without a curator: got %v, want the end of the time", err)
	}
	if got := d.found(t, "ann"); len(got) != len(places) {
		t.Errorf("without a curator: the texts of ann are only at %v, want all of %v", got, places)
	}
	d.startCurator(t)
	e.Edit = wait
	out, err := e.Run(t.Context())
	if err != nil || len(out.Done) != 1 || out.Letters != 1 {
		t.Errorf("got %+v and error %v, want one request, and one letter with a new id", out, err)
	}
	d.checkErased(t, "ann")
}

// TestErasureWithEncryptionAtRest erases a user on a server that encrypts its files. The server then only marks a deleted message: its encrypted
// bytes stay in the file. Without encryption it overwrites them.
func TestErasureWithEncryptionAtRest(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, key := range []string{"", "the key of the server"} {
		t.Run("key="+key, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			srv, err := server.NewServer(&server.Options{
				DontListen: true, JetStream: true, StoreDir: dir, JetStreamKey: key, JetStreamCipher: server.ChaCha, NoSigs: true, SyncAlways: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			srv.Start()
			stop := func() { srv.Shutdown(); srv.WaitForShutdown() }
			t.Cleanup(stop)
			nc, err := nats.Connect("", nats.InProcessServer(srv))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			d := openDesk(t, nc, dir, stop)
			d.run(t, "ann")
			d.run(t, "bob")
			if got, want := len(d.found(t, "ann")), map[bool]int{true: len(places)}[key == ""]; got != want {
				t.Errorf("before: found %d texts in the files, want %d", got, want)
			}
			before := d.block(t, events.StreamExecutions)
			if out := d.erase(t, erasure.Request{User: "ann"}); out.Runs != 1 {
				t.Errorf("got %+v, want one run", out)
			}
			d.checkBob(t)
			s, err := d.conn.JetStream().Stream(t.Context(), events.StreamExecutions)
			if err != nil {
				t.Fatal(err)
			}
			if n := s.CachedInfo().State.Msgs; n != 2 { // execution and feedback of bob
				t.Errorf("got %d messages, want 2", n)
			}
			d.stop()
			stays := bytes.HasPrefix(d.block(t, events.StreamExecutions), before)
			if want := key != ""; stays != want {
				t.Errorf("the bytes of the erased messages stay: got %t, want %t", stays, want)
			}
			if got := d.found(t, "ann"); len(got) > 0 {
				t.Errorf("after: the texts of ann are still at %v", got)
			}
		})
	}
}
