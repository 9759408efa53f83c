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
	"debrief/events/natsd"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

func TestRecallStaysWhereItMay(t *testing.T) {
	t.Parallel()
	h := build(t)
	inBook := func(b playbook.Book) func(*events.Execution) {
		return func(e *events.Execution) { e.Book, e.ID = b, events.ExecutionID(b, e.TaskID, 0) }
	}
	h.happened("mine", "how do I repair the old gearbox mine1", "with oil")
	h.happened("yours", "how do I repair the old gearbox yours2", "with a hammer")
	h.happened("", "how do I repair the old gearbox alone3", "alone")
	h.happened("mine", "how do I repair the old gearbox measured4", "42", func(e *events.Execution) { e.Purpose = events.Evaluate })
	_, last := h.happened("mine", "how do I repair the old gearbox elsewhere5", "there", inBook("other"))
	for scope, want := range map[Recall]string{RecallSession: "mine1", RecallBook: "mine1 yours2 alone3", RecallNone: ""} {
		d := h.desk(nil, Config{Recall: scope}, brisk)
		if d.memory != nil {
			h.recalls(d, last)
		}
		reply := h.context(d, &events.ContextRequest{Session: "mine", Query: "repair the gearbox", DryRun: true})
		got := recalled(reply.Messages)
		for _, q := range []string{"mine1", "yours2", "alone3", "measured4", "elsewhere5"} {
			if strings.Contains(got, q) != strings.Contains(want, q) {
				t.Errorf("scope %s: got %q, want %q", scope, got, want)
			}
		}
		if strings.Contains(text(reply.Messages), "measured4") || len(reply.Manifest.Degraded) > 0 {
			t.Errorf("scope %s: got %q, degraded %q", scope, text(reply.Messages), reply.Manifest.Degraded)
		}
	}
	d := h.desk(nil, Config{}, brisk)
	reply := h.context(d, &events.ContextRequest{Query: "repair the gearbox", DryRun: true})
	if got := recalled(reply.Messages); got != "" {
		t.Errorf("without a session: got %q, want nothing of anybody's", got)
	}
	reply = h.context(d, &events.ContextRequest{Session: "mine", Query: "repair the gearbox", Playbook: new(uint64(0)), DryRun: true})
	if got := recalled(reply.Messages); got != "" {
		t.Errorf("in a measurement: got %q, want nothing that moves", got)
	}
}

// TestWhatArrivesIsRecalled: while a desk is open, and what came before it.
func TestWhatArrivesIsRecalled(t *testing.T) {
	t.Parallel()
	h := build(t)
	_, r := h.happened("s", "where is the lighthouse of Alexandria", "in the sea")
	d := h.desk(nil, Config{}, brisk)
	h.recalls(d, r)
	_, r = h.happened("s", "where is the library of Alexandria", "burnt")
	h.recalls(d, r)
	reply := h.context(d, &events.ContextRequest{Session: "s", Query: "tell me about Alexandria", DryRun: true})
	if got := recalled(reply.Messages); !strings.Contains(got, "lighthouse") || !strings.Contains(got, "library") || !strings.Contains(got, "burnt") {
		t.Errorf("got %q, want both", got)
	}
	if reply = h.context(d, &events.ContextRequest{Session: "s", Query: "?!", DryRun: true}); len(reply.Manifest.Degraded) > 0 {
		t.Errorf("a query without a word: got %q", reply.Manifest.Degraded)
	}
}

// TestTurnsThatTheWindowDoesNotShowAreRecalled: a window keeps more turns than a context shows. Those that are shown are
// not quoted a second time.
func TestTurnsThatTheWindowDoesNotShowAreRecalled(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	topics := []string{"lighthouse", "gearbox", "sourdough", "parliament", "glacier", "violin", "harbour", "comet", "orchard", "passport", "tunnel", "vaccine", "lantern", "pendulum"}
	var last bus.Receipt
	for n, topic := range topics {
		e, r := h.happened("s", "please describe one "+topic, "it is fine", func(e *events.Execution) { e.Turn = n + 1 })
		h.ok(d.remember(t.Context(), e, r))
		last = r
	}
	h.recalls(d, last)
	for topic, want := range map[string]bool{"lighthouse": true, "gearbox": true, "pendulum": false} {
		reply := h.context(d, &events.ContextRequest{Session: "s", Query: "describe that " + topic + " with more words", Window: "3", DryRun: true})
		if got := recalled(reply.Messages); strings.Contains(got, topic) != want {
			t.Errorf("%s: got %q, want it there: %v", topic, got, want)
		}
	}
}

