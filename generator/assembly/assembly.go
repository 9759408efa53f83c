// Package assembly puts together what a model sees: instructions, the bullets of the playbook that matter, recent
// reflections, the last turns of the session, what was recalled of older ones, and the query. It is one pure function
// from inputs and limits to the messages of a chat and a manifest that says what is in, what was left out, and why.
//
// What holds for every input:
//
//   - The limit is never exceeded, by the estimate of chat.Tokens. What is too long is cut where it says so.
//   - The instructions and the query are always in; so are pinned bullets and marked turns while there is room for them,
//     and the manifest says so where there is none.
//   - The messages are a valid chat: the instructions, then turns that begin with a user, calls of tools followed by their
//     results, the query, and what happened since.
//   - What others wrote (reflections, records, recalled work) is quoted; it cannot leave its quotation.
//
// The same manifest with the same texts renders to the same messages (Render), which is how the context of a past
// execution is shown and checked.
package assembly

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/records"
	"debrief/generator/selection"
	"debrief/playbook"
)

// Version is of the rules of this package. Another version may make other messages of the same manifest.
const Version = "a1"

// Input is what a context is made of.
type Input struct {
	Now time.Time
	// System are the instructions; SystemRef names them where the texts are kept elsewhere, and otherwise the manifest
	// keeps them.
	System, SystemRef string
	Query, About      string       // the question, and what it is about
	Task              string       // general, research, coding, debugging or analysis; empty is found out
	Tries             []events.Try // rounds at the query that came before, oldest first

	Book      *selection.Index
	Still     bool                                  // that bullets are chosen so is not to move with time
	Relevance iter.Seq2[playbook.BulletID, float64] // of bullets to the query, 0 to 1
	// Trials says what bullets are tried on; nil tries none.
	Trials *selection.Trials

	Notes    []*events.Note        // of the book and of the session, newest last
	Window   []*events.Interaction // of the session, oldest first
	Marks    []events.Marked       // by people, in the session
	Running  []events.Step         // what happened since the query
	Recalled []*events.Interaction // best first
	// Summary is a model's of older turns, nil where there is none; of those that it does not cover there are excerpts.
	Summary *events.Summary
	// Similar says how near a text is to the query, 0 to 1; nil where nobody can.
	Similar func(text string) float64
	// Explain asks for the scores of bullets.
	Explain  bool
	Degraded []string // what could not be had for it
}

// Context is what a model sees.
type Context struct {
	Messages []chat.Message
	Manifest events.Manifest
	Bullets  []*playbook.Bullet // that are shown
	Scores   []events.BulletScore
}

// Assemble makes the context. Its only error is a *LimitError.
func Assemble(in Input, l Limits) (*Context, error) {
	a := &assembler{in: in, l: l.WithDefaults(), sources: Sources{
		System: in.System, Query: in.Query, About: in.About, Tries: in.Tries, Running: in.Running, Interactions: map[string]*events.Interaction{},
		Notes: map[string]*events.Note{}, made: newMade(),
	}}
	a.m = events.Manifest{
		Assembly: Version, Limit: a.l.Total, Texts: string(a.l.Texts), At: in.Now, Degraded: append([]string(nil), in.Degraded...),
	}
	if err := a.fixed(); err != nil {
		return nil, err
	}
	a.conversationBudget()
	a.share()
	a.bullets()
	a.notes()
	a.turns()
	a.history()
	return a.finish(), nil
}

// assembler is one assembly under way. Rest is what the limit still has room for.
type assembler struct {
	in      Input
	l       Limits
	sources Sources
	m       events.Manifest
	rest    int

	system, about, query events.Part
	recovery             *events.Part
	selection            selection.Selection
	bulletParts          []events.Part   // those that are withheld among them
	withheld             map[string]bool // by Ref
	noteParts            []events.Part
	before, after        []events.Part // the query
	recalled, lines      []events.Part
	tries                []events.Part // newest first
	summary              *events.Part

	past, now     []turn // of the session before the query, and since
	noteBudget    int
	historyBudget int      // what the window leaves of the conversation's tokens
	unseen        []*piece // what the window does not show
	quoted        bool     // something is quoted: its frame is paid for
}

