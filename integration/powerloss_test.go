package integration

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

const (
	logStream  = events.StreamDeltas
	viewStream = "KV_" + events.BucketPlaybook
)

// TestPowerLossIsRepaired simulates a power loss of a server without immediate flushes: it kills all processes and truncates
// a file. The log has lost its last deltas and the view is ahead of it. The view must be rewritten from the log, a follower
// must show that state, and later deltas must continue the chain.
func TestPowerLossIsRepaired(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	dir := t.TempDir()
	server, url := startServerIn(t, dir, "100ms")
	curator := startCurator(t, "curator", url)
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	h := newExpectedBook(t, ctx, conn, "power")
	following, unfollow := context.WithCancel(t.Context()) // without a deadline, as in a program; requests have timeouts
	follower, stop, err := deltalog.New(conn.JetStream()).Follow(following, h.book)
	if err != nil {
		unfollow()
		t.Fatal(err)
	}
	defer func() { unfollow(); stop() }()
	rng := rand.New(rand.NewPCG(1, 1))
	f := &fault{name: "power loss of a server that flushes late", promise: "each message on the disk counts once; log, view and followers agree again"}
	for _, step := range []struct {
		name     string
		long     bool // in the long form only
		stream   string
		keep     func(ends []int) int // bytes to keep of the newest file, given the ends of its records
		survives bool                 // whether the curator keeps running, as on another machine
	}{
		{"the log lost its last record", false, logStream, func(ends []int) int { return ends[len(ends)-2] }, false},
		{"the log lost two records and a part of one", false, logStream, func(ends []int) int { return ends[len(ends)-3] - 17 }, false},
		{"the log lost the last bytes", true, logStream, func(ends []int) int { return ends[len(ends)-1] - 3 }, false},
		{"the view lost its head", true, viewStream, func(ends []int) int { return ends[len(ends)-2] }, false},
		{"the view lost a batch and a part of one", false, viewStream, func(ends []int) int { return ends[len(ends)-12] - 5 }, false},
		{"the view lost the last bytes", true, viewStream, func(ends []int) int { return ends[len(ends)-1] - 1 }, false},
		{"the log lost its last record and the curator nothing", false, logStream, func(ends []int) int { return ends[len(ends)-2] }, true},
		{"the view lost a batch and the curator nothing", false, viewStream, func(ends []int) int { return ends[len(ends)-12] - 5 }, true},
		{"the log lost all", false, logStream, func([]int) int { return 0 }, false},
	} {
		if step.long && os.Getenv(longEnv) == "" {
			continue
		}
		for range 2 { // a delta each
			h.voteAndTeach(t, ctx, conn, rng)
		}
		awaitSettled(t, ctx, conn)
		awaitView(t, ctx, conn, h.book)
		if !step.survives {
			curator.kill()
		}
		server.kill()
		loseTail(t, dir, step.stream, step.keep)
		f.hit()
		back := time.Now()
		if err := server.start(); err != nil {
			t.Fatal(err)
		}
		before := h.auditAgain(t, ctx, conn)
		h.forget(before)
		gone := len(h.gone)
		if firstView(before.problems) == "" && !step.survives { // a running curator may have repaired it already
			t.Errorf("%s: the view is not damaged, so the test is not meaningful", step.name)
		}
		if err := curator.start(); err != nil {
			t.Fatal(err)
		}
		h.awaitConsistent(t, ctx, conn, follower, step.name)
		f.recovered(time.Since(back))
		h.voteAndTeach(t, ctx, conn, rng)
		awaitSettled(t, ctx, conn)
		h.awaitConsistent(t, ctx, conn, follower, step.name+", and more came")
		t.Logf("%s: at restart: %q; %d reflections were lost with the log, %d permanently", step.name, firstView(before.problems), gone, len(h.gone))
	}
	f.report(t)
}

// TestWriterDetectsLogReplacedAfterPowerLoss removes the last delta of the log, and another writer stores a new one at the
// same sequence. A writer that has folded the removed delta must not commit after it.
func TestWriterDetectsLogReplacedAfterPowerLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	dir := t.TempDir()
	server, url := startServerIn(t, dir, "100ms")
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := deltalog.New(conn.JetStream())
	commit := func(w *deltalog.Writer, id string) error {
		_, err := w.Commit(ctx, func(s deltalog.State) ([]*playbook.Delta, error) {
			op := playbook.Op{
				Kind: playbook.Add, Section: "desk", Content: "Lesson " + id, Support: []int{0},
				Bullet: playbook.MintID("desk", s.Playbook().LastMinted()+1),
			}
			return []*playbook.Delta{{Covers: []playbook.Cover{{ID: id, Seq: 1}}, Ops: []playbook.Op{op}}}, nil
		})
		return err
	}
	survivor, err := store.Writer(ctx, desk)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if err := commit(survivor, id); err != nil {
			t.Fatal(err)
		}
	}
	server.kill()
	loseTail(t, dir, logStream, func(ends []int) int { return ends[len(ends)-2] })
	if err := server.start(); err != nil {
		t.Fatal(err)
	}
	var other *deltalog.Writer
	eventually(t, 20*time.Second, "open the book", func() (err error) { other, err = store.Writer(ctx, desk); return err })
	if err := commit(other, "d"); err != nil {
		t.Fatal(err)
	}
	if err := commit(survivor, "e"); !errors.Is(err, deltalog.ErrBrokenLog) {
		t.Errorf("commit of the old writer: got %v, want %v", err, deltalog.ErrBrokenLog)
	}
	if err := commit(other, "f"); err != nil {
		t.Errorf("next commit of the new writer: %v", err)
	}
	log, err := readAll(ctx, conn.JetStream(), logStream, events.KindDelta.Subject(desk))
	if err != nil {
		t.Fatal(err)
	}
	a := (&ledger{book: desk, deltas: log}).check()
	for _, p := range a.problems {
		if strings.HasPrefix(p, "chain: delta") {
			t.Error(p)
		}
	}
}

