package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

const book = playbook.Book("lab")

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// author writes a random log.
type author struct {
	*testing.T
	rng  *rand.Rand
	w    *deltalog.Writer
	n    int
	from []string // handles of the executions
}

// commit writes a change of one to three deltas: of the Curator or of a person, also with restores of bullets, merges, rejections, names,
// statuses and forgotten executions.
func (a *author) commit() {
	a.Helper()
	_, err := a.w.Commit(a.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
		a.n++
		parts := []int{1, 1, 1, 3}[a.rng.IntN(4)]
		last := &playbook.Delta{Author: []string{history.Curator, "ada"}[a.rng.IntN(2)], Time: time.Unix(int64(1000*a.n), 0).UTC(), Reason: fmt.Sprint("reason ", a.n)}
		for k := range 3 {
			handle := fmt.Sprintf("%d-%08x", 10*a.n+k, a.n)
			if a.rng.IntN(4) == 0 && len(a.from) > 0 {
				handle = a.from[a.rng.IntN(len(a.from))] // corrected later
			}
			a.from = append(a.from, handle)
			last.Covers = append(last.Covers, playbook.Cover{ID: fmt.Sprint("event-", a.n, "-", k), Seq: uint64(a.n), Evidence: &playbook.Evidence{Execution: handle, Source: fmt.Sprint("source-", a.rng.IntN(5)), Outcome: "success", Score: 1}})
		}
		if a.rng.IntN(6) == 0 && s.Playbook().Version() > 0 {
			last.Names = []playbook.Name{{Name: fmt.Sprint("name-", a.rng.IntN(4)), Version: 1 + a.rng.Uint64N(s.Playbook().Version())}}
		}
		if a.rng.IntN(12) == 0 {
			last.Forget = &playbook.Selector{Source: fmt.Sprint("source-", a.rng.IntN(5))}
		}
		if same := a.old(s); same != "" {
			last.Rejected = []playbook.Rejection{{Op: playbook.Op{Kind: playbook.Add, Section: "others", Content: "Again.", Support: []int{1}}, Code: playbook.ReasonDuplicate, Reason: "duplicate", DuplicateOf: same}}
		}
		var all []*playbook.Delta
		for p := range parts {
			d := &playbook.Delta{Author: last.Author, Time: last.Time}
			if p == parts-1 {
				d = last
			}
			for k := range 1 + a.rng.IntN(3) {
				if op := a.op(s, uint64(1+9*p+k)); op.Bullet != "" {
					d.Ops = append(d.Ops, op)
				}
			}
			all = append(all, d)
		}
		return all, nil
	})
	check(a.T, err)
}

// old returns a random bullet, "" without any.
func (a *author) old(s deltalog.State) playbook.BulletID {
	all := s.Playbook().Sorted()
	if len(all) == 0 {
		return ""
	}
	return all[a.rng.IntN(len(all))].ID
}

// op returns a random operation, without a bullet if it is not possible.
func (a *author) op(s deltalog.State, number uint64) playbook.Op {
	op := playbook.Op{Bullet: a.old(s), Support: []int{a.rng.IntN(3)}}
	content := fmt.Sprintf("Rule %d of change %d.", number, a.n)
	switch kind := a.rng.IntN(12); {
	case kind < 3 || op.Bullet == "":
		op.Kind, op.Bullet, op.Section, op.Content = playbook.Add, playbook.MintID("others", s.Playbook().LastMinted()+number), "others", content
		op.Status = []playbook.Status{playbook.Active, playbook.Quarantined, playbook.Probation}[a.rng.IntN(3)]
	case kind < 5:
		op.Kind, op.Helpful = playbook.Tag, 1
	case kind < 6:
		op.Kind, op.Content = playbook.Update, content
	case kind < 8:
		op.Kind, op.Content, op.Sources = playbook.Merge, content, []playbook.BulletID{a.old(s)}
		if op.Sources[0] == op.Bullet {
			return playbook.Op{}
		}
	case kind < 10:
		op.Kind, op.Status, op.Reason = playbook.SetStatus, []playbook.Status{playbook.Active, playbook.Quarantined, playbook.Probation, playbook.Retired}[a.rng.IntN(4)], "status"
	case kind < 11:
		op.Kind = playbook.Remove
		op.Support = nil
	default:
		b := *s.Playbook().Bullet(op.Bullet)
		op.Kind, op.PutBullet = playbook.Put, &b
	}
	return op
}

// printed returns a value, or its error, as text to compare.
func printed(value any, err error) string {
	data, _ := json.Marshal(value)
	return fmt.Sprint(string(data), " ", err)
}

// states returns the states of a bullet in a log.
func states(log deltalog.Log, id playbook.BulletID) (all []string, err error) {
	err = history.StatesOf(log.History(), id, func(d *playbook.Delta, b *playbook.Bullet) {
		all = append(all, printed(d.Version, nil)+printed(b, nil))
	})
	return slices.Compact(all), err
}

