// Package assembly assembles the context of a model: instructions, bullets, recent reflections, the last turns of the
// session, recalled executions and the query. Assemble is a pure function of the inputs and limits. It returns chat
// messages and a manifest, which lists included and omitted parts with reasons.
//
// Invariants for every input:
//
//   - The context never exceeds its limit, as estimated by chat.Tokens. Shortened text contains a mark.
//   - The instructions and the query are always included. Pinned bullets and marked turns are included if they
//     fit; otherwise the manifest contains a warning.
//   - The messages are a valid chat: the instructions, then turns that begin with a user message, tool calls
//     followed by their results, the query, and the steps since the query.
//   - Text from other sources (reflections, records, recalled executions) is quoted, and the quotation is escaped.
//
// Render returns the same messages for the same manifest and the same texts. It is used to show and verify the
// context of a past execution.
package assembly

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/prompt/records"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Version is the version of the assembly rules. Another version may render other messages from the same manifest.
const Version = "a3"

// Input contains the sources of a context.
type Input struct {
	Now         time.Time
	System      string // the instructions
	SystemRef   string // refers to instructions that are stored elsewhere; if it is empty, the manifest contains System
	Query       string // the question of the task
	TaskContext string // the context of the task
	Task        string // general, research, coding, debugging or analysis; empty detects it
	// Advice requests one text with bullets and reflections, to be added to the user's message. The query only selects them. The
	// inputs of a conversation (TaskContext, Rounds, Window, Marks, Running, Recalled, Summary) are not used.
	Advice bool
	Rounds []events.PreviousRound // earlier rounds of the task, oldest first

	Index           *selection.Index
	TimeIndependent bool // select bullets independently of the current time
	// Rankings returns the bullets that are relevant to the query; see selection.Options.
	Rankings    func() []selection.Ranking
	Reliability []float64 // of each ranking; see selection.Options
	Seed        string    // different for each task
	// Draw describes the experiments on bullets; nil runs none.
	Draw *selection.Draw

	Notes []*events.Note // of the playbook and the session, newest last; only admitted texts
	// Linked returns the bullets that were learned from a reflection. If the experiment withholds one of them, the reflection is left
	// out. Nil returns none.
	Linked   func(events.Handle) []playbook.BulletID
	Window   []*events.Interaction      // of the session, oldest first
	Marks    []events.MarkedInteraction // turns of the session marked by users
	Running  []events.Step              // steps since the query
	Recalled []*events.Interaction      // best first
	// Summary is a model's summary of older turns; nil before the first one. Turns after the summary are summarised by
	// excerpts.
	Summary *events.Summary
	// Similar returns the similarity of a text to the query, 0 to 1. Nil disables it.
	Similar func(text string) float64
	// Explain requests the scores of bullets and of the items of the window.
	Explain  bool
	Degraded []string // inputs that were unavailable
}

// Context is an assembled context.
type Context struct {
	Messages []chat.Message
	Manifest events.Manifest
	Bullets  []*playbook.Bullet   // the bullets in the prompt
	Shown    []events.ShownBullet // the same, with their texts and the reasons
	Scores   []events.BulletScore
	// WindowScores are the scores of the items of the shown turns, in time order.
	WindowScores []events.WindowScore
	// Lines are the learned texts in the message of advice.
	Lines []events.AdviceLine
}

// Assemble builds a context. Its only error is *LimitError.
func Assemble(in Input, l Limits) (*Context, error) {
	a := &assembler{in: in, limits: l.WithDefaults(), sources: Sources{
		System: in.System, Query: in.Query, TaskContext: in.TaskContext, Rounds: in.Rounds, Running: in.Running, Interactions: map[string]*events.Interaction{},
		Notes: map[string]*events.Note{}, cache: newTextCache(),
	}}
	a.manifest = events.Manifest{
		Assembly: Version, Limit: a.limits.Total, Texts: string(a.limits.Texts), Votes: a.limits.Votes, At: in.Now, Warnings: append([]string(nil), in.Degraded...),
	}
	if in.Advice {
		if err := a.addAdvice(); err != nil {
			return nil, err
		}
		return a.finish(), nil
	}
	if err := a.addRequired(); err != nil {
		return nil, err
	}
	a.setConversationBudget()
	a.scaleBudgets()
	a.addBullets()
	a.addReflections()
	a.addTurns()
	a.addHistory()
	return a.finish(), nil
}

