package curator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"debrief/curator"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// on returns a reflection on feedback with a sequence, for the execution of another reflection.
func on(r *events.Reflection, judged uint64, votes map[playbook.BulletID]events.Vote) *events.Reflection {
	f := *r
	f.Feedback = events.Hash("feedback", string(r.Execution), fmt.Sprint(judged))
	f.ID = events.ReflectionID(r.Execution, f.Feedback, r.Reflector)
	f.FeedbackSeq, f.Corrects, f.Tags, f.Lessons = judged, true, nil, nil
	for _, id := range slices.Sorted(maps.Keys(votes)) {
		f.Tags = append(f.Tags, events.BulletTag{ID: id, Tag: votes[id]})
	}
	return &f
}

// in returns a copy of a reflection in another book, with the ids of that book.
func in(b playbook.Book, r *events.Reflection) *events.Reflection {
	other := *r
	other.Book, other.ID = b, events.Hash(string(b), string(r.ID))
	return &other
}

type votes = map[playbook.BulletID]events.Vote

// counts formats the counters and the support of all bullets that have counters.
func counts(p *playbook.Playbook) string {
	var all []string
	for _, b := range p.Sorted() {
		if b.Helpful+b.Harmful+b.Neutral > 0 {
			all = append(all, fmt.Sprintf("%s +%d -%d =%d", b.ID, b.Helpful, b.Harmful, b.Neutral))
		}
	}
	return strings.Join(all, ", ")
}

// settled waits until all events are acknowledged and returns the state of a book by its log.
func (h *harness) settled(b playbook.Book, last uint64) *playbook.Playbook {
	h.Helper()
	h.floor(last)
	newest := uint64(0)
	h.ok(h.store.ReadLog(h.Context(), b, func(r *deltalog.Record) error { newest = r.Version; return nil }))
	p, err := h.store.PlaybookAt(h.Context(), b, newest)
	h.ok(err)
	return p
}

// bullets adds n bullets to a book.
func (h *harness) bullets(b playbook.Book, n int) {
	h.Helper()
	var ops []playbook.Op
	for i := range n {
		ops = append(ops, playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(i+1)), Section: "others", Content: fmt.Sprint("bullet ", i+1)})
	}
	curator.AddDeltas(h.T, h.store, b, playbook.Delta{Ops: ops})
}

// TestFeedbackMovesVotes compares the counters after a sequence of published events.
func TestFeedbackMovesVotes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	h.work(nil)
	own := reflection("", "own", "misc-00001", "misc-00002")
	unknown := reflection("", "unknown")
	bad := votes{"misc-00001": events.Harmful, "misc-00002": events.Harmful}
	for i, test := range []struct {
		why  string
		of   []*events.Reflection
		want string
	}{
		{"a vote moves", []*events.Reflection{own, on(own, 9, bad)}, "misc-00001 +0 -1 =0, misc-00002 +0 -1 =0"},
		{"and back", []*events.Reflection{own, on(own, 9, bad), on(own, 12, votes{"misc-00001": events.Helpful})}, "misc-00001 +1 -0 =0"},
		{"what is judged the same stays", []*events.Reflection{own, on(own, 9, votes{"misc-00001": events.Helpful, "misc-00002": events.Neutral})}, "misc-00001 +1 -0 =0, misc-00002 +0 -0 =1"},
		{"the later judgement counts that came in first", []*events.Reflection{own, on(own, 12, bad), on(own, 9, votes{"misc-00003": events.Helpful})}, "misc-00001 +0 -1 =0, misc-00002 +0 -1 =0"},
		{"what was not voted on before is now", []*events.Reflection{own, on(own, 9, votes{"misc-00003": events.Neutral})}, "misc-00003 +0 -0 =1"},
		{"what nobody knew counts", []*events.Reflection{unknown, on(unknown, 9, bad)}, "misc-00001 +0 -1 =0, misc-00002 +0 -1 =0"},
		{"a bullet that is not there has no vote", []*events.Reflection{own, on(own, 9, votes{"misc-00077": events.Helpful})}, ""},
		{"the execution's own reflection, when it comes late, casts none", []*events.Reflection{on(own, 9, bad), own}, "misc-00001 +0 -1 =0, misc-00002 +0 -1 =0"},
	} {
		t.Run(test.why, func(t *testing.T) {
			h := *h
			h.T = t
			book := playbook.Book(fmt.Sprint("b", i))
			h.bullets(book, 3)
			var last uint64
			for _, r := range test.of {
				last = h.publish(in(book, r))
			}
			if got := counts(h.settled(book, last)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for _, r := range test.of { // everything once more, long after
				h.again(in(book, r))
				last++
			}
			if got := counts(h.settled(book, last)); got != test.want {
				t.Errorf("once more: got %s, want %s", got, test.want)
			}
		})
	}
}

