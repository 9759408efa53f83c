package curator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

func TestRedeliveredReflectionCountsOnce(t *testing.T) {
	t.Parallel()
	for why, again := range map[string]func(*harness, *events.Reflection){
		"published again after the server forgot its id": func(h *harness, r *events.Reflection) {
			h.work(nil)
			h.publish(r)
			h.until("b", "a vote", func(p *playbook.Playbook) bool { return helpful(p, "misc-00001") == 1 })
			h.again(r)
			h.again(r)
		},
		"published again before anyone looked": func(h *harness, r *events.Reflection) {
			h.publish(r)
			h.again(r)
			h.work(nil)
		},
		"committed by a curator that died before it acked": func(h *harness, r *events.Reflection) {
			h.commit(r, h.publish(r))
			h.work(nil)
		},
		"committed by a curator that gave it back": func(h *harness, r *events.Reflection) {
			seq := h.publish(r)
			cons, err := h.conn.JetStream().CreateConsumer(h.Context(), events.StreamReflections, jetstream.ConsumerConfig{
				Durable: events.RoleCurator, AckPolicy: jetstream.AckExplicitPolicy,
			})
			h.ok(err)
			m, err := cons.Next()
			h.ok(err)
			h.ok(m.Nak())
			h.commit(r, seq)
			h.work(nil)
		},
		"committed under a floor that is past it": func(h *harness, r *events.Reflection) {
			h.commit(r, h.publish(r))
			curator.AddDeltas(h.T, h.store, "b", playbook.Delta{Floor: 1})
			h.again(r)
			h.work(nil)
		},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			curator.AddDeltas(t, h.store, "b", playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "first"}}})
			again(h, reflection("b", "r", "misc-00001"))
			p := h.whole("b") // in one process, its edit follows the published events
			if got := helpful(p, "misc-00001"); got != 1 {
				t.Errorf("got %d votes, want 1", got)
			}
		})
	}
}

func TestRecreatedStreamBelowFloorIsCounted(t *testing.T) {
	t.Parallel()
	h := build(t)
	old, fresh := reflection("b", "old", "misc-00001"), reflection("b", "fresh", "misc-00001")
	curator.AddDeltas(t, h.store, "b", playbook.Delta{Floor: 1000, Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "first"},
	}})
	h.commit(old, 900)
	h.publish(old)   // imported again into the new stream
	h.publish(fresh) // its sequence is below the floor
	h.work(nil)
	h.until("b", "two votes", func(p *playbook.Playbook) bool { return helpful(p, "misc-00001") == 2 })
	if got := helpful(h.whole("b"), "misc-00001"); got != 2 {
		t.Errorf("got %d votes, want 2: one of each reflection", got)
	}
}

func TestUselessModelOutputHoldsOnlyLessons(t *testing.T) {
	t.Parallel()
	h := buildPatient(t) // otherwise the lessons become dead letters while the votes wait for a probe
	for i := range 3 {
		h.publish(lesson("b", fmt.Sprint("lesson", i), fmt.Sprint("a lesson of three, number ", i)))
		h.publish(reflection("b", fmt.Sprint("vote", i), "misc-00001"))
	}
	var asked atomic.Int32
	var sane atomic.Bool
	h.work(model(func(context.Context, chat.Prompt) (string, error) {
		if sane.Load() {
			return nothing, nil
		}
		asked.Add(1)
		return "I would rather not.", nil
	}))
	for asked.Load() < 20 { // more than one attempt of three lessons has calls
		time.Sleep(5 * time.Millisecond)
	}
	p := h.whole("b")
	if p.Len() != 1 {
		t.Errorf("got %d bullets, want the edit's alone", p.Len())
	}
	paused := func(r bus.RoleHealth) bool { return r.State == bus.Paused && strings.Contains(r.Reason, "rather not") }
	for deadline := time.Now().Add(time.Minute); !slices.ContainsFunc(h.conn.Health.Roles(), paused); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) { // between two pauses the role runs for a moment
			t.Fatalf("got health %+v, want a pause with the reply of the model as the reason", h.conn.Health.Roles())
		}
	}
	for _, role := range h.conn.Stats.Roles() {
		if r := role.Replies; role.Role == events.RoleCurator && (r.Invalid < 5 || r.Invalid != r.Total) {
			t.Errorf("got %+v, want at least 5 invalid replies and no others", r)
		}
	}
	sane.Store(true)
	h.lag(bus.Lag.Idle)
	if states, err := h.conn.Streams(t.Context()); err != nil || states[4].Name != events.StreamDead || states[4].Messages != 0 {
		t.Errorf("streams: %+v, %v; want no dead letter", states, err)
	}
}