// TestARestartPaysForNothingTwice: everything is found again, and the embedder is asked about nothing that it has
// answered before.
func TestARestartPaysForNothingTwice(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs advice"})
	c := new(concepts)
	for n := range 3 * embedBatch / 2 {
		h.happened("s", fmt.Sprintf("an item about bread, number %d", n), "fine")
	}
	h.happened("s", "an item about my automobile", "red")
	ask := func() *events.ContextReply {
		d := newDesk(h.conn, c, Config{}, brisk)
		defer d.Close()
		d.Loaded(t.Context(), 10*time.Second)
		<-d.memory.debts.settled()
		h.context(d, &events.ContextRequest{Session: "s", Query: "which car?", DryRun: true}) // opens the book
		b, err := d.books.open(t.Context(), "b", nil)
		h.ok(err)
		<-b.page.debts.settled()
		return h.context(d, &events.ContextRequest{Session: "s", Query: "which car?", Explain: true, DryRun: true})
	}
	first := ask()
	if got := recalled(first.Messages); !strings.Contains(got, "my automobile") || strings.Index(got, "asked:") != strings.Index(got, "asked: an item about my automobile") {
		t.Errorf("got %q, want what is found by its meaning alone, first", got)
	}
	if len(first.Scores) != 1 || first.Scores[0].Relevance < 0.9 || len(first.Manifest.Degraded) > 0 {
		t.Errorf("got %+v, %q; want a bullet that is relevant by its meaning alone", first.Scores, first.Manifest.Degraded)
	}
	if times, texts := c.mostPaid("an item"); times != 1 || texts != 3*embedBatch/2+1 {
		t.Errorf("%d texts were paid for, up to %d times", texts, times)
	}
	second := ask()
	if got, want := recalled(second.Messages), recalled(first.Messages); got != want {
		t.Errorf("after a restart: got %q, want %q", got, want)
	}
	for _, what := range []string{"an item", "advice"} {
		if times, _ := c.mostPaid(what); times != 1 {
			t.Errorf("%q was paid for %d times", what, times)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{RecallMemory: 100 << 10}, brisk)
	var last bus.Receipt
	for n := range 200 {
		_, last = h.happened("s", fmt.Sprintf("what of case%d and its file", n), "closed")
	}
	h.recalls(d, last)
	if s := d.memory.index.Stats(); s.Bytes > 100<<10 || s.Evicted == 0 {
		t.Fatalf("got %+v, want at most 100 KiB", s)
	}
	for n, want := range map[int]bool{0: false, 199: true} {
		name := fmt.Sprintf("case%d ", n)
		reply := h.context(d, &events.ContextRequest{Session: "s", Query: "tell me of " + name, DryRun: true})
		if got := recalled(reply.Messages); strings.Contains(got, name) != want {
			t.Errorf("%s: got %q, want it there: %v", name, got, want)
		}
		if !says(reply.Manifest.Degraded, "recall: the ", " oldest executions are not in memory any more (--recall-memory)") {
			t.Errorf("got %q, want that the oldest are gone", reply.Manifest.Degraded)
		}
	}
}

func TestWhatHasExpiredIsNotRecalled(t *testing.T) {
	t.Parallel()
	h := build(t)
	_, gone := h.happened("s", "the recipe for sourdough", "flour and patience")
	_, kept := h.happened("s", "the recipe for pancakes", "eggs")
	d := h.desk(nil, Config{}, brisk)
	h.recalls(d, kept)
	h.drop(events.StreamExecutions, gone)
	for range 2 {
		reply := h.context(d, &events.ContextRequest{Session: "s", Query: "which recipe", DryRun: true})
		if got := recalled(reply.Messages); strings.Contains(got, "sourdough") || !strings.Contains(got, "pancakes") || len(reply.Manifest.Degraded) > 0 {
			t.Errorf("got %q, %q; want the one that is there", got, reply.Manifest.Degraded)
		}
	}
	if d.memory.index.Has(string(gone.Handle)) {
		t.Error("what has expired is looked for again")
	}
}

// TestALargeExecutionIsRecalled: its payload does not travel in the message.
func TestALargeExecutionIsRecalled(t *testing.T) {
	t.Parallel()
	h := build(t)
	_, r := h.happened("s", "the transcript of the trial", "guilty", func(e *events.Execution) { e.Context = strings.Repeat("he said, she said. ", 100_000) })
	if size := 19 * 100_000; size <= bus.MaxInline {
		t.Fatal("is too small for the test")
	}
	for _, stored := range []bool{true, false} {
		d := h.desk(nil, Config{}, brisk)
		if !stored {
			_, r = h.happened("s", "the transcript of the appeal", "guilty", func(e *events.Execution) { e.Context = strings.Repeat("he said, she said. ", 100_000) })
		}
		h.recalls(d, r)
		reply := h.context(d, &events.ContextRequest{Session: "s", Query: "transcript of the trial or appeal", DryRun: true})
		if got := recalled(reply.Messages); !strings.Contains(got, "trial") || strings.Contains(got, "appeal") == stored {
			t.Errorf("stored before %v: got %q", stored, got)
		}
	}
}

// TestAnExecutionThatWasStoredTwiceIsRecalledOnce: a task that came again long after.
func TestAnExecutionThatWasStoredTwiceIsRecalledOnce(t *testing.T) {
	t.Parallel()
	h := build(t)
	e, _ := h.happened("s", "the colour of the door", "blue")
	r := h.again(e)
	d := h.desk(nil, Config{}, brisk)
	h.recalls(d, r)
	reply := h.context(d, &events.ContextRequest{Session: "s", Query: "colour of the door", DryRun: true})
	if got := recalled(reply.Messages); strings.Count(got, "asked:") != 1 {
		t.Errorf("got %q, want it once", got)
	}
}

func TestADamagedExecutionIsPassedOver(t *testing.T) {
	t.Parallel()
	h := build(t)
	torn := &nats.Msg{Subject: events.KindExecution.Subject("b"), Header: events.SchemaHeader(), Data: []byte("\xc1")}
	_, err := h.conn.JetStream().PublishMsg(t.Context(), torn)
	h.ok(err)
	_, r := h.happened("s", "the colour of the door", "blue")
	d := h.desk(nil, Config{}, brisk)
	h.recalls(d, r)
	reply := h.context(d, &events.ContextRequest{Session: "s", Query: "colour of the door", DryRun: true})
	if got := recalled(reply.Messages); !strings.Contains(got, "blue") {
		t.Errorf("got %q, want what can be read", got)
	}
}

// TestWithoutAnEmbedderThereAreStillAnswers: whatever is wrong with it, answers come, say so, and what is known is used.
func TestWithoutAnEmbedderThereAreStillAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault func(*concepts)
		waits waits
		says  []string
	}{
		"down":                        {func(c *concepts) { c.fault = down }, brisk, []string{"embeddings: ", "is down", "by words alone"}},
		"slow":                        {func(c *concepts) { c.silent = true }, waits{extras: 300 * time.Millisecond, retry: time.Hour}, []string{"embeddings: no answer within 300ms", "by words alone"}},
		"of another dimension by now": {func(c *concepts) { c.size = 16 }, brisk, []string{"recall: 2 executions have no vector of concepts with 16 dimensions"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			h.learn("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
			c := new(concepts)
			h.happened("s", "all about my automobile", "red")
			_, r := h.happened("s", "all about that pineapple", "yellow")
			d := h.desk(c, Config{}, test.waits)
			h.recalls(d, r)
			<-d.memory.debts.settled()
			b, err := d.books.open(t.Context(), "b", nil)
			h.ok(err)
			_, _ = b.at()
			<-b.page.debts.settled()
			ask := func(query string) *events.ContextReply {
				return h.context(d, &events.ContextRequest{Session: "s", Query: query, DryRun: true})
			}
			if got := recalled(ask("which car?").Messages); !strings.Contains(got, "automobile") {
				t.Fatalf("got %q, want what the embedder finds", got)
			}
			c.set(test.fault)
			reply := ask("the pineapple, not the car")
			if got := recalled(reply.Messages); !strings.Contains(got, "pineapple") || !strings.Contains(text(reply.Messages), "a motor needs oil") {
				t.Errorf("got %q, want what words find", got)
			}
			if !says(reply.Manifest.Degraded, test.says...) {
				t.Errorf("got %q, want %q", reply.Manifest.Degraded, test.says)
			}
			c.set(func(c *concepts) { c.fault, c.silent, c.size = nil, false, 0 })
			reply = ask("which car?")
			if got := recalled(reply.Messages); !strings.Contains(got, "automobile") || len(reply.Manifest.Degraded) > 0 {
				t.Errorf("when it is back: got %q, %q; want the vectors that were there", got, reply.Manifest.Degraded)
			}
		})
	}
}