// TestCorrectionWaitsForEarlierReflection checks that the lessons of the earlier reflection are not lost: another
// process holds it when the feedback arrives.
func TestCorrectionWaitsForEarlierReflection(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	h.bullets("b", 3)
	own := lesson("b", "own", "what the execution taught")
	own.Tags = reflection("b", "own", "misc-00001").Tags
	h.publish(own)
	cons, err := h.conn.JetStream().CreateConsumer(t.Context(), events.StreamReflections, jetstream.ConsumerConfig{
		Durable: events.RoleCurator, AckPolicy: jetstream.AckExplicitPolicy,
	})
	h.ok(err)
	held, err := cons.Next()
	h.ok(err)
	h.work(nil)
	last := h.publish(on(own, 9, votes{"misc-00001": events.Harmful}))
	h.publish(reflection("another", "x", "misc-00001")) // another book goes on meanwhile, and when it has, so could this one
	h.until("another", "a commit", func(p *playbook.Playbook) bool { return p.Version() > 0 })
	h.ok(held.Nak())
	p := h.settled("b", last)
	if got := counts(p); got != "misc-00001 +0 -1 =0" || p.FindByContent("what the execution taught") == nil {
		t.Errorf("got %s and %d bullets, want the vote moved and the lesson learned", got, p.Len())
	}
}

// TestCorrectionFollowsReflectionThatNeedsAModel checks that the correction is not dead-lettered while it waits.
func TestCorrectionFollowsReflectionThatNeedsAModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := buildForBatch(t)
	h.bullets("b", 3)
	own := lesson("b", "own", "what the execution taught")
	own.Tags = reflection("b", "own", "misc-00001").Tags
	var asked atomic.Int32
	h.workOnBatch(func(context.Context, chat.Prompt) (string, error) {
		if asked.Add(1) < 5 {
			return "", &chat.UnavailableError{Err: errors.New("no route")}
		}
		return `{"reasoning": "new", "operations": [{"type": "ADD", "section": "others", "content": "a lesson in five words", "reflections": [1]}]}`, nil
	}, own, on(own, 9, votes{"misc-00001": events.Harmful}))
	p := h.settled("b", 3)
	if got := counts(p); got != "misc-00001 +0 -1 =0" || p.FindByContent("a lesson in five words") == nil {
		t.Errorf("got %s and %d bullets, want the vote moved and the lesson learned", got, p.Len())
	}
}

// TestRedeliveredCorrectionHasNoSecondEffect delivers a committed correction again, also under another sequence, to a
// Curator that opens the book from its view.
func TestRedeliveredCorrectionHasNoSecondEffect(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.bullets("b", 1)
	own := reflection("b", "own", "misc-00001")
	r := on(own, 9, votes{"misc-00001": events.Harmful})
	first, second := h.publish(own), h.publish(r)
	w, err := h.store.Writer(t.Context(), "b")
	h.ok(err)
	for _, d := range []*playbook.Delta{
		{
			Covers: []playbook.Cover{own.Cover(first)},
			Ops:    []playbook.Op{{Kind: playbook.Tag, Bullet: "misc-00001", Helpful: 1, Support: []int{0}}},
		},
		{
			Covers: []playbook.Cover{r.Cover(second)},
			Ops:    []playbook.Op{{Kind: playbook.Retag, Bullet: "misc-00001", OldVote: playbook.Helpful, Harmful: 1, Support: []int{0}}},
		},
	} {
		_, err = w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{d}, nil })
		h.ok(err)
	}
	h.ok(w.Flush(t.Context()))
	h.work(nil)
	h.again(r)
	h.again(own)
	back := on(own, 12, votes{"misc-00001": events.Neutral})
	if got := counts(h.settled("b", h.publish(back))); got != "misc-00001 +0 -0 =1" {
		t.Errorf("got %s, want the one vote where the last feedback moved it", got)
	}
	p, err := h.store.PlaybookAt(t.Context(), "b", 3)
	h.ok(err)
	if got := counts(p); got != "misc-00001 +0 -1 =0" {
		t.Errorf("after the deliveries that came again: got %s", got)
	}
}

