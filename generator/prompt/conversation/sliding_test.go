package conversation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var usual = Limits{defaultTokens, 100}

var now = time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)

// drawText returns a new generator for each test, because rapid generators are not safe for parallel tests.
func drawText() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"", "Thanks.", "How does it work?", "panic: runtime error", "It is fixed.", "```go\nx := 1\n```", "The error is fixed, is it not?",
	})
}

func drawItem(t *rapid.T, i int) Item {
	return Item{
		Ref:      fmt.Sprint(i),
		At:       now.Add(-time.Duration(rapid.IntRange(-5, 200).Draw(t, "age")) * time.Hour),
		Source:   Source(rapid.IntRange(0, 4).Draw(t, "source")),
		Text:     drawText().Draw(t, "text"),
		Tokens:   rapid.OneOf(rapid.IntRange(-3, 60), rapid.SampledFrom([]int{0, 1000, math.MaxInt, math.MinInt})).Draw(t, "tokens"),
		Semantic: rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -7})).Draw(t, "semantic"),
		Required: rapid.IntRange(0, 9).Draw(t, "must") == 0,
		Pinned:   rapid.IntRange(0, 9).Draw(t, "pinned") == 0,
		Starred:  rapid.IntRange(0, 9).Draw(t, "starred") == 0,
		Parent:   rapid.IntRange(-2, i+1).Draw(t, "parent"),
	}
}

func drawItems(t *rapid.T) []Item {
	items := make([]Item, rapid.IntRange(0, 60).Draw(t, "n"))
	for i := range items {
		items[i] = drawItem(t, i)
	}
	return items
}

func drawLimits(t *rapid.T) Limits {
	return Limits{
		rapid.OneOf(rapid.IntRange(-1, 1500), rapid.Just(math.MaxInt)).Draw(t, "limit"),
		rapid.OneOf(rapid.IntRange(-1, 70), rapid.Just(math.MaxInt)).Draw(t, "most"),
	}
}

// TestFit checks that no limit is exceeded, that every item is kept or dropped exactly once and in time order, that
// no item is kept without its parent, and that no dropped item would fit.
func TestFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items, l := drawItems(t), drawLimits(t)
		f := Fit(items, now, l)
		if diff := cmp.Diff(f, Fit(items, now, l)); diff != "" {
			t.Fatalf("two calls differ:\n%s", diff)
		}
		if len(f.Scores) != len(items) {
			t.Fatalf("got %d scores of %d items", len(f.Scores), len(items))
		}

		kept, tokens := make([]bool, len(items)), 0
		for _, i := range f.Kept {
			kept[i] = true
			tokens += max(0, items[i].Tokens)
		}
		if tokens != f.Tokens || tokens > max(0, l.Tokens) || len(f.Kept) > max(0, l.Items) {
			t.Fatalf("got %d tokens (reported %d) of %d items with limits %+v", tokens, f.Tokens, len(f.Kept), l)
		}

		seen := make([]int, len(items))
		var left []int
		for _, x := range f.Omitted {
			left = append(left, x.Item)
			seen[x.Item]++
			need, count, large := uint64(0), 0, false
			for i := x.Item; i >= 0 && !kept[i]; i = parentOf(items, i) {
				large = large || items[i].Tokens > l.Tokens || l.Tokens < 0
				need, count = need+min(uint64(max(0, items[i].Tokens)), math.MaxUint64-need), count+1
			}
			crowded := count > l.Items-len(f.Kept)
			short := need > uint64(max(0, l.Tokens-f.Tokens))
			if x.Reason == TooLarge && !large || x.Reason == TooMany && !crowded || x.Reason == NoRoom && !short || x.Reason == "" {
				t.Fatalf("item %d dropped for %q: needs %d tokens, %d items; window has %d, %d of %+v", x.Item, x.Reason, need, count, f.Tokens, len(f.Kept), l)
			}
		}
		for _, i := range f.Kept {
			seen[i]++
			if p := parentOf(items, i); p >= 0 && !kept[p] {
				t.Fatalf("item %d kept without its parent %d", i, p)
			}
		}
		if slices.ContainsFunc(seen, func(n int) bool { return n != 1 }) {
			t.Fatalf("items kept or dropped not exactly once: %v", seen)
		}
		for _, order := range [][]int{f.Kept, left} {
			for k, j := range order {
				if k > 0 && order[k-1] >= j {
					t.Fatalf("%d comes before %d", order[k-1], j)
				}
			}
		}
	})
}

// TestFitKeepsProtectedItems checks that Must, pinned and starred items and their parents are kept whenever they
// alone fit.
func TestFitKeepsProtectedItems(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t)
		need := make(map[int]bool)
		l := Limits{}
		for i := range items {
			items[i].Tokens = min(max(items[i].Tokens, 0), 500)
			if items[i].rank() == rankOrdinary {
				continue
			}
			for j := i; j >= 0 && !need[j]; j = parentOf(items, j) {
				need[j] = true
				l.Tokens += items[j].Tokens
				l.Items++
			}
		}
		l.Tokens += rapid.IntRange(0, 20).Draw(t, "spare tokens")
		l.Items += rapid.IntRange(0, 2).Draw(t, "spare places")
		f := Fit(items, now, l)
		for i := range need {
			if !slices.Contains(f.Kept, i) {
				t.Fatalf("item %d of %d dropped with limits %+v, got %+v", i, len(items), l, f.Omitted)
			}
		}
	})
}

