package conversation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/chat"
)

// ranked returns a line of 10 tokens.
func ranked(text string, r events.Relevance) Line { return Line{Text: text, Relevance: r, Tokens: 10} }

func TestRank(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		lines  []Line
		tokens int
		want   string // texts
	}{
		{"all fit, in order", []Line{ranked("a", events.Low), ranked("b", events.High), ranked("c", events.Medium)}, 30, "abc"},
		{"low relevance is dropped first", []Line{ranked("a", events.High), ranked("b", events.Low), ranked("c", events.Medium)}, 20, "ac"},
		{"the newest of a tier are kept", []Line{ranked("a", events.High), ranked("b", events.High), ranked("c", events.High)}, 20, "bc"},
		{"a line that is too long is skipped", []Line{{Text: "a", Relevance: events.High, Tokens: 99}, ranked("b", events.Low)}, 20, "b"},
		{"no room", []Line{ranked("a", events.High)}, 9, ""},
		{"a negative limit", []Line{ranked("a", events.High)}, -1, ""},
		{"nothing", nil, 10, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(tt.lines)
			kept, left := Rank(tt.lines, tt.tokens)
			got := ""
			for _, l := range kept {
				got += l.Text
			}
			if got != tt.want || left != len(tt.lines)-len(tt.want) {
				t.Errorf("got %q and %d left out, want %q", got, left, tt.want)
			}
			if diff := cmp.Diff(before, tt.lines); diff != "" {
				t.Errorf("the lines were changed:\n%s", diff)
			}
		})
	}
}

func TestRankKeepsTokenLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(nastyStep, 0, 8).Draw(t, "steps")
		limit := rapid.IntRange(0, 500).Draw(t, "tokens")
		lines := Lines(steps, nasty.Draw(t, "query"))
		kept, left := Rank(lines, limit)
		texts := make([]string, len(kept))
		for i, l := range kept {
			texts[i] = l.Text
		}
		if n := chat.Tokens(strings.Join(texts, "\n")); n > limit || len(kept)+left != len(lines) {
			t.Errorf("got %d tokens of %d, %d lines and %d left out of %d", n, limit, len(kept), left, len(lines))
		}
		again, _ := Rank(lines, limit)
		if diff := cmp.Diff(kept, again); diff != "" {
			t.Errorf("two calls differ:\n%s", diff)
		}
		// A line that was left out does not fit beside the lines of equal or higher relevance.
		for _, l := range lines {
			if slices.Contains(kept, l) {
				continue
			}
			room := limit
			for _, k := range kept {
				if ranks[k.Relevance] <= ranks[l.Relevance] {
					room -= k.Tokens
				}
			}
			if l.Tokens <= room {
				t.Errorf("%s line of %d tokens was left out with %d tokens free", l.Relevance, l.Tokens, room)
			}
		}
	})
}

func TestCosts(t *testing.T) {
	t.Parallel()
	slow := fails("run", "make", strings.Repeat("x", 340))
	slow.Duration = time.Second
	got := Costs(Calls([]events.Step{step(call("get", "x", "y"), slow), user("hello"), step(slow)}))
	want := []Cost{
		{Tool: "run", Calls: 2, Failed: 2, Took: 2 * time.Second, Tokens: 2 * (chat.Tokens("make") + chat.Tokens(slow.Output))},
		{Tool: "get", Calls: 1, Tokens: chat.Tokens("x") + chat.Tokens("y")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
