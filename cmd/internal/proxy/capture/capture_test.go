package capture

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// execution is what a test expects of an execution.
type execution struct {
	Question, Answer string
	Outputs          []string // of the tool calls
	Calls            int      // of the model
	Label            events.Label
}

func executions(reports []*events.Report) (all []execution) {
	for _, r := range reports {
		e := execution{Question: r.Question, Answer: r.Answer, Calls: r.Usage.Calls, Label: r.Outcome.Label}
		for _, s := range r.Steps {
			for _, c := range s.Calls {
				e.Outputs = append(e.Outputs, c.Output)
			}
		}
		all = append(all, e)
	}
	return all
}

// conversations are the ways in which agents call models, with the executions that they must become.
var conversations = []struct {
	name string
	play func(c *client)
	want []execution
}{
	{"a single call", func(c *client) { c.ask("Who?", says("Ann.")) }, []execution{{"Who?", "Ann.", nil, 1, events.Unknown}}},
	{
		"equal single calls", func(c *client) {
			for i := range 3 {
				again := *c
				again.store += i
				again.ask("Who?", says("Ann."))
			}
		},
		[]execution{{"Who?", "Ann.", nil, 1, events.Unknown}, {"Who?", "Ann.", nil, 1, events.Unknown}, {"Who?", "Ann.", nil, 1, events.Unknown}},
	},
	{
		"a repeated call", func(c *client) {
			c.user("Who?")
			c.abandon()
			c.end(c.beginAgain(1), says("Ann."))
		},
		[]execution{{"Who?", "Ann.", nil, 1, events.Unknown}},
	},
	{
		"a cut stream, then the same call", func(c *client) {
			c.user("Who?")
			c.end(c.begin(), cut)
			c.end(c.begin(), says("Ann."))
		},
		[]execution{{"Who?", "Ann.", nil, 1, events.Unknown}},
	},
	{
		"a reply that the client did not receive", func(c *client) {
			c.user("Who?")
			lost := *c
			lost.end(lost.begin(), says("Bob."))
			c.end(c.beginAgain(1), says("Ann."))
		},
		[]execution{{"Who?", "Ann.", nil, 1, events.Unknown}},
	},
	{
		"a gateway that dies in the first call", func(c *client) {
			c.user("Who?")
			c.abandon()
			c.end(c.begin(), says("Ann."))
		},
		[]execution{{"Who?", "Ann.", nil, 1, events.Unknown}},
	},
	{
		"a gateway that dies in a later call", func(c *client) {
			c.ask("Who?", calls("a"))
			c.results("a", "ann")
			c.abandon()
			c.next(says("Ann."))
		},
		[]execution{{"Who?", "Ann.", []string{"ann"}, 2, events.Unknown}},
	},
	{"no complete reply", func(c *client) { c.ask("Who?", cut) }, nil},
	{
		"a loop of tools", func(c *client) {
			c.ask("Who?", calls("a"))
			for _, id := range []string{"a", "b", "c"} {
				c.results(id, "result "+id)
				c.next(calls(string(id[0] + 1)))
			}
			c.results("d", "last")
			c.next(says("Ann."))
		},
		[]execution{{"Who?", "Ann.", []string{"result a", "result b", "result c", "last"}, 5, events.Unknown}},
	},
	{
		"parallel tools", func(c *client) {
			c.ask("Who?", calls("a", "b"))
			c.results("b", "two", "a", "one")
			c.next(says("Ann."))
		},
		[]execution{{"Who?", "Ann.", []string{"one", "two"}, 2, events.Unknown}},
	},
	{
		"equal loops with equal ids at the same time", func(c *client) {
			other := *c
			other.store++
			for _, x := range []*client{c, &other} {
				x.ask("Who?", calls("a"))
			}
			for _, x := range []*client{c, &other} {
				x.results("a", "ann")
				x.next(says("Ann."))
			}
		},
		[]execution{{"Who?", "Ann.", []string{"ann"}, 2, events.Unknown}, {"Who?", "Ann.", []string{"ann"}, 2, events.Unknown}},
	},
	{
		"calls of one run at the same time", func(c *client) {
			c.ask("Who?", calls("a"))
			c.results("a", "ann")
			first, second := *c, *c
			second.store++
			one := first.begin()
			<-one.done // it is stored first, so its call has the lower number
			two := second.begin()
			second.end(two, says("Bob."))
			first.end(one, says("Ann."))
		},
		[]execution{{"Who?", "Bob.", []string{"ann"}, 3, events.Unknown}},
	},
	{
		"a rejected call in the middle", func(c *client) {
			c.ask("Who?", calls("a"))
			c.results("a", "too much")
			c.next(failed)
		},
		[]execution{{"Who?", "", []string{"too much"}, 1, events.Failure}},
	},
	{
		"three turns with loops", func(c *client) {
			for _, q := range []string{"One?", "Two?", "Wrong"} {
				c.ask(q, calls("of "+q))
				c.results("of "+q, "result of "+q)
				c.next(says(q + " Done."))
			}
		},
		[]execution{
			{"One?", "One? Done.", []string{"result of One?"}, 2, events.Unknown},
			{"Two?", "Two? Done.", []string{"result of Two?"}, 2, events.Failure},
			{"Wrong", "Wrong Done.", []string{"result of Wrong"}, 2, events.Unknown},
		},
	},
	{
		"an interrupted tool", func(c *client) {
			c.ask("Who?", calls("a"))
			c.results("a", "Error: interrupted")
			c.ask("Ask Bob first", says("Bob."))
		},
		[]execution{{"Ask Bob first", "Bob.", nil, 1, events.Unknown}, {"Who?", "", []string{"Error: interrupted"}, 1, events.Failure}},
	},
	{
		"an edited question", func(c *client) {
			c.ask("Who?", says("Ann."))
			c.items = nil
			c.ask("Who else?", says("Bob."))
		},
		[]execution{{"Who else?", "Bob.", nil, 1, events.Unknown}, {"Who?", "Ann.", nil, 1, events.Unknown}},
	},
	{
		"a later turn is edited", func(c *client) {
			c.ask("Who?", says("Ann."))
			fork := *c
			c.ask("Why?", says("So."))
			fork.store++
			fork.ask("When?", says("Now."))
		},
		[]execution{{"When?", "Now.", nil, 1, events.Unknown}, {"Who?", "Ann.", nil, 1, events.Unknown}, {"Why?", "So.", nil, 1, events.Unknown}},
	},
	{
		"a client that changes the reply", func(c *client) {
			c.ask("Who?", calls("a"))
			c.items = c.items[:1]
			c.reply(calls("a1"))
			c.results("a1", "ann")
			c.next(says("Ann."))
		},
		[]execution{{"Who?", "Ann.", []string{"ann"}, 2, events.Unknown}},
	},
	{
		"a run in the middle", func(c *client) {
			c.user("Who?")
			c.reply(calls("a"))
			c.results("a", "ann")
			c.next(calls("b"))
			c.results("b", "bob")
			c.next(says("Both."))
		},
		[]execution{{"Who?", "Both.", []string{"ann", "bob"}, 2, events.Unknown}},
	},
	{
		"drafts of answers", func(c *client) {
			for i := range 2 {
				draft := *c
				draft.store += i
				draft.user("As JSON?")
				draft.reply(says("{"))
				draft.next(says("}"))
			}
		},
		[]execution{{"As JSON?", "}", nil, 1, events.Unknown}, {"As JSON?", "}", nil, 1, events.Unknown}},
	},
	{
		"other owners", func(c *client) {
			c.ask("Who?", calls("a"))
			c.results("a", "ann")
			other := *c
			other.owner = "bob"
			other.next(says("Bob."))
			c.next(says("Ann."))
		},
		[]execution{{"Who?", "Ann.", []string{"ann"}, 2, events.Unknown}, {"Who?", "Bob.", []string{"ann"}, 1, events.Unknown}},
	},
	{
		"an explicit outcome", func(c *client) {
			c.outcome = events.Outcome{Score: 0.25}
			c.ask("Who?", says("Ann."))
		},
		[]execution{{"Who?", "Ann.", nil, 1, events.Partial}},
	},
}

