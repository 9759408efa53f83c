package generator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/natsd"
	"debrief/events/window"
	"debrief/generator/prompt/assembly"
	"debrief/playbook"
)

func TestRecallScope(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	inBook := func(b playbook.Book) func(*events.Execution) {
		return func(e *events.Execution) { e.Book, e.ID = b, events.ExecutionID(b, "", e.RunID, 0) }
	}
	f.storeExecution("mine", "how do I repair the old gearbox mine1", "with oil")
	f.storeExecution("yours", "how do I repair the old gearbox yours2", "with a hammer")
	f.storeExecution("", "how do I repair the old gearbox alone3", "alone")
	f.storeExecution("mine", "how do I repair the old gearbox measured4", "42", func(e *events.Execution) { e.Purpose = events.Evaluate })
	_, last := f.storeExecution("mine", "how do I repair the old gearbox elsewhere5", "there", inBook("other"))
	for scope, want := range map[Recall]string{RecallSession: "mine1", RecallBook: "mine1 yours2 alone3", RecallNone: ""} {
		cb := f.newBuilder(nil, Config{Recall: scope}, testTimeouts)
		if cb.memory != nil {
			f.waitRead(cb, last)
		}
		reply := f.context(cb, &events.ContextRequest{Session: "mine", Query: "repair the gearbox", DryRun: true})
		got := recalled(reply.Messages)
		for _, q := range []string{"mine1", "yours2", "alone3", "measured4", "elsewhere5"} {
			if strings.Contains(got, q) != strings.Contains(want, q) {
				t.Errorf("scope %s: got %q, want %q", scope, got, want)
			}
		}
		if strings.Contains(chatText(reply.Messages), "measured4") || len(reply.Manifest.Warnings) > 0 {
			t.Errorf("scope %s: got %q, warnings %q", scope, chatText(reply.Messages), reply.Manifest.Warnings)
		}
	}
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	reply := f.context(cb, &events.ContextRequest{Query: "repair the gearbox", DryRun: true})
	if got := recalled(reply.Messages); got != "" {
		t.Errorf("without a session: got %q, want no executions of other sessions", got)
	}
	reply = f.context(cb, &events.ContextRequest{Session: "mine", Query: "repair the gearbox", Playbook: new(uint64(0)), DryRun: true})
	if got := recalled(reply.Messages); got != "" {
		t.Errorf("pinned version: got %q, want no recalled executions", got)
	}
}

// Executions are recalled if they were stored before or after the builder was created.
func TestNewExecutionsAreRecalled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, r := f.storeExecution("s", "where is the lighthouse of Alexandria", "in the sea")
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.waitRead(cb, r)
	_, r = f.storeExecution("s", "where is the library of Alexandria", "burnt")
	f.waitRead(cb, r)
	reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "tell me about Alexandria", DryRun: true})
	if got := recalled(reply.Messages); !strings.Contains(got, "lighthouse") || !strings.Contains(got, "library") || !strings.Contains(got, "burnt") {
		t.Errorf("got %q, want both executions", got)
	}
	if reply = f.context(cb, &events.ContextRequest{Session: "s", Query: "?!", DryRun: true}); len(reply.Manifest.Warnings) > 0 {
		t.Errorf("query without words: got %q", reply.Manifest.Warnings)
	}
}

// TestRecallAfterDataLoss: the server lost all executions, so a new one has the sequence of a lost one.
func TestRecallAfterDataLoss(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.storeExecution("s", "where is the lighthouse of Alexandria", "in the sea")
	_, r := f.storeExecution("s", "where is the library of Alexandria", "burnt")
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.waitRead(cb, r)
	js := f.conn.JetStream()
	s, err := js.Stream(t.Context(), events.StreamExecutions)
	f.ok(err)
	f.ok(js.DeleteStream(t.Context(), events.StreamExecutions))
	_, err = js.CreateStream(t.Context(), s.CachedInfo().Config)
	f.ok(err)
	f.storeExecution("s", "where is the harbour of Alexandria", "in the east")
	ask := func() string {
		return recalled(f.context(cb, &events.ContextRequest{Session: "s", Query: "tell me about Alexandria", DryRun: true}).Messages)
	}
	f.waitFor("the execution with the sequence of a lost one is recalled", func() bool { return strings.Contains(ask(), "harbour") })
	if got := ask(); strings.Contains(got, "lighthouse") || strings.Contains(got, "library") {
		t.Errorf("got %q, want no lost executions", got)
	}
}