// compare compares all results of an index with those of the whole log.
func compare(t *testing.T, x *Logs, store *deltalog.Store, handles []string) {
	t.Helper()
	ctx := t.Context()
	whole := store.Log(ctx, book)
	same := func(what string, got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("%s:\n got %.2000s\nwant %.2000s", what, got, want)
		}
	}
	ids, newest := map[playbook.BulletID]bool{"others-99999": true}, uint64(0)
	var list, ofBullets []*Version
	statuses := new(history.Statuses)
	var log []*deltalog.Record
	names := map[string]uint64{} // a name belongs to the version that got it last
	check(t, whole(func(r *deltalog.Record) error {
		newest = r.Version
		statuses.Add(&r.Delta)
		for _, op := range r.Ops {
			ids[op.Bullet] = true
		}
		for _, n := range r.Names {
			names[n.Name] = n.Version
		}
		log = append(log, r)
		return nil
	}))
	for _, ch := range slices.Backward(log) {
		v := newVersion(ch, nil)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if names[name] == ch.Version {
				v.Names = append(v.Names, name)
			}
		}
		list = append(list, v)
		if ch.Author != history.Curator || slices.ContainsFunc(ch.Ops, func(op playbook.Op) bool { return op.Kind != playbook.Tag && op.Kind != playbook.Confirm }) {
			ofBullets = append(ofBullets, v)
		}
		got, d, err := x.Delta(ctx, book, ch.Version)
		check(t, err)
		slices.Sort(got.Names)
		same("version", printed(got, nil)+printed(d, nil), printed(v, nil)+printed(ch.Delta, nil))
	}
	for id := range ids {
		want, wantErr := explain.BulletOf(book, whole, id)
		got, err := explain.BulletOf(book, x.Bullet(ctx, book, id), id)
		same("bullet "+string(id), printed(got, err), printed(want, wantErr))
		same("states of "+string(id), printed(states(x.Bullet(ctx, book, id), id)), printed(states(whole, id)))
	}
	for _, h := range append(handles, "1-none") {
		want, err := history.TraceOf(whole.History(), h)
		got, gotErr := history.TraceOf(x.Covering(ctx, book, h).History(), h)
		same("execution "+h, printed(got, gotErr), printed(want, err))
	}
	var p *playbook.Playbook
	for v := range newest + 1 {
		want, wantErr := store.PlaybookAt(ctx, book, v)
		check(t, wantErr)
		if v == newest {
			p = want
		}
	}
	got, err := x.Quarantine(ctx, book, p)
	same("quarantine", printed(got, err), printed(statuses.Quarantine(p), nil))
	decisions, err := x.Decisions(ctx, book)
	same("decisions", printed(decisions, err), printed(statuses.Decisions(), nil))
	all, err := pages(ctx, x, AllChanges)
	same("versions", printed(all, err), printed(list, nil))
	all, err = pages(ctx, x, BulletChanges)
	same("versions that change bullets", printed(all, err), printed(ofBullets, nil))
	var changes []uint64
	for _, c := range x.activity.State().Changes {
		changes = append(changes, c.Version)
	}
	if slices.Sort(changes); len(changes) != int(newest) || len(slices.Compact(changes)) != int(newest) {
		t.Fatalf("the activity has the changes %v, want each of %d once", changes, newest)
	}
	for _, point := range []string{"newest", "0", "1", "7", "7@00", "999", "name-1", "name-3", "none", "1970-01-01T03:00:00Z", "1960-01-01", "?"} {
		want, wantErr := explain.FindVersion(book, point, store.Log(ctx, book))
		got, err := x.Version(ctx, book, point)
		same("point "+point, fmt.Sprint(got.Number, got.Label(), err), fmt.Sprint(want.Number, want.Label(), wantErr))
	}
}

// pages returns the selected versions, page by page.
func pages(ctx context.Context, x *Logs, changes Changes) (all []*Version, err error) {
	const limit = 7
	for end := uint64(math.MaxInt64); ; end = all[len(all)-1].Version {
		part, _, err := x.Versions(ctx, book, end, limit, changes)
		for i := range part {
			slices.Sort(part[i].Names)
		}
		if all = append(all, part...); err != nil || len(part) < limit || all[len(all)-1].Version == 1 {
			return all, err
		}
	}
}

