package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// script is a model that returns given replies in order, and records the prompts.
type script struct {
	lines []any // Reply or error
	asked []Prompt
}

func (s *script) Complete(_ context.Context, p Prompt) (Reply, error) {
	s.asked = append(s.asked, p)
	switch line := s.lines[len(s.asked)-1].(type) {
	case error:
		return Reply{Usage: Usage{Calls: 1}}, line
	default:
		return line.(Reply), nil
	}
}

func says(text string, tokens int) Reply {
	return Reply{Text: text, Finish: "stop", Usage: Usage{Calls: 1, InputTokens: 10, OutputTokens: tokens, Cost: 0.5}}
}

// number accepts only one answer.
func number(r Reply) (int, error) {
	if r.Text != "42" {
		return 0, fmt.Errorf("field n is missing")
	}
	return 42, nil
}

var question = Prompt{Name: "generator", Messages: []Message{{Speaker: System, Text: "Be brief."}, {Speaker: User, Text: "What is it?"}}}

func TestAsk(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for _, tt := range []struct {
		name  string
		lines []any
		want  int
		usage Usage
		asked int
		err   error
	}{
		{
			name: "a good answer is asked for once", lines: []any{says("42", 1)},
			want: 42, usage: Usage{Calls: 1, InputTokens: 10, OutputTokens: 1, Cost: 0.5}, asked: 1,
		},
		{
			name: "a bad answer is asked for again and both are paid", lines: []any{says("dunno", 1), says("42", 2)},
			want: 42, usage: Usage{Calls: 2, InputTokens: 20, OutputTokens: 3, Cost: 1}, asked: 2,
		},
		{
			name: "the last allowed answer is good", lines: []any{says("dunno", 1), says("still not", 2), says("no", 1), says("42", 1)},
			want: 42, usage: Usage{Calls: 4, InputTokens: 40, OutputTokens: 5, Cost: 2}, asked: 4,
		},
		{
			name: "bad answers alone are useless", lines: []any{says("dunno", 1), says("still not", 2), says("no", 1), says("never", 1)},
			usage: Usage{Calls: 4, InputTokens: 40, OutputTokens: 5, Cost: 2}, asked: MaxCalls, err: &UselessError{},
		},
		{
			name: "the model's error passes through", lines: []any{down},
			usage: Usage{Calls: 1}, asked: 1, err: down,
		},
		{
			name: "the model's second error passes through with what the first answer cost", lines: []any{says("dunno", 1), down},
			usage: Usage{Calls: 2, InputTokens: 10, OutputTokens: 1, Cost: 0.5}, asked: 2, err: down,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := &script{lines: tt.lines}
			got, reply, err := Ask(t.Context(), m, question, number)
			reply.Usage.Duration = 0 // see TestAskMeasuresTheCalls
			if got != tt.want || reply.Usage != tt.usage || len(m.asked) != tt.asked {
				t.Errorf("got %d, usage %+v, %d calls, want %d, %+v, %d", got, reply.Usage, len(m.asked), tt.want, tt.usage, tt.asked)
			}
			if _, useless := errors.AsType[*UselessError](tt.err); useless {
				if _, ok := errors.AsType[*UselessError](err); !ok {
					t.Errorf("got error %v, want a UselessError", err)
				}
			} else if err != tt.err {
				t.Errorf("got error %v, want %v itself", err, tt.err)
			}
		})
	}
}

// slow is a model that needs two seconds for each reply.
type slow struct{ Model }

func (m slow) Complete(ctx context.Context, p Prompt) (Reply, error) {
	time.Sleep(2 * time.Second)
	return m.Model.Complete(ctx, p)
}

func TestAskMeasuresTheCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lines []any
		want  time.Duration
	}{
		{[]any{says("42", 1)}, 2 * time.Second},
		{[]any{says("dunno", 1), says("42", 2)}, 4 * time.Second},
		{[]any{says("dunno", 1), errors.New("down")}, 4 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, reply, _ := Ask(t.Context(), slow{&script{lines: tt.lines}}, question, number)
			if reply.Usage.Duration != tt.want {
				t.Errorf("%d calls: got %v, want %v", len(tt.lines), reply.Usage.Duration, tt.want)
			}
		})
	}
}