// firstView returns the first problem with the view, or "".
func firstView(problems []string) string {
	for _, p := range problems {
		if strings.HasPrefix(p, "view: ") {
			return p
		}
	}
	return ""
}

// voteAndTeach publishes events that give one delta with a few changed bullets, and waits for it.
func (h *expectedBook) voteAndTeach(t *testing.T, ctx context.Context, conn *bus.Conn, rng *rand.Rand) {
	t.Helper()
	r := h.newReflection()
	r.Lessons = []events.Lesson{{Section: "desk", Content: fmt.Sprintf("Lesson %s of the desk.", r.ID)}}
	for _, i := range rng.Perm(len(h.seeds))[:4] {
		r.Tags = append(r.Tags, events.BulletTag{ID: h.seeds[i], Tag: events.Helpful})
	}
	if err := h.publish(ctx, conn, r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	covered(t, ctx, conn, []events.ID{coveredID(r)})
}

// auditAgain audits after a restart of the server, with retries.
func (h *expectedBook) auditAgain(t *testing.T, ctx context.Context, conn *bus.Conn) (a *audit) {
	t.Helper()
	eventually(t, 20*time.Second, "read what is left", func() error {
		l, err := h.ledgerSoon(ctx, conn)
		if err != nil {
			return err
		}
		a = l.check()
		return nil
	})
	return a
}

// ledgerSoon calls ledger with a timeout, because a server that dies leaves requests without a reply.
func (h *expectedBook) ledgerSoon(ctx context.Context, conn *bus.Conn) (*ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return h.ledger(ctx, conn)
}

// forget removes the expected effects of events that no delta covers after the power loss.
func (h *expectedBook) forget(a *audit) {
	kept := slices.DeleteFunc(slices.Clone(h.published), func(e events.Event) bool { return a.covered[e.EventID()] == 0 })
	h.gone = slices.DeleteFunc(h.published, func(e events.Event) bool { return a.covered[e.EventID()] > 0 })
	h.recount(kept)
}

// remember adds the expected effects of lost events that are covered again: the server also lost the last acks and
// redelivered them. It reports whether there were any.
func (h *expectedBook) remember(a *audit) bool {
	n := len(h.gone)
	h.gone = slices.DeleteFunc(h.gone, func(e events.Event) bool {
		if a.covered[e.EventID()] > 0 {
			h.count(e)
			return true
		}
		return false
	})
	return len(h.gone) < n
}

// awaitConsistent waits until the log, the view, the expected book and a follower are equal.
func (h *expectedBook) awaitConsistent(t *testing.T, ctx context.Context, conn *bus.Conn, f *deltalog.Follower, what string) {
	t.Helper()
	eventually(t, 20*time.Second, what, func() error {
		l, err := h.ledgerSoon(ctx, conn)
		if err != nil {
			return err
		}
		a := l.check()
		if h.remember(a) {
			return errors.New("lost events are covered again")
		}
		h.check(a)
		if len(a.problems) > 0 {
			return errors.New(strings.Join(a.problems, "; "))
		}
		f.Read(func(p *playbook.Playbook, chain []byte) {
			if p.StateHash() != a.fold.StateHash() || !slices.Equal(chain, a.chain) {
				err = fmt.Errorf("the follower is at %s, the log at %s", playbook.VersionLabel(p.Version(), chain), playbook.VersionLabel(a.fold.Version(), a.chain))
			}
		})
		return err
	})
}

// loseTail truncates the newest file of a stream and removes the server's index, which is written later.
func loseTail(t *testing.T, dir, stream string, keep func(ends []int) int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files of stream %s not found: %v", stream, err)
	}
	newest := slices.MaxFunc(files, func(a, b string) int { return cmp.Compare(blockNumber(a), blockNumber(b)) })
	data, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(newest, int64(keep(recordEnds(t, data)))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(newest), "index.db")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func blockNumber(path string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".blk"))
	return n
}

// recordEnds returns the end of each record in a block. A record begins with its length, whose highest bit marks a message
// with headers.
func recordEnds(t *testing.T, block []byte) (ends []int) {
	t.Helper()
	for at := 0; at < len(block); ends = append(ends, at) {
		size := int(binary.LittleEndian.Uint32(block[at:]) &^ (1 << 31))
		if size == 0 || at+size > len(block) {
			t.Fatalf("record of %d bytes at %d of %d: unknown file format", size, at, len(block))
		}
		at += size
	}
	return ends
}