// TestIndexAgreesWithTheLog compares an index that follows a random log with the whole log, also after the server has lost the log and
// another one took its place.
func TestIndexAgreesWithTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	store := deltalog.New(conn.JetStream())
	x := New(conn, nil).Logs
	for seed := range uint64(2) {
		w, err := store.Writer(t.Context(), book)
		check(t, err)
		a := &author{T: t, rng: rand.New(rand.NewPCG(seed, 1)), w: w}
		for i := range 45 {
			a.commit()
			if i%25 == 13 {
				compare(t, x, store, a.from)
			}
		}
		if l := opened(x, book).log; len(l.merged) == 0 || !slices.ContainsFunc(l.deltas, func(d delta) bool { return d.forgets }) || len(l.names) == 0 {
			t.Errorf("seed %d: got %d merges, %d names, want some of each, and forgotten executions", seed, len(l.merged), len(l.names))
		}
		check(t, w.Flush(t.Context()))
		check(t, conn.JetStream().DeleteStream(t.Context(), events.StreamDeltas))
		check(t, conn.JetStream().DeleteKeyValue(t.Context(), events.BucketPlaybook))
		_, err = bus.Open(t.Context(), conn.NATS(), bus.Options{})
		check(t, err)
		if _, _, err := x.Versions(t.Context(), book, 10, 5, AllChanges); err != nil {
			t.Errorf("without a log: %v", err)
		}
	}
}

// TestReplacedDelta changes the log under an index without its knowledge: what it then reads is an error of the log, and not another delta.
func TestReplacedDelta(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	store := deltalog.New(conn.JetStream())
	w, err := store.Writer(t.Context(), book)
	check(t, err)
	a := &author{T: t, rng: rand.New(rand.NewPCG(7, 1)), w: w}
	for range 40 {
		a.commit()
	}
	x := New(conn, nil).Logs
	check(t, x.read(t.Context(), book, func(*bookLog) error { return nil }))
	l := opened(x, book).log
	for _, count := range []int{1, 20} {
		var at []deltalog.Position
		for _, d := range l.deltas[5 : 5+count] {
			at = append(at, d.Position)
		}
		at[0].Chain[0]++
		if err := store.Records(t.Context(), book, at, func(*deltalog.Record) error { return nil }); !errors.Is(err, deltalog.ErrBrokenLog) {
			t.Errorf("%d deltas: got %v, want %v", count, err, deltalog.ErrBrokenLog)
		}
	}
}

// TestLogIsKeptAfterAClientLeft: a request that ends early must not make the next one read the whole log again.
func TestLogIsKeptAfterAClientLeft(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	w, err := deltalog.New(conn.JetStream()).Writer(t.Context(), book)
	check(t, err)
	a := &author{T: t, rng: rand.New(rand.NewPCG(7, 1)), w: w}
	a.commit()
	x := New(conn, nil).Logs
	none := func(*bookLog) error { return nil }
	check(t, x.read(t.Context(), book, none))
	before := opened(x, book).log
	a.commit()
	left, leave := context.WithCancel(t.Context())
	leave()
	if err := x.read(left, book, none); !errors.Is(err, context.Canceled) {
		t.Errorf("after the client left: got %v, want %v", err, context.Canceled)
	}
	check(t, x.read(t.Context(), book, none))
	if l := opened(x, book).log; l != before || uint64(len(l.deltas)) != w.State().Playbook().Version() {
		t.Errorf("got %d deltas, from the start: %v; want %d, continued", len(l.deltas), l != before, w.State().Playbook().Version())
	}
}

// opened returns the entry of a playbook that was read.
func opened(x *Logs, b playbook.Book) *entry {
	e, _ := x.open.Peek(b)
	return e
}

// TestLogsDropPlaybooks checks the limit of the playbooks in memory.
func TestLogsDropPlaybooks(t *testing.T) {
	t.Parallel()
	x := &Logs{}
	x.open, _ = lru.New[playbook.Book, *entry](maxBooks)
	for i := range maxBooks + 3 {
		entryOf(x.open, playbook.Book(fmt.Sprint("book-", i)))
	}
	if x.open.Len() != maxBooks || x.open.Contains("book-0") || !x.open.Contains(playbook.Book(fmt.Sprint("book-", maxBooks+2))) {
		t.Errorf("got %d playbooks, want the %d that were used last", x.open.Len(), maxBooks)
	}
}

// After the first call, followAll reads only the logs with new deltas. It reads all of them again after the stream has lost its end.
func TestFollowAllReadsOnlyChangedLogs(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	store := deltalog.New(conn.JetStream())
	commit := func(name playbook.Book) {
		t.Helper()
		w, err := store.Writer(t.Context(), name)
		check(t, err)
		(&author{T: t, rng: rand.New(rand.NewPCG(3, 1)), w: w}).commit()
	}
	commit("one")
	commit("two")
	x := New(conn, nil).Logs
	follow := func(before uint64, want ...playbook.Book) (last uint64) {
		t.Helper()
		x.open.Purge()
		last, err := x.followAll(t.Context(), before)
		check(t, err)
		if got := slices.Sorted(slices.Values(x.open.Keys())); !slices.Equal(got, want) {
			t.Errorf("after message %d: read the logs of %q, want %q", before, got, want)
		}
		return last
	}
	last := follow(0, "one", "two")
	follow(last)
	commit("two")
	last = follow(last, "two")
	follow(last+100, "one", "two")
}