// A window stores more turns than a context shows. Shown turns are not quoted again.
func TestTurnsOutsideTheWindowAreRecalled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	topics := []string{"lighthouse", "gearbox", "sourdough", "parliament", "glacier", "violin", "harbour", "comet", "orchard", "passport", "tunnel", "vaccine", "lantern", "pendulum"}
	var last bus.Receipt
	for n, topic := range topics {
		e, r := f.storeExecution("s", "please describe one "+topic, "it is fine", func(e *events.Execution) { e.Turn = n + 1 })
		f.ok(cb.addToWindow(t.Context(), e, r))
		last = r
	}
	f.waitRead(cb, last)
	for topic, want := range map[string]bool{"lighthouse": true, "gearbox": true, "pendulum": false} {
		reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "describe that " + topic + " with more words", Window: "3", DryRun: true})
		if got := recalled(reply.Messages); strings.Contains(got, topic) != want {
			t.Errorf("%s: got %q, want it there: %v", topic, got, want)
		}
	}
}

// Everything is found again. The embedder gets no text a second time.
func TestRestartReusesEmbeddings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs advice"})
	c := new(synonymEmbedder)
	for n := range 3 * embedBatch / 2 {
		f.storeExecution("s", fmt.Sprintf("an item about bread, number %d", n), "fine")
	}
	f.storeExecution("s", "an item about my automobile", "red")
	ask := func() *events.ContextReply {
		cb := newBuilder(f.conn, c, Config{}, testTimeouts)
		defer cb.Close()
		cb.WaitLoaded(t.Context(), "b", 10*time.Second)
		<-cb.memory.queue.whenIdle()
		f.context(cb, &events.ContextRequest{Session: "s", Query: "which car?", DryRun: true}) // opens the playbook
		b, err := cb.playbooks.get(t.Context(), "b")
		f.ok(err)
		<-b.index.queue.whenIdle()
		return f.context(cb, &events.ContextRequest{Session: "s", Query: "which car?", Explain: true, DryRun: true})
	}
	first := ask()
	if got := recalled(first.Messages); !strings.Contains(got, "my automobile") || strings.Index(got, "asked:") != strings.Index(got, "asked: an item about my automobile") {
		t.Errorf("got %q, want the execution that is found by its vector only, first", got)
	}
	if len(first.Scores) != 1 || first.Scores[0].Relevance < 0.9 || len(first.Manifest.Warnings) > 0 {
		t.Errorf("got %+v, %q; want a bullet that is relevant by its vector only", first.Scores, first.Manifest.Warnings)
	}
	if times, texts := c.maxEmbedded("an item"); times != 1 || texts != 3*embedBatch/2+1 {
		t.Errorf("%d texts were embedded, up to %d times", texts, times)
	}
	second := ask()
	if got, want := recalled(second.Messages), recalled(first.Messages); got != want {
		t.Errorf("after a restart: got %q, want %q", got, want)
	}
	for _, what := range []string{"an item", "advice"} {
		if times, _ := c.maxEmbedded(what); times != 1 {
			t.Errorf("%q was embedded %d times", what, times)
		}
	}
}

func TestRecallMemoryIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{RecallMemory: 100 << 10}, testTimeouts)
	var last bus.Receipt
	for n := range 200 {
		_, last = f.storeExecution("s", fmt.Sprintf("what of case%d and its file", n), "closed")
	}
	f.waitRead(cb, last)
	if s := cb.memory.index.Stats(); s.Bytes > 100<<10 || s.Evicted == 0 {
		t.Fatalf("got %+v, want at most 100 KiB", s)
	}
	for n, want := range map[int]bool{0: false, 199: true} {
		name := fmt.Sprintf("case%d ", n)
		reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "tell me of " + name, DryRun: true})
		if got := recalled(reply.Messages); strings.Contains(got, name) != want {
			t.Errorf("%s: got %q, want it there: %v", name, got, want)
		}
		if !containsAll(reply.Manifest.Warnings, "recall: the ", " oldest executions were evicted from memory (--recall-memory)") {
			t.Errorf("got %q, want a warning about evicted executions", reply.Manifest.Warnings)
		}
	}
}

