package assembly

import (
	"cmp"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/prompt/conversation"
	"debrief/playbook/text"
)

// turn is a user message and the work it causes, up to the next user message. The first of currentTurns begins with the query, which is not
// among its pieces.
type turn struct {
	pieces     []piece
	mark       events.Mark
	reason     string // why a turn outside the window is shown; else ""
	shown      bool
	nearWindow bool // outside the window, but near enough for a summary
}

// splitTurns splits pieces into turns. It does not copy the pieces.
func splitTurns(all []piece) []turn {
	var turns []turn
	begin := 0
	for i := range all {
		if i+1 == len(all) || all[i+1].kind == events.PartUser {
			turns = append(turns, turn{pieces: all[begin : i+1]})
			begin = i + 1
		}
	}
	return turns
}

// findEarlierTurns returns the turns before the query, oldest first: those of the window and the marked ones. Each
// interaction occurs once.
func (a *assembler) findEarlierTurns() []turn {
	type entry struct {
		*events.Interaction
		mark events.Mark
	}
	var list []entry
	position := make(map[events.ID]int) // in list
	for _, i := range a.in.Window {
		if _, duplicate := position[i.ID]; !duplicate {
			position[i.ID] = len(list)
			list = append(list, entry{Interaction: i})
		}
	}
	for k := range a.in.Marks {
		m := &a.in.Marks[k]
		if i, found := position[m.Interaction.ID]; found {
			list[i].mark = m.Mark
		} else {
			position[m.Interaction.ID] = len(list)
			list = append(list, entry{&m.Interaction, m.Mark})
		}
	}
	slices.SortStableFunc(list, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.Turn, y.Turn), x.At.Compare(y.At), cmp.Compare(x.ID, y.ID))
	})
	var turns []turn
	for _, e := range list {
		h := string(e.Execution)
		a.sources.Interactions[h] = e.Interaction
		a.sources.pieces[h] = pieces(e.Interaction)
		for _, t := range splitTurns(a.sources.pieces[h]) {
			t.mark = e.mark
			turns = append(turns, t)
		}
	}
	return turns
}

// setConversationBudget finds the turns, and adapts the configured tokens of the conversation to their texts.
func (a *assembler) setConversationBudget() {
	a.earlierTurns = a.findEarlierTurns()
	a.sources.pieces[""] = runningPieces(a.in.Running, a.in.Now)
	a.currentTurns = splitTurns(a.sources.pieces[""])
	a.currentTurns[0].pieces = a.currentTurns[0].pieces[1:] // without the query itself
	var recent []string                                     // the newest first
	for _, turns := range [][]turn{a.currentTurns, a.earlierTurns} {
		for _, t := range slices.Backward(turns) {
			for i := len(t.pieces) - 1; i >= 0 && len(recent) < budgetTexts; i-- {
				recent = append(recent, text.Clip(t.pieces[i].gist(), previewBytes))
			}
		}
	}
	slices.Reverse(recent)
	recent = append(recent, a.in.Query)
	detected := conversation.DetectTask(recent)
	in := conversation.BudgetInput{Base: a.limits.Conversation, Recent: recent, Task: cmp.Or(conversation.Task(a.in.Task), detected)}
	for _, i := range a.in.Window {
		in.Previous = cmp.Or(i.Budget, in.Previous)
	}
	a.manifest.State = string(detected)
	a.manifest.Conversation, a.manifest.BudgetReason = conversation.Budget(in)
}

// gist returns the text of a piece for scores, budgets and references: its text, and the beginnings of its arguments and outputs.
func (p *piece) gist() string {
	if p.step == nil {
		return p.text
	}
	if p.gistText == "" {
		p.gistText = p.text
		for _, c := range p.step.Calls {
			p.gistText += "\n" + c.Tool + " " + text.Clip(c.Arguments, toolTextBytes) + "\n" + text.Clip(c.Output, toolTextBytes)
		}
	}
	return p.gistText
}

