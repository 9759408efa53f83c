package conversation

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRecency(t *testing.T) {
	t.Parallel()
	if recency(0) != 1 || recency(24*time.Hour) != 0.5 || recency(72*time.Hour) != 0.125 || recency(-time.Hour) != 1 {
		t.Errorf("got %v, %v, %v, %v after 0, 24, 72 and -1 hours", recency(0), recency(24*time.Hour), recency(72*time.Hour), recency(-time.Hour))
	}
	rapid.Check(t, func(t *rapid.T) {
		age := time.Duration(rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "age"))
		if got, want := recency(age+24*time.Hour), recency(age)/2; math.Abs(got-want) > 1e-15 {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestScoreParts(t *testing.T) {
	t.Parallel()
	i := Item{At: now.Add(-24 * time.Hour), Source: Error, Text: "Error: is the solution\n\tx := 1\nwrong?", Semantic: 0.5, Starred: true}
	got := score(&i, now, 1, 3)
	for _, tt := range []struct {
		part      string
		got, want float64
	}{
		{"recency", got.Recency, 0.15},
		{"flags", got.Flags, 0.8 + 0.07 + 0.06 + 0.05 + 0.04},
		{"semantic", got.Semantic, 0.2},
		{"source", got.Source, 0.4},
		{"total", got.Total, 1.77},
		{"priority", got.Priority, 0.6*1.77/2.12 + 0.4*0.5},
	} {
		if math.Abs(tt.got-tt.want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", tt.part, tt.got, tt.want)
		}
	}
	if best := score(&Item{At: now, Source: Error, Text: i.Text, Semantic: 1, Starred: true}, now, 2, 3); math.Abs(best.Priority-1) > 1e-12 {
		t.Errorf("the maximum score has priority %v, want 1", best.Priority)
	}
}

// TestScoresDoNotSaturate checks that an additional flag, a younger age, a better source or more similarity always
// raises the score.
func TestScoresDoNotSaturate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		i := drawItem(t, 0)
		i.Semantic = rapid.Float64Range(0, 0.9).Draw(t, "similarity")
		i.At = now.Add(-time.Duration(rapid.Int64Range(2, 30*24*3600).Draw(t, "age")) * time.Second)
		i.Starred, i.Source = false, File
		total := score(&i, now, 0, 1).Total
		for what, change := range map[string]func(*Item){
			"younger":      func(i *Item) { i.At = i.At.Add(time.Second) },
			"starred":      func(i *Item) { i.Starred = true },
			"more similar": func(i *Item) { i.Semantic += 0.001 },
			"source":       func(i *Item) { i.Source = Assistant },
		} {
			more := i
			change(&more)
			if got := score(&more, now, 0, 1).Total; got <= total {
				t.Fatalf("%s: got %v, want more than %v of %+v", what, got, total, i)
			}
		}
		f := flags(rapid.UintRange(0, uint(allFlags)).Draw(t, "flags"))
		for bit := range flagWeights {
			if one := flags(1) << bit; f&one == 0 && (f|one).weight() <= f.weight() {
				t.Fatalf("flag %b more than %b: got %v, want more than %v", one, f, (f | one).weight(), f.weight())
			}
		}
	})
}

func TestDetectFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		by   Source
		want flags
	}{
		{"", User, 0},
		{"Thanks a lot.", User, 0},

		{"error", File, failure},
		{"Errors: 3", File, failure},
		{"it raised a ValueError", File, failure},
		{"NullPointerException in main", File, failure},
		{"error_code=3", File, failure},
		{"onErrorResume", File, failure},
		{"2 FAILED, 3 passed", File, failure},
		{"Traceback (most recent call last):", File, failure},
		{"the failure of it", File, failure},
		{"a mirror and terror", File, 0},
		{"exceptional, failedness", File, 0},
		{"erro", File, 0},
		{"41 passed, 0 failed", File, 0},
		{"no errors", File, 0},
		{"It never failed without error", File, 0},
		{"it didn't failed", File, 0},

		{"I fixed it", Assistant, solution},
		{"Solved!", Assistant, solution},
		{"The solution is x = 3", Assistant, solution},
		{"the **solution**", Assistant, solution},
		{"It works now.", Assistant, solution},
		{"now works", Assistant, solution},
		{"how it works", Assistant, 0},
		{"works nowhere", Assistant, 0},
		{"one solution of many", Assistant, 0},
		{"not fixed, unsolved", Assistant, 0},
		{"a fixed price", Assistant, 0},
		{"the error is fixed", Assistant, failure | solution},

		{"Is it?", Assistant, question},
		{"(Is it?)  \n", Assistant, question},
		{"是吗？", Assistant, question},
		{"how do I do that", User, question},
		{"Could you do it.", User, question},
		{"What you need is rest.", Assistant, 0},
		{"Show me how", User, 0},

		{"```\nx\n```", Assistant, code},
		{"As in\n    return x\n", Assistant, code},
		{"\tx := 1", Assistant, code},
		{"- a\n    - b\n\t* c\n    1. d\n    \n    ", Assistant, 0},

		{strings.Repeat("x ", 5000) + "error?", Assistant, failure | question},
		{"error " + strings.Repeat("x ", 5000), Assistant, failure},
		{"\xff\xfe error \x00 fixed", Assistant, failure | solution},
	} {
		if got := detectFlags(tt.text, tt.by); got != tt.want {
			t.Errorf("%.60q: got %05b, want %05b", tt.text, got, tt.want)
		}
	}
}

func FuzzReadFlags(f *testing.F) {
	f.Add("the error is fixed?")
	f.Add("\xffError\x00\n\t1")
	f.Fuzz(func(t *testing.T, text string) {
		if got := detectFlags(text, User); got&^allFlags != 0 || got&star != 0 {
			t.Fatalf("got %b", got)
		}
	})
}