// TestOnlyLessonsWaitForUnavailableModel sends a lesson, a vote and an edit in one batch.
func TestOnlyLessonsWaitForUnavailableModel(t *testing.T) {
	t.Parallel()
	h := buildForBatch(t)
	back := make(chan struct{})
	e := &events.Edit{Book: "b", ID: events.NewID(), Author: "ann", Ops: []playbook.Op{add("an edit")}}
	h.workOnBatch(func(context.Context, chat.Prompt) (string, error) {
		select {
		case <-back:
			return `{"reasoning": "new", "operations": [{"type": "ADD", "section": "others", "content": "a lesson for next time", "reflections": [1]}]}`, nil
		default:
			return "", &chat.UnavailableError{Err: errors.New("no route")}
		}
	}, lesson("b", "r", "a lesson for next time"), reflection("b", "v", "misc-00099"), e)
	h.until("b", "the edit, while the model is away", func(p *playbook.Playbook) bool {
		return p.FindByContent("an edit") != nil && p.FindByContent("a lesson for next time") == nil
	})
	close(back)
	h.until("b", "the lesson", func(p *playbook.Playbook) bool { return p.FindByContent("a lesson for next time") != nil })
	if p := h.whole("b"); p.Len() != 3 {
		t.Errorf("got %d bullets, want the edit's, the lesson's and the last one's", p.Len())
	}
	if states, err := h.conn.Streams(t.Context()); err != nil || states[4].Name != events.StreamDead || states[4].Messages != 0 {
		t.Errorf("streams: %+v, %v; want no dead letter", states, err)
	}
}

func TestEditReplyHasVersionOrRefusal(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	if d := h.edit("b", add("one")); d.Version != 1 || len(d.Refused) != 0 {
		t.Errorf("got %+v, want version 1", d)
	}
	pin := playbook.Op{Kind: playbook.Pin, Bullet: "misc-00001", Pinned: true}
	d := h.edit("b", add("ONE"), pin, playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001"})
	if d.Version != 2 || len(d.Refused) != 2 || d.Refused[0].Code != playbook.ReasonDuplicate || d.Refused[1].Code != playbook.ReasonPinned {
		t.Errorf("got %+v, want version 2, a duplicate and a pinned bullet", d)
	}
	for i, pinned := range []bool{false, true} { // all of an edit or nothing
		version := uint64(2 + i)
		if pinned {
			h.edit("b", pin)
		}
		if p, err := h.store.PlaybookAt(t.Context(), "b", version); err != nil || p.Bullet("misc-00001").Pinned != pinned {
			t.Errorf("version %d: got %v, want pinned %v", version, err, pinned)
		}
	}
}

// TestSweepRepairsStaleView simulates a Curator that died between its commit and its flush.
func TestSweepRepairsStaleView(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	commit := func(h *harness, content string) {
		w, err := h.store.Writer(h.Context(), "b")
		h.ok(err)
		_, err = w.Commit(h.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: playbook.MintID("others", s.Playbook().LastMinted()+1), Section: "others", Content: content}}}}, nil
		})
		h.ok(err)
	}
	h := build(t)
	commit(h, "before any curator ran")
	h.work(nil)
	h.until("b", "repaired at the start", func(p *playbook.Playbook) bool { return p.FindByContent("before any curator ran") != nil })
	h.edit("b", add("the curator has the book open"))
	commit(h, "beside a curator")
	h.until("b", "repaired while it runs", func(p *playbook.Playbook) bool { return p.FindByContent("beside a curator") != nil })
	h.whole("b")
}

