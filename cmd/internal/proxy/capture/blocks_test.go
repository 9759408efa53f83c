package capture

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/playbook"
)

// TestBlocksOfTurns plays three turns with loops of tools, over two gateways. Each call gets the blocks of all turns up to its
// own, at the items of the users.
func TestBlocksOfTurns(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			d := open(t)
			c := d.client(api)
			blocks := map[int]Block{}
			for turn := range 3 {
				c.user(fmt.Sprint("question ", turn))
				at := c.request().Turn()
				o := c.match(0)
				if diff := cmp.Diff(blocks, o.Blocks); diff != "" || !o.New {
					t.Errorf("turn %d: new %t, blocks %s", turn, o.New, diff)
				}
				block := Block{Text: fmt.Sprintf("advice %d: sk-proj-0123456789abcdefghijklmnopqrstuvwxyz", turn), ContextID: events.NewID(), Version: 7, Bullets: []playbook.BulletID{"a-1"}}
				o.Start(block, nil)
				blocks[at] = block
				c.end(o, calls(fmt.Sprint("call ", turn)))
				for call := range 2 {
					c.results(fmt.Sprintf("call %d", turn), "result")
					o := c.begin()
					if diff := cmp.Diff(blocks, o.Blocks); diff != "" || o.New || !cmp.Equal(o.Block, block) {
						t.Errorf("turn %d, call %d: new %t, block %+v, blocks %s", turn, call, o.New, o.Block, diff)
					}
					c.end(o, calls(fmt.Sprintf("call %d", turn)))
				}
				c.results(fmt.Sprintf("call %d", turn), "result")
				c.next(says("done"))
			}
			c.observe = true
			if o := c.begin(); len(o.Blocks) != 0 {
				t.Errorf("observed: got %v", o.Blocks)
			} else {
				c.end(o, cut)
			}
		})
	}
}

// TestBlockOfRepeatedCall checks that a repeated call gets the same block, also from a gateway that has just started.
func TestBlockOfRepeatedCall(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	first := c.ask("Who?", cut)
	second := c.begin()
	if second.New || second.Run != first.Run || second.Blocks[0].Text != first.Block.Text {
		t.Errorf("after a cut reply: got run %s, blocks %v, want run %s", second.Run, second.Blocks, first.Run)
	}
	<-second.done // its gateway dies now
	d.stores = []*Store{d.store()}
	other := c.begin()
	if !other.New || other.Run == first.Run {
		t.Errorf("an equal call beside one in flight: got run %s, new %t", other.Run, other.New)
	}
	c.end(other, says("Bob."))
	lone := d.client(modelapi.Chat)
	lone.user("Why?")
	dead := lone.beginWith(Block{Text: "advice"})
	<-dead.done
	d.stores = []*Store{d.store()}
	again := lone.beginAgain(1)
	if again.New || again.Run != dead.Run || again.Blocks[0].Text != "advice" {
		t.Errorf("after the death of a gateway: got run %s, new %t, blocks %v, want run %s", again.Run, again.New, again.Blocks, dead.Run)
	}
	lone.end(again, says("So."))
	want := []execution{{"Who?", "Bob.", nil, 1, events.Unknown}, {"Why?", "So.", nil, 1, events.Unknown}}
	if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" {
		t.Error(diff)
	}
}

// TestContextIsStoredBeforeItsRun: a gateway that dies between the two leaves no run whose bullets are unknown.
func TestContextIsStoredBeforeItsRun(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.user("Who?")
	o := c.match(0)
	stored := 0
	o.Start(Block{Text: "advice", ContextID: "ctx"}, func(context.Context) error {
		if keys := d.keys("o."); len(keys) > 0 {
			t.Errorf("the run is stored before its context: %v", keys)
		}
		stored++
		return nil
	})
	c.end(o, calls("a"))
	c.results("a", "ann")
	again := c.match(0)
	again.Start(Block{Text: "another", ContextID: "ctx-2"}, func(context.Context) error {
		t.Error("a call that continues a run stores a context")
		return nil
	})
	c.end(again, says("Ann."))
	kv, err := d.conn.JetStream().KeyValue(t.Context(), events.BucketOpen)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), openKey(o.Run))
	if err != nil || bytes.Contains(entry.Value(), []byte("advice")) {
		t.Errorf("each call stores the block again: %v", err)
	}
	if stored != 1 || o.Block.ContextID != again.Block.ContextID {
		t.Errorf("stored %d contexts; the calls have %s and %s", stored, o.Block.ContextID, again.Block.ContextID)
	}
}

