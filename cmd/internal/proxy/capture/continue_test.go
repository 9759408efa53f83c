package capture

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/streams"
)

// named returns a reply that calls tools with the ids, arguments and name given.
func named(name, arguments string, ids ...string) *modelapi.Reply {
	r := calls(ids...)
	for i := range r.Calls {
		r.Calls[i].Name, r.Calls[i].Arguments = name, arguments
	}
	return r
}

// TestContinue plays what clients change while they work on a question. Each question is one execution, and each of its calls gets the
// block of the first one.
func TestContinue(t *testing.T) {
	t.Parallel()
	const reminder = "<system-reminder>The list is empty.</system-reminder>"
	for _, test := range []struct {
		name string
		// change changes the conversation before the call n, from 0. The items of the first turn are the question, the reply, the result.
		change func(c *client, n int)
		ids    string // of the calls; with one verb: random
	}{
		{"a clock in the system prompt", func(c *client, n int) { c.system = fmt.Sprint("It is 12:00:0", n) }, "call_%s"},
		{"ids that count", func(*client, int) {}, "functions.look:0"},
		{"a reminder that leaves the question", func(c *client, n int) {
			text := "Who is on shift?"
			if n == 0 {
				text += "\n" + reminder
			}
			c.items[0] = object{"role": "user", "content": text}
		}, "call_%s"},
		{"a reminder that moves to the end", func(c *client, n int) {
			if n > 0 {
				c.items = append(c.items, object{"role": "user", "content": reminder})
			}
		}, "call_%s"},
		{"a clock in the question", func(c *client, n int) {
			c.items[0] = object{"role": "user", "content": fmt.Sprintf("Who is on shift? (12:00:0%d)", n)}
		}, "call_%s"},
		{"a clock in the question, and ids that count", func(c *client, n int) {
			c.items[0] = object{"role": "user", "content": fmt.Sprintf("Who is on shift? (12:00:0%d)", n)}
		}, "functions.look:0"},
		{"a block with the state of the client, and ids that count", func(c *client, n int) {
			text := "Who is on shift?"
			if n > 0 { // the stored question is the first one
				text = fmt.Sprintf("<env cwd=\"/src\">\nTokens left: %d\n</env>\n", 900-n) + text
			}
			c.items[0] = object{"role": "user", "content": text}
		}, "functions.look:0"},
		{"other ids, equal texts", func(*client, int) {}, ""},
	} {
		for _, api := range apis {
			t.Run(test.name+"/"+string(api), func(t *testing.T) {
				t.Parallel()
				d := open(t)
				c := d.client(api)
				c.user("Who is on shift?")
				run, text := events.ID(""), ""
				for n := range 3 {
					test.change(c, n)
					o := c.match(0)
					o.Start(Block{Text: "Advice for " + string(o.Run)}, nil)
					if n == 0 {
						run, text = o.Run, o.Block.Text
					} else if at := o.place.turn; o.Run != run || o.New || o.Blocks[at].Text != text {
						t.Errorf("call %d: got run %s, new %t, blocks %v, want run %s", n, o.Run, o.New, o.Blocks, run)
					}
					if n == 2 {
						c.end(o, says("Ann."))
						continue
					}
					id := test.ids
					if strings.Contains(id, "%s") {
						id = fmt.Sprintf(id, strings.NewReplacer("-", "x", "_", "y").Replace(string(events.NewID()[:12]))+"a1b2")
					}
					reply := named("look", fmt.Sprintf(`{"b": 1, "a": %d}`, n), id)
					c.end(o, reply)
					if id == "" { // the client writes ids of its own
						c.items = c.items[:len(c.items)-1]
						id = fmt.Sprint("own-", n)
						reply.Calls[0].ID = id
						c.reply(reply)
					}
					c.results(id, fmt.Sprint("result ", n))
				}
				want := []execution{{"Who is on shift?", "Ann.", []string{"result 0", "result 1"}, 3, events.Unknown}}
				if strings.HasPrefix(test.name, "a clock in the question") {
					want[0].Question += " (12:00:00)"
				}
				if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" || d.counted(Ambiguous) != 0 {
					t.Errorf("%d ambiguous calls, executions %s", d.counted(Ambiguous), diff)
				}
			})
		}
	}
}