func TestFitKeepsNewestOfEqualItems(t *testing.T) {
	t.Parallel()
	items := make([]Item, 50)
	for i := range items {
		items[i] = Item{At: now, Source: User, Text: "same", Tokens: 10, Parent: -1}
	}
	if got := Fit(items, now, Limits{205, 100}); len(got.Kept) != 20 || got.Kept[0] != 30 {
		t.Errorf("got %v, want the last 20", got.Kept)
	}
}

// kept returns the Refs of the kept items.
func kept(items []Item, l Limits) string {
	var refs []string
	for _, i := range Fit(items, now, l).Kept {
		refs = append(refs, items[i].Ref)
	}
	return strings.Join(refs, " ")
}

// turns returns n turns of a question, a step and an answer with 10 tokens each, one hour apart.
func turns(n int) (items []Item) {
	for i := range n {
		at := now.Add(time.Duration(i-n) * time.Hour)
		q := len(items)
		items = append(items,
			Item{Ref: fmt.Sprintf("q%d", i), At: at, Source: User, Tokens: 10, Parent: -1},
			Item{Ref: fmt.Sprintf("s%d", i), At: at.Add(time.Second), Source: Assistant, Tokens: 10, Parent: q},
			Item{Ref: fmt.Sprintf("a%d", i), At: at.Add(2 * time.Second), Source: Assistant, Tokens: 10, Parent: q})
	}
	return items
}

func TestFitDropsLowestPriority(t *testing.T) {
	t.Parallel()
	with := func(items []Item, change func([]Item)) []Item {
		change(items)
		return items
	}
	for _, tt := range []struct {
		name  string
		items []Item
		l     Limits
		want  string
	}{
		{"all fit", turns(2), usual, "q0 s0 a0 q1 s1 a1"},
		{"drops the oldest", turns(3), Limits{60, 100}, "q1 s1 a1 q2 s2 a2"},
		{"item limit", turns(3), Limits{8000, 3}, "q2 s2 a2"},
		{"keeps a pinned item and its question", with(turns(3), func(x []Item) { x[2].Pinned = true }), Limits{50, 100}, "q0 a0 q2 s2 a2"},
		{"keeps a starred item", with(turns(3), func(x []Item) { x[0].Starred = true }), Limits{40, 100}, "q0 q2 s2 a2"},
		{
			"keeps an old error rather than new small talk",
			with(turns(4), func(x []Item) { x[4].Source, x[4].Text, x[4].Semantic = Error, "Error: the solution failed", 1 }),
			Limits{50, 100},
			"q1 s1 q3 s3 a3",
		},
		{"drops one large item alone", with(turns(2), func(x []Item) { x[4].Tokens = 9000 }), Limits{8000, 100}, "q0 s0 a0 q1 a1"},
		{"drops a large item with Must", with(turns(2), func(x []Item) { x[4].Tokens, x[4].Required = 9000, true }), Limits{8000, 100}, "q0 s0 a0 q1 a1"},
		{
			"Must displaces all others",
			with(turns(2), func(x []Item) { x[3].Required, x[4].Required, x[4].Tokens, x[0].Pinned = true, true, 7990, true }),
			Limits{8000, 100},
			"q1 s1",
		},
		{
			"drops the oldest of too many with Must",
			with(turns(3), func(x []Item) {
				for i := range x {
					x[i].Required = true
				}
			}),
			Limits{45, 100},
			"q1 q2 s2 a2",
		},
		{
			"drops starred before pinned before Must",
			with(turns(3), func(x []Item) { x[0].Required, x[3].Pinned, x[6].Starred = true, true, true }),
			Limits{20, 100},
			"q0 q1",
		},
		{"drops an answer without its question", with(turns(2), func(x []Item) { x[3].Tokens = 9000 }), Limits{8000, 100}, "q0 s0 a0"},
		{"zero limits", turns(2), Limits{}, ""},
		{"no items", nil, usual, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := kept(tt.items, tt.l); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFitReportsReasons(t *testing.T) {
	t.Parallel()
	items := turns(2)
	items[0].Tokens, items[4].Tokens, items[5].Tokens = 101, 30, 75
	if diff := cmp.Diff([]Omission{{0, TooLarge}, {1, TooLarge}, {2, TooLarge}, {4, NoRoom}}, Fit(items, now, Limits{100, 100}).Omitted); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]Omission{{0, TooMany}, {1, TooMany}, {2, TooMany}, {4, TooMany}}, Fit(items, now, Limits{8000, 2}).Omitted); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
