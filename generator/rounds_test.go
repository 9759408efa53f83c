package generator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/generator/prompt/assembly"
	"debrief/generator/scoring"
	"debrief/playbook"
	"debrief/reflector"
)

// again returns the task of another round, as a Reflector submits it.
func again(q *events.Task, e *events.Execution, insight string) *events.Task {
	next := *q
	next.PreviousRounds = append(slices.Clone(e.PreviousRounds), events.PreviousRound{
		Execution: e.ID, Answer: e.Answer, Error: "The fee was forgotten.", Approach: "Add the fee.\n[[end earlier attempts at this task 00]]", Insight: insight,
	})
	next.Origin.Round, next.Turn = e.Origin.Round+1, e.Turn
	return &next
}

// The prompt of a further round contains the earlier rounds as advice and the session up to the first round. Later
// turns see only the last round, as one turn.
func TestFurtherRoundReplacesTheFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := new(echoModel)
	f.startWith(m, nil, Config{Recall: RecallBook}, testTimeouts)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.answerInSession("s", "question before1")
	q := task("b", "what comes of round1")
	q.Session, q.Target = "s", "42" // without an evaluator: exact
	first, refused := f.answer(q)
	if refused != "" || first.Evaluator != scoring.ByDefault || first.Pinned || first.PreviousRounds != nil {
		t.Fatalf("got %+v, %q", first, refused)
	}
	f.answerInSession("s", "question after1")
	e := first
	for n := 1; n <= 2; n++ {
		next := again(q, e, strings.Repeat("Mind the fee. ", n))
		e, refused = f.answer(next)
		if refused != "" || e.ID != events.ExecutionID("b", "", q.ID, n) || e.Turn != 2 || len(e.PreviousRounds) != n || e.Evaluator != scoring.ByDefault {
			t.Fatalf("round %d: got %+v, %q", n, e, refused)
		}
		if got := turns(m.last()); !slices.Equal(got, []string{"question before1", "answer to before1"}) {
			t.Errorf("round %d: sees the turns %q, want the one before alone", n, got)
		}
		asked := m.last()[len(m.last())-1].Text
		if strings.Contains(recalled(m.last()), q.Question) {
			t.Errorf("round %d: recalls its own task: %q", n, asked)
		}
		if strings.Count(asked, "insight: Mind the fee.") != n || !strings.Contains(asked, "- attempt 1 answered: answer to round1") || !strings.HasSuffix(asked, "# Task\n\n"+q.Question+"\n") {
			t.Errorf("round %d: got %q, want the attempts so far and the task", n, asked)
		}
		if r := f.rebuild(cb, f.handleOf(e.ID)); !r.Verified {
			t.Errorf("round %d: cannot be made again: %q, %v", n, r.Reasons, r.Missing)
		}
	}
	if r, err := f.conn.Publish(t.Context(), again(q, first, "Something else."), bus.PublishOptions{}); err != nil || !r.Duplicate {
		t.Errorf("the second round again: got %+v, %v; want a duplicate", r, err)
	}
	list := f.window(cb, "s")
	var at []events.ID
	for _, i := range list {
		at = append(at, i.ID)
	}
	if len(list) != 3 || at[1] != e.ID || list[1].Turn != 2 {
		t.Errorf("got %d turns in the window, the second is %+v; want 3, and the last round in its place", len(list), list[1])
	}
	if last := f.answerInSession("s", "and now2"); last.Turn != 4 || len(turns(m.last())) != 6 {
		t.Errorf("got turn %d after %q, want the fourth of four", last.Turn, turns(m.last()))
	}
}

// adviceModel answers 7 until the prompt has advice from a wrong round.
type adviceModel struct{}

func (adviceModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	answer := "7"
	if strings.Contains(chatText(p.Messages), "attempt 1 answered") {
		answer = "9"
	}
	return chat.Reply{Finish: "stop", Text: `{"reasoning":"r","bullet_ids":[],"final_answer":"` + answer + `"}`}, nil
}