// assembler holds the state of one assembly.
type assembler struct {
	in        Input
	limits    Limits
	sources   Sources
	manifest  events.Manifest
	remaining int // tokens left

	system, taskContext, query events.Part  // without a Kind: not in the context
	recovery                   *events.Part // nil if the work is not stuck
	systemCost                 int          // of the instructions; 0 if unknown
	selection                  selection.Selection
	bulletParts                []events.Part   // includes withheld bullets
	priority                   []int           // of bulletParts; the highest is dropped first
	withheld                   map[string]bool // by part reference
	reflectionParts            []events.Part
	before, after              []events.Part // before and after the query
	recalledParts, recordParts []events.Part
	roundParts                 []events.Part // newest first
	summary                    *events.Part  // nil if the context has no summary

	earlierTurns, currentTurns []turn // before the query and since
	reflectionBudget           int
	historyBudget              int      // tokens of the conversation that the window does not use
	hidden                     []*piece // pieces outside the window
	windowScores               []events.WindowScore
	hasQuotes                  bool // the overhead of quotations is reserved
}

// messageOverhead is the number of tokens of a message besides its text, including rounding.
const messageOverhead = 8

func (a *assembler) spend(tokens int) { a.remaining -= tokens }

func (a *assembler) warn(format string, args ...any) {
	a.manifest.Warnings = append(a.manifest.Warnings, fmt.Sprintf(format, args...))
}

func (a *assembler) omit(kind events.PartKind, why string, tokens int, ref string) {
	for i := range a.manifest.Omitted {
		if o := &a.manifest.Omitted[i]; o.Kind == kind && o.Why == why {
			o.Count++
			o.Tokens += tokens
			if len(o.Refs) < maxRefs {
				o.Refs = append(o.Refs, ref)
			}
			return
		}
	}
	a.manifest.Omitted = append(a.manifest.Omitted, events.Omission{Kind: kind, Why: why, Count: 1, Tokens: tokens, Refs: []string{ref}})
}

// omitParts records parts without room.
func (a *assembler) omitParts(parts ...events.Part) {
	for i := range parts {
		p := &parts[i]
		a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
	}
}

const maxRefs = 10

// Reasons to omit or include a part.
const (
	whyNoRoom   = "no room"
	whyOld      = "older than the window"
	whyPinned   = "pinned"
	whyStarred  = "starred"
	whyReferred = "the query refers to it"
	whyNewest   = "newest"
	whyWithheld = "an experiment withholds its bullet"
)

// addRequired adds the instructions, the query, its context, earlier rounds and the recovery text.
func (a *assembler) addRequired() error {
	in := &a.in
	a.system = events.Part{Kind: events.PartSystem, Ref: in.SystemRef, Tokens: a.systemTokens(nil) + messageOverhead}
	if in.SystemRef == "" {
		a.system.Text = in.System
	}
	query := strings.TrimSpace(text.Clean(in.Query))
	a.query = events.Part{Kind: events.PartQuery}
	room := a.limits.Total - a.system.Tokens - chat.Tokens("# Task\n\n\n") - messageOverhead
	a.query.Keep, a.query.Tokens = fitText(query, room)
	if a.query.Tokens > room {
		return &LimitError{a.limits.Total, a.limits.Total - room + a.query.Tokens}
	}
	if a.query.Keep > 0 {
		a.warn("query: shortened from %d to %d tokens to fit the limit", chat.Tokens(query), a.query.Tokens)
	}
	a.remaining = room - a.query.Tokens

	if about := strings.TrimSpace(text.Clean(in.TaskContext)); about != "" {
		a.taskContext = events.Part{Kind: events.PartContext}
		// A quarter of the remaining tokens is reserved for bullets and other learned parts.
		room := a.remaining - a.remaining/4 - chat.Tokens("# Context\n\n\n\n")
		a.taskContext.Keep, a.taskContext.Tokens = fitText(about, room)
		if a.taskContext.Tokens > room {
			a.warn("context: omitted, no room within the limit")
			a.omit(events.PartContext, whyNoRoom, chat.Tokens(about), "")
			a.taskContext = events.Part{}
		} else {
			if a.taskContext.Keep > 0 {
				a.warn("context: shortened from %d to %d tokens to fit the limit", chat.Tokens(about), a.taskContext.Tokens)
			}
			a.spend(a.taskContext.Tokens + chat.Tokens("# Context\n\n\n\n"))
		}
	}
	a.addRounds()
	if r, stuck := records.Stuck(in.Running); stuck {
		text := text.Clip(r.Text, 3*recoveryTokens)
		p := events.Part{Kind: events.PartRecovery, Text: text, Why: r.Reason, Tokens: chat.Tokens(recoveryText(text)) + messageOverhead}
		if p.Tokens <= a.remaining {
			a.recovery = &p
			a.spend(p.Tokens)
		} else {
			a.omit(events.PartRecovery, whyNoRoom, p.Tokens, "")
		}
	}
	return nil
}