func TestExpiredExecutionsAreNotRecalled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, gone := f.storeExecution("s", "the recipe for sourdough", "flour and patience")
	_, kept := f.storeExecution("s", "the recipe for pancakes", "eggs")
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.waitRead(cb, kept)
	f.deleteMessage(events.StreamExecutions, gone)
	for range 2 {
		reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "which recipe", DryRun: true})
		if got := recalled(reply.Messages); strings.Contains(got, "sourdough") || !strings.Contains(got, "pancakes") || len(reply.Manifest.Warnings) > 0 {
			t.Errorf("got %q, %q; want the stored one", got, reply.Manifest.Warnings)
		}
	}
	if cb.memory.index.Has(string(gone.Handle)) {
		t.Error("the expired execution is still indexed")
	}
}

// The payload of a large execution is in the object store, not in the message.
func TestLargeExecutionIsRecalled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, r := f.storeExecution("s", "the transcript of the trial", "guilty", func(e *events.Execution) { e.Context = strings.Repeat("he said, she said. ", 100_000) })
	if size := 19 * 100_000; size <= bus.MaxInline {
		t.Fatal("is too small for the test")
	}
	for _, stored := range []bool{true, false} {
		cb := f.newBuilder(nil, Config{}, testTimeouts)
		if !stored {
			_, r = f.storeExecution("s", "the transcript of the appeal", "guilty", func(e *events.Execution) { e.Context = strings.Repeat("he said, she said. ", 100_000) })
		}
		f.waitRead(cb, r)
		reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "transcript of the trial or appeal", DryRun: true})
		if got := recalled(reply.Messages); !strings.Contains(got, "trial") || strings.Contains(got, "appeal") == stored {
			t.Errorf("stored before %v: got %q", stored, got)
		}
	}
}

// The task of the execution was redelivered much later.
func TestDuplicateExecutionIsRecalledOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e, _ := f.storeExecution("s", "the colour of the door", "blue")
	r := f.storeCopy(e)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.waitRead(cb, r)
	reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "colour of the door", DryRun: true})
	if got := recalled(reply.Messages); strings.Count(got, "asked:") != 1 {
		t.Errorf("got %q, want it once", got)
	}
}

func TestDamagedExecutionIsSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	torn := &nats.Msg{Subject: events.KindExecution.Subject("b"), Header: events.SchemaHeader(), Data: []byte("\xc1")}
	_, err := f.conn.JetStream().PublishMsg(t.Context(), torn)
	f.ok(err)
	_, r := f.storeExecution("s", "the colour of the door", "blue")
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.waitRead(cb, r)
	reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "colour of the door", DryRun: true})
	if got := recalled(reply.Messages); !strings.Contains(got, "blue") {
		t.Errorf("got %q, want the valid execution", got)
	}
}

// Whatever the fault of the embedder, contexts are built with cached vectors and contain a warning.
func TestContextWithUnavailableEmbedder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault func(*synonymEmbedder)
		waits timeouts
		says  []string
	}{
		"down":          {func(c *synonymEmbedder) { c.fail = down }, testTimeouts, []string{"embeddings: ", "is down", "by words only"}},
		"slow":          {func(c *synonymEmbedder) { c.blocked = true }, timeouts{optional: 300 * time.Millisecond, retry: time.Hour}, []string{"embeddings: no answer within 300ms", "by words only"}},
		"new dimension": {func(c *synonymEmbedder) { c.size = 16 }, testTimeouts, []string{"recall: 2 executions have no vector of concepts with 16 dimensions"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.commit("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
			c := new(synonymEmbedder)
			f.storeExecution("s", "all about my automobile", "red")
			_, r := f.storeExecution("s", "all about that pineapple", "yellow")
			cb := f.newBuilder(c, Config{}, test.waits)
			f.waitRead(cb, r)
			<-cb.memory.queue.whenIdle()
			b, err := cb.playbooks.get(t.Context(), "b")
			f.ok(err)
			_, _ = b.currentVersion()
			<-b.index.queue.whenIdle()
			ask := func(query string) *events.ContextReply {
				return f.context(cb, &events.ContextRequest{Session: "s", Query: query, DryRun: true})
			}
			if got := recalled(ask("which car?").Messages); !strings.Contains(got, "automobile") {
				t.Fatalf("got %q, want the execution found by its vector", got)
			}
			c.set(test.fault)
			reply := ask("the pineapple, not the car")
			if got := recalled(reply.Messages); !strings.Contains(got, "pineapple") || !strings.Contains(chatText(reply.Messages), "a motor needs oil") {
				t.Errorf("got %q, want the execution found by words", got)
			}
			if !containsAll(reply.Manifest.Warnings, test.says...) {
				t.Errorf("got %q, want %q", reply.Manifest.Warnings, test.says)
			}
			c.set(func(c *synonymEmbedder) { c.fail, c.blocked, c.size = nil, false, 0 })
			reply = ask("which car?")
			if got := recalled(reply.Messages); !strings.Contains(got, "automobile") || len(reply.Manifest.Warnings) > 0 {
				t.Errorf("after recovery: got %q, %q; want the cached vectors", got, reply.Manifest.Warnings)
			}
		})
	}
}

