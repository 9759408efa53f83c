package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"

	"debrief/cmd/internal/runs"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/streams"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
	"debrief/generator/prompt/selection"

	book "debrief/playbook"
)

// recorded are the runs of other projects' agents, which are kept beside the checkout and not in it.
func recorded(t *testing.T) []*events.Execution {
	t.Helper()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	var read []*events.Execution
	for _, pattern := range []string{"swe-agent/*.traj", "tau-bench/*.json"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Skipf("no recorded data: %s has no %s (DEBRIEF_DATA names its folder)", dir, pattern)
		}
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = runs.Read(t.Context(), "book", filepath.Base(name), f, func(e *events.Execution) error {
				read = append(read, e)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return read
}

// tokenCounter counts as the tokenizers of models do, the larger of o200k_base and cl100k_base, each text once.
type tokenCounter struct {
	codecs []tokenizer.Codec
	known  sync.Map // int by string
}

func newTokenCounter(t *testing.T) *tokenCounter {
	t.Helper()
	c := new(tokenCounter)
	for _, name := range []tokenizer.Encoding{tokenizer.O200kBase, tokenizer.Cl100kBase} {
		codec, err := tokenizer.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		c.codecs = append(c.codecs, codec)
	}
	return c
}

func (c *tokenCounter) text(t *testing.T, s string) (most int) {
	if n, ok := c.known.Load(s); ok {
		return n.(int)
	}
	for _, codec := range c.codecs {
		n, err := codec.Count(s)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	c.known.Store(s, most)
	return most
}

// messages adds what the wire takes, as chat.Tokens has it: 4 a message, 6 a call.
func (c *tokenCounter) messages(t *testing.T, list []chat.Message) (n int) {
	for _, m := range list {
		n += 4 + c.text(t, m.Text)
		for _, call := range m.Calls {
			n += 6 + c.text(t, call.Tool) + c.text(t, call.Arguments)
		}
	}
	return n
}

// furnish adds what else a context may have to find room for: a book, reflections, and what is recalled of other runs.
func furnish(in *assembly.Input, x *selection.Index, others []*events.Execution) {
	in.Index = x
	said := strings.Repeat("The import of customer orders reads the invoices before every total was checked. ", 4)[:300]
	for i := range 3 {
		in.Notes = append(in.Notes, &events.Note{
			Reflection: events.NewHandle(uint64(i), events.Hash("note", fmt.Sprint(i))), Error: said, Approach: said, Insight: said,
		})
	}
	for i, e := range others[:min(len(others), 10)] {
		in.Recalled = append(in.Recalled, events.NewInteraction(events.NewHandle(uint64(1000+i), e.ID), e))
	}
}

// learnedBook is a playbook of n bullets.
func learnedBook(n int) *book.Playbook {
	texts := newTexts(6)
	return book.Restore(uint64(n), uint64(n), func(yield func(*book.Bullet) bool) {
		for i := range n {
			b := &book.Bullet{ID: book.MintID("strategies", uint64(i+1)), Section: fmt.Sprint("about_", i%12), Content: texts.advice(), Helpful: i % 13, Harmful: i % 4}
			if !yield(b) {
				return
			}
		}
	})
}

// TestRecordedRunsReplayed lays out a context for every time that the agents of all recorded runs were asked: within the
// limit by the estimate and by the real tokenizers, a valid chat, with the query and the newest step.
func TestRecordedRunsReplayed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	runs := recorded(t)
	count := newTokenCounter(t)
	index := selection.NewIndex(false)
	index.Update(learnedBook(300))
	for _, tt := range []struct {
		name    string
		session bool
		learned bool
		total   int // 0 is the default
	}{
		{"one turn", false, false, 0},
		{"one turn, small", false, false, 4000},
		{"session", true, false, 0},
		{"session, small", true, false, 4000},
		{"session, small, with what was learned", true, true, 4000},
		{"session, tiny, with what was learned", true, true, 1500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := assembly.Limits{Total: tt.total}.WithDefaults()
			contexts, above, most := 0, 0, 0.0 // by the tokenizers, the fullest as a share of its limit
			truth, estimate := 0, 0
			for i, e := range runs {
				if tt.learned && i >= 40 { // the others take as long again and show no more
					break
				}
				first := assembly.Input{}
				if tt.learned {
					furnish(&first, index, runs[(i+1)%len(runs):])
				}
				err := layOut(e, first, tt.session, l, func(p *asked) error {
					checkContext(t, p, l.Total)
					real := count.messages(t, p.shown.Messages)
					contexts++
					truth, estimate = truth+real, estimate+p.shown.Manifest.Tokens
					most = max(most, float64(real)/float64(l.Total))
					if real > l.Total {
						above++
					}
					return nil
				})
				if err != nil {
					t.Errorf("%s: %v", e.RunID, err)
				}
			}
			t.Logf("%d contexts, limit %d: by the tokenizers %d are above it, and the fullest has %.3f of it; estimates are %.3f of the truth",
				contexts, l.Total, above, most, float64(estimate)/float64(truth))
			if above > 0 {
				t.Errorf("%d of %d contexts are above the limit by the tokenizers, the worst at %.3f of it", above, contexts, most)
			}
		})
	}
}

func checkContext(t *testing.T, p *asked, limit int) {
	t.Helper()
	tokens := 0
	for i := range p.shown.Messages {
		tokens += p.shown.Messages[i].Tokens()
	}
	if tokens > limit || tokens != p.shown.Manifest.Tokens {
		t.Errorf("%d tokens of %d, the manifest says %d", tokens, limit, p.shown.Manifest.Tokens)
	}
	if err := validChat(p.shown.Messages); err != nil {
		t.Error(err)
	}
	query := "# Task\n\n" + beginningOf(p.in.Query)
	asks := func(m chat.Message) bool { return m.Speaker == chat.User && strings.Contains(m.Text, query) }
	if !anyMessage(p.shown.Messages, asks) {
		t.Errorf("the query %q is not asked", query)
	}
	if text, speaker := newest(p.in.Running); text != "" {
		shows := func(m chat.Message) bool { return m.Speaker == speaker && strings.HasPrefix(m.Text, text) }
		end := p.shown.Messages[max(0, len(p.shown.Messages)-2):] // a way out of going in circles may follow it
		if !anyMessage(end, shows) {
			t.Errorf("the newest step, %s: %q, is not at the end: %+v", speaker, text, end)
		}
	}
}

func anyMessage(list []chat.Message, is func(chat.Message) bool) bool {
	for _, m := range list {
		if is(m) {
			return true
		}
	}
	return false
}

// beginningOf is what is shown of a text however much is cut.
func beginningOf(text string) string {
	text = strings.TrimSpace(text)
	for n := min(len(text), 40); ; n-- {
		if n == len(text) || utf8.RuneStart(text[n]) {
			return text[:n]
		}
	}
}

// newest is the beginning of what was said last since the query, and who said it.
func newest(steps []events.Step) (text, speaker string) {
	for i := len(steps) - 1; i >= 0; i-- {
		s := &steps[i]
		if n := len(s.Calls); n > 0 {
			if strings.TrimSpace(s.Calls[n-1].Output) == "" {
				return "(nothing)", chat.Tool
			}
			output := s.Calls[n-1].Output
			return output[:len(output)-len(strings.TrimLeft(output, " \t\r\n"))] + beginningOf(output), chat.Tool
		}
		if strings.TrimSpace(s.Text) != "" {
			return beginningOf(s.Text), s.Speaker
		}
	}
	return "", ""
}

// validChat says what servers would refuse: instructions come first, then turns that begin with a user and alternate,
// every call of a tool answered right after it, its arguments a JSON object.
func validChat(messages []chat.Message) error {
	if len(messages) < 2 || messages[0].Speaker != chat.System || messages[1].Speaker != chat.User {
		return fmt.Errorf("does not begin with instructions and a user: %+v", messages)
	}
	var open []string
	ids := make(map[string]bool)
	for i, m := range messages[1:] {
		before := messages[i].Speaker
		switch {
		case !utf8.ValidString(m.Text) || strings.ContainsRune(m.Text, 0):
			return fmt.Errorf("message %d is no text: %q", i+1, m.Text)
		case m.Speaker == chat.Tool && (len(open) == 0 || m.CallID != open[0]):
			return fmt.Errorf("message %d answers call %q, open are %q", i+1, m.CallID, open)
		case m.Speaker == chat.Tool:
			open = open[1:]
		case len(open) > 0:
			return fmt.Errorf("message %d by %s, while %q is not answered", i+1, m.Speaker, open)
		case m.Speaker == chat.System || m.Speaker == chat.User && before == chat.User:
			return fmt.Errorf("message %d: %s after %s", i+1, m.Speaker, before)
		}
		for _, c := range m.Calls {
			var object map[string]any
			if ids[c.ID] || c.Tool == "" || json.Unmarshal([]byte(c.Arguments), &object) != nil {
				return fmt.Errorf("message %d: call %+v", i+1, c)
			}
			ids[c.ID] = true
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%q are not answered", open)
	}
	return nil
}

// TestReplayOfASession: turns of the user become interactions, and what the agent is shown is what came before.
func TestReplayOfASession(t *testing.T) {
	t.Parallel()
	say := func(who, text string) events.Step { return events.Step{Speaker: who, Text: text} }
	look := events.Step{Speaker: chat.Assistant, Calls: []events.ToolCall{{Tool: "look", Arguments: `{"at": "shelf 1"}`, Output: "12 books", Outcome: events.Success}}}
	e := &events.Execution{Book: book.Book("b"), Question: "How many?", Steps: []events.Step{look, say(chat.Assistant, "Twelve."), say(chat.User, "And on shelf 2?"), look, say(chat.Assistant, "Twelve.")}}
	for _, session := range []bool{false, true} {
		var got []string
		err := layOut(e, assembly.Input{}, session, assembly.Limits{}, func(p *asked) error {
			got = append(got, fmt.Sprintf("%q after %d turns and %d steps, of %d messages", p.in.Query, len(p.in.Window), len(p.in.Running), len(p.whole)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			`"How many?" after 0 turns and 0 steps, of 2 messages`, `"How many?" after 0 turns and 1 steps, of 4 messages`,
			`"How many?" after 0 turns and 3 steps, of 6 messages`, `"How many?" after 0 turns and 4 steps, of 8 messages`,
		}
		if session {
			want[2] = `"And on shelf 2?" after 1 turns and 0 steps, of 6 messages`
			want[3] = `"And on shelf 2?" after 1 turns and 1 steps, of 8 messages`
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("as a session %t: got\n%s\nwant\n%s", session, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// asked is a point of a recorded run at which the agent called its model: the context that Debrief would have built,
// and the whole conversation, which an agent without a window sends.
type asked struct {
	in    assembly.Input
	shown *assembly.Context
	whole []chat.Message
}

// layOut builds a context for each model call of a run and passes it to each. With session, a turn of the user before
// the last one is an interaction of the window, as for an agent that reports each turn. Without session, all steps are
// one running turn, and the query is the question of the run. Recordings have no clock: a step takes a minute.
func layOut(e *events.Execution, in assembly.Input, session bool, l assembly.Limits, each func(*asked) error) error {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in.System, in.Query, in.TaskContext = generator.Instructions, e.Question, e.Context
	whole := []chat.Message{{Speaker: chat.System, Text: in.System}, {Speaker: chat.User, Text: e.Question}}
	budget := 0 // of the conversation, in the last context
	for i, s := range e.Steps {
		s.At = began.Add(time.Duration(i) * time.Minute)
		if in.Now = s.At; s.Speaker != chat.User {
			c, err := assembly.Assemble(in, l)
			if err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			budget = c.Manifest.Conversation
			if err := each(&asked{in, c, whole}); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		if s.Speaker == chat.User && session {
			in.Window = append(in.Window, turnOver(&in, len(in.Window)+1, budget))
			in.Window = in.Window[max(0, len(in.Window)-streams.WindowHistory):]
			in.Query, in.TaskContext, in.Running = s.Text, "", nil
		} else {
			in.Running = append(in.Running, s)
		}
		whole = append(whole, transcript(&s)...)
	}
	return nil
}

// turnOver returns the interaction of a finished turn.
func turnOver(in *assembly.Input, turn, budget int) *events.Interaction {
	id := events.Hash("replay", fmt.Sprint(turn))
	return events.NewInteraction(events.NewHandle(uint64(turn), id), &events.Execution{
		ID: id, Turn: turn, Started: in.Now, Question: in.Query, Context: in.TaskContext, Steps: in.Running,
		Outcome: events.Outcome{Label: events.Unknown}, Manifest: &events.Manifest{Conversation: budget},
	})
}

// transcript returns the messages of a step without omissions.
func transcript(s *events.Step) []chat.Message {
	said := chat.Message{Speaker: s.Speaker, Text: s.Text}
	var results []chat.Message
	for i, c := range s.Calls {
		id := fmt.Sprint("call_", i)
		said.Calls = append(said.Calls, chat.Call{ID: id, Tool: c.Tool, Arguments: c.Arguments})
		results = append(results, chat.Message{Speaker: chat.Tool, Text: c.Output, CallID: id})
	}
	return append([]chat.Message{said}, results...)
}
