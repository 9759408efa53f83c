package curator_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// held returns a held reflection. Its name determines its lessons and votes.
func held(b playbook.Book, name string, lessons ...string) *events.Reflection {
	r := reflection(b, name)
	r.Handle = events.NewHandle(1, r.Execution)
	r.Origin = events.Origin{Held: true, Source: "run"}
	r.Session = "one session makes all of them"
	r.Question = "the question of " + name
	r.Outcome = events.Outcome{Label: events.Success, Score: 1}
	for _, l := range lessons {
		r.KeyInsight = l
		r.Lessons = append(r.Lessons, events.Lesson{Section: "others", Content: l})
	}
	return r
}

func (h *harness) hold(r *events.Reflection) events.Handle {
	h.Helper()
	return events.NewHandle(h.publish(r), r.ID)
}

func (h *harness) gather(b playbook.Book, handles ...events.Handle) events.EditReply {
	h.Helper()
	return h.ask(b, &events.Edit{Gather: handles})
}

// bare stores an event without message id and markers, as if the server had forgotten the id.
func (h *harness) bare(e events.Event) events.Handle {
	h.Helper()
	subject, header, data, err := events.Encode(e)
	h.ok(err)
	delete(header, nats.MsgIdHdr)
	ack, err := h.conn.JetStream().PublishMsg(h.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	h.ok(err)
	return events.NewHandle(ack.Sequence, e.EventID())
}

// send publishes an edit with its id and returns the decision.
func (h *harness) send(e *events.Edit) events.EditReply {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
	defer cancel()
	reply, err := h.conn.Request(ctx, e, bus.PublishOptions{})
	h.ok(err)
	var d events.EditReply
	h.ok(events.Unmarshal(reply.Data, &d))
	return d
}

func gathers(b playbook.Book, handles ...events.Handle) *events.Edit {
	e := &events.Edit{Book: b, ID: events.NewID(), Author: "run", Reason: "batch", Gather: handles}
	return e
}

// thoughtful is a model whose reply depends only on the prompt: it adds a bullet with words that depend on the complete
// prompt, proposes a text that is rejected, and sometimes changes an existing bullet.
var thoughtful = model(func(_ context.Context, p chat.Prompt) (string, error) {
	sum := sha256.Sum256([]byte(p.Messages[1].Text))
	if p.Name == "reducer" {
		return `{"reasoning": "r", "decisions": [{"keep": 1, "drop": [2], "reason": "the same"}]}`, nil
	}
	ops := []map[string]any{
		{"type": "ADD", "section": "others", "content": fmt.Sprintf("The advice of prompt %x is to look twice at it.", sum[:6]), "reflections": []int{1}},
		{"type": "ADD", "section": "others", "content": fmt.Sprintf("lesson %x", sum[6:8]), "reflections": []int{1}},
	}
	if ids := bulletID.FindAllString(p.Messages[1].Text, -1); len(ids) > 0 && sum[8]%2 == 0 {
		id := strings.Trim(ids[int(sum[9])%len(ids)], "- []")
		ops = append(ops, map[string]any{"type": "UPDATE", "bullet_id": id, "content": fmt.Sprintf("Prompt %x had this changed.", sum[:6]), "reflections": []int{2}})
	}
	return said(ops), nil
})

var bulletID = regexp.MustCompile(`(?m)^- \[[a-z]+-\d+\]`)

func said(ops []map[string]any) string {
	text, _ := json.Marshal(map[string]any{"reasoning": "r", "operations": ops})
	return string(text)
}

// TestHeldReflectionHasNoEffectUntilGathered also checks that the gathered reflections are one change, in which every
// operation has its support.
func TestHeldReflectionHasNoEffectUntilGathered(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	h.edit("b", add("the first"))
	one, two := held("b", "one", "the lesson that is one"), held("b", "two", "the lesson that is two")
	two.Tags = []events.BulletTag{{ID: "misc-00001", Tag: events.Helpful}}
	handles := []events.Handle{h.hold(two), h.hold(one)}
	seq, _, err := handles[1].Parse()
	h.ok(err)
	h.floor(seq)
	if d := h.edit("b", add("the second")); d.Version != 2 {
		t.Errorf("got version %d after two held reflections and two edits, want 2", d.Version)
	}
	if p := h.at("b", 2); p.Len() != 2 || helpful(p, "misc-00001") != 0 {
		t.Errorf("got %d bullets and %d votes, want those of the edits", p.Len(), helpful(p, "misc-00001"))
	}
	d := h.gather("b", handles...)
	if d.Version != 3 || len(d.Added) != 2 || d.Changed != 3 || len(d.Refused) != 0 {
		t.Errorf("got %+v, want version 3 with two bullets more", d)
	}
	p := h.at("b", 3)
	if b := p.FindByContent("the lesson that is two"); b == nil || helpful(p, "misc-00001") != 1 || p.FindByContent("the lesson that is one") == nil || b.ID != d.Added[0] {
		t.Errorf("got %+v, want the lessons in the order of the edit, and the vote", p.Sorted())
	}
	if len(p.FindByContent("the lesson that is one").SupportBySource) != 1 {
		t.Error("a lesson of one reflection has no support")
	}
	origins, err := history.Origins(h.store.History(t.Context(), "b"), p)
	h.ok(err)
	for _, o := range origins {
		want := map[playbook.BulletID]*events.Reflection{d.Added[0]: two, d.Added[1]: one}[o.Bullet]
		if want != nil && (len(o.Support) != 1 || o.Support[0].Evidence == nil || o.Support[0].Evidence.Execution != string(want.Handle)) {
			t.Errorf("bullet %s: got %+v, want it to rest on %s", o.Bullet, o, want.Handle)
		}
	}
	if d := h.gather("b", handles[0]); d.Version != 4 || d.Changed != 0 || len(d.Refused) != 0 {
		t.Errorf("gathered again by another edit: got %+v, want a change of nothing", d)
	}
	h.whole("b")
}

// TestGatheringEditCountsOnce publishes and delivers the edit several times, to one process or several.
func TestGatheringEditCountsOnce(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	h.edit("b", add("the first"))
	r := held("b", "r", "a lesson of four words")
	r.Tags = []events.BulletTag{{ID: "misc-00001", Tag: events.Helpful}}
	e := gathers("b", h.hold(r))
	for range 2 {
		h.again(e)
		h.bare(e)
	}
	h.again(r) // and the gathered reflection, with another sequence
	h.bare(r)
	p := h.whole("b")
	if helpful(p, "misc-00001") != 1 || p.Len() != 3 {
		t.Errorf("got %d votes and %d bullets, want 1 and 3", helpful(p, "misc-00001"), p.Len())
	}
	other := gathers("b", h.hold(held("b", "other", "another lesson of some words")), h.bare(r), e.Gather[0])
	h.bare(other)
	p = h.whole("b")
	if helpful(p, "misc-00001") != 1 || p.FindByContent("another lesson of some words") == nil {
		t.Errorf("got %d votes, want one vote of each reflection", helpful(p, "misc-00001"))
	}
}

// TestGatherRefusesInvalidHandles checks that each refusal names the handle and that nothing of the edit is done.
func TestGatherRefusesInvalidHandles(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	good := h.hold(held("b", "good", "a good lesson in words"))
	foreign := h.hold(held("c", "foreign", "of another book"))
	free := lesson("b", "free", "takes effect by itself")
	onFeedback := held("b", "late", "on feedback")
	onFeedback.FeedbackSeq, onFeedback.Feedback = 7, events.Hash("feedback")
	edit := gathers("b", good)
	nothing := events.NewHandle(4711, events.NewID())
	other := events.NewHandle(1, events.NewID())
	for why, h2 := range map[string]events.Handle{
		"not stored": nothing, "another id": other, "another playbook": foreign, "not held": h.hold(free),
		"on feedback": h.hold(onFeedback), "an edit": events.NewHandle(h.publish(edit), edit.ID),
	} {
		d := h.gather("b", good, h2)
		if len(d.Refused) != 1 || d.Refused[0].Code != playbook.ReasonNotFound || !strings.Contains(d.Refused[0].Text, string(h2)) || d.Changed != 0 {
			t.Errorf("%s: got %+v, want a refusal that names %s", why, d, h2)
		}
	}
	if d := h.ask("b", &events.Edit{Gather: []events.Handle{good}, Ops: []playbook.Op{add("besides")}}); len(d.Refused) != 1 || d.Refused[0].Code != playbook.ReasonInvalid {
		t.Errorf("got %+v, want it refused", d)
	}
	seen := uint64(0)
	if d := h.ask("b", &events.Edit{Gather: []events.Handle{good}, BaseVersion: &seen}); len(d.Refused) != 1 {
		t.Errorf("of a version that has passed: got %+v, want it refused", d)
	}
	if p := h.whole("b"); p.FindByContent("besides") != nil || p.FindByContent("of another book") != nil || p.FindByContent("on feedback") != nil {
		t.Errorf("got %+v", p.Sorted())
	}
}

// TestLargeGatheringIsOneChange checks that a change of several deltas is atomic, and that all operations have
// support.
func TestLargeGatheringIsOneChange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for name, test := range map[string]struct {
		session string // whose name the log keeps with each
		several bool
	}{"in one delta": {"s", false}, "in several": {strings.Repeat("s", 220), true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			h.work(model(func(_ context.Context, p chat.Prompt) (string, error) {
				if p.Name == "reducer" {
					return `{"reasoning": "all of them", "decisions": []}`, nil
				}
				var ops []map[string]any
				for line := range strings.Lines(p.Messages[1].Text) {
					var r struct {
						Number  int
						Insight string
					}
					if json.Unmarshal([]byte(line), &r) == nil && r.Number > 0 {
						ops = append(ops, map[string]any{"type": "ADD", "section": "others", "content": r.Insight, "reflections": []int{r.Number}})
					}
				}
				return said(ops), nil
			}))
			h.edit("b", add("the first"))
			var handles []events.Handle
			from := map[string]*events.Reflection{}
			for i := range events.MaxGather {
				var text strings.Builder // no two alike
				for word := range 12 {
					sum := sha256.Sum256(fmt.Append(nil, i, word))
					fmt.Fprintf(&text, "w%x ", sum[:4])
				}
				r := held("b", fmt.Sprint("r", i), "Advice: "+text.String()+"and so on.")
				r.Session, r.Origin.Source, r.Question = test.session, test.session, test.session
				r.Tags = []events.BulletTag{{ID: "misc-00001", Tag: events.Helpful}}
				from[strings.TrimSpace(r.KeyInsight)] = r
				handles = append(handles, h.hold(r))
			}
			d := h.gather("b", handles...)
			p := h.until("b", "all of it", func(p *playbook.Playbook) bool { return p.Version() >= d.Version })
			if len(d.Refused) > 0 || len(d.Added) != events.MaxGather || p.Len() != events.MaxGather+1 || helpful(p, "misc-00001") != events.MaxGather {
				t.Fatalf("got %d added, %d bullets, %d votes, refused %v", len(d.Added), p.Len(), helpful(p, "misc-00001"), d.Refused)
			}
			if d.Version == 2 == test.several {
				t.Errorf("got version %d", d.Version)
			}
			for v := uint64(2); v < d.Version; v++ {
				if h.at("b", v).Len() != 1 {
					t.Errorf("version %d has some of it", v)
				}
			}
			origins, err := history.Origins(h.store.History(t.Context(), "b"), p)
			h.ok(err)
			for _, o := range origins {
				r := from[p.Bullet(o.Bullet).Content]
				if r != nil && (len(o.Support) != 1 || o.Support[0].ID != string(r.Execution) || o.Support[0].Evidence.Execution != string(r.Handle)) {
					t.Fatalf("bullet %s: got %+v, want it to rest on %s", o.Bullet, o.Support, r.Handle)
				}
			}
			trace, err := history.TraceOf(h.store.History(t.Context(), "b"), string(from[p.Bullet(d.Added[7]).Content].Handle))
			h.ok(err)
			if len(trace.Reflections) != 1 || len(trace.Events) != 2 {
				t.Errorf("got %+v, want its vote and its bullet", trace)
			}
			forget := h.ask("b", &events.Edit{Forget: &playbook.Selector{Execution: string(from[p.Bullet(d.Added[7]).Content].Handle)}})
			p = h.at("b", forget.Version)
			if len(forget.Refused) > 0 || p.Bullet(d.Added[7]) != nil || p.Len() != events.MaxGather || helpful(p, "misc-00001") != events.MaxGather-1 {
				t.Errorf("one execution forgotten: got %d bullets and %d votes, refused %v", p.Len(), helpful(p, "misc-00001"), forget.Refused)
			}
			if quarantined := slices.IndexFunc(p.Sorted(), func(b *playbook.Bullet) bool { return b.Status == playbook.Quarantined }); quarantined >= 0 {
				t.Errorf("bullet %s is in quarantine: it rests on nothing that was forgotten", p.Sorted()[quarantined].ID)
			}
		})
	}
}