// TestDroppedQuestion drops the oldest items of a long history, also the question, while the model works.
func TestDroppedQuestion(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"call_a1b2c3d4%d", "c%d"} {
		d := open(t)
		c := d.client(modelapi.Chat)
		c.user("Who is on shift?")
		first := c.begin()
		for n := range 2 {
			id := fmt.Sprintf(id, n)
			if n > 0 {
				first = c.begin()
			}
			c.end(first, named("look", fmt.Sprintf(`{"a": %d}`, n), id))
			c.results(id, fmt.Sprint("result ", n))
		}
		c.items = c.items[3:]
		last := c.begin()
		c.end(last, says("Ann."))
		want := []execution{{"Who is on shift?", "Ann.", []string{"result 0", "result 1"}, 3, events.Unknown}}
		if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" || last.Run != first.Run {
			t.Errorf("ids %s: runs %s and %s, executions %s", id, first.Run, last.Run, diff)
		}
	}
}

func TestLastingText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Ship it at 10:30":                                       "Ship it at ",
		"<env>\na <b>\n</env>\n Ship it":                         "\n Ship it",
		"Ship it\n  <state n=\"1\">on</state>":                   "Ship it\n",
		"<env>only</env>":                                        "<env>only</env>",
		"Why is <b>this</b> bold?":                               "Why is <b>this</b> bold?",
		"<unclosed> Ship it":                                     "<unclosed> Ship it",
		"<a>1</a><a>2</a>x <system-reminder>y</system-reminder>": "x",
		"Verse 3:16, <br>\nand <br>":                             "Verse , <br>\nand <br>",
	} {
		if got := lastingText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	many := strings.Repeat("<a>\n", 1<<18) // a search for each end tag would take minutes
	if got := lastingText(many); got != strings.TrimSpace(many) {
		t.Errorf("got %d bytes of %d unclosed tags", len(got), len(many))
	}
}

// TestLostFirstEnd loses the end of a first call whose reply the client has, as with a server that restarts, or stores it only after the
// next call has begun. The next call brings the question and the reply.
func TestLostFirstEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, late := range []bool{false, true} {
		d := open(t)
		c := d.client(modelapi.Chat)
		c.user("Who is on shift?")
		first, reply := c.begin(), calls("call_a1b2c3d4e5")
		if late {
			<-first.done
		} else {
			first.die()
		}
		c.reply(reply)
		c.results("call_a1b2c3d4e5", "ann")
		second := c.begin()
		<-second.done
		if late {
			if err := first.Finish(t.Context(), reply, 200); err != nil {
				t.Fatal(err)
			}
		}
		c.end(second, says("Ann."))
		c.ask("Why?", says("So."))
		want := []execution{
			{"Who is on shift?", "Ann.", []string{"ann"}, 1, events.Unknown},
			{"Why?", "So.", nil, 1, events.Unknown},
		}
		if late {
			want[0].Calls = 2
		}
		if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" || first.Run != second.Run {
			t.Errorf("late %t: runs %s and %s, executions %s", late, first.Run, second.Run, diff)
		}
	}
}

// TestClearedResult clears the result of the first turn in the middle of the second one.
func TestClearedResult(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Messages)
	c.ask("Who?", calls("a"))
	c.results("a", "a long list")
	first := c.next(says("Ann."))
	second := c.ask("Why?", calls("b"))
	c.items[2] = object{"role": "user", "content": []object{{"type": "tool_result", "tool_use_id": "a", "content": "[cleared]"}}}
	c.results("b", "so")
	o := c.begin()
	want := map[int]Block{0: first.Block, 4: second.Block}
	if diff := cmp.Diff(want, o.Blocks); diff != "" || o.Run != second.Run {
		t.Errorf("got run %s, want %s, blocks %s", o.Run, second.Run, diff)
	}
	c.end(o, says("So."))
	if got := d.closeAll(); len(got) != 2 || got[0].Turn != 1 || got[1].Turn != 2 || got[0].Session != got[1].Session {
		t.Errorf("got %+v", got)
	}
}