// TestFeedbackMovesOutcomes checks that an outcome moves once, in the arm and the experiment of its task.
func TestFeedbackMovesOutcomes(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.bullets("b", 2)
	own := reflection("b", "own")
	seen := playbook.Exposure{Arm: playbook.ArmWithheld, Score: 10}
	curator.AddDeltas(t, h.store, "b", playbook.Delta{
		Covers: []playbook.Cover{own.Cover(1)},
		Ops:    []playbook.Op{{Kind: playbook.AddExposures, Bullet: "misc-00001", Exposures: []playbook.Exposure{seen}, Support: []int{0}}},
	})
	h.work(nil)
	fail := on(own, 9, nil)
	fail.Outcome = events.Outcome{Label: events.Failure}
	fail.Exposures = []events.Exposure{{Bullet: "misc-00001", Arm: playbook.ArmWithheld}, {Bullet: "misc-00002", Arm: playbook.ArmOpen, Cited: true}, {Bullet: "misc-00001", Experiment: 7}}
	same := on(own, 12, nil)
	same.Outcome, same.Exposures = fail.Outcome, fail.Exposures
	fresh := on(reflection("b", "unknown"), 15, nil)
	fresh.Outcome, fresh.Exposures, fresh.FirstRoundScore, fresh.Corrects = events.Outcome{Label: events.Partial, Score: 0.5}, fail.Exposures[:2], 0.5, false
	h.publish(fail)
	h.publish(same)
	p := h.settled("b", h.publish(fresh))
	one, two := p.Bullet("misc-00001").CurrentExperiment(), p.Bullet("misc-00002").CurrentExperiment()
	if one.Withheld != (playbook.Scores{0: 1, 5: 1}) || one.Shown.Count()+one.Cited.Count() > 0 {
		t.Errorf("got %+v, want one failure and one in between, withheld", one)
	}
	if two.Cited != (playbook.Scores{5: 1}) {
		t.Errorf("got %+v, want one new outcome, from the new execution", two)
	}
}

// TestVotesMatchLatestFeedback publishes executions and feedback in random order, some twice, with two Curators.
func TestVotesMatchLatestFeedback(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	h.work(nil)
	h.work(nil)
	var books atomic.Int32
	drawn := rapid.MapOfN(rapid.SampledFrom([]playbook.BulletID{"misc-00001", "misc-00002", "misc-00003"}),
		rapid.SampledFrom([]events.Vote{events.Helpful, events.Harmful, events.Neutral}), 0, 3)
	rapid.Check(t, func(rt *rapid.T) {
		book := playbook.Book(fmt.Sprint("p", books.Add(1)))
		h.bullets(book, 3)
		latest := map[int]votes{}
		judged := map[int]uint64{}
		var order []*events.Reflection
		for i := range rapid.IntRange(1, 4).Draw(rt, "executions") {
			r := reflection(book, fmt.Sprint("x", i))
			r.Origin.Source = fmt.Sprint("s", i%2)
			if latest[i] = drawn.Draw(rt, "votes"); rapid.IntRange(0, 3).Draw(rt, "known") == 0 {
				latest[i] = nil
			}
			own := on(r, 0, latest[i])
			own.ID, own.Feedback, own.Corrects = r.ID, "", false
			mine := []*events.Reflection{own}
			for range rapid.IntRange(0, 3).Draw(rt, "feedback") {
				at, v := rapid.Uint64Range(1, 99).Draw(rt, "judged"), drawn.Draw(rt, "corrected")
				if slices.ContainsFunc(mine, func(r *events.Reflection) bool { return r.FeedbackSeq == at }) {
					continue // a sequence is one feedback's
				}
				mine = append(mine, on(r, at, v))
				if at > judged[i] {
					judged[i], latest[i] = at, v
				}
			}
			for _, r := range mine { // between the others, but the own one first
				at := 0
				for j, o := range order {
					if o.Execution == r.Execution && o.FeedbackSeq == 0 {
						at = j + 1
					}
				}
				order = slices.Insert(order, rapid.IntRange(at, len(order)).Draw(rt, "place"), r)
			}
		}
		var last uint64
		for _, r := range order {
			last = h.publish(r)
			if rapid.IntRange(0, 5).Draw(rt, "twice") == 0 {
				h.again(r)
				last++
			}
		}
		p := h.settled(book, last)
		want := map[playbook.BulletID]*playbook.Bullet{}
		for _, of := range latest {
			for id, v := range of {
				b := want[id]
				if b == nil {
					b = &playbook.Bullet{ID: id}
					want[id] = b
				}
				switch v {
				case events.Helpful:
					b.Helpful++
				case events.Harmful:
					b.Harmful++
				default:
					b.Neutral++
				}
			}
		}
		for b := range p.All() {
			w := want[b.ID]
			if w == nil {
				w = new(playbook.Bullet)
			}
			if b.Helpful != w.Helpful || b.Harmful != w.Harmful || b.Neutral != w.Neutral {
				rt.Errorf("%s: got +%d -%d =%d, want +%d -%d =%d", b.ID, b.Helpful, b.Harmful, b.Neutral, w.Helpful, w.Harmful, w.Neutral)
			}
			backed := 0
			for _, x := range b.SupportBySource {
				backed += x.Count
			}
			if backed != b.Helpful+b.Harmful+b.Neutral {
				rt.Errorf("%s: backed by %v, has %d votes", b.ID, b.SupportBySource, b.Helpful+b.Harmful+b.Neutral)
			}
		}
		log := h.store.History(t.Context(), book)
		for b := range p.All() { // the lineage counts the same
			l, err := history.LineageOf(log, b.ID)
			h.ok(err)
			if l.VotesCast != l.CurrentVotes {
				rt.Errorf("%s: counted %+v, live %+v", b.ID, l.VotesCast, l.CurrentVotes)
			}
		}
	})
}