// TestGatheringsAreDeterministic varies the order of reflections, the events of other books, the number of Curators,
// restarts and deliveries. The model depends on each word of its prompt.
func TestGatheringsAreDeterministic(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, mode := range []playbook.Gate{playbook.GateOff, playbook.GateGuard, playbook.GateStrict} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			h := build(t)
			batches := [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12}, {13, 14, 15, 16, 17, 18, 19, 20}, {21, 22, 23, 5}, {24, 25, 26, 27, 28, 29}}
			want := h.disturbed("run", mode, batches, rand.New(rand.NewPCG(0, 0)))
			seed, trials := rand.Uint64(), uint64(10)
			for trial := range trials {
				got := h.disturbed(playbook.Book(fmt.Sprint("run", trial)), mode, batches, rand.New(rand.NewPCG(seed, trial)))
				if got != want {
					t.Errorf("seed %d, trial %d: got\n%s\nwant\n%s", seed, trial, got, want)
				}
			}
		})
	}
}

// disturbed gathers batches of held reflections under random conditions. It returns all versions of the book and the
// rejections as text.
func (h *harness) disturbed(b playbook.Book, mode playbook.Gate, batches [][]int, rng *rand.Rand) string {
	h.Helper()
	stops := []func(){h.run(thoughtful)}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	h.ask(b, &events.Edit{Gate: mode})
	h.edit(b, add("the first advice of all"), add("the second advice of all"))
	handles := map[int]events.Handle{}
	order := rng.Perm(30)
	hold := func(n int) {
		for range min(n, len(order)) {
			i := order[0]
			order = order[1:]
			r := held("run", fmt.Sprint(i), fmt.Sprintf("A lesson of sample %d: check lesson %d before the end.", i, i%7), fmt.Sprintf("Another lesson of sample %d is to wait.", i))
			r.Book = b
			r.Tags = []events.BulletTag{{ID: "misc-00001", Tag: []events.Vote{events.Helpful, events.Harmful}[i%2]}}
			handles[i] = h.bare(r)
			if rng.IntN(5) == 0 {
				handles[i] = h.bare(r)
			}
		}
	}
	hold(rng.IntN(20))
	for _, batch := range batches {
		for slices.ContainsFunc(batch, func(i int) bool { return handles[i] == "" }) {
			hold(1 + rng.IntN(10))
		}
		if rng.IntN(3) == 0 {
			h.publish(lesson(b+"-beside", fmt.Sprint(rng.Uint64()), fmt.Sprint("Something else happens at ", rng.Uint64())))
		}
		switch rng.IntN(4) {
		case 0:
			stops = append(stops, h.run(thoughtful)) // one more
		case 1:
			for _, stop := range stops { // restart all Curators
				stop()
			}
			stops = []func(){h.run(thoughtful)}
		}
		e := gathers(b)
		for _, i := range batch {
			e.Gather = append(e.Gather, handles[i])
		}
		for range rng.IntN(3) {
			h.bare(e)
		}
		h.send(e)
		for range rng.IntN(2) {
			h.bare(e)
		}
	}
	h.lag(bus.Lag.Idle)
	var came strings.Builder
	h.ok(h.store.ReadLog(h.Context(), b, func(r *deltalog.Record) error {
		fmt.Fprintf(&came, "%x %d operations", h.at(b, r.Version).StateHash(), len(r.Ops))
		for _, j := range r.Rejected {
			fmt.Fprintf(&came, "; %s: %s", j.Op.Content, j.Reason)
		}
		came.WriteString("\n")
		return nil
	}))
	return came.String()
}