// TestVectorsThatAreOwedComeLater: an embedder is down when executions and bullets come, refuses one text for ever, and
// is back after a while. Nobody has to do anything for that.
func TestVectorsThatAreOwedComeLater(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
	c := &concepts{fault: down}
	h.happened("s", "all about my automobile", "red")
	d := h.desk(c, Config{}, brisk)
	for n := range 10 {
		h.happened("s", fmt.Sprintf("loaf number %d", n), "eaten")
	}
	h.happened("s", "the poisonous text", "arsenic")
	_, last := h.happened("s", "all about the vessel", "sunk")
	h.recalls(d, last)
	ask := func() *events.ContextReply {
		return h.context(d, &events.ContextRequest{Session: "s", Query: "which car or ship?", Explain: true, DryRun: true})
	}
	if reply := ask(); strings.Contains(recalled(reply.Messages), "automobile") || !says(reply.Manifest.Degraded, "embeddings: ", "is down") {
		t.Errorf("got %q, %q", recalled(reply.Messages), reply.Manifest.Degraded)
	}
	c.set(func(c *concepts) {
		c.fault = func(texts []string) error {
			if strings.Contains(strings.Join(texts, " "), "poisonous") {
				return errors.New("I do not like it")
			}
			return nil
		}
	})
	h.until("all but one have their vectors", func() bool {
		missed := ask().Manifest.Degraded
		return says(missed, "recall: 1 executions have no vector of concepts with 8 dimensions") && !says(missed, "bullets:")
	})
	reply := ask()
	if got := recalled(reply.Messages); !strings.Contains(got, "automobile") || !strings.Contains(got, "vessel") {
		t.Errorf("got %q, want both by their meaning", got)
	}
	if reply.Scores[0].Relevance < 0.6 {
		t.Errorf("got %+v, want the bullet's relevance by its meaning", reply.Scores)
	}
	if times, _ := c.mostPaid("loaf"); times != 1 {
		t.Errorf("a text was paid for %d times", times)
	}
}