func TestConversations(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			d := open(t)
			for _, test := range conversations {
				t.Run(test.name, func(t *testing.T) {
					d.reset(t)
					c := d.client(api)
					c.owner = test.name
					test.play(c)
					if diff := cmp.Diff(test.want, executions(d.closeAll())); diff != "" {
						t.Error(diff)
					}
					if d.reporter.copies != 0 {
						t.Errorf("%d executions were reported again", d.reporter.copies)
					}
				})
			}
		})
	}
}

// TestStoredHistory plays conversations whose history the provider stores.
func TestStoredHistory(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(c *client, r *modelapi.Reply){
		"previous response": func(c *client, r *modelapi.Reply) { c.previous = r.ID },
		"conversation":      func(*client, *modelapi.Reply) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			c := d.client(modelapi.Responses)
			if name == "conversation" {
				c.conv = "conv-1"
			}
			send := func(r *modelapi.Reply, add func()) *ActiveCall {
				c.items = nil
				add()
				o := c.next(r)
				use(c, r)
				return o
			}
			first := send(calls("a"), func() { c.user("Who?") })
			if o := send(says("Ann."), func() { c.results("a", "ann") }); o.Run != first.Run || o.New || len(o.Blocks) != 0 {
				t.Errorf("a result: got run %s, new %t, blocks %v, want run %s", o.Run, o.New, o.Blocks, first.Run)
			}
			if o := send(calls("b"), func() { c.user("Why?") }); o.Run == first.Run || !o.New || len(o.Blocks) != 0 {
				t.Errorf("the next turn: got run %s, new %t, blocks %v", o.Run, o.New, o.Blocks)
			}
			send(says("So."), func() { c.results("b", "Error: none"); c.user("no, at once") })
			want := []execution{
				{"Who?", "Ann.", []string{"ann"}, 2, events.Unknown},
				{"Why?", "", []string{"Error: none"}, 1, events.Failure},
				{"no, at once", "So.", nil, 1, events.Unknown},
			}
			if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRepeatedRepetitions: an SDK numbers its repetitions. Each of the calls is complete and stored when its gateway dies, before the
// client has the end. They are one call of one run.
func TestRepeatedRepetitions(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.ask("Who?", calls("a"))
	c.results("a", "ann")
	for n := range 4 {
		if err := c.beginAgain(n).Finish(t.Context(), says("Ann."), 200); err != nil {
			t.Fatal(err)
		}
	}
	first := d.client(modelapi.Chat)
	first.user("Which?")
	for n := range 4 {
		o := first.beginAgain(n)
		if n == 1 {
			o.die() // in mid-stream
			continue
		}
		if err := o.Finish(t.Context(), says("This."), 200); err != nil {
			t.Fatal(err)
		}
	}
	closed := d.client(modelapi.Chat)
	closed.outcome = events.Outcome{Label: events.Success}
	closed.user("With an outcome, which closes the run?")
	for n := range 4 {
		if err := closed.beginAgain(n).Finish(t.Context(), says("Yes."), 200); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			d.settle()
		}
	}
	got := d.closeAll()
	if len(got) != 3 || got[0].Answer != "This." || len(got[0].Steps) != 0 || got[1].Answer != "Ann." || len(got[1].Steps) != 1 || got[2].Answer != "Yes." {
		t.Errorf("got %+v", got)
	}
}