// TestGatheringKnowsOldRejections checks it after many deltas of other books and with a new Curator.
func TestGatheringKnowsOldRejections(t *testing.T) {
	t.Parallel()
	h := build(t)
	turnedDown := make(chan string, 2)
	m := model(func(_ context.Context, p chat.Prompt) (string, error) {
		if strings.Contains(p.Messages[1].Text, "umbrella") {
			_, list, _ := strings.Cut(p.Messages[1].Text, "# Rejected before")
			turnedDown <- list
		}
		return said([]map[string]any{{"type": "ADD", "section": "others", "content": "umbrella inside", "reflections": []int{1}}}), nil
	})
	stop := h.run(m)
	h.gather("b", h.hold(held("b", "one", "Open the umbrella inside the house.")))
	<-turnedDown
	stop()
	w, err := h.store.Writer(t.Context(), "busy")
	h.ok(err)
	for range 310 {
		_, err = w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{{Author: "ann"}}, nil })
		h.ok(err)
	}
	h.work(m)
	h.gather("b", h.hold(held("b", "two", "Leave the umbrella inside the house.")))
	if list := <-turnedDown; !strings.Contains(list, `{"rejected_text":"umbrella inside"`) {
		t.Errorf("prompt contains %q, want the rejected text", list)
	}
}