// TestFeedbackOnAnyHandleMovesTheSameVote uses an execution that was sent again and has two handles. Forgetting one
// handle removes the vote.
func TestFeedbackOnAnyHandleMovesTheSameVote(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.bullets("b", 1)
	h.work(nil)
	own := reflection("b", "own", "misc-00001")
	again := *own
	again.ID, again.Handle, again.Reflector = events.ReflectionID(own.Execution, "", "newer"), events.NewHandle(77, own.Execution), "newer"
	h.publish(own)
	if got := counts(h.settled("b", h.publish(&again))); got != "misc-00001 +1 -0 =0" {
		t.Fatalf("after a resend to a newer reflector: got %s, want one vote", got)
	}
	h.publish(on(&again, 80, votes{"misc-00001": events.Harmful}))
	if got := counts(h.settled("b", h.publish(on(own, 81, votes{"misc-00001": events.Harmful})))); got != "misc-00001 +0 -1 =0" {
		t.Errorf("after feedback on both handles: got %s, want the one vote moved", got)
	}
	late := *own
	late.ID, late.Handle = events.ReflectionID(own.Execution, "", "newest"), events.NewHandle(90, own.Execution)
	if got := counts(h.settled("b", h.publish(&late))); got != "misc-00001 +0 -1 =0" {
		t.Errorf("after another resend: got %s, want the vote as it was judged", got)
	}
	d := h.ask("b", &events.Edit{Forget: &playbook.Selector{Execution: string(again.Handle)}})
	if got := counts(h.settled("b", 0)); got != "" || len(d.Refused) > 0 {
		t.Errorf("after the second handle is forgotten: got %s, %v; want no vote", got, d.Refused)
	}
}

// The gate counts no inferred outcome, but it counts the outcome that somebody reports later.
func TestGateCountsReportedOutcomeAfterInferred(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	h.bullets("b", 1)
	inferred := reflection("", "inferred")
	inferred.Outcome = events.Outcome{Label: events.Failure, Inferred: true}
	inferred.Exposures = []events.Exposure{{Bullet: "misc-00001", Arm: playbook.ArmOpen, Cited: true}}
	reported := on(inferred, 9, nil)
	reported.Outcome, reported.FirstRoundScore = events.Outcome{Label: events.Success, Score: 1, By: "ann"}, 1
	for i, want := range []int{0, 1} {
		r := []*events.Reflection{inferred, reported}[i]
		p := h.settled("b", h.publish(in("b", r)))
		x := p.Bullet("misc-00001").CurrentExperiment()
		if got := x.Outcomes(); got != want {
			t.Errorf("after the outcome of %q: got %d outcomes, want %d", r.Outcome.By, got, want)
		}
	}
}