// TestAnEmbedderThatIsDownIsNotAskedAllTheTime: it is asked once more after a wait, not for every execution.
func TestAnEmbedderThatIsDownIsNotAskedAllTheTime(t *testing.T) {
	t.Parallel()
	h := build(t)
	c := &concepts{fault: down}
	slow := brisk
	slow.retry = time.Hour
	d := h.desk(c, Config{}, slow)
	var last bus.Receipt
	for n := range 200 {
		_, last = h.happened("s", fmt.Sprintf("loaf number %d", n), "eaten")
	}
	h.recalls(d, last)
	c.set(func(c *concepts) {
		if c.calls > 10 {
			t.Errorf("an embedder that is down was asked %d times", c.calls)
		}
	})
}

func TestAnEmbedderThatTalksNonsense(t *testing.T) {
	t.Parallel()
	for name, made := range map[string][][]float32{
		"none":           {},
		"too many":       {{1, 2}, {3, 4}},
		"empty":          {{}},
		"all zeros":      {{0, 0, 0}},
		"not a number":   {{1, nan(), 2}},
		"without bounds": {{1, 1 / zero(), 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			h.learn("b", bullet(1, 0)...)
			_, r := h.happened("s", "all about that pineapple", "yellow")
			d := h.desk(nonsense(made), Config{}, brisk)
			h.recalls(d, r)
			reply := h.context(d, &events.ContextRequest{Session: "s", Query: "pineapple?", DryRun: true})
			if got := recalled(reply.Messages); !strings.Contains(got, "pineapple") || !says(reply.Manifest.Degraded, "embeddings: the embedder made ") {
				t.Errorf("got %q, %q", got, reply.Manifest.Degraded)
			}
		})
	}
}

