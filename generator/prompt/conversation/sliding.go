// Package conversation selects the part of a long conversation that fits into a prompt, and summarizes the agent's steps in it.
//
// Fit chooses the items, Budget computes the token limit and TurnCount the number of recent turns. FindReferenced finds the earlier
// interaction that a query refers to, and Summarize summarizes the text that was left out. The caller converts a conversation into items
// and renders the items that are kept.
//
// Lines describes each tool call by one line, such as "searched X → found Y", with a relevance. Stuck detects work that repeats without
// progress. Calls and Costs add up the cost of the calls. A record may have parts that the agent or a Reflector wrote: these are kept, and
// the missing parts are computed from the call.
//
// All functions are pure: they need no model and read no clock. The text of a trace is untrusted. Text that is copied into a line or a
// recovery prompt is shortened to one line and loses all characters that could end a quotation or look like structure.
//
// The heuristics are for English. Text in another language gets fewer flags, and its references to earlier turns are
// not detected. The parts that need no words work in every language: limits, time, pins, code, numbers and paths.
package conversation

import (
	"cmp"
	"slices"
	"time"
)

// Source is the origin of an item.
type Source uint8

// The sources. The result of a tool call is Error if the call failed and File if it returned data. Any other step of
// the agent is Assistant.
const (
	System Source = iota
	User
	Assistant
	Error
	File
)

// Item is the smallest unit that is kept or dropped: a user's message, an answer, or one step with its tool calls and
// their results.
type Item struct {
	Ref      string // the caller's id of the item; Fit does not read it
	At       time.Time
	Source   Source
	Text     string  // Fit reads it to detect errors, questions and code, see Score.Flags
	Tokens   int     // cost of keeping the item; a negative value counts as 0
	Semantic float64 // similarity to the query; values are clamped to 0..1, NaN counts as 0

	// Items are admitted in this order: required, pinned, starred, all others.
	Required bool // of the newest turn
	Pinned   bool
	Starred  bool

	// Parent is the index of the item that this one depends on: the user's message that began its turn. A parent
	// comes earlier in the slice. Any other value, such as -1, stands for an item without a parent.
	Parent int
}

// Limits of a window. Fit never exceeds them.
type Limits struct{ Tokens, Items int }

// defaultTokens is the default limit of a window.
const defaultTokens = 8000

// The reasons for dropping an item.
const (
	TooLarge = "larger than the window" // the item or its parent alone exceeds the token limit
	NoRoom   = "no room"                // the items admitted before use the tokens
	TooMany  = "too many items"         // the items admitted before use the item limit
)

// Omission is an item that was dropped.
type Omission struct {
	Item   int // index of the item
	Reason string
}

// Window is the result of Fit. It names items by their index.
type Window struct {
	Kept    []int      // in time order
	Omitted []Omission // in time order
	Scores  []Score    // of every item, by index
	Tokens  int        // sum of the kept items
}

// The ranks of items. A lower rank is admitted first.
const (
	rankRequired = iota
	rankPinned
	rankStarred
	rankOrdinary
)

func (i *Item) rank() int {
	switch {
	case i.Required:
		return rankRequired
	case i.Pinned:
		return rankPinned
	case i.Starred:
		return rankStarred
	}
	return rankOrdinary
}

// Fit selects the items that fit into the limits. The items are in time order. It admits required, pinned and starred items
// first, the newest of each group first, and then all others by Score.Priority. An item is admitted together with its parents
// or not at all. An item that does not fit is skipped, so a large item does not exclude the smaller ones after it. All
// required, pinned and starred items are kept if they and their parents alone fit into the limits.
//
// The result is deterministic. Fit takes O(n log n) time if parents have no parents themselves; longer chains are walked
// for each item. It reads at most 4.5 KB of each text.
func Fit(items []Item, now time.Time, l Limits) Window {
	w := Window{Scores: make([]Score, len(items))}
	queue := make([]int, len(items)) // indices of the items, in the order of admission
	for i := range items {
		queue[i], w.Scores[i] = i, score(&items[i], now, i, len(items))
	}
	slices.SortFunc(queue, func(a, b int) int {
		x, y := items[a].rank(), items[b].rank()
		if x == rankOrdinary && y == rankOrdinary && w.Scores[a].Priority != w.Scores[b].Priority {
			return cmp.Compare(w.Scores[b].Priority, w.Scores[a].Priority)
		}
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(b, a)) // the newest first
	})

	p := packer{items: items, limits: l, kept: make([]bool, len(items))}
	reasons := make([]string, len(items)) // by index of the item
	for _, i := range queue {
		reasons[i] = p.add(i)
	}
	w.Tokens = p.tokens
	for i, kept := range p.kept {
		if kept {
			w.Kept = append(w.Kept, i)
		} else {
			w.Omitted = append(w.Omitted, Omission{Item: i, Reason: reasons[i]})
		}
	}
	return w
}

// parentOf returns the index of the item's parent, or -1. A parent comes earlier in the slice, so cycles are
// impossible.
func parentOf(items []Item, i int) int {
	if p := items[i].Parent; 0 <= p && p < i {
		return p
	}
	return -1
}

// packer holds the items admitted so far. It never removes one, so an item that does not fit now will not fit later.
type packer struct {
	items  []Item
	limits Limits
	kept   []bool // by index of the item
	count  int    // of the kept items
	tokens int    // of the kept items
}

// add admits an item and those of its parents that are not admitted yet. If they do not all fit, it admits none of
// them and returns the reason.
func (p *packer) add(i int) (reason string) {
	need, count := 0, 0 // tokens and number of the new items
	for j := i; j >= 0 && !p.kept[j]; j = parentOf(p.items, j) {
		cost := max(0, p.items[j].Tokens)
		switch {
		case cost > p.limits.Tokens:
			return TooLarge
		case count >= p.limits.Items-p.count:
			return TooMany
		case cost > p.limits.Tokens-p.tokens-need:
			return NoRoom
		}
		need, count = need+cost, count+1
	}
	for j := i; j >= 0 && !p.kept[j]; j = parentOf(p.items, j) {
		p.kept[j] = true
	}
	p.tokens, p.count = p.tokens+need, p.count+count
	return ""
}