// frame is what a message takes besides its text: the wire's share, and what rounding may add.
const frame = 8

func (a *assembler) spend(tokens int) { a.rest -= tokens }

func (a *assembler) degrade(format string, args ...any) {
	a.m.Degraded = append(a.m.Degraded, fmt.Sprintf(format, args...))
}

func (a *assembler) leave(kind events.PartKind, why string, tokens int, ref string) {
	for i := range a.m.Left {
		if o := &a.m.Left[i]; o.Kind == kind && o.Why == why {
			o.Count++
			o.Tokens += tokens
			if len(o.Refs) < maxRefs {
				o.Refs = append(o.Refs, ref)
			}
			return
		}
	}
	a.m.Left = append(a.m.Left, events.LeftOut{Kind: kind, Why: why, Count: 1, Tokens: tokens, Refs: []string{ref}})
}

const maxRefs = 10

// Why something is left out or in.
const (
	whyNoRoom  = "no room"
	whyOld     = "older than the window"
	whyMarked  = "pinned"
	whyStarred = "starred"
	whyMeant   = "the query refers to it"
	whyNewest  = "newest"
)

// fixed is what is never left out: the instructions, the query, what it is about, and the way out of going in circles.
func (a *assembler) fixed() error {
	in := &a.in
	a.system = events.Part{Kind: events.PartSystem, Ref: in.SystemRef, Tokens: chat.Tokens(systemText(in.System, nil)) + frame}
	if in.SystemRef == "" {
		a.system.Text = in.System
	}
	query := strings.TrimSpace(clean(in.Query))
	a.query = events.Part{Kind: events.PartQuery}
	room := a.l.Total - a.system.Tokens - chat.Tokens("# Task\n\n\n") - frame
	a.query.Keep, a.query.Tokens = fitText(query, room)
	if a.query.Tokens > room {
		return &LimitError{a.l.Total, a.l.Total - room + a.query.Tokens}
	}
	if a.query.Keep > 0 {
		a.degrade("query: cut from %d to %d tokens, which is what the limit has room for", chat.Tokens(query), a.query.Tokens)
	}
	a.rest = room - a.query.Tokens

	if about := strings.TrimSpace(clean(in.About)); about != "" {
		a.about = events.Part{Kind: events.PartContext}
		// Of what is left a quarter is for what was learned.
		room := a.rest - a.rest/4 - chat.Tokens("# Context\n\n\n\n")
		a.about.Keep, a.about.Tokens = fitText(about, room)
		switch {
		case a.about.Tokens > room:
			a.degrade("context: left out, the limit has no room for it")
			a.leave(events.PartContext, whyNoRoom, chat.Tokens(about), "")
			a.about = events.Part{}
		default:
			if a.about.Keep > 0 {
				a.degrade("context: cut from %d to %d tokens, which is what the limit has room for", chat.Tokens(about), a.about.Tokens)
			}
			a.spend(a.about.Tokens + chat.Tokens("# Context\n\n\n\n"))
		}
	}
	a.triesBefore()
	if r, stuck := records.Stuck(in.Running); stuck {
		text := events.Beginning(r.Text, 3*recoveryTokens)
		p := events.Part{Kind: events.PartRecovery, Text: text, Why: r.Why, Tokens: chat.Tokens(recoveryText(text)) + frame}
		if p.Tokens <= a.rest {
			a.recovery = &p
			a.spend(p.Tokens)
		} else {
			a.leave(events.PartRecovery, whyNoRoom, p.Tokens, "")
		}
	}
	return nil
}

// triesBefore quotes the last rounds at the query, the newest first. They belong to it, and have half of what is left.
func (a *assembler) triesBefore() {
	budget := a.rest / 2
	for n := len(a.in.Tries); n > 0; n-- {
		t := &a.in.Tries[n-1]
		p := events.Part{Kind: events.PartTry, Ref: strconv.Itoa(n), Tokens: chat.Tokens(tryText(n, t)) + 1}
		if len(a.tries) == mostTries || !a.quote(p.Tokens, len(a.tries) == 0, &budget) {
			a.leave(p.Kind, whyNoRoom, p.Tokens, p.Ref)
			continue
		}
		a.tries = append(a.tries, p)
	}
}

// mostTries is how many earlier rounds are shown.
const mostTries = 3