// Limits of the texts that are analysed. Analysis is most of the cost of an assembly.
const (
	toolTextBytes   = 1000 // bytes of each tool argument and output
	previewBytes    = 600  // bytes of a text for budgets, references and excerpts
	similarityBytes = 300  // bytes of a text that is compared with the query
	budgetTexts     = 9    // texts for a budget, besides the query
	maxExcerptTexts = 8    // texts for excerpts
	maxRecordSteps  = 16   // steps for record lines
)

// windowSize returns the number of earlier turns to show.
func (a *assembler) windowSize() int {
	switch a.limits.Window {
	case AllTurns:
		return 1 << 20 // more than a session can have
	case AdaptiveTurns:
		return min(max(conversation.TurnCount(a.in.Query), a.limits.WindowMin), a.limits.WindowMax)
	}
	return int(a.limits.Window)
}

// selectTurns marks the turns to show: the last ones, those marked by users, and the one that the query refers to.
func (a *assembler) selectTurns() {
	n := a.windowSize()
	a.manifest.Window = n
	if a.limits.Window == AllTurns { // the manifest has the setting, not the number
		a.manifest.Window = int(AllTurns)
	}
	var before []*turn // all turns except the last one
	for _, turns := range [][]turn{a.earlierTurns, a.currentTurns} {
		for i := range turns {
			before = append(before, &turns[i])
		}
	}
	last := before[len(before)-1]
	last.shown = true
	before = before[:len(before)-1]
	for i, t := range before {
		age := len(before) - i // 1 for the turn before the last one
		switch {
		case t.mark == events.Star:
			t.shown, t.reason = true, whyStarred
		case t.mark == events.Pin:
			t.shown, t.reason = true, whyPinned
		default:
			t.shown = age <= n
			t.nearWindow = age <= 2*n // as many turns as are in the window
		}
	}
	gistOf := func(i int) string {
		gists := make([]string, len(before[i].pieces))
		for k := range gists {
			gists[k] = text.Clip(before[i].pieces[k].gist(), previewBytes)
		}
		return strings.Join(gists, "\n")
	}
	if i := conversation.FindReferenced(a.in.Query, len(before), gistOf); i >= 0 && !before[i].shown {
		before[i].shown, before[i].reason = true, whyReferred
	}
}

// addTurns fits the earlier turns and the steps since the query into their budget.
func (a *assembler) addTurns() {
	a.selectTurns()
	budget := min(a.manifest.Conversation, a.remaining)
	items, candidates := a.conversationItems(budget)
	wanted, required := 0, 0 // tokens of all items, and of the required ones
	for i := range items {
		wanted += items[i].Tokens
		if items[i].Required {
			required += items[i].Tokens
		}
	}
	history := a.estimateHidden() // tokens that addHistory would use with enough room; conversationItems has filled a.hidden
	for _, i := range a.in.Recalled[:min(len(a.in.Recalled), max(a.limits.Recall, 0))] {
		history += chat.Tokens(recalledText(i))
	}
	windowBudget := budget
	if wanted+history > budget { // the window gets the rest of the history, but at least half of the budget, and enough for the required items
		windowBudget = max(budget-history, budget/2, min(required, budget))
	}
	exceedsLimits := wanted > windowBudget || len(items) > a.limits.Items
	if a.in.Similar != nil && (exceedsLimits || a.in.Explain) { // otherwise all items are shown, whatever their scores
		for i := range items {
			items[i].Semantic = a.in.Similar(text.Clip(items[i].Text, similarityBytes))
		}
	}
	window := conversation.Fit(items, a.in.Now, conversation.Limits{Tokens: windowBudget, Items: a.limits.Items})
	a.historyBudget = budget - window.Tokens
	a.remaining -= window.Tokens
	for _, i := range window.Kept {
		p := candidates[i].part
		if handleOf(p.Ref) == "" { // a step since the query
			a.after = append(a.after, p)
		} else {
			a.before = append(a.before, p)
		}
	}
	if a.in.Explain {
		a.explainWindow(items, candidates, window)
	}
	for _, omitted := range window.Omitted {
		item, c := &items[omitted.Item], &candidates[omitted.Item]
		a.omit(c.part.Kind, omitted.Reason, item.Tokens, c.part.Ref)
		a.hidden = append(a.hidden, c.piece)
		if item.Pinned || item.Starred {
			a.warn("turn %s: marked turn omitted, no room within the limit", c.part.Ref)
		}
	}
}

