package records_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/prompt/records"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at returns a line of 10 tokens, minute minutes after noon; -1 is a line without a time.
func at(place, minute int, r events.Relevance) records.Line {
	l := records.Line{Step: place, Relevance: r, Tokens: 10}
	if minute >= 0 {
		l.At = noon.Add(time.Duration(minute) * time.Minute)
	}
	return l
}

func TestRank(t *testing.T) {
	t.Parallel()
	const none = -1
	for _, tt := range []struct {
		name   string
		lines  []records.Line
		tokens int
		want   []int // steps
	}{
		{"all fit, in order of time", []records.Line{at(0, 5, events.Low), at(1, 3, events.High), at(2, 4, events.Medium)}, 30, []int{1, 2, 0}},
		{"low relevance is dropped first", []records.Line{at(0, 0, events.High), at(1, 1, events.Low), at(2, 2, events.Medium)}, 20, []int{0, 2}},
		{"the newest of a tier are kept", []records.Line{at(0, 2, events.High), at(1, 1, events.High), at(2, 0, events.High)}, 10, []int{0}},
		{"without times the order decides", []records.Line{at(0, none, events.High), at(1, none, events.High), at(2, none, events.High)}, 20, []int{1, 2}},
		{"a line without a time has the time before", []records.Line{at(0, 9, events.High), at(1, none, events.High), at(2, 5, events.High)}, 20, []int{0, 1}},
		{"an unknown relevance ranks as medium", []records.Line{at(0, 0, events.Medium), at(1, 1, "odd"), at(2, 2, events.Low)}, 10, []int{1}},
		{"a line that is too long is skipped", []records.Line{{Step: 0, Relevance: events.High, Tokens: 99}, at(1, 1, events.Low)}, 20, []int{1}},
		{"no room", []records.Line{at(0, 0, events.High)}, 9, nil},
		{"a negative limit", []records.Line{at(0, 0, events.High)}, -1, nil},
		{"nothing", nil, 10, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(tt.lines)
			kept, left := records.Rank(tt.lines, tt.tokens)
			var got []int
			for _, l := range kept {
				got = append(got, l.Step)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || left != len(tt.lines)-len(tt.want) {
				t.Errorf("left out %d, -want +got:\n%s", left, diff)
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
		for i := range steps {
			if m := rapid.IntRange(-1, 5).Draw(t, "minute"); m >= 0 {
				steps[i].At = noon.Add(time.Duration(m) * time.Minute)
			}
		}
		limit := rapid.IntRange(0, 500).Draw(t, "tokens")
		lines := records.Lines(steps, nasty.Draw(t, "query"))
		kept, left := records.Rank(lines, limit)
		texts := make([]string, len(kept))
		for i, l := range kept {
			texts[i] = l.Text
			if i > 0 && !l.At.IsZero() && l.At.Before(kept[i-1].At) {
				t.Errorf("line %d is older than the one before it", i)
			}
		}
		if n := chat.Tokens(strings.Join(texts, "\n")); n > limit || len(kept)+left != len(lines) {
			t.Errorf("got %d tokens of %d, %d lines and %d left out of %d", n, limit, len(kept), left, len(lines))
		}
		again, _ := records.Rank(lines, limit)
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
				if rank(k) <= rank(l) {
					room -= k.Tokens
				}
			}
			if l.Tokens <= room {
				t.Errorf("%s line of %d tokens was left out with %d tokens free", l.Relevance, l.Tokens, room)
			}
		}
	})
}

func rank(l records.Line) int {
	return slices.Index([]events.Relevance{events.High, events.Medium, events.Low}, l.Relevance)
}

func TestLinesHavePositions(t *testing.T) {
	t.Parallel()
	first := step(call("get", "x", "1"), call("get", "y", "2"))
	first.At = noon
	got := records.Lines([]events.Step{user("hello"), first, step()}, "")
	want := []records.Line{
		{Step: 1, Call: 0, At: noon, Relevance: events.Medium, Text: "looked up x → found 1", Tokens: chat.Tokens("looked up x → found 1\n")},
		{Step: 1, Call: 1, At: noon, Relevance: events.Medium, Text: "looked up y → found 2", Tokens: chat.Tokens("looked up y → found 2\n")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	slow := fails("run", "make", strings.Repeat("x", 340))
	slow.Duration = time.Second
	got := records.Costs([]events.Step{step(call("get", "x", "y"), slow), user("hello"), step(slow)})
	want := []records.Cost{
		{Tool: "run", Calls: 2, Failed: 2, Took: 2 * time.Second, Tokens: 2 * (chat.Tokens("make") + chat.Tokens(slow.Output))},
		{Tool: "get", Calls: 1, Tokens: chat.Tokens("x") + chat.Tokens("y")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