// addRounds quotes the last rounds of the task, newest first. They may use half of the remaining tokens.
func (a *assembler) addRounds() {
	budget := a.remaining / 2
	for n := len(a.in.Rounds); n > 0; n-- {
		t := &a.in.Rounds[n-1]
		p := events.Part{Kind: events.PartPreviousRound, Ref: strconv.Itoa(n), Tokens: chat.Tokens(roundText(n, t)) + 1}
		if len(a.roundParts) == maxRounds || !a.reserveQuote(p.Tokens, len(a.roundParts) == 0, &budget) {
			a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
			continue
		}
		a.roundParts = append(a.roundParts, p)
	}
}

// maxRounds is the maximum number of earlier rounds in a prompt.
const maxRounds = 3

// fitText returns how many bytes of a text fit into tokens, and the tokens of this beginning. keep is 0 for the whole text. If even
// minShownBytes do not fit, cost exceeds tokens.
func fitText(text string, tokens int) (keep, cost int) {
	cost = chat.Tokens(text)
	if cost <= tokens {
		return 0, cost
	}
	for keep = max(chat.PrefixLen(text, tokens), minShownBytes); ; keep -= keep / 8 {
		cost = chat.Tokens(shorten(text, keep))
		if cost <= tokens || keep <= minShownBytes {
			return keep, cost
		}
	}
}

// scaleBudgets reduces the budgets of bullets, reflections and conversation in proportion if their sum exceeds the remaining tokens.
func (a *assembler) scaleBudgets() {
	a.reflectionBudget = noteTokens
	wanted := a.limits.Bullets + a.reflectionBudget + a.manifest.Conversation
	if a.remaining >= wanted {
		return
	}
	rest := max(a.remaining, 0)
	a.limits.Bullets = a.limits.Bullets * rest / wanted
	a.reflectionBudget = a.reflectionBudget * rest / wanted
	a.manifest.Conversation = a.manifest.Conversation * rest / wanted
}

func (a *assembler) addBullets() {
	if a.in.Index == nil {
		return
	}
	selectBullets := func(tokens int) {
		a.selection = a.in.Index.Select(selection.Options{
			Now: a.in.Now, TimeIndependent: a.in.TimeIndependent, Tokens: tokens, MaxBullets: a.limits.MaxBullets, Weights: a.limits.Weights,
			Rankings: a.in.Rankings, Reliability: a.in.Reliability, Seed: a.in.Seed, Draw: a.in.Draw, Explain: a.in.Explain,
		})
	}
	selectBullets(min(a.limits.Bullets, a.remaining))
	if a.selection.PinnedNoRoom > 0 && a.remaining > a.limits.Bullets {
		selectBullets(min(a.limits.Bullets+a.selection.PinnedTokens, a.remaining)) // pinned bullets have priority over turns and history
	}
	if n := a.selection.PinnedNoRoom; n > 0 {
		a.warn("bullets: %d pinned bullets omitted, no room within the limit", n)
	}
	a.bulletParts, a.priority = a.selection.Parts, a.selection.Priority
	if len(a.selection.Withheld) > 0 {
		a.withheld = make(map[string]bool)
	}
	for _, id := range a.selection.Withheld {
		a.withheld[string(id)] = true
	}
	a.manifest.Omitted = append(a.manifest.Omitted, a.selection.Left...)
	if len(a.selection.Bullets) > 0 {
		a.spend(max(a.systemTokens(a.selection.Bullets)+messageOverhead-a.system.Tokens, 0))
	}
}

// reserveQuote reserves tokens for one quoted line, and takes them from budget, too, unless budget is nil. first is true for the first line
// of a quotation. It reports whether there is room.
func (a *assembler) reserveQuote(tokens int, first bool, budget *int) bool {
	if first {
		tokens += quoteOverhead
	}
	if !a.hasQuotes {
		tokens += backgroundOverhead
	}
	exceedsBudget := budget != nil && tokens > *budget
	if exceedsBudget || tokens > a.remaining {
		return false
	}
	a.hasQuotes = true
	a.spend(tokens)
	if budget != nil {
		*budget -= tokens
	}
	return true
}