// The embedder is unavailable when executions and bullets arrive, then recovers, but always rejects one text.
func TestMissingVectorsAreComputedLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
	c := &synonymEmbedder{fail: down}
	f.storeExecution("s", "all about my automobile", "red")
	cb := f.newBuilder(c, Config{}, testTimeouts)
	for n := range 10 {
		f.storeExecution("s", fmt.Sprintf("loaf number %d", n), "eaten")
	}
	f.storeExecution("s", "the poisonous text", "arsenic")
	_, last := f.storeExecution("s", "all about the vessel", "sunk")
	f.waitRead(cb, last)
	ask := func() *events.ContextReply {
		return f.context(cb, &events.ContextRequest{Session: "s", Query: "which car or ship?", Explain: true, DryRun: true})
	}
	if reply := ask(); strings.Contains(recalled(reply.Messages), "automobile") || !containsAll(reply.Manifest.Warnings, "embeddings: ", "is down") {
		t.Errorf("got %q, %q", recalled(reply.Messages), reply.Manifest.Warnings)
	}
	c.set(func(c *synonymEmbedder) {
		c.fail = func(texts []string) error {
			if strings.Contains(strings.Join(texts, " "), "poisonous") {
				return errors.New("I do not like it")
			}
			return nil
		}
	})
	f.waitFor("all but one have their vectors", func() bool {
		warns := ask().Manifest.Warnings
		return containsAll(warns, "recall: 1 executions have no vector of concepts with 8 dimensions") && !containsAll(warns, "bullets:")
	})
	reply := ask()
	if got := recalled(reply.Messages); !strings.Contains(got, "automobile") || !strings.Contains(got, "vessel") {
		t.Errorf("got %q, want both found by their vectors", got)
	}
	if reply.Scores[0].Relevance < 0.6 {
		t.Errorf("got %+v, want the bullet's relevance by its vector", reply.Scores)
	}
	if times, _ := c.maxEmbedded("loaf"); times != 1 {
		t.Errorf("a text was embedded %d times", times)
	}
}

// The embedder is called again after the retry delay, not for each execution.
func TestFailingEmbedderIsNotCalledForEveryItem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := &synonymEmbedder{fail: down}
	slow := testTimeouts
	slow.retry = time.Hour
	cb := f.newBuilder(c, Config{}, slow)
	var last bus.Receipt
	for n := range 200 {
		_, last = f.storeExecution("s", fmt.Sprintf("loaf number %d", n), "eaten")
	}
	f.waitRead(cb, last)
	c.set(func(c *synonymEmbedder) {
		if c.calls > 10 {
			t.Errorf("a failing embedder was called %d times", c.calls)
		}
	})
}

func TestInvalidVectorsAreRejected(t *testing.T) {
	t.Parallel()
	for name, made := range map[string][][]float32{
		"none":         {},
		"too many":     {{1, 2}, {3, 4}},
		"empty":        {{}},
		"all zeros":    {{0, 0, 0}},
		"not a number": {{1, nan(), 2}},
		"infinite":     {{1, 1 / zero(), 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.commit("b", bullet(1, 0)...)
			_, r := f.storeExecution("s", "all about that pineapple", "yellow")
			cb := f.newBuilder(constantEmbedder(made), Config{}, testTimeouts)
			f.waitRead(cb, r)
			reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "pineapple?", DryRun: true})
			if got := recalled(reply.Messages); !strings.Contains(got, "pineapple") || !containsAll(reply.Manifest.Warnings, "embeddings: embedder: ") {
				t.Errorf("got %q, %q", got, reply.Manifest.Warnings)
			}
		})
	}
}