func TestTwoCuratorsCountEverythingOnce(t *testing.T) {
	t.Parallel()
	h := build(t)
	const n = 300
	h.work(nil)
	h.edit("b", add("one"))
	h.work(nil)
	var producers sync.WaitGroup
	for part := range 4 {
		producers.Go(func() {
			for i := part; i < n; i += 4 {
				r := reflection("b", fmt.Sprint(i), "misc-00001")
				r.Lessons = []events.Lesson{{Section: "others", Content: fmt.Sprint("lesson of the house ", i%10)}}
				if _, err := h.conn.Publish(h.Context(), r, bus.PublishOptions{}); err != nil {
					h.Error(err)
				}
				if i%5 == 0 {
					h.again(r)
				}
			}
		})
	}
	producers.Wait()
	h.until("b", "all votes", func(p *playbook.Playbook) bool { return helpful(p, "misc-00001") >= n })
	h.lag(bus.Lag.Idle)
	p := h.whole("b")
	if got := helpful(p, "misc-00001"); got != n || p.Len() != 12 {
		t.Errorf("got %d votes and %d bullets, want %d and 12", got, p.Len(), n)
	}
}

// TestBooksDoNotWaitForEachOther blocks the model for one book until the events of another book are processed.
func TestBooksDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	h := build(t)
	thinking, thought := make(chan struct{}), make(chan struct{})
	h.work(model(func(ctx context.Context, _ chat.Prompt) (string, error) {
		close(thinking)
		select {
		case <-thought:
		case <-ctx.Done():
		}
		return nothing, nil
	}))
	h.publish(lesson("slow", "r", "hard to say"))
	<-thinking
	h.publish(reflection("fast", "r", "misc-00099"))
	if d := h.edit("fast", add("one")); d.Version < 1 {
		t.Errorf("got %+v", d)
	}
	h.until("fast", "the edit", func(p *playbook.Playbook) bool { return p.FindByContent("one") != nil })
	close(thought)
	h.whole("slow")
	h.whole("fast")
}

// TestOperationNamesItsSupport checks an operation that a model proposes for several reflections.
func TestOperationNamesItsSupport(t *testing.T) {
	t.Parallel()
	h := buildForBatch(t)
	h.workOnBatch(func(_ context.Context, p chat.Prompt) (string, error) {
		if n := strings.Count(p.Messages[1].Text, `"number"`); n != 3 {
			return nothing, fmt.Errorf("got %d insights in one question, want 3", n)
		}
		return `{"reasoning": "two agree", "operations": [
			{"type": "ADD", "section": "others", "content": "a lesson of two", "reflections": [1, 3]},
			{"type": "ADD", "section": "others", "content": "a lesson of who knows"},
			{"type": "REMOVE", "bullet_id": "nope-1", "reflections": [2]}]}`, nil
	}, lesson("b", "0", "lesson 0 of three"), lesson("b", "1", "lesson 1 of three"), lesson("b", "2", "lesson 2 of three"))
	h.until("b", "the lessons", func(p *playbook.Playbook) bool { return p.Len() == 1 })
	m, err := h.conn.JetStream().Stream(t.Context(), events.StreamDeltas)
	h.ok(err)
	raw, err := m.GetLastMsgForSubject(t.Context(), events.KindDelta.Subject("b"))
	h.ok(err)
	d, err := events.DecodeDelta(raw.Data)
	h.ok(err)
	got := map[string]string{}
	for _, op := range d.Ops {
		got[op.Content] = fmt.Sprint(op.Support)
	}
	rejected := map[playbook.Reason]string{}
	for _, r := range d.Rejected {
		rejected[r.Code] = r.Op.Content + string(r.Op.Bullet)
	}
	want := map[playbook.Reason]string{playbook.ReasonInvalid: "a lesson of who knows", playbook.ReasonUnknownBullet: "nope-1"}
	if got["a lesson of two"] != "[0 2]" || !maps.Equal(rejected, want) {
		t.Errorf("got support %v and rejections %v, want [0 2] and %v", got, rejected, want)
	}
}