// TestMovedTurns removes the first turns of a conversation. The blocks of the others move with their messages.
func TestMovedTurns(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.ask("One?", says("1."))
	two := c.ask("Two?", says("2."))
	three := c.ask("Three?", calls("call_a1b2c3d4e5"))
	c.items = c.items[2:] // a client compacts its history
	c.results("call_a1b2c3d4e5", "so")
	o := c.begin()
	if diff := cmp.Diff(map[int]Block{0: two.Block, 2: three.Block}, o.Blocks); diff != "" || o.Run != three.Run {
		t.Errorf("got run %s, want %s, blocks %s", o.Run, three.Run, diff)
	}
	c.end(o, says("3."))
}

// TestEqualIdsOfOtherQuestions: ids that count are equal in conversations with other questions, also if one of them is not captured.
func TestEqualIdsOfOtherQuestions(t *testing.T) {
	t.Parallel()
	d := open(t)
	ann, bob, lost := d.client(modelapi.Chat), d.client(modelapi.Chat), d.client(modelapi.Chat)
	a := ann.ask("Where is Ann?", named("find", "{}", "functions.find:0"))
	b := bob.ask("Where is Bob?", named("find", "{}", "functions.find:0"))
	lost.user("Where is Eve?")
	lost.reply(named("find", "{}", "functions.find:0"))
	for _, x := range []struct {
		c   *client
		run events.ID
	}{{ann, a.Run}, {bob, b.Run}, {lost, ""}} {
		x.c.results("functions.find:0", "here")
		if o := x.c.next(says("Here.")); o.Run != x.run && x.run != "" || o.Run == a.Run && x.c != ann {
			t.Errorf("got run %s, want %s", o.Run, x.run)
		}
	}
	if got := d.closeAll(); len(got) != 3 {
		t.Errorf("got %d executions", len(got))
	}
}

// TestFork: a fork of a history goes on with another question beside the run that waits for the same tools.
func TestFork(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Messages)
	parent := c.ask("Who?", calls("a"))
	for n := range 2 {
		fork := *c
		fork.items = append([]any(nil), c.items...)
		fork.results("a", "the work goes on elsewhere")
		if o := fork.ask(fmt.Sprint("Part ", n), says("Done.")); o.Run == parent.Run || o.Blocks[0].Text != parent.Block.Text {
			t.Errorf("fork %d: got run %s, blocks %v", n, o.Run, o.Blocks)
		}
	}
	c.results("a", "ann")
	if o := c.next(says("Ann.")); o.Run != parent.Run {
		t.Errorf("the parent: got run %s, want %s", o.Run, parent.Run)
	}
	want := []execution{{"Part 0", "Done.", nil, 1, events.Unknown}, {"Part 1", "Done.", nil, 1, events.Unknown}, {"Who?", "Ann.", []string{"ann"}, 2, events.Unknown}}
	if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" {
		t.Error(diff)
	}
}

// TestEqualBeginningsAreTwoSessions: two persons with equal first words, and the same reply, are two sessions.
func TestEqualBeginningsAreTwoSessions(t *testing.T) {
	t.Parallel()
	d := open(t)
	ann, bob := d.client(modelapi.Chat), d.client(modelapi.Chat)
	for _, c := range []*client{ann, bob} {
		c.ask("Hello", says("Hello! How can I help?"))
	}
	a := ann.ask("I am Ann.", says("I look."))
	b := bob.ask("I am Bob.", says("I look."))
	if a.Session == b.Session || d.counted(Ambiguous) != 2 {
		t.Errorf("got sessions %s and %s, %d ambiguous calls", a.Session, b.Session, d.counted(Ambiguous))
	}
	if next := ann.ask("Thanks.", says("Bye.")); next.Session != a.Session || next.TurnNumber != 3 {
		t.Errorf("got session %s, turn %d, want session %s", next.Session, next.TurnNumber, a.Session)
	}
	if got := d.closeAll(); len(got) != 5 {
		t.Errorf("got %d executions", len(got))
	}
}