// constantEmbedder always returns the same vectors.
type constantEmbedder [][]float32

func (n constantEmbedder) Embed(context.Context, []string) ([][]float32, error) { return n, nil }

func (constantEmbedder) Model() string { return "nonsense" }

func zero() (z float32) { return z }

func nan() float32 { return zero() / zero() }

// The prompt of a pinned version must not depend on the time since its first use.
func TestPinnedContextWaitsForVectors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ops []playbook.Op
	for n := range uint64(2 * embedBatch) {
		ops = append(ops, playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", n+1), Section: "others", Content: fmt.Sprintf("bread advice %d", n)})
	}
	ops = append(ops, playbook.Op{Kind: playbook.Add, Bullet: "misc-00999", Section: "others", Content: "a motor needs oil"})
	f.commit("b", ops...)
	f.commit("b", bullet(1000, 0)...)
	cb := f.newBuilder(new(synonymEmbedder), Config{Limits: assembly.Limits{MaxBullets: 1}}, testTimeouts)
	reply := f.context(cb, &events.ContextRequest{Query: "my car", Playbook: new(uint64(1)), DryRun: true})
	if len(reply.Manifest.Warnings) > 0 || reply.Shown[0].ID != "misc-00999" {
		t.Errorf("got %v first, %q; want the bullet about cars", reply.Shown[0], reply.Manifest.Warnings)
	}
}

// The old vector may arrive late. Votes do not change a vector.
func TestChangedBulletIsFoundByItsNewText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
	f.commit("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00002", Section: "others", Content: "a loaf needs salt"})
	c := &synonymEmbedder{fail: down}
	cb := f.newBuilder(c, Config{}, testTimeouts)
	relevance := func(query string) map[playbook.BulletID]float64 {
		reply := f.context(cb, &events.ContextRequest{Query: query, Explain: true, DryRun: true, MinVersion: 4})
		all := make(map[playbook.BulletID]float64)
		for _, s := range reply.Scores {
			all[s.ID] = s.Relevance
		}
		return all
	}
	relevance("open the book")
	f.commit("b", playbook.Op{Kind: playbook.Update, Bullet: "misc-00001", Section: "others", Content: "an oak needs rain"})
	f.commit("b", playbook.Op{Kind: playbook.Tag, Bullet: "misc-00002", Helpful: 1, Support: []int{0}})
	b, err := cb.playbooks.get(t.Context(), "b")
	f.ok(err)
	stale, err := b.waitVersion(t.Context(), 4, 10*time.Second)
	if stale || err != nil {
		t.Fatal(stale, err)
	}
	relevance("turn the page")
	c.set(func(c *synonymEmbedder) { c.fail = nil })
	<-b.index.queue.whenIdle()
	if got := relevance("forest"); got["misc-00001"] < 0.9 || got["misc-00002"] > 0.2 {
		t.Errorf("got %v, want the bullet about trees", got)
	}
	if got := relevance("my car"); got["misc-00001"] > 0.2 {
		t.Errorf("got %v, want no match with the old text", got)
	}
	if times, _ := c.maxEmbedded("salt"); times != 1 {
		t.Errorf("a bullet with new votes was embedded %d times", times)
	}
	f.commit("b", playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001"})
	f.waitFor("the bullet is gone", func() bool { return len(relevance("forest")) == 1 })
	if n := b.index.vectors.Stats().Items; n != 1 {
		t.Errorf("got %d vectors of 1 bullet", n)
	}
}

// A bullet changes while the embedder processes its old text.
func TestOutdatedVectorIsDiscarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
	begun, release := make(chan bool), make(chan bool)
	c := &synonymEmbedder{fail: func(texts []string) error {
		if !strings.Contains(texts[0], "needs") {
			return nil // a query
		}
		begun <- true
		<-release
		return nil
	}}
	cb := f.newBuilder(c, Config{}, testTimeouts)
	relevance := func(query string, version uint64) float64 {
		reply := f.context(cb, &events.ContextRequest{Query: query, Explain: true, DryRun: true})
		if reply.Version < version {
			return -1
		}
		return reply.Scores[0].Relevance
	}
	relevance("open the book", 1)
	<-begun
	f.commit("b", playbook.Op{Kind: playbook.Update, Bullet: "misc-00001", Section: "others", Content: "an oak needs rain"})
	f.waitFor("the page is turned", func() bool { return relevance("turn the page", 2) >= 0 })
	release <- true
	<-begun // the old vector is stored, the new one is requested
	if got := relevance("my car", 2); got > 0.2 {
		t.Errorf("got %v, want no match with the old text", got)
	}
	release <- true
	b, err := cb.playbooks.get(t.Context(), "b")
	f.ok(err)
	<-b.index.queue.whenIdle()
	if got := relevance("forest", 2); got < 0.9 {
		t.Errorf("got %v, want a match with the new text", got)
	}
}

