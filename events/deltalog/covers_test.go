package deltalog_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// coverEdits commits one delta that covers the edits that the log does not cover yet.
func coverEdits(w *deltalog.Writer, t testing.TB, ids ...string) error {
	if err := w.OpenIndex(t.Context()); err != nil {
		return err
	}
	_, err := w.Commit(t.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
		d := new(playbook.Delta)
		for _, id := range ids {
			c := playbook.Cover{ID: id}
			covered, err := s.Covers(c.Key())
			if err != nil {
				return nil, err
			}
			if !covered {
				d.Covers = append(d.Covers, c)
			}
		}
		if len(d.Covers) == 0 {
			return nil, nil
		}
		return []*playbook.Delta{d}, nil
	})
	return err
}

// countCovers counts how many times the log covers each id.
func countCovers(t testing.TB, s *deltalog.Store, b playbook.Book) map[string]int {
	t.Helper()
	n := map[string]int{}
	check(t, s.ReadLog(t.Context(), b, func(r *deltalog.Record) error {
		for _, c := range r.Covers {
			n[c.ID]++
		}
		return nil
	}))
	return n
}

// TestEachIDIsCoveredOnce: three writers race. Each id is submitted several times, at once and much later. Writers are dropped or
// closed, reopened and rebuilt.
func TestEachIDIsCoveredOnce(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			js, err := jetstream.New(nc)
			if err != nil {
				t.Error(err)
				return
			}
			own := deltalog.New(js)
			var w *deltalog.Writer
			for round := range rounds {
				if w == nil {
					if w, err = own.Writer(t.Context(), "b"); err != nil {
						t.Error(err)
						return
					}
				}
				ids := []string{fmt.Sprint("x", round)} // each writer submits the same id
				for range rng.IntN(4) {
					ids = append(ids, fmt.Sprint("x", rng.IntN(round+1)))
				}
				if err := coverEdits(w, t, distinct(ids)...); err != nil {
					t.Error(err)
					return
				}
				switch rng.IntN(8) {
				case 0:
					w = nil
				case 1:
					w.Close() // leaves its index to the next writer
					w = nil
				case 2:
					if err := w.Rebuild(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	covered := countCovers(t, s, "b")
	var ids []string
	for i := range rounds {
		ids = append(ids, fmt.Sprint("x", i))
		if n := covered[ids[i]]; n != 1 {
			t.Errorf("%s is covered %d times", ids[i], n)
		}
	}
	if len(covered) != rounds {
		t.Errorf("got %d ids, want %d", len(covered), rounds)
	}
	w := writer(t, s, "b")
	before := w.State().Playbook().Version()
	check(t, coverEdits(w, t, ids...))
	if now := w.State().Playbook().Version(); now != before {
		t.Errorf("a new writer: got version %d, want %d", now, before)
	}
}

func distinct(ids []string) (once []string) {
	seen := map[string]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}

// TestResentIDIsCoveredAfterARestart: five ids and 5,200 others are covered. Then some are sent again to a new process.
func TestResentIDIsCoveredAfterARestart(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	w := writer(t, s, "b")
	check(t, coverEdits(w, t, "1", "2", "3", "4", "5"))
	for i := range 13 {
		var ids []string
		for j := range 400 {
			ids = append(ids, fmt.Sprint("other ", 400*i+j))
		}
		check(t, coverEdits(w, t, ids...))
	}
	check(t, w.Flush(t.Context()))
	js, err := jetstream.New(nc)
	check(t, err)
	again := writer(t, deltalog.New(js), "b")
	before := again.State().Playbook().Version()
	check(t, coverEdits(again, t, "1", "3", "5", "other 5199"))
	if now := again.State().Playbook().Version(); now != before {
		t.Errorf("a resent id made version %d", now)
	}
}

// TestClosedWriterLeavesItsIndex: a curator closes the writer of an idle playbook. The next one reads only the newer part of a long log. If
// the log was replaced meanwhile, it reads all of it.
func TestClosedWriterLeavesItsIndex(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	js, err := jetstream.New(nc)
	check(t, err)
	longLog(t, js, "b", 50)
	w := writer(t, s, "b")
	check(t, w.Flush(t.Context()))
	w.Close()
	check(t, coverEdits(writer(t, deltalog.New(js), "b"), t, "new"))
	requests, err := nc.SubscribeSync("$JS.API.DIRECT.GET." + events.StreamDeltas)
	check(t, err)
	check(t, coverEdits(writer(t, s, "b"), t, "new"))
	if n := countCovers(t, s, "b")["new"]; n != 1 {
		t.Errorf("the new id is covered %d times", n)
	}
	first, err := requests.NextMsg(time.Second)
	check(t, err)
	var request struct{ Seq uint64 }
	check(t, json.Unmarshal(first.Data, &request))
	if request.Seq < 50 {
		t.Errorf("the second writer read from sequence %d, want the last indexed delta, 50", request.Seq)
	}

	replaced := writer(t, s, "b")
	replaced.Close()
	stream, err := js.Stream(t.Context(), events.StreamDeltas)
	check(t, err)
	check(t, js.DeleteStream(t.Context(), events.StreamDeltas))
	_, err = js.CreateStream(t.Context(), stream.CachedInfo().Config)
	check(t, err)
	other := writer(t, deltalog.New(js), "b")
	check(t, coverEdits(other, t, "other"))
	check(t, coverEdits(writer(t, s, "b"), t, "new"))
	if covered := countCovers(t, s, "b"); covered["new"] != 1 || covered["other"] != 1 {
		t.Errorf("after the log was replaced: %v, want new and other once", covered)
	}
}

func TestCoversWithoutAnIndexReturnsAnError(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	w, err := s.Writer(t.Context(), "b")
	check(t, err)
	if _, err := w.State().Covers(playbook.CoverKey{}); err == nil {
		t.Error("got no error")
	}
}

// TestKeysOfDifferentKindsDiffer: a client that chooses the id of its feedback cannot collide with an execution.
func TestKeysOfDifferentKindsDiffer(t *testing.T) {
	t.Parallel()
	kinds := map[playbook.CoverKey]string{}
	for name, c := range map[string]playbook.Cover{
		"edit":      {ID: "x"},
		"execution": {ID: "x", Evidence: &playbook.Evidence{Sample: "x"}},
		"feedback":  {ID: "x", Evidence: &playbook.Evidence{Sample: "x", FeedbackSeq: 1}},
	} {
		if other := kinds[c.Key()]; other != "" {
			t.Errorf("%s and %s have one key", name, other)
		}
		kinds[c.Key()] = name
	}
	if other := kinds[playbook.FeedbackKey("x")]; other != "" {
		t.Errorf("a judged sample and %s have one key", other)
	}
}

// TestVerifyReportsIDsCoveredTwice: the finding has both versions. A faulty program wrote the log.
func TestVerifyReportsIDsCoveredTwice(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	w := writer(t, s, "b")
	execution := playbook.Cover{ID: "x", Evidence: &playbook.Evidence{Sample: "x"}}
	feedback := playbook.Cover{ID: "x", Evidence: &playbook.Evidence{Sample: "x", FeedbackSeq: 7}}
	for _, covers := range [][]playbook.Cover{{execution, {ID: "e"}}, {feedback}, {{ID: "other"}}, {execution}, {{ID: "f"}, {ID: "e"}}} {
		_, err := w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{Covers: covers}}, nil
		})
		check(t, err)
	}
	check(t, w.Flush(t.Context()))
	v, err := s.Verify(t.Context(), "b")
	check(t, err)
	broken := 0
	for _, f := range v.Findings {
		if f.Severity == deltalog.Broken {
			broken++
		}
	}
	if broken != 2 {
		t.Errorf("got %q, want two ids", v.Findings)
	}
	finds(t, v, deltalog.Broken, deltalog.FindingDuplicate, "execution x", "version 4")
	finds(t, v, deltalog.Broken, deltalog.FindingDuplicate, "edit e", "version 5")
}

func TestVerifyReportsRepeatedAdds(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	w := writer(t, s, "b")
	for _, content := range []string{"first", "second"} {
		_, err := w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "misc-00001", Section: "misc", Content: content}}}}, nil
		})
		check(t, err)
	}
	check(t, w.Flush(t.Context()))
	v, err := s.Verify(t.Context(), "b")
	check(t, err)
	if len(v.Findings) != 1 || v.Findings[0].Code != deltalog.FindingDuplicateAdd || !strings.Contains(v.Findings[0].Text, "misc-00001") {
		t.Errorf("got %v, want the ADD of version 2", v.Findings)
	}
}