// explainWindow records the scores of the items of the window.
func (a *assembler) explainWindow(items []conversation.Item, candidates []candidate, w conversation.Window) {
	for i := range items {
		s, part := &w.Scores[i], &candidates[i].part
		a.windowScores = append(a.windowScores, events.WindowScore{
			Kind: part.Kind, Ref: part.Ref, Recency: s.Recency, Flags: s.Flags, Semantic: s.Semantic, Source: s.Source, Total: s.Total,
			Priority: s.Priority, Tokens: items[i].Tokens, Shown: true, Why: part.Why,
		})
	}
	for _, left := range w.Omitted {
		a.windowScores[left.Item].Shown, a.windowScores[left.Item].Why = false, left.Reason
	}
}

// candidate is a piece with its possible part.
type candidate struct {
	piece *piece
	part  events.Part
}

// conversationItems returns the pieces of the shown turns, as items and as candidates in the same order. Each is shortened so that it cannot use the
// whole budget. Other pieces are omitted.
func (a *assembler) conversationItems(budget int) (items []conversation.Item, candidates []candidate) {
	last := &a.currentTurns[len(a.currentTurns)-1]
	var newest *piece // nil if there is no piece since the last user message
	if n := len(last.pieces); n > 0 {
		newest = &last.pieces[n-1]
	}
	for _, turns := range [][]turn{a.earlierTurns, a.currentTurns} {
		for k := range turns {
			t := &turns[k]
			if !t.shown {
				a.hide(t)
				continue
			}
			parent := -1 // index of the item with the user message of the turn
			for i := range t.pieces {
				p := &t.pieces[i]
				if !a.limits.Texts.keeps(p) {
					a.omit(p.kind, whyChatter, 0, p.ref)
					continue
				}
				share, reason := budget/4, t.reason
				if p == newest {
					share, reason = budget/2, whyNewest
				}
				keep, cost := p.fitTokens(a.limits.Texts, share)
				isLastMessage := p.kind == events.PartUser && t == last
				items = append(items, conversation.Item{
					Ref: p.ref, At: p.at, Source: source(p), Text: p.gist(), Tokens: cost, Parent: parent,
					Pinned: t.mark == events.Pin, Starred: t.mark == events.Star, Required: p == newest || t.reason == whyReferred || isLastMessage,
				})
				candidates = append(candidates, candidate{p, events.Part{Kind: p.kind, Ref: p.ref, Keep: keep, Tokens: cost, Why: reason}})
				if p.kind == events.PartUser {
					parent = len(items) - 1
				}
			}
		}
	}
	return items, candidates
}

// hide omits the pieces of a turn outside the window. The turns near the window are summarised. Older turns can only be recalled, so that the
// context does not grow with the session.
func (a *assembler) hide(t *turn) {
	for i := range t.pieces {
		p := &t.pieces[i]
		a.omit(p.kind, whyOld, p.estimateTokens(), p.ref)
		if t.nearWindow {
			a.hidden = append(a.hidden, p)
		}
	}
}

// source returns the origin of a piece.
func source(p *piece) conversation.Source {
	switch {
	case p.kind == events.PartUser:
		return conversation.User
	case p.kind == events.PartAnswer:
		return conversation.Assistant
	}
	for _, c := range p.step.Calls {
		if c.Outcome.Failed() {
			return conversation.Error
		}
	}
	return conversation.File
}

// estimateHidden estimates the tokens of the summary and the record lines.
func (a *assembler) estimateHidden() (n int) {
	if len(a.hidden) > 0 {
		n += summaryTokens
	}
	if len(a.in.Running) > 0 || len(a.hidden) > 0 {
		n += recordTokens
	}
	return n
}