// TestAmbiguousResponse: feedback on an id of two runs names both.
func TestAmbiguousResponse(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	var runs []string
	for _, q := range []string{"Who?", "Why?"} {
		r := says("So.")
		r.ID = "chatcmpl-373"
		c.items = nil
		runs = append(runs, string(c.ask(q, r).Run))
	}
	var ambiguous *AmbiguousError
	_, err := d.stores[0].Feedback(t.Context(), &events.FeedbackRequest{Caller: events.Caller{Owner: "ann"}, Book: "b", Execution: "chatcmpl-373"})
	if !errors.As(err, &ambiguous) || !cmp.Equal(ambiguous.Runs, runs) {
		t.Errorf("got %v, want the runs %v", err, runs)
	}
	var missing interface{ NotFound() bool }
	if _, err := d.stores[0].Feedback(t.Context(), &events.FeedbackRequest{Caller: events.Caller{Owner: "bob"}, Book: "b", Execution: "chatcmpl-373"}); !errors.As(err, &missing) {
		t.Errorf("another owner: got %v", err)
	}
	d.closeAll()
}

// TestBackground: the reply of a response in the background arrives with a poll.
func TestBackground(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Responses)
	c.background = true
	c.user("Who?")
	for n, reply := range []*modelapi.Reply{calls("a"), says("Ann.")} {
		o := c.begin()
		queued := &modelapi.Reply{ID: reply.ID, Error: "the response is queued"}
		c.end(o, queued)
		poll, err := d.stores[n].Poll(t.Context(), events.Caller{Owner: "ann"}, "b", reply.ID)
		if err != nil || poll == nil || poll.Run != o.Run {
			t.Fatalf("call %d: got %+v, %v", n, poll, err)
		}
		for _, r := range []*modelapi.Reply{queued, reply} {
			if err := poll.Finish(t.Context(), r, 200); err != nil {
				t.Fatal(err)
			}
		}
		if other, err := d.stores[n].Poll(t.Context(), events.Caller{Owner: "ann"}, "b", reply.ID); other != nil || err != nil {
			t.Errorf("call %d: polled again: got %+v, %v", n, other, err)
		}
		c.items, c.previous = nil, reply.ID
		c.results("a", "ann")
	}
	want := []execution{{"Who?", "Ann.", []string{"ann"}, 2, events.Unknown}}
	if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" {
		t.Error(diff)
	}
}

// TestFullBucketRefusesRuns: a full bucket refuses new runs, and keeps those that are open.
func TestFullBucketRefusesRuns(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.user("Who?")
	c.end(c.begin(), calls("a"))
	s, err := d.conn.JetStream().Stream(t.Context(), d.stores[0].open.stream())
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = int64(s.CachedInfo().State.Msgs)
	if _, err := d.conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	other := d.client(modelapi.Chat)
	other.store = 0
	other.user("Why?")
	o := other.begin()
	if err := o.Wait(t.Context()); err == nil {
		t.Error("a full bucket accepted a run")
	}
	if err := o.Finish(t.Context(), says("So."), 200); err == nil {
		t.Error("a full bucket accepted a call")
	}
	if _, err := d.stores[0].Begin(t.Context(), other.call(0)); !errors.Is(err, ErrFull) {
		t.Errorf("the next run: got %v", err)
	}
	c.results("a", "ann")
	if run := c.match(0); run.New {
		t.Error("the open run is lost")
	}
	if d.counted(Refused) < 2 {
		t.Errorf("got %d refused runs", d.counted(Refused))
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	q := newQuota()
	n := 0
	for ; q.add("ann") == nil; n++ {
		if n > streams.MaxOpen {
			t.Fatal("no limit")
		}
	}
	if err := q.add("ann"); !errors.Is(err, ErrQuota) || n > streams.MaxOpenOfOwner {
		t.Errorf("after %d runs: got %v", n, err)
	}
	if err := q.add("bob"); err != nil {
		t.Errorf("another owner: got %v", err)
	}
	if q.remove("ann"); q.add("ann") != nil {
		t.Error("a run that ended still counts")
	}
	if q.set(map[string]int{"ann": streams.MaxOpen}); !errors.Is(q.add("bob"), ErrFull) {
		t.Error("all runs have no limit")
	}
}

// TestEndedRunIsDue: a run that waits for tools while another turn began ends by its idle time.
func TestEndedRunIsDue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := run{Active: now.Add(-20 * time.Minute), WaitsForTools: true, NextBegan: now.Add(-11 * time.Minute)}
	if !r.isDue(now, 10*time.Minute) || r.isDue(now, 12*time.Minute) {
		t.Error("the idle time does not count from the next turn")
	}
}
