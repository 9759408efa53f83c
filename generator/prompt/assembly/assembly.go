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
	"debrief/generator/prompt/conversation"
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
	// Advice requests one text with bullets and reflections, which the caller adds to the user's message. The query then only selects bullets, and
	// the inputs of a conversation (TaskContext, Rounds, Window, Marks, Running, Recalled) are not read.
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
	// Linked returns the bullets that were learned from a reflection. If the experiment withholds one of them, the reflection is omitted. Nil:
	// no bullet was learned from a reflection.
	Linked   func(events.Handle) []playbook.BulletID
	Window   []*events.Interaction      // of the session, oldest first
	Marks    []events.MarkedInteraction // turns of the session marked by users
	Running  []events.Step              // steps since the query
	Recalled []*events.Interaction      // best first
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
		Notes: map[string]*events.Note{}, pieces: map[string][]piece{},
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

	system, taskContext, query  events.Part  // without a Kind: not in the context
	recovery                    *events.Part // nil if the work is not stuck
	systemCost                  int          // of the instructions; 0 if unknown
	selection                   selection.Selection
	bulletParts                 []events.Part // includes withheld bullets
	priority                    []int         // parallel to bulletParts; the bullet with the highest number is dropped first
	before, after               []events.Part // pieces of the turns before the query, and of the steps since the query
	recalledParts, recordParts  []events.Part
	reflectionParts, roundParts []events.Part // newest first
	summary                     *events.Part  // nil if the context has no summary

	earlierTurns, currentTurns []turn // before the query and since
	reflectionBudget           int
	historyBudget              int      // tokens of the conversation that the shown turns do not use
	hidden                     []*piece // pieces that are not shown, but may be in the summary and the record lines
	windowScores               []events.WindowScore
	hasQuotes                  bool // the tokens of the heading of all quotations are reserved
}

// messageOverhead is the number of tokens of a message besides its text, including rounding.
const messageOverhead = 8

// warn adds a warning to the manifest.
func (a *assembler) warn(format string, args ...any) {
	a.manifest.Warnings = append(a.manifest.Warnings, fmt.Sprintf(format, args...))
}

// maxRefs is the maximum number of references in an omission of a manifest.
const maxRefs = 10

// omit adds an omitted part to the manifest, which counts those of a kind with the same reason together.
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

// omitParts adds omitted parts to the manifest, with the reason that there was no room.
func (a *assembler) omitParts(parts ...events.Part) {
	for i := range parts {
		p := &parts[i]
		a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
	}
}

// Reasons to omit or include a part.
const (
	whyNoRoom   = "no room"
	whyOld      = "older than the window"
	whyPinned   = "pinned"
	whyStarred  = "starred"
	whyReferred = "the query refers to it"
	whyNewest   = "newest"
	whyWithheld = "an experiment withholds its bullet"
	whyChatter  = "text between tool calls"
)

// addRequired adds the parts that other parts must leave room for: the instructions, the query, its context, earlier rounds and the recovery text.
// It returns an error if there is no room for the instructions and the query.
func (a *assembler) addRequired() error {
	a.system = events.Part{Kind: events.PartSystem, Ref: a.in.SystemRef, Tokens: a.systemTokens(nil) + messageOverhead}
	if a.in.SystemRef == "" {
		a.system.Text = a.in.System
	}
	query := strings.TrimSpace(text.Clean(a.in.Query))
	a.query = events.Part{Kind: events.PartQuery}
	overhead := a.system.Tokens + chat.Tokens("# Task\n\n\n") + messageOverhead
	room := a.limits.Total - overhead
	a.query.Keep, a.query.Tokens = fitText(query, room)
	if a.query.Tokens > room {
		return &LimitError{a.limits.Total, overhead + a.query.Tokens}
	}
	if a.query.Keep > 0 {
		a.warn("query: shortened from %d to %d tokens to fit the limit", chat.Tokens(query), a.query.Tokens)
	}
	a.remaining = room - a.query.Tokens
	a.addTaskContext()
	a.addRounds()
	a.addRecovery()
	return nil
}

// addTaskContext adds the context of the task, if there is one. It leaves a quarter of the remaining tokens for bullets and other learned parts.
func (a *assembler) addTaskContext() {
	context := strings.TrimSpace(text.Clean(a.in.TaskContext))
	if context == "" {
		return
	}
	headingTokens := chat.Tokens("# Context\n\n\n\n")
	room := a.remaining - a.remaining/4 - headingTokens
	keep, tokens := fitText(context, room)
	if tokens > room {
		a.warn("context: omitted, no room within the limit")
		a.omit(events.PartContext, whyNoRoom, chat.Tokens(context), "")
		return
	}
	if keep > 0 {
		a.warn("context: shortened from %d to %d tokens to fit the limit", chat.Tokens(context), tokens)
	}
	a.taskContext = events.Part{Kind: events.PartContext, Keep: keep, Tokens: tokens}
	a.remaining -= tokens + headingTokens
}