// TestErasedAdvice: an erasure removes texts from the advice in runs of others: in open and in closed runs, and in one that a gateway with the
// old advice in memory closes later.
func TestErasedAdvice(t *testing.T) {
	t.Parallel()
	d := open(t)
	const text = "<playbook>\n- [a-1] Canary.\n- [a-2] Other.\n</playbook>"
	lineOf := func(line string) events.AdviceLine {
		at := strings.Index(text, line)
		return events.AdviceLine{Start: at, End: at + len(line), Bullet: playbook.BulletID(line[3:6]), Wording: events.WordingOf(line)}
	}
	erased, kept := lineOf("- [a-1] Canary.\n"), lineOf("- [a-2] Other.\n")
	advised := func(question string) *client {
		c := d.client(modelapi.Chat)
		c.user(question)
		o := c.match(0)
		o.Start(Block{Text: text, ContextID: "ctx", Lines: []events.AdviceLine{erased, kept}, Bullets: []playbook.BulletID{"a-1", "a-2"}}, nil)
		c.end(o, says("Ann."))
		return c
	}
	first := advised("Who?")
	d.closeAll()
	second := advised("Why?")
	values := func() (all []byte) {
		for _, bucket := range []string{events.BucketOpen, events.BucketCaptures} {
			kv, err := d.conn.JetStream().KeyValue(t.Context(), bucket)
			if err != nil {
				t.Fatal(err)
			}
			list, err := kv.ListKeys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for key := range list.Keys() {
				entry, err := kv.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, entry.Value()...)
			}
		}
		return all
	}
	d.settle()
	if n := bytes.Count(values(), []byte("Canary")); n != 2 {
		t.Fatalf("before: found the text %d times, want 2", n)
	}
	for range 2 { // a repetition changes nothing
		err := NewAdvice(d.conn).Remove(t.Context(), func(l *events.AdviceLine) bool { return l.Wording == erased.Wording })
		if err != nil {
			t.Fatal(err)
		}
		if data := values(); bytes.Contains(data, []byte("Canary")) || bytes.Count(data, []byte("- [a-2] Other.")) != 2 {
			t.Errorf("after: got %q, want only the other advice, twice", data)
		}
	}
	d.closeAll()
	if data := values(); bytes.Contains(data, []byte("Canary")) {
		t.Error("the text is stored again when the open run is closed")
	}
	for _, c := range []*client{first, second} {
		o := c.ask("And then?", says("So."))
		if got := o.Blocks[0]; got.ContextID != "ctx" {
			t.Errorf("the next turn: got block %+v, want that of the turn before", got)
		}
	}
}

// TestClosedRunKeepsItsBlock checks that calls after the end of a run still get its block. They are not captured.
func TestClosedRunKeepsItsBlock(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Messages)
	first := c.ask("Who?", calls("a"))
	d.closeAll()
	for _, id := range []string{"a", "b"} {
		c.results(id, "late")
		o := c.begin()
		if o.New || o.Run != first.Run || o.Blocks[0].Text != first.Block.Text {
			t.Errorf("result %s: got run %s, blocks %v", id, o.Run, o.Blocks)
		}
		c.end(o, calls(string(id[0]+1)))
	}
	c.results("c", "last")
	c.next(says("Ann."))
	if o := c.ask("Why?", says("So.")); o.Blocks[0].Text != first.Block.Text || !o.New {
		t.Errorf("the next turn: new %t, blocks %v", o.New, o.Blocks)
	}
	want := []execution{{"Who?", "", []string{""}, 1, events.Unknown}, {"Why?", "So.", nil, 1, events.Unknown}}
	if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" {
		t.Error(diff)
	}
}

// TestMiddleHasNoBlock checks that a run that begins in the middle gets the blocks of earlier turns only.
func TestMiddleHasNoBlock(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	first := c.ask("Who?", says("Ann."))
	c.user("Why?")
	c.reply(calls("a")) // of a call that was not captured
	c.results("a", "so")
	for range 2 {
		o := c.beginWith(Block{Text: "too late"})
		if diff := cmp.Diff(map[int]Block{0: first.Block}, o.Blocks); diff != "" || o.New {
			t.Errorf("new %t, blocks %s", o.New, diff)
		}
		c.end(o, calls("b"))
		c.results("b", "so")
	}
	// A turn without a known run between them does not hide the first block.
	c.reply(says("So."))
	c.user("When?")
	c.reply(says("Now."))
	c.user("Where?")
	if o := c.next(says("Here.")); o.Blocks[0].Text != first.Block.Text || !o.New {
		t.Errorf("after an unknown turn: new %t, blocks %v", o.New, o.Blocks)
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, test := range map[string]struct {
		run  run
		want bool
	}{
		"active":                {run{Active: ago(time.Minute)}, false},
		"idle":                  {run{Active: ago(11 * time.Minute)}, true},
		"waits for tools":       {run{Active: ago(11 * time.Minute), WaitsForTools: true}, false},
		"never got its tools":   {run{Active: ago(61 * time.Minute), WaitsForTools: true}, true},
		"in flight":             {run{Active: ago(11 * time.Minute), Attempts: []attempt{{}}}, false},
		"its gateway died":      {run{Active: ago(61 * time.Minute), Attempts: []attempt{{}}}, true},
		"closing":               {run{Active: ago(time.Hour), Closing: ago(time.Second)}, false},
		"a dead gateway closes": {run{Active: now, Closing: ago(time.Minute)}, true},
	} {
		if got := test.run.isDue(now, 10*time.Minute); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