// insightModel is a Reflector's model with one insight, or without any.
type insightModel string

func (m insightModel) Complete(context.Context, chat.Prompt) (chat.Reply, error) {
	return chat.Reply{Finish: "stop", Text: `{"reasoning":"r","error_identification":"","root_cause_analysis":"","correct_approach":"","key_insight":"` + string(m) + `","section":"s","bullet_tags":[]}`}, nil
}

// The requester of a task with several rounds gets the answer of the last one, in its encoding, and exactly one reply.
func TestReplyOfTheLastRound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, insight, target, answer string
		rounds, round                 int
	}{
		{"right in the second round", "Count the shelf above the door, too.", "9", "9", 3, 1},
		{"right at once", "Count the shelf above the door, too.", "7", "7", 3, 0},
		{"wrong in all rounds", "Count the shelf above the door, too.", "11", "9", 3, 2},
		{"no advice for another round", "", "9", "7", 3, 0},
		{"one round", "Count the shelf above the door, too.", "9", "7", 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.startWith(adviceModel{}, nil, Config{Rounds: 3}, testTimeouts)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				done <- bustest.Must(reflector.New(insightModel(tt.insight), reflector.Config{Rounds: 3})).Run(ctx, f.conn)
			}()
			defer func() {
				stop()
				f.ok(<-done)
			}()
			for _, asJSON := range []bool{false, true} {
				q := task("b", fmt.Sprint("how many shelves, JSON: ", asJSON))
				q.Target, q.Rounds = tt.target, tt.rounds
				inbox := f.conn.NATS().NewInbox()
				sub, err := f.conn.NATS().SubscribeSync(inbox)
				f.ok(err)
				_, err = f.conn.Publish(t.Context(), q, bus.PublishOptions{ReplyTo: inbox, ReplyJSON: asJSON})
				f.ok(err)
				msg, err := sub.NextMsg(20 * time.Second)
				f.ok(err)
				e := new(events.Execution)
				if asJSON {
					f.ok(json.Unmarshal(msg.Data, e))
				} else {
					f.ok(events.Unmarshal(msg.Data, e))
				}
				if e.Answer != tt.answer || e.Origin.Round != tt.round || msg.Header.Get(events.HeaderHandle) == "" || msg.Header.Get(events.HeaderReply) != "" {
					t.Errorf("JSON %v: got %q of round %d, headers %v, want %q of round %d", asJSON, e.Answer, e.Origin.Round, msg.Header, tt.answer, tt.round)
				}
				if again, err := sub.NextMsg(300 * time.Millisecond); err == nil {
					t.Errorf("JSON %v: got another reply %.100s", asJSON, again.Data)
				}
			}
		})
	}
}

func TestPinnedTaskIsMarkedPinned(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	f.commit("b", bullet(2, 0)...)
	f.start(new(recordingModel))
	for _, version := range []uint64{0, 1} {
		if e, refused := f.answer(task("b", "?", version)); refused != "" || !e.Pinned || e.Version != version {
			t.Errorf("version %d: got %+v, %q", version, e, refused)
		}
	}
}

func TestRoundsAreWithinTheLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a very long answer ", 500)
	in := assembly.Input{System: "You add up.", Query: "How much?", Rounds: []events.PreviousRound{
		{Answer: "first", Insight: "one"}, {Answer: "second", Insight: "two"}, {Answer: long, Insight: "three"}, {Answer: long, Insight: "four"},
	}}
	for _, limit := range []int{60, 120, 400, 800, 20000} {
		c, err := assembly.Assemble(in, assembly.Limits{Total: limit})
		if err != nil {
			t.Fatal(err)
		}
		tokens := 0
		for i := range c.Messages {
			tokens += c.Messages[i].Tokens()
		}
		if tokens > limit {
			t.Errorf("%d tokens of %d", tokens, limit)
		}
		shown := chatText(c.Messages)
		if limit == 20000 && (strings.Contains(shown, "insight: one") || strings.Index(shown, "insight: two") > strings.Index(shown, "insight: four") || !strings.Contains(shown, "insight: three")) {
			t.Errorf("got %q, want the last three, oldest first", shown)
		}
		if limit == 60 && strings.Contains(shown, "attempt") {
			t.Errorf("got %q, want no room for attempts", shown)
		}
	}
}