// addHistory quotes the turns that are not shown, each in one form:
//
//   - a turn that is relevant to the query is recalled,
//   - another turn has excerpts of its texts and record lines of its tool calls.
func (a *assembler) addHistory() {
	budget := min(a.historyBudget, a.remaining)
	reserved := min(a.estimateHidden(), budget/2) // for the summary and the record lines
	budget -= reserved
	recalled := a.addRecalled(&budget) // lowers the budget by the tokens that it uses, as the next two calls do
	budget += reserved
	a.hidden = slices.DeleteFunc(a.hidden, func(p *piece) bool { return recalled[handleOf(p.ref)] })
	a.addSummary(&budget)
	a.addRecords(&budget)
}

// handleOf returns the handle of the interaction in the reference of a piece.
func handleOf(ref string) string {
	handle, _, _ := strings.Cut(ref, "#")
	return handle
}

// addRecalled adds recalled executions that the window does not show. It returns their handles.
func (a *assembler) addRecalled(budget *int) map[string]bool {
	shown, recalled := make(map[string]bool), make(map[string]bool) // by handle
	for _, p := range a.before {
		shown[handleOf(p.Ref)] = true
	}
	for _, i := range a.in.Recalled {
		p := events.Part{Kind: events.PartRecall, Ref: string(i.Execution), Tokens: chat.Tokens(recalledText(i)) + 1}
		if shown[p.Ref] || recalled[p.Ref] || len(recalled) >= a.limits.Recall {
			continue
		}
		if !a.reserveQuote(p.Tokens, len(a.recalledParts) == 0, budget) {
			a.omit(p.Kind, whyNoRoom, p.Tokens, p.Ref)
			continue
		}
		recalled[p.Ref] = true
		a.sources.Interactions[p.Ref] = i
		a.recalledParts = append(a.recalledParts, p)
	}
	return recalled
}

// addRecords adds record lines for the hidden tool calls, and for the newest calls if their results are shortened.
func (a *assembler) addRecords(budget *int) {
	var steps []events.Step
	for _, p := range a.hidden {
		if p.step != nil {
			steps = append(steps, *p.step)
		}
	}
	if n := len(a.after); n > 0 {
		newest := &a.after[n-1]
		isShortened := newest.Keep > 0
		current := a.currentTurns[len(a.currentTurns)-1].pieces
		if newest.Kind == events.PartTools && isShortened {
			if p := current[len(current)-1]; p.step != nil {
				steps = append(steps, *p.step)
			}
		}
	}
	steps = steps[max(0, len(steps)-maxRecordSteps):] // the newest
	if len(steps) == 0 {
		return
	}
	room := min(recordTokens, *budget-quoteOverhead-backgroundOverhead)
	lines, omitted := conversation.Rank(conversation.Lines(steps, a.in.Query), room)
	for _, line := range lines {
		p := events.Part{Kind: events.PartRecord, Text: line.Text, Tokens: chat.Tokens("- "+line.Text) + 1, Why: string(line.Relevance)}
		if !a.reserveQuote(p.Tokens, len(a.recordParts) == 0, budget) {
			omitted++
			continue
		}
		a.recordParts = append(a.recordParts, p)
	}
	for range omitted {
		a.omit(events.PartRecord, whyNoRoom, 0, "")
	}
}

// addSummary summarises the texts of the hidden turns by excerpts.
func (a *assembler) addSummary(budget *int) {
	var texts []string
	for _, p := range a.hidden {
		if p.step == nil {
			texts = append(texts, text.Clip(p.text, previewBytes))
		}
	}
	texts = texts[max(0, len(texts)-maxExcerptTexts):]
	if len(texts) == 0 {
		return
	}
	room := min(summaryTokens, *budget-quoteOverhead-backgroundOverhead)
	summary := conversation.Summarize(texts, room, a.in.Query)
	p := events.Part{Kind: events.PartSummary, Text: summary, Tokens: chat.Tokens(summary) + 1}
	if summary == "" || !a.reserveQuote(p.Tokens, true, budget) {
		a.omitParts(p)
		return
	}
	a.summary = &p
}