// fitText is how many bytes of a text fit in so many tokens, 0 for all of it, and what that costs. What costs more all
// the same cannot be made to fit.
func fitText(text string, tokens int) (keep, cost int) {
	if cost = chat.Tokens(text); cost <= tokens {
		return 0, cost
	}
	for keep = max(chat.Fit(text, tokens), least); ; keep -= keep / 8 {
		if cost = chat.Tokens(shorten(text, keep)); cost <= tokens || keep <= least {
			return keep, cost
		}
	}
}

// share scales what the parts may have to what there is.
func (a *assembler) share() {
	a.noteBudget = noteTokens
	wanted := a.l.Bullets + a.noteBudget + a.m.Conversation
	if a.rest >= wanted {
		return
	}
	rest := max(a.rest, 0)
	a.l.Bullets = a.l.Bullets * rest / wanted
	a.noteBudget = a.noteBudget * rest / wanted
	a.m.Conversation = a.m.Conversation * rest / wanted
}

func (a *assembler) bullets() {
	if a.in.Book == nil {
		return
	}
	choose := func(tokens int) {
		a.selection = a.in.Book.Select(selection.Options{
			Now: a.in.Now, Still: a.in.Still, Tokens: tokens, Most: a.l.Most, Weights: a.l.Weights, Relevance: a.in.Relevance,
			Trials: a.in.Trials, Explain: a.in.Explain,
		})
	}
	choose(min(a.l.Bullets, a.rest))
	if pinnedLeft(a.selection.Left) > 0 && a.rest > a.l.Bullets {
		choose(a.rest) // what people pinned goes before turns and history
	}
	if n := pinnedLeft(a.selection.Left); n > 0 {
		a.degrade("bullets: %d pinned ones are left out, the limit has no room for them", n)
	}
	a.bulletParts = a.selection.Parts
	for _, t := range a.selection.Trials {
		if t.Arm == playbook.ArmWithheld {
			if a.withheld == nil {
				a.withheld = make(map[string]bool)
			}
			a.withheld[string(t.Bullet)] = true
		}
	}
	a.m.Left = append(a.m.Left, a.selection.Left...)
	if len(a.selection.Bullets) > 0 {
		a.spend(max(chat.Tokens(systemText(a.in.System, a.selection.Bullets))+frame-a.system.Tokens, 0))
	}
	byID := make(map[playbook.BulletID]*playbook.Bullet, len(a.selection.Bullets))
	for _, b := range a.selection.Bullets {
		byID[b.ID] = b
	}
	a.sources.Bullet = func(id playbook.BulletID) *playbook.Bullet { return byID[id] }
}

func pinnedLeft(left []events.LeftOut) int {
	n := 0
	for _, o := range left {
		if o.Why == selection.PinnedNoRoom {
			n += o.Count
		}
	}
	return n
}

// quote pays for one more line of a quotation; first says that it opens one. It reports whether there is room.
func (a *assembler) quote(tokens int, first bool, budget *int) bool {
	if first {
		tokens += quotationFrame
	}
	if !a.quoted {
		tokens += backgroundFrame
	}
	if tokens > a.rest || budget != nil && tokens > *budget {
		return false
	}
	a.quoted = true
	a.spend(tokens)
	if budget != nil {
		*budget -= tokens
	}
	return true
}

// What a quotation takes besides its text.
var (
	quotationFrame  = chat.Tokens(chat.Quote([]chat.Quotation{{Name: quoteRecalled, Text: "-"}})) + frame
	backgroundFrame = chat.Tokens(background) + frame
)

func (a *assembler) notes() {
	budget := a.noteBudget
	last := len(a.in.Notes)
	for i := last - 1; i >= 0 && a.l.Reflections > 0; i-- {
		n := a.in.Notes[i]
		p := events.Part{Kind: events.PartReflection, Ref: string(n.Reflection), Tokens: chat.Tokens(noteText(n)) + 1}
		if !a.quote(p.Tokens, len(a.noteParts) == 0, &budget) {
			a.leave(p.Kind, whyNoRoom, p.Tokens, p.Ref)
			continue
		}
		a.sources.Notes[p.Ref] = n
		a.noteParts = append([]events.Part{p}, a.noteParts...)
	}
}