// nonsense is an embedder that always answers the same.
type nonsense [][]float32

func (n nonsense) Embed(context.Context, []string) ([][]float32, error) { return n, nil }

func (nonsense) Model() string { return "nonsense" }

func zero() (z float32) { return z }

func nan() float32 { return zero() / zero() }

// TestAMeasurementWaitsForItsVectors: what the prompt of a pinned version holds must not depend on how long ago it was
// asked for first.
func TestAMeasurementWaitsForItsVectors(t *testing.T) {
	t.Parallel()
	h := build(t)
	var ops []playbook.Op
	for n := range uint64(2 * embedBatch) {
		ops = append(ops, playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", n+1), Section: "others", Content: fmt.Sprintf("bread advice %d", n)})
	}
	ops = append(ops, playbook.Op{Kind: playbook.Add, Bullet: "misc-00999", Section: "others", Content: "a motor needs oil"})
	h.learn("b", ops...)
	h.learn("b", bullet(1000, 0)...)
	d := h.desk(new(concepts), Config{}, brisk)
	reply := h.context(d, &events.ContextRequest{Query: "my car", Playbook: new(uint64(1)), DryRun: true})
	if len(reply.Manifest.Degraded) > 0 || reply.Shown[0].ID != "misc-00999" {
		t.Errorf("got %v first, %q; want the bullet that is about it", reply.Shown[0], reply.Manifest.Degraded)
	}
}

// TestABulletThatChangesIsFoundByWhatItSaysNow: also when its old vector comes late. Votes change no vector.
func TestABulletThatChangesIsFoundByWhatItSaysNow(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
	h.learn("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00002", Section: "others", Content: "a loaf needs salt"})
	c := &concepts{fault: down}
	d := h.desk(c, Config{}, brisk)
	relevance := func(query string) map[playbook.BulletID]float64 {
		reply := h.context(d, &events.ContextRequest{Query: query, Explain: true, DryRun: true, MinVersion: 4})
		all := make(map[playbook.BulletID]float64)
		for _, s := range reply.Scores {
			all[s.ID] = s.Relevance
		}
		return all
	}
	relevance("open the book")
	h.learn("b", playbook.Op{Kind: playbook.Update, Bullet: "misc-00001", Section: "others", Content: "an oak needs rain"})
	h.learn("b", playbook.Op{Kind: playbook.Tag, Bullet: "misc-00002", Helpful: 1, Support: []int{0}})
	b, err := d.books.open(t.Context(), "b", nil)
	h.ok(err)
	stale, err := b.wait(t.Context(), 4, 10*time.Second)
	if stale || err != nil {
		t.Fatal(stale, err)
	}
	relevance("turn the page")
	c.set(func(c *concepts) { c.fault = nil })
	<-b.page.debts.settled()
	if got := relevance("forest"); got["misc-00001"] < 0.9 || got["misc-00002"] > 0.2 {
		t.Errorf("got %v, want the bullet about trees", got)
	}
	if got := relevance("my car"); got["misc-00001"] > 0.2 {
		t.Errorf("got %v, want nothing of what the bullet said before", got)
	}
	if times, _ := c.mostPaid("salt"); times != 1 {
		t.Errorf("a bullet that was voted on was paid for %d times", times)
	}
	h.learn("b", playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001"})
	h.until("the bullet is gone", func() bool { return len(relevance("forest")) == 1 })
	if n := b.page.meaning.Stats().Items; n != 1 {
		t.Errorf("%d vectors are held of 1 bullet", n)
	}
}

// TestAVectorThatComesLateIsNotThatOfANewText: a bullet changes while the embedder is at work on what it said before.
func TestAVectorThatComesLateIsNotThatOfANewText(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
	begun, release := make(chan bool), make(chan bool)
	c := &concepts{fault: func(texts []string) error {
		if !strings.Contains(texts[0], "needs") {
			return nil // a query
		}
		begun <- true
		<-release
		return nil
	}}
	d := h.desk(c, Config{}, brisk)
	relevance := func(query string, version uint64) float64 {
		reply := h.context(d, &events.ContextRequest{Query: query, Explain: true, DryRun: true})
		if reply.Version < version {
			return -1
		}
		return reply.Scores[0].Relevance
	}
	relevance("open the book", 1)
	<-begun
	h.learn("b", playbook.Op{Kind: playbook.Update, Bullet: "misc-00001", Section: "others", Content: "an oak needs rain"})
	h.until("the page is turned", func() bool { return relevance("turn the page", 2) >= 0 })
	release <- true
	<-begun // the old vector has come, the new one is asked for
	if got := relevance("my car", 2); got > 0.2 {
		t.Errorf("got %v, want nothing of what the bullet said before", got)
	}
	release <- true
	b, err := d.books.open(t.Context(), "b", nil)
	h.ok(err)
	<-b.page.debts.settled()
	if got := relevance("forest", 2); got < 0.9 {
		t.Errorf("got %v, want what it says now", got)
	}
}

// TestADeskClosesWithoutItsServer: whoever follows something is looking for the server then.
func TestADeskClosesWithoutItsServer(t *testing.T) {
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
	h := &house{t, conn, natskv.New(conn.JetStream())}
	h.learn("b", bullet(1, 0)...)
	d := h.desk(new(concepts), Config{}, brisk)
	h.context(d, &events.ContextRequest{Query: "open the book", DryRun: true})
	srv.Close()
	begun := time.Now()
	d.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestADeskClosesAtOnce: also while an embedder does not answer.
func TestADeskClosesAtOnce(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	h.happened("s", "all about that pineapple", "yellow")
	c := &concepts{silent: true}
	d := newDesk(h.conn, c, Config{}, waits{extras: time.Hour, retry: time.Hour})
	d.Loaded(t.Context(), 10*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	asked := make(chan error)
	go func() {
		_, err := d.Context(ctx, &events.ContextRequest{Book: "b", Session: "s", Query: "?"})
		asked <- err
	}()
	h.until("the embedder is asked", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.calls >= 2 // for the query and in the background
	})
	stop()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's own end", err)
	}
	begun := time.Now()
	d.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	c.set(func(c *concepts) { c.silent = false })
	if _, err := d.Context(t.Context(), &events.ContextRequest{Book: "b", Query: "?"}); err == nil {
		t.Error("a desk that is closed lays out contexts")
	}
}

// TestAnotherModelByTheSameName: the embedder has another dimension after a restart. What is kept of the one before is
// compared with nothing; bullets get new vectors, and so does what arrives. What happened before is found by its words
// until it expires.
func TestAnotherModelByTheSameName(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "a motor needs oil"})
	h.happened("s", "all about my automobile", "red")
	ask := func(d *Desk) *events.ContextReply {
		return h.context(d, &events.ContextRequest{Session: "s", Query: "which car?", Explain: true, DryRun: true})
	}
	settled := func(d *Desk) {
		ask(d)
		b, err := d.books.open(t.Context(), "b", nil)
		h.ok(err)
		<-b.page.debts.settled()
		<-d.memory.debts.settled()
	}
	settled(h.desk(new(concepts), Config{}, brisk))

	d := h.desk(&concepts{size: 16}, Config{}, brisk)
	settled(d)
	_, r := h.happened("s", "all about that motor", "loud")
	h.recalls(d, r)
	settled(d)
	reply := ask(d)
	if got := recalled(reply.Messages); !strings.Contains(got, "that motor") || reply.Scores[0].Relevance < 0.9 {
		t.Errorf("got %q, %+v; want what the new model finds", got, reply.Scores)
	}
	if missed := reply.Manifest.Degraded; len(missed) != 1 || !says(missed, "recall: 1 executions have no vector of concepts with 16 dimensions") {
		t.Errorf("got %q", missed)
	}
}