// addRecovery adds the text for work that repeats without progress.
func (a *assembler) addRecovery() {
	recovery, isStuck := conversation.Stuck(a.in.Running)
	if !isStuck {
		return
	}
	advice := text.Clip(recovery.Text, 3*recoveryTokens)
	p := events.Part{Kind: events.PartRecovery, Text: advice, Why: recovery.Reason, Tokens: chat.Tokens(recoveryText(advice)) + messageOverhead}
	if p.Tokens > a.remaining {
		a.omitParts(p)
		return
	}
	a.recovery = &p
	a.remaining -= p.Tokens
}

// addRounds quotes the last rounds of the task, the newest first. They may use half of the remaining tokens.
func (a *assembler) addRounds() {
	budget := a.remaining / 2
	for n := len(a.in.Rounds); n > 0; n-- {
		p := events.Part{Kind: events.PartPreviousRound, Ref: strconv.Itoa(n), Tokens: chat.Tokens(roundText(n, &a.in.Rounds[n-1])) + 1}
		if len(a.roundParts) == maxRounds || !a.reserveQuote(p.Tokens, len(a.roundParts) == 0, &budget) {
			a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
			continue
		}
		a.roundParts = append(a.roundParts, p)
	}
}

// maxRounds is the maximum number of earlier rounds in a prompt.
const maxRounds = 3

// fitText returns how many bytes of a text fit into tokens, see shorten, and the tokens of this beginning. keep is 0 if the whole text fits. If even
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

// addBullets selects the bullets, including those that the experiment withholds.
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
	a.manifest.Omitted = append(a.manifest.Omitted, a.selection.Left...)
	if len(a.selection.Bullets) > 0 {
		a.remaining -= max(a.systemTokens(a.selection.Bullets)+messageOverhead-a.system.Tokens, 0)
	}
}

// reserveQuote reserves tokens for one quoted line. It takes them from budget and from the remaining tokens. isFirst reports that the line is the
// first of its quotation. reserveQuote returns false if there is no room.
func (a *assembler) reserveQuote(tokens int, isFirst bool, budget *int) bool {
	if isFirst {
		tokens += quoteOverhead
	}
	if !a.hasQuotes {
		tokens += backgroundOverhead
	}
	if tokens > *budget || tokens > a.remaining {
		return false
	}
	a.hasQuotes = true
	a.remaining -= tokens
	*budget -= tokens
	return true
}

// Tokens of a quotation besides its text.
var (
	quoteOverhead      = chat.Tokens(chat.Quote([]chat.Quotation{{Name: quoteRecalled, Text: "-"}})) + messageOverhead
	backgroundOverhead = chat.Tokens(background) + messageOverhead
)

// addReflections quotes the newest reflections within their budget.
func (a *assembler) addReflections() {
	if a.limits.Reflections <= 0 {
		return
	}
	budget := a.reflectionBudget
	for _, n := range slices.Backward(a.in.Notes) {
		p := events.Part{Kind: events.PartReflection, Ref: string(n.Reflection), Why: noteFields(n), Tokens: chat.Tokens(reflectionText(n)) + 1}
		if a.withholdsBulletOf(n) {
			a.omit(p.Kind, whyWithheld, p.Tokens, p.Ref)
			continue
		}
		if !a.reserveQuote(p.Tokens, len(a.reflectionParts) == 0, &budget) {
			a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
			continue
		}
		a.sources.Notes[p.Ref] = n
		a.reflectionParts = append(a.reflectionParts, p)
	}
}

// isWithheld reports whether the experiment of this task withholds a bullet.
func (a *assembler) isWithheld(id playbook.BulletID) bool {
	return slices.Contains(a.selection.Withheld, id)
}

// withholdsBulletOf reports whether the experiment of this task withholds a bullet that was learned from a note.
func (a *assembler) withholdsBulletOf(n *events.Note) bool {
	return a.in.Linked != nil && slices.ContainsFunc(a.in.Linked(n.Reflection), a.isWithheld)
}

// finish orders and renders the parts. The tokens of the whole can exceed the sum over its parts by a few, so finish drops the least
// important parts until the whole fits the limit. Withheld bullets count as if they were shown: the other parts must not depend on the arm
// of the experiment.
func (a *assembler) finish() *Context {
	for {
		fitted, shown := a.selection.Bullets, a.shownBullets() // with and without those that the experiment withholds
		a.manifest.Parts, a.sources.Bullets = a.parts(), shown
		messages, _ := Render(&a.manifest, a.sources)
		a.manifest.Tokens = 0
		for i := range messages {
			if m := &messages[i]; m.Speaker == chat.System {
				a.manifest.Tokens += a.systemTokens(shown) + new(chat.Message).Tokens()
			} else {
				a.manifest.Tokens += m.Tokens()
			}
		}
		withheldTokens := 0
		if len(shown) < len(fitted) {
			withheldTokens = max(a.systemTokens(fitted)-a.systemTokens(shown), 0)
		}
		if a.manifest.Tokens+withheldTokens > a.manifest.Limit && a.dropLeastImportant() {
			continue
		}
		for _, x := range a.selection.Exposures {
			if slices.ContainsFunc(fitted, func(b *playbook.Bullet) bool { return b.ID == x.Bullet }) {
				a.manifest.Exposures = append(a.manifest.Exposures, x)
			}
		}
		return &Context{
			Messages: messages, Manifest: a.manifest, Bullets: shown, Shown: a.describeShown(), Scores: a.selection.Scores, WindowScores: a.finalWindowScores(),
			Lines: a.adviceLines(messages, shown),
		}
	}
}