func TestUselessErrorQuotesLastAnswer(t *testing.T) {
	t.Parallel()
	_, _, err := Ask(t.Context(), &script{lines: []any{
		says("first", 1), says("second", 1), says("third", 1), says(strings.Repeat("é", 1000), 1),
	}}, question, number)
	useless, ok := errors.AsType[*UselessError](err)
	if !ok {
		t.Fatalf("got %v, want a UselessError", err)
	}
	if len(useless.Text) > maxExcerpt+4 || !strings.HasPrefix(useless.Text, "ééé") || !utf8.ValidString(useless.Text) {
		t.Errorf("got %q, want at most %d bytes of whole characters", useless.Text, maxExcerpt)
	}
	if !strings.Contains(err.Error(), "field n is missing") {
		t.Errorf("got %q, want it to say what was wrong", err)
	}
}

func TestRetryPrompt(t *testing.T) {
	t.Parallel()
	cut := says("4", 1)
	cut.Finish = "length"
	for _, tt := range []struct {
		name      string
		answer    Reply
		assistant string
		user      string // a part of it
	}{
		{"shows the answer and says what is wrong with it", says("dunno", 1), "dunno", "field n is missing"},
		{"asks for less after a cut", cut, "4", "much shorter"},
		{"has no empty message", says(" ", 1), "(no answer)", "field n is missing"},
		{"leaves out thoughts", says("<think>long</think>dunno", 1), "dunno", "field n is missing"},
		{"is bounded", says(strings.Repeat("x", 1<<20), 1), strings.Repeat("x", maxEcho) + "…", "field n is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := question
			p.Messages = append(make([]Message, 0, 9), question.Messages...) // spare capacity that append could overwrite
			m := &script{lines: []any{tt.answer, says("42", 1)}}
			if _, _, err := Ask(t.Context(), m, p, number); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(question, m.asked[0]); diff != "" {
				t.Errorf("first prompt, -want +got:\n%s", diff)
			}
			second := m.asked[1]
			if len(second.Messages) != 4 {
				t.Fatalf("got %d messages, want 4", len(second.Messages))
			}
			if got := second.Messages[2]; got.Speaker != Assistant || got.Text != tt.assistant {
				t.Errorf("got %.80v, want the answer %.80q", got, tt.assistant)
			}
			if got := second.Messages[3]; got.Speaker != User || !strings.Contains(got.Text, tt.user) {
				t.Errorf("got %v, want a wish with %q", got, tt.user)
			}
			if left := p.Messages[:3][2]; left.Speaker != "" {
				t.Errorf("the caller's messages were overwritten with %v", left)
			}
		})
	}
}

// TestRetryPromptsVary checks the form of each prompt: a model can repeat a bad form that it sees, so the third prompt does
// not contain an answer.
func TestRetryPromptsVary(t *testing.T) {
	t.Parallel()
	cut := says("4", 1)
	cut.Finish = "length"
	for _, tt := range []struct {
		name  string
		lines []any
		notes []string // a part of the last message of each prompt
	}{
		{
			"invalid answers",
			[]any{says("a", 1), says("b", 1), says("c", 1), says("d", 1)},
			[]string{"What is it?", "field n is missing", "# Reply format", "field n is missing"},
		},
		{"truncated answers", []any{cut, cut, cut, cut}, []string{"What is it?", "much shorter", "much shorter", "much shorter"}},
	} {
		m := &script{lines: tt.lines}
		if _, _, err := Ask(t.Context(), m, question, number); err == nil {
			t.Fatalf("%s: got no error", tt.name)
		}
		for i, messages := range []int{2, 4, 2, 4} {
			got := m.asked[i].Messages
			if len(got) != messages || got[len(got)-1].Speaker != User || !strings.Contains(got[len(got)-1].Text, tt.notes[i]) {
				t.Errorf("%s, prompt %d: got %+v, want %d messages, the last with %q", tt.name, i+1, got, messages, tt.notes[i])
			}
		}
		if first := m.asked[2].Messages[1].Text; !strings.HasPrefix(first, question.Messages[1].Text) {
			t.Errorf("%s: got %q, want the question first, so that provider caches keep the prefix", tt.name, first)
		}
	}
}

