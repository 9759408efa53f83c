package history_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// sampleLog returns a log with every kind of event on one bullet:
//
//	1 reflections r1 of s, r2 of s, r3 of t add misc-00001, which has two votes, and misc-00002
//	2 r4 proposes the first again
//	3 a model merges the second into the first
//	4 a change in three parts that is never completed
//	5-7 ann, in three parts, changes the content and pins
//	8 bob restores version 2
//	9 bob forgets source s
//	10 ann approves the first
//	11 ann removes it, 12 bob restores version 10
func sampleLog(t rapid.TB) *logWriter {
	k := newLogWriter(t)
	r := func(source, outcome string) playbook.Cover {
		c := k.reflection(source, "1")
		c.Evidence.Outcome = outcome
		return c
	}
	k.begin(history.Curator, r("s", "success"), r("s", "failure"), r("t", ""))
	k.propose(playbook.Op{Kind: playbook.Add, Content: "first", Support: []int{0, 2}})
	k.propose(playbook.Op{Kind: playbook.Add, Content: "second", Support: []int{2}})
	k.propose(playbook.Op{Kind: playbook.Tag, Bullet: "misc-00001", Helpful: 2, Support: []int{1, 2}})
	k.commit(1)
	k.begin(history.Curator, r("t", "success"))
	k.propose(playbook.Op{Kind: playbook.Add, Content: "First", Support: []int{0}})
	k.commit(1)
	k.begin(history.Curator, r("t", "success"), r("t", "success"))
	k.d.Model, k.d.Prompt = "gpt", "p1"
	k.propose(playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Content: "both", Sources: []playbook.BulletID{"misc-00002"}, Support: []int{1}, Reason: "the same twice"})
	k.commit(1)
	k.append(&playbook.Delta{Author: "ann", ChangeID: "lost", More: true, Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "misc-00001"}}})
	k.edit("ann")
	k.propose(playbook.Op{Kind: playbook.Update, Bullet: "misc-00001", Content: "better", Support: []int{0}})
	k.propose(playbook.Op{Kind: playbook.Pin, Bullet: "misc-00001", Pinned: true, Support: []int{0}})
	k.commit(2)
	k.restore(2, 1)
	k.forget(playbook.Selector{Source: "s"}, 1)
	k.edit("ann")
	k.propose(playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00001", Status: playbook.Active, Support: []int{0}})
	k.commit(1)
	k.edit("ann")
	k.propose(playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001", Support: []int{0}})
	k.commit(1)
	k.restore(10, 1)
	return k
}

// formatEvents returns events as lines: version, kind, bullet, author, and support.
func formatEvents(events []history.Event) (all []string) {
	for _, e := range events {
		line := fmt.Sprintf("%d %s %s by %s", e.Version, e.Kind, e.Bullet, e.Author)
		for _, c := range e.Support {
			line += " " + c.ID
		}
		if e.Reason != "" {
			line += ": " + e.Reason
		}
		if e.Model != "" {
			line += " (" + e.Model + " " + e.Prompt + ")"
		}
		if e.Restores != nil {
			line += fmt.Sprint(" restores ", *e.Restores)
		}
		if e.Forgets != nil {
			line += " forgets " + e.Forgets.String()
		}
		all = append(all, line)
	}
	return all
}

func TestLineage(t *testing.T) {
	t.Parallel()
	k := sampleLog(t)
	l, err := history.LineageOf(k.log, "misc-00001")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 ADD misc-00001 by curator r1 r3",
		"1 ADD misc-00002 by curator r3",
		"1 TAG misc-00001 by curator r2 r3",
		"2 AGAIN misc-00001 by curator r4: duplicate",
		"3 MERGE misc-00001 by curator r6: the same twice (gpt p1)",
		"7 UPDATE misc-00001 by ann edit7: because",
		"7 PIN misc-00001 by ann edit7: because",
		"8 PUT misc-00001 by bob edit8: because restores 2",
		`9 PUT misc-00001 by bob edit9: because forgets source "s"`,
		"10 STATUS misc-00001 by ann edit10: because",
		"11 REMOVE misc-00001 by ann edit11: because",
		"12 PUT misc-00001 by bob edit12: because restores 10",
	}
	if diff := cmp.Diff(want, formatEvents(l.Events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if l.Current == nil || l.Current.Content != "first" || l.RemovedBy != nil || !slices.Equal(l.Merged, []string{"misc-00002"}) {
		t.Errorf("got %+v, ended by %v, merged %v", l.Current, l.RemovedBy, l.Merged)
	}
	s := history.Summary{
		Author: history.Curator, First: time.Unix(0, 0), Last: time.Unix(11, 0),
		LearnedFrom: map[string]int{"success": 2, "unknown": 1}, Forgotten: 2,
		VotesCast: history.Votes{Helpful: 2}, CurrentVotes: history.Votes{Helpful: 1},
	}
	if diff := cmp.Diff(s, l.Summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestLineageOfRemovedBullet(t *testing.T) {
	t.Parallel()
	k := sampleLog(t)
	k.deltas = k.deltas[:11]
	for _, test := range []struct {
		upTo int
		id   playbook.BulletID
		want string
	}{
		{11, "misc-00001", "11 REMOVE misc-00001 by ann edit11: because"},
		{3, "misc-00002", "3 MERGE misc-00002 by curator r6: the same twice (gpt p1)"},
	} {
		k.deltas = k.deltas[:test.upTo]
		l, err := history.LineageOf(k.log, test.id)
		if err != nil {
			t.Fatal(err)
		}
		if l.Current != nil || l.RemovedBy == nil || formatEvents([]history.Event{*l.RemovedBy})[0] != test.want {
			t.Errorf("%s: got %v, ended by %v, want %s", test.id, l.Current, l.RemovedBy, test.want)
		}
	}
}

func TestLineageOfUnknownBullet(t *testing.T) {
	t.Parallel()
	k := sampleLog(t)
	for _, id := range []playbook.BulletID{"misc-00009", "misc-77777", ""} {
		if l, err := history.LineageOf(k.log, id); !errors.Is(err, history.ErrBulletNotFound) {
			t.Errorf("%q: got %+v, %v", id, l, err)
		}
	}
}

// A merged bullet that is restored has its own events afterwards.
func TestLineageEndsAtRestoreOfMergedBullet(t *testing.T) {
	t.Parallel()
	k := newLogWriter(t)
	edit := func(op playbook.Op) {
		k.edit("ann")
		op.Support = []int{0}
		k.propose(op)
		k.commit(1)
	}
	edit(playbook.Op{Kind: playbook.Add, Content: "one"})
	edit(playbook.Op{Kind: playbook.Add, Content: "two"})
	edit(playbook.Op{Kind: playbook.Add, Content: "three"})
	edit(playbook.Op{Kind: playbook.Merge, Bullet: "misc-00002", Content: "two, three", Sources: []playbook.BulletID{"misc-00003"}})
	edit(playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Content: "all", Sources: []playbook.BulletID{"misc-00002"}})
	k.restore(4, 1)
	edit(playbook.Op{Kind: playbook.Update, Bullet: "misc-00002", Content: "its own"})
	l, err := history.LineageOf(k.log, "misc-00001")
	if err != nil {
		t.Fatal(err)
	}
	want := "1 ADD misc-00001, 2 ADD misc-00002, 3 ADD misc-00003, 4 MERGE misc-00002, 5 MERGE misc-00001, 6 PUT misc-00001"
	var got []string
	for _, e := range l.Events {
		got = append(got, fmt.Sprintf("%d %s %s", e.Version, e.Kind, e.Bullet))
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestTraceOfExecution(t *testing.T) {
	t.Parallel()
	k := sampleLog(t)
	for handle, want := range map[string][]string{
		"3-abcdef": {"1 ADD misc-00001 by curator r1 r3", "1 ADD misc-00002 by curator r3", "1 TAG misc-00001 by curator r2 r3"},
		"4-abcdef": {"2 AGAIN misc-00001 by curator r4: duplicate"},
		"6-abcdef": {"3 MERGE misc-00001 by curator r6: the same twice (gpt p1)"},
		"5-abcdef": nil,
	} {
		trace, err := history.TraceOf(k.log, handle)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, formatEvents(trace.Events)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", handle, diff)
		}
		if len(trace.Reflections) != 1 || trace.Reflections[0].Cover.Evidence.Execution != handle {
			t.Errorf("%s: reflections %v", handle, trace.Reflections)
		}
	}
	if trace, err := history.TraceOf(k.log, "99-abcdef"); err != nil || len(trace.Reflections)+len(trace.Events) > 0 {
		t.Errorf("an unknown execution: got %+v, %v", trace, err)
	}
}

// A corrected vote counts once, and outcomes do not support a bullet. The trace of an execution contains only its own
// outcomes.
func TestLineageCountsCorrectedVotesOnce(t *testing.T) {
	t.Parallel()
	k := newLogWriter(t)
	k.writeLine("a: add one")
	k.writeLine("a,b,c: tag 1 /012; try 1 /12; second 1 /2")
	k.writeLine("b: move 1")
	l, err := history.LineageOf(k.log, "misc-00001")
	if err != nil {
		t.Fatal(err)
	}
	if want := (history.Votes{Helpful: 2, Harmful: 1}); l.VotesCast != want || l.CurrentVotes != want {
		t.Errorf("counted %+v, live %+v, want %+v", l.VotesCast, l.CurrentVotes, want)
	}
	// One execution added the text, and one voted and requested it again. The others only voted.
	if l.LearnedFrom["success"] != 2 || l.Helped != 2 || l.Harmed != 1 || l.NoEffect != 0 {
		t.Errorf("learned from %v, helped %d, harmed %d, no effect %d; want 2, 2, 1 and 0", l.LearnedFrom, l.Helped, l.Harmed, l.NoEffect)
	}
	if c := l.Current.CurrentExperiment(); c.Shown.Count() != 2 || c.Confirmations != 1 {
		t.Errorf("got the experiment %+v", c)
	}
	trace, err := history.TraceOf(k.log, "3-abcdef") // the first of the two tasks
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range trace.Events {
		got = append(got, fmt.Sprintf("%s %d on %d", e.Kind, len(e.Op.Exposures), len(e.Support)))
	}
	if want := []string{"TAG 0 on 3", "EXPOSURES 1 on 1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A rejection without support belongs to the execution if the delta covers nothing else.
func TestTraceIncludesRejectionsWithoutSupport(t *testing.T) {
	t.Parallel()
	no := []playbook.Rejection{{Op: playbook.Op{Kind: playbook.Tag, Bullet: "misc-00009"}, Reason: "unknown"}}
	k := newLogWriter(t)
	one, two, three := k.reflection("s", "1"), k.reflection("s", "1"), k.reflection("s", "1")
	k.append(&playbook.Delta{Author: history.Curator, Covers: []playbook.Cover{one}, Rejected: no})
	k.append(&playbook.Delta{Author: history.Curator, Covers: []playbook.Cover{two, three}, Rejected: no})
	for handle, want := range map[string][]string{"1-abcdef": {"1 REJECTED misc-00009 by curator r1: unknown"}, "2-abcdef": nil} {
		trace, err := history.TraceOf(k.log, handle)
		if diff := cmp.Diff(want, formatEvents(trace.Events)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", handle, err, diff)
		}
	}
}

// In logs as a Curator writes them, the source is evidence or a person.
func TestShownBulletsHaveASource(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := drawLog(t, allExtras)
		origins, err := history.Origins(k.log, &k.p)
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		for b := range k.p.All() {
			if b.Shown() {
				shown++
			}
		}
		if len(origins) != shown {
			t.Fatalf("origins of %d bullets, %d are shown", len(origins), shown)
		}
		for _, o := range origins {
			if !o.HasSource() {
				t.Fatalf("%+v does not resolve\n%v", o, k)
			}
			l, err := history.LineageOf(k.log, o.Bullet)
			if err != nil || l.Current == nil || !slices.ContainsFunc(l.Events, func(e history.Event) bool { return e.Version == o.Version }) {
				t.Fatalf("%s: its lineage does not have version %d: %v", o.Bullet, o.Version, err)
			}
			if !reflect.DeepEqual(l.Current, k.p.Bullet(o.Bullet)) {
				t.Fatalf("%s: its lineage ends in %+v, it is %+v", o.Bullet, l.Current, k.p.Bullet(o.Bullet))
			}
		}
	})
}

func TestOriginWithoutSource(t *testing.T) {
	t.Parallel()
	k := newLogWriter(t)
	add := func(n uint64, author string, cover playbook.Cover) {
		k.append(&playbook.Delta{Author: author, Reason: "why", Covers: []playbook.Cover{cover}, Ops: []playbook.Op{
			{Kind: playbook.Add, Bullet: playbook.MintID("others", n), Section: "others", Content: fmt.Sprint(n), Support: []int{0}},
		}})
	}
	add(1, history.Curator, playbook.Cover{ID: "no evidence"})
	add(2, "", playbook.Cover{ID: "no author"})
	add(3, "ann", playbook.Cover{ID: "an edit"})
	add(4, history.Curator, k.reflection("s", "1"))
	p := playbook.Restore(k.newest(), 5, func(yield func(*playbook.Bullet) bool) {
		for b := range k.p.All() {
			yield(b)
		}
		yield(&playbook.Bullet{ID: "misc-00005", Content: "in no log"})
	})
	origins, err := history.Origins(k.log, p)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range origins {
		got = append(got, fmt.Sprintf("%s %d %v", o.Bullet, o.Version, o.HasSource()))
	}
	want := []string{"misc-00001 1 false", "misc-00002 2 false", "misc-00003 3 true", "misc-00004 4 true", "misc-00005 0 false"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if traced, untraced, err := history.CountTraced(k.log, p); traced != 2 || untraced != 3 || err != nil {
		t.Errorf("got %d traced and %d untraced bullets, error %v", traced, untraced, err)
	}
}

// Every function returns an error of the log.
func TestLogErrorsAreReturned(t *testing.T) {
	t.Parallel()
	k := sampleLog(t)
	errBroken := errors.New("broken")
	log := func(fn func(*playbook.Delta) error) error {
		if err := fn(k.deltas[0]); err != nil {
			return err
		}
		return errBroken
	}
	for name, call := range map[string]func() error{
		"Of":          func() error { _, err := history.LineageOf(log, "misc-00001"); return err },
		"OfExecution": func() error { _, err := history.TraceOf(log, "1-abcdef"); return err },
		"Origins":     func() error { _, err := history.Origins(log, &k.p); return err },
		"Rejected":    func() error { _, err := history.Rejections(log); return err },
		"At":          func() error { _, _, err := history.StateAt(log, 1); return err },
		"Without":     func() error { _, err := history.Forget(log, playbook.Selector{Source: "s"}); return err },
	} {
		if err := call(); !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v, want %v", name, err, errBroken)
		}
	}
}