// TestGatheringWaitsForModel checks that nothing takes effect while one request fails, and that the usage is
// reported.
func TestGatheringWaitsForModel(t *testing.T) {
	t.Parallel()
	h := build(t)
	var asked atomic.Int32
	h.work(priced(func(ctx context.Context, p chat.Prompt) (string, error) {
		if asked.Add(1) == 3 {
			return "", errors.New("the line is down")
		}
		return thoughtful(ctx, p)
	}))
	var handles []events.Handle
	for i := range 36 { // groups, and a reducer
		handles = append(handles, h.hold(held("b", fmt.Sprint(i), fmt.Sprintf("Lesson %d has its own words: %x.", i, sha256.Sum256([]byte{byte(i)})))))
	}
	d := h.gather("b", handles...)
	n := int(asked.Load())
	if d.Version != 1 || len(d.Added) == 0 || d.Usage.Calls == 0 || d.Usage.Calls > n-3 || d.Usage.InputTokens != 10*d.Usage.Calls {
		t.Errorf("got %+v after %d calls, want version 1 and the usage of the second attempt", d, n)
	}
	h.whole("b")
}

// priced is a model that reports token usage.
type priced func(ctx context.Context, p chat.Prompt) (string, error)

func (m priced) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	text, err := m(ctx, p)
	return chat.Reply{Text: text, Model: "test", Finish: "stop", Usage: chat.Usage{Calls: 1, InputTokens: 10}}, err
}