// All followers are trying to reconnect at that time.
func TestCloseWithoutServer(t *testing.T) {
	t.Parallel()
	srv, err := natsd.Start(natsd.Config{Sync: "1m", Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := srv.Connect(nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	conn, err := bus.Open(t.Context(), nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t, conn, deltalog.New(conn.JetStream())}
	f.commit("b", bullet(1, 0)...)
	cb := f.newBuilder(new(synonymEmbedder), Config{}, testTimeouts)
	f.context(cb, &events.ContextRequest{Query: "open the book", DryRun: true})
	srv.Close()
	begun := time.Now()
	cb.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// An embedder call is in progress.
func TestCloseDoesNotWaitForEmbedder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	f.storeExecution("s", "all about that pineapple", "yellow")
	c := &synonymEmbedder{blocked: true}
	cb := newBuilder(f.conn, c, Config{}, timeouts{optional: time.Hour, retry: time.Hour})
	cb.WaitLoaded(t.Context(), "other", 10*time.Second) // the bullet is embedded only after the request
	ctx, stop := context.WithCancel(t.Context())
	asked := make(chan error)
	go func() {
		_, err := cb.Context(ctx, &events.ContextRequest{Book: "b", Session: "s", Query: "?"})
		asked <- err
	}()
	f.waitFor("the embedder is asked", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.calls >= 2 // for the query and in the background
	})
	stop()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the caller's context", err)
	}
	begun := time.Now()
	cb.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	c.set(func(c *synonymEmbedder) { c.blocked = false })
	if _, err := cb.Context(t.Context(), &events.ContextRequest{Book: "b", Query: "?"}); err == nil {
		t.Error("a closed builder returned a context")
	}
}

// TestCachedVectorOfAnotherDimension reads a cached vector before any query has shown the dimension of new ones.
func TestCachedVectorOfAnotherDimension(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	windows := window.New(f.conn.NATS(), f.conn.JetStream())
	for _, size := range []int{8, 16} {
		got, err := newEmbeddingCache(windows, &synonymEmbedder{size: size}, f.conn.Log()).get(t.Context(), []string{"a motor needs oil"})
		f.ok(err)
		if len(got[0]) != size {
			t.Errorf("got a vector of %d dimensions, want %d", len(got[0]), size)
		}
	}
}

// The embedder has a different dimension after a restart. Cached vectors of the old dimension are not used. Bullets
// and new executions get new vectors; old executions are found by words until they expire.
func TestEmbedderWithNewDimension(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
	f.storeExecution("s", "all about my automobile", "red")
	ask := func(cb *ContextBuilder) *events.ContextReply {
		return f.context(cb, &events.ContextRequest{Session: "s", Query: "which car?", Explain: true, DryRun: true})
	}
	settled := func(cb *ContextBuilder) {
		ask(cb)
		b, err := cb.playbooks.get(t.Context(), "b")
		f.ok(err)
		<-b.index.queue.whenIdle()
		<-cb.memory.queue.whenIdle()
	}
	settled(f.newBuilder(new(synonymEmbedder), Config{}, testTimeouts))

	cb := f.newBuilder(&synonymEmbedder{size: 16}, Config{}, testTimeouts)
	settled(cb)
	_, r := f.storeExecution("s", "all about that motor", "loud")
	f.waitRead(cb, r)
	settled(cb)
	reply := ask(cb)
	if got := recalled(reply.Messages); !strings.Contains(got, "that motor") || reply.Scores[0].Relevance < 0.9 {
		t.Errorf("got %q, %+v; want the execution found by the new vectors", got, reply.Scores)
	}
	if warns := reply.Manifest.Warnings; len(warns) != 1 || !containsAll(warns, "recall: 1 executions have no vector of concepts with 16 dimensions") {
		t.Errorf("got %q", warns)
	}
}