// Tokens of a quotation besides its text.
var (
	quoteOverhead      = chat.Tokens(chat.Quote([]chat.Quotation{{Name: quoteRecalled, Text: "-"}})) + messageOverhead
	backgroundOverhead = chat.Tokens(background) + messageOverhead
)

func (a *assembler) addReflections() {
	if a.limits.Reflections <= 0 {
		return
	}
	budget := a.reflectionBudget
	for _, n := range slices.Backward(a.in.Notes) {
		p := events.Part{Kind: events.PartReflection, Ref: string(n.Reflection), Why: noteFields(n), Tokens: chat.Tokens(reflectionText(n)) + 1}
		if a.isWithheld(n) {
			a.omit(p.Kind, whyWithheld, p.Tokens, p.Ref)
			continue
		}
		if !a.reserveQuote(p.Tokens, len(a.reflectionParts) == 0, &budget) {
			a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
			continue
		}
		a.sources.Notes[p.Ref] = n
		a.reflectionParts = append([]events.Part{p}, a.reflectionParts...)
	}
}

// The names of the texts of a note, which the reason of its part lists.
const (
	NoteError    = "what went wrong"
	NoteApproach = "what to do"
	NoteInsight  = "insight"
)

// noteFields lists the texts that a note has.
func noteFields(n *events.Note) string {
	var names []string
	for _, f := range [...]struct{ name, text string }{{NoteError, n.Error}, {NoteApproach, n.Approach}, {NoteInsight, n.Insight}} {
		if f.text != "" {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

// isWithheld reports whether the experiment of this task withholds a bullet that was learned from a note.
func (a *assembler) isWithheld(n *events.Note) bool {
	return a.in.Linked != nil && slices.ContainsFunc(a.in.Linked(n.Reflection), func(id playbook.BulletID) bool { return a.withheld[string(id)] })
}

// finish orders and renders the parts. The tokens of the whole can exceed the sum over its parts by a few, so finish drops the least
// important parts until the whole fits the limit. Withheld bullets count as if they were shown: the other parts must not depend on the arm
// of the experiment.
func (a *assembler) finish() *Context {
	for {
		fitted, shown := a.fittedBullets()
		a.manifest.Parts, a.sources.Bullets = a.parts(), shown
		messages, _ := Render(&a.manifest, a.sources)
		a.manifest.Tokens = 0
		for i := range messages {
			m := &messages[i]
			if m.Speaker == chat.System {
				a.manifest.Tokens += a.systemTokens(shown) + new(chat.Message).Tokens()
			} else {
				a.manifest.Tokens += m.Tokens()
			}
		}
		withheldTokens := 0
		if len(shown) < len(fitted) { // an experiment withholds some
			withheldTokens = max(a.systemTokens(fitted)-a.systemTokens(shown), 0)
		}
		if a.manifest.Tokens+withheldTokens <= a.manifest.Limit || !a.dropLeastImportant() {
			for _, x := range a.selection.Exposures {
				if slices.ContainsFunc(fitted, func(b *playbook.Bullet) bool { return b.ID == x.Bullet }) {
					a.manifest.Exposures = append(a.manifest.Exposures, x)
				}
			}
			return &Context{
				Messages: messages, Manifest: a.manifest, Bullets: shown, Shown: a.shownBullets(), Scores: a.selection.Scores, WindowScores: a.finalWindowScores(),
				Lines: a.adviceLines(messages, shown),
			}
		}
	}
}

// systemTokens returns the tokens of the system message with some of the selected bullets. It adds the known costs of the parts, because
// rendering and reading the long text takes time.
func (a *assembler) systemTokens(bullets []*playbook.Bullet) int {
	if a.systemCost == 0 {
		a.systemCost = chat.Cost("", text.Clean(a.in.System+separator))
	}
	if len(bullets) == 0 {
		return chat.CostTokens(a.systemCost + chat.Cost("\n", emptyPlaybook))
	}
	return chat.CostTokens(a.systemCost + a.in.Index.Cost(bullets))
}

// finalWindowScores marks the items that are in the context. The limit of the whole context can drop an item of the window.
func (a *assembler) finalWindowScores() []events.WindowScore {
	for i := range a.windowScores {
		s := &a.windowScores[i]
		in := slices.ContainsFunc(a.manifest.Parts, func(p events.Part) bool { return p.Kind == s.Kind && p.Ref == s.Ref })
		if s.Shown && !in {
			s.Why = whyNoRoom
		}
		s.Shown = in
	}
	return a.windowScores
}

// fittedBullets returns the bullets within the limit, and those of them that are shown.
func (a *assembler) fittedBullets() (fitted, shown []*playbook.Bullet) {
	fitted = a.selection.Bullets
	if len(a.withheld) == 0 {
		return fitted, fitted
	}
	for _, b := range fitted {
		if !a.withheld[string(b.ID)] {
			shown = append(shown, b)
		}
	}
	return fitted, shown
}

// shownBullets returns the bullets that are shown, with the reasons. Selection.Bullets and bulletParts have the same order.
func (a *assembler) shownBullets() []events.ShownBullet {
	all := make([]events.ShownBullet, 0, len(a.bulletParts))
	for i, b := range a.selection.Bullets {
		if p := &a.bulletParts[i]; !a.withheld[p.Ref] {
			all = append(all, events.ShownBullet{
				ID: b.ID, Content: b.Content, Wording: events.WordingOf(b.Content), Experiment: b.CurrentExperiment().Number, Why: p.Why,
			})
		}
	}
	return all
}

func (a *assembler) parts() []events.Part {
	n := len(a.before) + len(a.recalledParts) + len(a.reflectionParts) + len(a.recordParts) + len(a.after)
	all := make([]events.Part, 0, 8+n)
	all = append(all, a.system)
	bullets := events.Part{Kind: events.PartBullet}
	for _, p := range a.bulletParts {
		if !a.withheld[p.Ref] {
			bullets.Count++
			bullets.Tokens += p.Tokens
		}
	}
	if bullets.Count > 0 {
		all = append(all, bullets)
	}
	all = append(all, a.before...)
	if a.summary != nil {
		all = append(all, *a.summary)
	}
	all = append(all, a.recalledParts...)
	all = append(all, a.reflectionParts...)
	all = append(all, a.recordParts...)
	for _, p := range slices.Backward(a.roundParts) {
		all = append(all, p)
	}
	if a.taskContext.Kind != "" {
		all = append(all, a.taskContext)
	}
	if a.query.Kind != "" {
		all = append(all, a.query)
	}
	all = append(all, a.after...)
	if a.recovery != nil {
		all = append(all, *a.recovery)
	}
	return all
}

// dropLeastImportant drops one part. It returns false if only required parts are left.
func (a *assembler) dropLeastImportant() bool {
	drop := func(list *[]events.Part) bool {
		n := len(*list)
		if n == 0 {
			return false
		}
		a.omitParts((*list)[n-1])
		*list = (*list)[:n-1]
		return true
	}
	if drop(&a.recalledParts) || drop(&a.recordParts) {
		return true
	}
	switch {
	case a.summary != nil:
		a.omitParts(*a.summary)
		a.summary = nil
	case drop(&a.reflectionParts) || a.dropOldest() || a.dropBullet():
	case a.recovery != nil:
		a.omitParts(*a.recovery)
		a.recovery = nil
	case drop(&a.roundParts):
	case a.taskContext.Kind != "":
		a.omitParts(a.taskContext)
		a.taskContext = events.Part{}
		a.warn("context: omitted, no room within the limit")
	case len(a.after) > 0:
		a.omitParts(a.after...)
		a.after = nil
	case a.query.Kind == "":
		return false
	default:
		query := strings.TrimSpace(text.Clean(a.in.Query))
		keep := a.query.Keep
		if keep == 0 {
			keep = len(query)
		}
		if keep <= minShownBytes {
			return false
		}
		a.query.Keep = max(keep-keep/8-1, minShownBytes)
	}
	return true
}

// dropBullet drops the bullet that was chosen last.
func (a *assembler) dropBullet() bool {
	if len(a.bulletParts) == 0 {
		return false
	}
	at := 0
	for i, p := range a.priority {
		if p > a.priority[at] {
			at = i
		}
	}
	p := a.bulletParts[at]
	a.bulletParts = slices.Delete(slices.Clone(a.bulletParts), at, at+1)
	a.priority = slices.Delete(slices.Clone(a.priority), at, at+1)
	a.selection.Bullets = slices.Delete(slices.Clone(a.selection.Bullets), at, at+1)
	if !a.withheld[p.Ref] { // withheld bullets are listed already
		a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
	}
	return true
}

// dropOldest drops the oldest earlier turn as a whole.
func (a *assembler) dropOldest() bool {
	if len(a.before) == 0 {
		return false
	}
	n := 1
	for n < len(a.before) && a.before[n].Kind != events.PartUser {
		n++
	}
	for _, p := range a.before[:n] {
		a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
	}
	a.before = a.before[n:]
	return true
}