// finish puts the parts in their order and renders them. The parts were counted one by one, and a text of several can
// cost a token more than they: what may go is let go until the whole is within the limit. What is withheld counts as if
// it were shown, so that all else is the same whatever chance decided.
func (a *assembler) finish() *Context {
	for {
		a.m.Parts = a.parts()
		messages, _ := Render(&a.m, a.sources)
		a.m.Tokens = 0
		for i := range messages {
			a.m.Tokens += messages[i].Tokens()
		}
		kept, shown := a.kept()
		without := 0
		if len(shown) < len(kept) {
			without = max(chat.Tokens(systemText(a.in.System, kept))-chat.Tokens(systemText(a.in.System, shown)), 0)
		}
		if a.m.Tokens+without <= a.m.Limit || !a.shed() {
			for _, t := range a.selection.Trials {
				if slices.ContainsFunc(kept, func(b *playbook.Bullet) bool { return b.ID == t.Bullet }) {
					a.m.Trials = append(a.m.Trials, t)
				}
			}
			return &Context{Messages: messages, Manifest: a.m, Bullets: shown, Scores: a.selection.Scores}
		}
	}
}

// kept are the bullets that there is room for, and those of them that are shown.
func (a *assembler) kept() (kept, shown []*playbook.Bullet) {
	kept = a.selection.Bullets[:len(a.bulletParts)]
	if len(a.withheld) == 0 {
		return kept, kept
	}
	for _, b := range kept {
		if !a.withheld[string(b.ID)] {
			shown = append(shown, b)
		}
	}
	return kept, shown
}

func (a *assembler) parts() []events.Part {
	all := make([]events.Part, 0, 8+len(a.bulletParts)+len(a.before)+len(a.recalled)+len(a.noteParts)+len(a.lines)+len(a.after))
	all = append(all, a.system)
	for _, p := range a.bulletParts {
		if !a.withheld[p.Ref] {
			all = append(all, p)
		}
	}
	all = append(all, a.before...)
	if a.summary != nil {
		all = append(all, *a.summary)
	}
	all = append(all, a.recalled...)
	all = append(all, a.noteParts...)
	all = append(all, a.lines...)
	for _, p := range slices.Backward(a.tries) {
		all = append(all, p)
	}
	if a.about.Kind != "" {
		all = append(all, a.about)
	}
	all = append(all, a.query)
	all = append(all, a.after...)
	if a.recovery != nil {
		all = append(all, *a.recovery)
	}
	return all
}

// shed lets the part go that is missed least. It reports false when nothing may go.
func (a *assembler) shed() bool {
	drop := func(list *[]events.Part) bool {
		n := len(*list)
		if n == 0 {
			return false
		}
		p := (*list)[n-1]
		*list = (*list)[:n-1]
		if p.Kind == events.PartBullet && a.withheld[p.Ref] {
			return true // it is left out already
		}
		a.leave(p.Kind, whyNoRoom, p.Tokens, p.Ref)
		return true
	}
	if drop(&a.recalled) || drop(&a.lines) {
		return true
	}
	switch {
	case a.summary != nil:
		a.summary = nil
	case drop(&a.noteParts), a.dropOldest(), drop(&a.bulletParts):
	case a.recovery != nil:
		a.recovery = nil
	case drop(&a.tries):
	case a.about.Kind != "":
		a.about = events.Part{}
		a.degrade("context: left out, the limit has no room for it")
	case len(a.after) > 0:
		a.after = nil
	default:
		query := strings.TrimSpace(clean(a.in.Query))
		keep := a.query.Keep
		if keep == 0 {
			keep = len(query)
		}
		if keep <= least {
			return false
		}
		a.query.Keep = max(keep-keep/8-1, least)
	}
	return true
}

// dropOldest lets the oldest earlier turn go, as a whole.
func (a *assembler) dropOldest() bool {
	if len(a.before) == 0 {
		return false
	}
	n := 1
	for n < len(a.before) && a.before[n].Kind != events.PartUser {
		n++
	}
	for _, p := range a.before[:n] {
		a.leave(p.Kind, whyNoRoom, p.Tokens, p.Ref)
	}
	a.before = a.before[n:]
	return true
}