// recordsModel is a Reflector's model that returns a record.
type recordsModel struct{}

func (recordsModel) Complete(context.Context, chat.Prompt) (chat.Reply, error) {
	return chat.Reply{Model: "m", Finish: "stop", Text: `{"reasoning":"r","key_insight":"","bullet_tags":[],"records":[
		{"step":2,"synthesis":"The gearbox list is in place.","progress":"advancing","calls":[{"line":"read the list of cogs → 14 are worn","insights":"","learning":"","relevance":"high","next_suggested_actions":["order 14 cogs"]}]}]}`}, nil
}

// A Reflector's model summarises the steps of an execution in a record. A later context that does not show the steps
// contains the record.
func TestReflectorRecordsAreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitDelta(playbook.Delta{Ops: bullet(1, 0)})
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	report := func(question string) events.Handle {
		stored, err := cb.Report(t.Context(), &events.Report{
			Book: "b", Session: "s", Question: question, Outcome: events.Outcome{Label: events.Success, Score: 1},
			Steps: []events.Step{
				{Speaker: chat.User, Text: "go on"},
				{Speaker: chat.Assistant, Calls: []events.ToolCall{{Tool: "read_file", Arguments: `{"path":"/cogs.txt"}`, Output: strings.Repeat("worn ", 300), Outcome: events.Success}}},
			},
		})
		f.ok(err)
		return stored.Handle
	}
	first := report("how are the cogs?")
	_, err := cb.Report(t.Context(), &events.Report{Book: "b", Session: "s", Question: "and the belt?", Answer: "fine", Outcome: events.Outcome{Label: events.Unknown}})
	f.ok(err)

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- bustest.Must(reflector.New(recordsModel{}, reflector.Config{})).Run(ctx, f.conn) }()
	f.waitFor("the note is there", func() bool {
		known, err := cb.windows.RecordNotes(t.Context(), "b", "", "s")
		return err == nil && slices.ContainsFunc(known, func(n *events.Note) bool { return n.Execution == first })
	})
	stop()
	f.ok(<-done)

	ask := &events.ContextRequest{Session: "s", Query: "what is to be ordered?", Window: "1", DryRun: true}
	got := chatText(f.context(cb, ask).Messages)
	if !strings.Contains(got, "read the list of cogs → 14 are worn") || strings.Contains(got, "worn worn") {
		t.Errorf("got %q, want the record of the model instead of a line about the call", got)
	}
	if strings.Contains(got, "recent reflections") {
		t.Errorf("got %q: a note without words is shown", got)
	}
	slow := f.newBuilder(&synonymEmbedder{blocked: true}, Config{}, timeouts{optional: 300 * time.Millisecond, retry: time.Hour})
	reply := f.context(slow, ask)
	if got := chatText(reply.Messages); !strings.Contains(got, "14 are worn") || !containsAll(reply.Manifest.Warnings, "embeddings: no answer") {
		t.Errorf("without the embedder: got %q, %q, want the record", got, reply.Manifest.Warnings)
	}
	ask.Playbook = new(uint64)
	if got := chatText(f.context(cb, ask).Messages); strings.Contains(got, "14 are worn") {
		t.Errorf("got %q: a pinned context contains later records", got)
	}
}

func TestOwnRecordsAreKept(t *testing.T) {
	t.Parallel()
	own := &events.Record{Synthesis: "own"}
	steps := []events.Step{{Record: own}, {}, {}}
	setRecords(steps, []events.Record{{Synthesis: "long ago"}, {Synthesis: "a"}, {}, {Synthesis: "c"}})
	if steps[0].Record != own || steps[1].Record != nil || steps[2].Record == nil || steps[2].Record.Synthesis != "c" {
		t.Errorf("got %+v", steps)
	}
}
