// Package sliding decides what of a long conversation stays before a model: which items (Fit), how many tokens they
// may have (Budget) and how many turns of them are wanted (Turns), which earlier interaction a query means (Referred),
// and what is kept of the rest (Compress). All of it is pure, needs no model and reads no clock; the caller turns a
// conversation into items and renders those that stay.
//
// Its rules of thumb read English. In other languages a text has fewer flags and refers to nothing, and what works
// without words (limits, time, pins, code, numbers, paths) works the same.
package sliding

import (
	"cmp"
	"slices"
	"time"
)

// Source is who or what an item comes from.
type Source uint8

// The sources. What a tool returned is an Error, a File or, where it is neither, the Assistant's that called it.
const (
	System Source = iota
	User
	Assistant
	Error
	File
)

// Item is one thing of a conversation that stays or goes as a whole: a user's message, an answer, or a step that called
// tools together with what they returned.
type Item struct {
	Ref      string // the caller's name for it, not read
	At       time.Time
	Source   Source
	Text     string  // what flags are read from
	Tokens   int     // what keeping it costs; below 0 counts as 0
	Semantic float64 // likeness to the query, 0 to 1; anything else counts as the nearer of the two, NaN as 0

	// Must is the newest turn: it goes last of all. Pinned and starred items go before it, the rest before them.
	Must, Pinned, Starred bool

	// Parent is the index of the item without which this one cannot stand: the user's message that began its turn. It
	// comes earlier in the slice. Anything else, such as -1, is no parent.
	Parent int
}

// Limits of a window. Nothing exceeds them.
type Limits struct{ Tokens, Items int }

// The limits of a window that nobody has sized.
const (
	DefaultTokens = 8000
	DefaultItems  = 100
)

// Why an item left.
const (
	TooLarge = "larger than the window" // alone, or its parent
	NoRoom   = "no room"                // beside those that matter more
	TooMany  = "too many items"
)

// Left is an item that left.
type Left struct {
	Item int // its index
	Why  string
}

// Fitted is a window: what stays, what left and why. Items are named by their index.
type Fitted struct {
	Keep   []int // in time order
	Left   []Left
	Scores []Score // of every item, by index
	Tokens int     // of what stays
}

// The ranks in which items are let in.
const (
	must = iota
	pinned
	starred
	ordinary
)

func (i *Item) rank() int {
	switch {
	case i.Must:
		return must
	case i.Pinned:
		return pinned
	case i.Starred:
		return starred
	}
	return ordinary
}

// Fit is the window over these items: Must, pinned and starred ones with their parents, the newest first, then the
// others by Score.Standing. Each comes with the parent it needs or not at all, and one that does not fit is passed
// over, so that a large item costs nobody else the place. All Must, pinned and starred items stay if they and their
// parents fit the limits alone.
//
// Time order is that of At, of equal times that of the slice; no item comes before its parent. The same items give the
// same window. Work is O(n log n) in items, however long their texts (of each at most 4.5 KB are read), where parents have
// no parents themselves; a chain of them is walked.
func Fit(items []Item, now time.Time, l Limits) Fitted {
	order := inTime(items)
	scores := make([]Score, len(items))
	queue := make([]place, len(items))
	for at, i := range order {
		scores[i] = score(&items[i], now, at, len(items))
		queue[at] = place{at: at, rank: items[i].rank()}
		if queue[at].rank == ordinary {
			queue[at].standing = scores[i].Standing
		}
	}
	slices.SortFunc(queue, place.before)

	w := window{items: items, limits: l, kept: make([]bool, len(items))}
	why := make([]string, len(items))
	for _, p := range queue {
		i := order[p.at]
		why[i] = w.admit(i)
	}
	f := Fitted{Scores: scores, Tokens: w.tokens, Keep: make([]int, 0, w.count), Left: make([]Left, 0, len(items)-w.count)}
	for _, i := range order {
		if w.kept[i] {
			f.Keep = append(f.Keep, i)
		} else {
			f.Left = append(f.Left, Left{i, why[i]})
		}
	}
	return f
}

// place is an item's in time order, and what says when it is let in.
type place struct {
	at       int
	rank     int
	standing float64 // 0 where time alone decides
}

// before compares by who is let in first.
func (p place) before(q place) int {
	if p.rank != q.rank {
		return cmp.Compare(p.rank, q.rank)
	}
	if p.standing != q.standing {
		return cmp.Compare(q.standing, p.standing)
	}
	return cmp.Compare(q.at, p.at)
}

// inTime is the indices of the items in time order. A clock that runs behind puts no answer before its question.
func inTime(items []Item) []int {
	at, order := make([]time.Time, len(items)), make([]int, len(items))
	for i := range items {
		at[i], order[i] = items[i].At, i
		if p := parent(items, i); p >= 0 && at[p].After(at[i]) {
			at[i] = at[p]
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(at[a].Compare(at[b]), cmp.Compare(a, b)) })
	return order
}

// parent of an item, -1 for none. Parents come earlier in the slice, so there are no circles.
func parent(items []Item, i int) int {
	if p := items[i].Parent; 0 <= p && p < i {
		return p
	}
	return -1
}

// window is what has been let in so far. Nothing is let out again, so room only shrinks: who found none finds none later.
type window struct {
	items  []Item
	limits Limits
	kept   []bool
	count  int
	tokens int
}

// admit lets an item in, with its parents that are not in yet, all or none, or says why not.
func (w *window) admit(i int) (why string) {
	need, count := 0, 0
	for j := i; j >= 0 && !w.kept[j]; j = parent(w.items, j) {
		cost := max(0, w.items[j].Tokens)
		switch {
		case cost > w.limits.Tokens:
			return TooLarge
		case count >= w.limits.Items-w.count:
			return TooMany
		case cost > w.limits.Tokens-w.tokens-need:
			return NoRoom
		}
		need, count = need+cost, count+1
	}
	for j := i; j >= 0 && !w.kept[j]; j = parent(w.items, j) {
		w.kept[j] = true
	}
	w.tokens, w.count = w.tokens+need, w.count+count
	return ""
}