// TestGatheringsDoNotCountAsBurst checks that other reflections of the session still count.
func TestGatheringsDoNotCountAsBurst(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	const most = 20 // default of Config.MaxBurst
	for batch := range 4 {
		var handles []events.Handle
		for i := range most {
			sum := sha256.Sum256([]byte{byte(batch), byte(i)})
			handles = append(handles, h.hold(held("b", fmt.Sprint(batch, "-", i), fmt.Sprintf("Advice %x is its own.", sum))))
		}
		h.gather("b", handles...)
	}
	p := h.whole("b")
	for _, b := range p.Sorted() {
		if b.Status == playbook.Quarantined {
			t.Fatalf("bullet %s is in quarantine", b.ID)
		}
	}
	if p.Len() != 4*most+1 {
		t.Errorf("got %d bullets, want %d", p.Len(), 4*most+1)
	}
}

// TestFeedbackDoesNotWaitForHeldReflection covers a held reflection before the feedback, which no delta covers by
// itself.
func TestFeedbackDoesNotWaitForHeldReflection(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.publish(held("b", "held", "a lesson of four words"))
	late := reflection("b", "judged")
	late.FeedbackSeq, late.Feedback, late.Corrects = 3, events.Hash("feedback"), true
	late.Outcome = events.Outcome{Label: events.Failure}
	late.Lessons = []events.Lesson{{Section: "others", Content: "what the feedback teaches"}}
	h.publish(held("b", "held too", "a lesson of four words"))
	h.publish(late)
	h.work(nil)
	h.until("b", "the feedback", func(p *playbook.Playbook) bool { return p.FindByContent("what the feedback teaches") != nil })
	if states, err := h.conn.Streams(t.Context()); err != nil || states[4].Messages != 0 {
		t.Errorf("streams: %+v, %v; want no dead letter", states, err)
	}
	lag, err := h.conn.Consumers.Lag(t.Context(), events.RoleCurator)
	h.ok(err)
	if lag.Redelivered > 0 {
		t.Errorf("got %+v, want the event acknowledged after its first delivery", lag)
	}
}