// systemTokens returns the tokens of the text of the system message with some of the selected bullets, nil for none. It adds the known costs of the
// parts, because to render and read the long text takes time.
func (a *assembler) systemTokens(bullets []*playbook.Bullet) int {
	if a.systemCost == 0 {
		a.systemCost = chat.Cost("", text.Clean(a.in.System+separator))
	}
	if len(bullets) == 0 {
		return chat.CostTokens(a.systemCost + chat.Cost("\n", emptyPlaybook))
	}
	return chat.CostTokens(a.systemCost + a.in.Index.Cost(bullets))
}

// finalWindowScores returns the scores of the items of the window, with the items that are in the context marked as shown. The limit of the whole
// context may have dropped an item.
func (a *assembler) finalWindowScores() []events.WindowScore {
	for i := range a.windowScores {
		s := &a.windowScores[i]
		isPart := slices.ContainsFunc(a.manifest.Parts, func(p events.Part) bool { return p.Kind == s.Kind && p.Ref == s.Ref })
		if s.Shown && !isPart {
			s.Why = whyNoRoom
		}
		s.Shown = isPart
	}
	return a.windowScores
}

// shownBullets returns the selected bullets without those that the experiment withholds.
func (a *assembler) shownBullets() (shown []*playbook.Bullet) {
	if len(a.selection.Withheld) == 0 {
		return a.selection.Bullets
	}
	for _, b := range a.selection.Bullets {
		if !a.isWithheld(b.ID) {
			shown = append(shown, b)
		}
	}
	return shown
}

// describeShown describes the bullets that are shown, with the reasons. Selection.Bullets and bulletParts have the same order.
func (a *assembler) describeShown() []events.ShownBullet {
	all := make([]events.ShownBullet, 0, len(a.bulletParts))
	for i, b := range a.selection.Bullets {
		if !a.isWithheld(b.ID) {
			all = append(all, events.ShownBullet{
				ID: b.ID, Content: b.Content, Wording: events.WordingOf(b.Content), Experiment: b.CurrentExperiment().Number, Why: a.bulletParts[i].Why,
			})
		}
	}
	return all
}

// parts returns the parts of the context in their order. One part stands for all bullets.
func (a *assembler) parts() []events.Part {
	all := []events.Part{a.system}
	bullets := events.Part{Kind: events.PartBullet}
	for _, p := range a.bulletParts {
		if !a.isWithheld(playbook.BulletID(p.Ref)) {
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
	for _, p := range slices.Backward(a.reflectionParts) {
		all = append(all, p)
	}
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

// dropLeastImportant drops a part. The cases are in the order of importance, the least important first. It returns false if only the instructions
// and the query are left, for which addRequired has made room.
func (a *assembler) dropLeastImportant() bool {
	switch {
	case a.dropLast(&a.recalledParts) || a.dropLast(&a.recordParts):
	case a.summary != nil:
		a.omitParts(*a.summary)
		a.summary = nil
	case a.dropLast(&a.reflectionParts) || a.dropOldest() || a.dropBullet():
	case a.recovery != nil:
		a.omitParts(*a.recovery)
		a.recovery = nil
	case a.dropLast(&a.roundParts):
	case a.taskContext.Kind != "":
		a.omitParts(a.taskContext)
		a.taskContext = events.Part{}
		a.warn("context: omitted, no room within the limit")
	case len(a.after) > 0:
		a.omitParts(a.after...)
		a.after = nil
	default:
		return false
	}
	return true
}

// dropLast drops the last part of a list. It returns false for an empty list.
func (a *assembler) dropLast(list *[]events.Part) bool {
	n := len(*list)
	if n == 0 {
		return false
	}
	a.omitParts((*list)[n-1])
	*list = (*list)[:n-1]
	return true
}

// dropBullet drops the bullet that was chosen last. It returns false without bullets.
func (a *assembler) dropBullet() bool {
	if len(a.bulletParts) == 0 {
		return false
	}
	i := slices.Index(a.priority, slices.Max(a.priority))
	p := a.bulletParts[i]
	a.bulletParts = slices.Delete(slices.Clone(a.bulletParts), i, i+1)
	a.priority = slices.Delete(slices.Clone(a.priority), i, i+1)
	a.selection.Bullets = slices.Delete(slices.Clone(a.selection.Bullets), i, i+1)
	if !a.isWithheld(playbook.BulletID(p.Ref)) { // withheld bullets are in Selection.Left already
		a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
	}
	return true
}

// dropOldest drops the oldest earlier turn as a whole. It returns false without earlier turns.
func (a *assembler) dropOldest() bool {
	if len(a.before) == 0 {
		return false
	}
	n := 1
	for n < len(a.before) && a.before[n].Kind != events.PartUser {
		n++
	}
	a.omitParts(a.before[:n]...)
	a.before = a.before[n:]
	return true
}