// TestFreshPromptWithoutQuestion checks that the note is a message of its own after a message that is not the user's.
func TestFreshPromptWithoutQuestion(t *testing.T) {
	t.Parallel()
	p := freshPrompt(Prompt{Messages: []Message{{Speaker: System, Text: "s"}}}, says("a", 1), errors.New("bad\nline"))
	if len(p.Messages) != 2 || p.Messages[1].Speaker != User || !strings.Contains(p.Messages[1].Text, "bad line") {
		t.Errorf("got %+v, want a message of the user with the problem on one line", p.Messages)
	}
}

func TestObserveReplies(t *testing.T) {
	t.Parallel()
	parse := func(r Reply) (string, error) {
		o, err := ParseObject(r, "n")
		return o.Text("n"), err
	}
	cut := says(`{"n": [1`, 1)
	cut.Finish = "length"
	for _, tt := range []struct {
		name  string
		lines []any
		want  []Quality
	}{
		{"valid", []any{says(`{"n": 1}`, 1)}, []Quality{Valid}},
		{"valid in prose", []any{says("Here:\n```json\n{\"n\": 1}\n```", 1)}, []Quality{Valid}},
		{"repaired", []any{says(`{'n': 1,}`, 1)}, []Quality{Repaired}},
		{"prose, then valid", []any{says("no", 1), says(`{"n": 1}`, 1)}, []Quality{Invalid}},
		{"truncated, then repaired", []any{cut, says(`{n: 1}`, 1)}, []Quality{Invalid}},
		{"never valid", []any{cut, cut, cut, cut}, []Quality{Invalid}},
		{"model error", []any{errors.New("down")}, nil},
	} {
		var got []Quality
		ctx := ObserveReplies(t.Context(), func(q Quality) { got = append(got, q) })
		_, reply, _ := Ask(ctx, &script{lines: tt.lines}, question, parse)
		if !slices.Equal(got, tt.want) || reply.Repaired != nil {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A missing field is asked for once more, and the rest of the reply is used if it is missing again.
func TestAskForMissingField(t *testing.T) {
	t.Parallel()
	parse := func(r Reply) (string, error) {
		o, err := ParseObject(r, "n")
		return o.Text("n") + o.Text("m"), err
	}
	without, with, bad := says(`{"m":"rest"}`, 1), says(`{"n":"all"}`, 1), says("no", 1)
	for _, tt := range []struct {
		name  string
		lines []any
		want  string
	}{
		{"missing once", []any{without, with}, "all"},
		{"missing twice", []any{without, without}, "rest"},
		{"missing, unreadable, missing", []any{without, bad, without}, "rest"},
		{"missing in the last call", []any{bad, bad, bad, without}, "rest"},
		{"missing, then unreadable", []any{without, bad, bad, bad}, "rest"},
		{"unreadable, missing, unreadable", []any{bad, without, bad, bad}, "rest"},
	} {
		m := &script{lines: tt.lines}
		got, reply, err := Ask(t.Context(), m, question, parse)
		if err != nil || got != tt.want || len(m.asked) != len(tt.lines) {
			t.Errorf("%s: got %q, error %v after %d calls, want %q after %d", tt.name, got, err, len(m.asked), tt.want, len(tt.lines))
		}
		if !strings.Contains(reply.Text, tt.want) || reply.Usage.Calls != len(tt.lines) {
			t.Errorf("%s: got reply %q with the usage of %d calls, want %q with %d", tt.name, reply.Text, reply.Usage.Calls, tt.want, len(tt.lines))
		}
		if tt.lines[0] != any(without) {
			continue
		}
		if last := m.asked[1].Messages; !strings.Contains(last[len(last)-1].Text, `"n" is missing`) {
			t.Errorf("%s: got %+v, want a request for the field", tt.name, last)
		}
	}
}

func TestErrorMethods(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for _, err := range []error{&UnavailableError{Err: cause}, &UselessError{Err: cause}, &TooLongError{Err: cause}} {
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "cause") {
			t.Errorf("%T hides its cause: %v", err, err)
		}
	}
	var (
		_ interface{ Unavailable() bool } = (*UnavailableError)(nil)
		_ interface{ Useless() bool }     = (*UselessError)(nil)
		_ interface{ TooLong() bool }     = (*TooLongError)(nil)
	)
}
