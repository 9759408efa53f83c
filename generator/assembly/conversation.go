package assembly

import (
	"cmp"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/records"
	"debrief/generator/sliding"
)

// turn is what a user said and what came of it, until a user speaks again. The turn of the query begins with no piece:
// its user's message is the query.
type turn struct {
	pieces []piece
	mark   events.Mark
	why    string // it is shown, apart from being one of the last
	shown  bool
	near   bool // it comes right before those that are shown
}

func split(all []piece) []turn {
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

// earlier are the turns of the session before the query, oldest first: those of the window, and those that people
// marked, each interaction once.
func (a *assembler) earlier() []turn {
	type entry struct {
		*events.Interaction
		mark events.Mark
	}
	var list []entry
	seen := make(map[events.ID]int)
	for _, i := range a.in.Window {
		if _, twice := seen[i.ID]; !twice {
			seen[i.ID] = len(list)
			list = append(list, entry{Interaction: i})
		}
	}
	for k := range a.in.Marks {
		m := &a.in.Marks[k]
		if at, there := seen[m.Interaction.ID]; there {
			list[at].mark = m.Mark
		} else {
			seen[m.Interaction.ID] = len(list)
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
		a.sources.made.pieces[h] = pieces(e.Interaction)
		for _, t := range split(a.sources.made.pieces[h]) {
			t.mark = e.mark
			turns = append(turns, t)
		}
	}
	return turns
}

// conversationBudget is what the conversation may have: the configured tokens, adapted to what is talked about and how.
func (a *assembler) conversationBudget() {
	a.past = a.earlier()
	a.sources.made.pieces[""] = runningPieces(a.in.Running, a.in.Now)
	a.now = split(a.sources.made.pieces[""])
	a.now[0].pieces = a.now[0].pieces[1:] // the query itself
	var last []string
	for _, turns := range [][]turn{a.now, a.past} { // the newest first
		for _, t := range slices.Backward(turns) {
			for i := len(t.pieces) - 1; i >= 0 && len(last) < lookBack; i-- {
				last = append(last, events.Beginning(t.pieces[i].gist(), glanceBytes))
			}
		}
	}
	slices.Reverse(last)
	last = append(last, a.in.Query)
	state := sliding.State(last)
	in := sliding.BudgetInput{Base: a.l.Conversation, Recent: last, Task: cmp.Or(sliding.Task(a.in.Task), state)}
	for _, i := range a.in.Window {
		in.Previous = cmp.Or(i.Budget, in.Previous)
	}
	a.m.State = string(state)
	a.m.Conversation, a.m.Why = sliding.Budget(in)
}

// gist is a piece's text as scores, budgets and summaries read it.
func (p *piece) gist() string {
	if p.step == nil {
		return p.text
	}
	if p.told == "" {
		p.told = p.text
		for _, c := range p.step.Calls {
			p.told += "\n" + c.Tool + " " + events.Beginning(c.Arguments, gistBytes) + "\n" + events.Beginning(c.Output, gistBytes)
		}
	}
	return p.told
}

// How much is read, in bytes of each text and in texts: enough to tell, and what assembly takes is reading.
const (
	gistBytes   = 1000 // of each argument and output of a tool
	glanceBytes = 600  // where a look will do: budgets, references, excerpts
	likeBytes   = 300  // of what is held against the query
	lookBack    = 9    // texts that a budget looks at, besides the query
	maxSaid     = 8    // texts that excerpts are made of
	maxRecorded = 16   // steps that lines are made of
)

// wanted is how many earlier turns the context is to show.
func (a *assembler) wanted() int {
	switch a.l.Window {
	case AllTurns:
		return 1 << 20
	case AdaptiveTurns:
		return sliding.Turns(a.in.Query)
	}
	return int(a.l.Window)
}

// choose marks the turns that are to be shown: the last ones, those that people marked, and the one that the query
// refers to.
func (a *assembler) choose() {
	n := a.wanted()
	a.m.Window = n
	if a.l.Window == AllTurns {
		a.m.Window = int(AllTurns)
	}
	var before []*turn // the current one
	for i := range a.past {
		before = append(before, &a.past[i])
	}
	for i := range a.now {
		before = append(before, &a.now[i])
	}
	current := before[len(before)-1]
	before = before[:len(before)-1]
	current.shown = true
	for i, t := range before {
		switch {
		case t.mark == events.Star:
			t.shown, t.why = true, whyStarred
		case t.mark == events.Pin:
			t.shown, t.why = true, whyMarked
		default:
			t.shown = i >= len(before)-n
			t.near = i >= len(before)-2*n
		}
	}
	text := func(i int) string {
		gists := make([]string, len(before[i].pieces))
		for k := range gists {
			gists[k] = events.Beginning(before[i].pieces[k].gist(), glanceBytes)
		}
		return strings.Join(gists, "\n")
	}
	if i := sliding.Referred(a.in.Query, len(before), text); i >= 0 && !before[i].shown {
		before[i].shown, before[i].why = true, whyMeant
	}
}

// turns fits the turns of the session, and those since the query, in their share of the limit.
func (a *assembler) turns() {
	a.choose()
	conversation := min(a.m.Conversation, a.rest)
	items, of := a.items(conversation)
	want, history := 0, a.historyWants()
	for i := range items {
		want += items[i].Tokens
	}
	room := conversation
	switch { // half and half, and what one does not need the other has
	case want+history <= conversation:
	case want <= conversation/2:
	case history <= conversation/2:
		room = conversation - history
	default:
		room = conversation / 2
	}
	if a.in.Similar != nil && (want > room || len(items) > a.l.Items) {
		for i := range items {
			items[i].Semantic = a.in.Similar(events.Beginning(items[i].Text, likeBytes))
		}
	}
	fitted := sliding.Fit(items, a.in.Now, sliding.Limits{Tokens: room, Items: a.l.Items})
	a.historyBudget = conversation - fitted.Tokens
	a.spend(fitted.Tokens)
	for _, i := range slices.Sorted(slices.Values(fitted.Keep)) { // turns have an order that clocks need not have
		p := of[i].part
		if p.Ref[0] == '#' {
			a.after = append(a.after, p)
		} else {
			a.before = append(a.before, p)
		}
	}
	for _, left := range fitted.Left {
		i := left.Item
		a.leave(of[i].part.Kind, left.Why, items[i].Tokens, of[i].part.Ref)
		a.unseen = append(a.unseen, of[i].piece)
		if items[i].Pinned || items[i].Starred {
			a.degrade("turn %s: is marked and left out, the limit has no room for it", of[i].part.Ref)
		}
	}
}

// candidate is a piece with the part that it would be.
type candidate struct {
	piece *piece
	part  events.Part
}

// items are the pieces of the turns that are to be shown, cut so that none crowds out all others. What is not to be
// shown is noted as left out.
func (a *assembler) items(budget int) (items []sliding.Item, of []candidate) {
	newest := a.now[len(a.now)-1].pieces
	for _, turns := range [][]turn{a.past, a.now} {
		for k := range turns {
			t := &turns[k]
			parent := -1
			for i := range t.pieces {
				p := &t.pieces[i]
				last := len(newest) > 0 && p == &newest[len(newest)-1]
				switch {
				case !t.shown:
					a.leave(p.kind, whyOld, p.weight(), p.ref)
					// Of as many turns again there are lines and a summary. What is older is for recall to find, so that a
					// context grows no further with its session.
					if t.near {
						a.unseen = append(a.unseen, p)
					}
					continue
				case !a.l.Texts.keeps(p):
					a.leave(p.kind, whyChatter, 0, p.ref)
					continue
				}
				share := budget / 4
				if last {
					share = budget / 2
				}
				keep, cost := p.fit(a.l.Texts, share)
				part := events.Part{Kind: p.kind, Ref: p.ref, Keep: keep, Tokens: cost, Why: t.why}
				if last {
					part.Why = whyNewest
				}
				item := sliding.Item{
					Ref: p.ref, At: p.at, Source: source(p), Text: p.gist(), Tokens: cost, Parent: parent,
					Pinned: t.mark == events.Pin, Starred: t.mark == events.Star,
					Must: last || t.why == whyMeant || p.kind == events.PartUser && t == &a.now[len(a.now)-1],
				}
				if p.kind == events.PartUser {
					parent = len(items)
				}
				items = append(items, item)
				of = append(of, candidate{p, part})
			}
		}
	}
	return items, of
}

const whyChatter = "words between calls of tools"

func source(p *piece) sliding.Source {
	switch {
	case p.kind == events.PartUser:
		return sliding.User
	case p.kind == events.PartAnswer:
		return sliding.Assistant
	}
	for _, c := range p.step.Calls {
		if c.Outcome.Failed() {
			return sliding.Error
		}
	}
	return sliding.File
}

// historyWants is about what the history would take, had it all the room.
func (a *assembler) historyWants() int {
	n := 0
	for k, i := range a.in.Recalled {
		if k < a.l.Recall {
			n += a.sources.recalledTokens(i)
		}
	}
	if len(a.unseen) > 0 {
		n += summaryTokens
	}
	if len(a.in.Running) > 0 || len(a.unseen) > 0 {
		n += recordTokens
	}
	return n
}

// history quotes what is not shown turn by turn: a line on each call of a tool, a summary of the older turns, and what
// was recalled.
func (a *assembler) history() {
	budget := min(a.historyBudget, a.rest)
	a.recordLines(&budget)
	a.summarise(&budget)
	n, shown := 0, make(map[string]bool) // by handle; of the session's window not all is shown
	for _, p := range a.before {
		handle, _, _ := strings.Cut(p.Ref, "#")
		shown[handle] = true
	}
	for _, i := range a.in.Recalled {
		p := events.Part{Kind: events.PartRecall, Ref: string(i.Execution), Tokens: a.sources.recalledTokens(i) + 1}
		if shown[p.Ref] || n >= a.l.Recall {
			continue
		}
		if !a.quote(p.Tokens, len(a.recalled) == 0, &budget) {
			a.leave(p.Kind, whyNoRoom, p.Tokens, p.Ref)
			continue
		}
		n++
		shown[p.Ref] = true
		a.sources.Interactions[p.Ref] = i
		a.recalled = append(a.recalled, p)
	}
}

// recordLines are those of the newest call, so that the turn after it already sees what it showed, and of the calls that
// are not shown themselves.
func (a *assembler) recordLines(budget *int) {
	var steps []events.Step
	for _, p := range a.unseen {
		if p.step != nil {
			steps = append(steps, *p.step)
		}
	}
	if n := len(a.after); n > 0 && a.after[n-1].Kind == events.PartTools {
		current := a.now[len(a.now)-1].pieces
		if p := current[len(current)-1]; p.step != nil {
			steps = append(steps, *p.step)
		}
	}
	steps = steps[max(0, len(steps)-maxRecorded):]
	if len(steps) == 0 {
		return
	}
	room := min(recordTokens, *budget-quotationFrame-backgroundFrame)
	lines, left := records.Rank(records.Lines(steps, a.in.Query), room)
	for _, line := range lines {
		p := events.Part{Kind: events.PartRecord, Text: line.Text, Tokens: chat.Tokens("- "+line.Text) + 1, Why: string(line.Relevance)}
		if !a.quote(p.Tokens, len(a.lines) == 0, budget) {
			left++
			continue
		}
		a.lines = append(a.lines, p)
	}
	for range left {
		a.leave(events.PartRecord, whyNoRoom, 0, "")
	}
}

// summarise says what the turns were about that are not shown: in a model's words where it has covered them, in excerpts
// of the others.
func (a *assembler) summarise(budget *int) {
	room := min(summaryTokens, *budget-quotationFrame-backgroundFrame)
	text, through := "", 0
	if s := a.in.Summary; s != nil && s.Text != "" {
		if keep, cost := fitText(clean(s.Text), room); cost <= room {
			text, through = shorten(s.Text, keep), s.Through
			room -= cost + 1
		}
	}
	var said []string
	for _, p := range a.unseen {
		if p.step == nil && (p.turn == 0 || p.turn > through) {
			said = append(said, events.Beginning(p.text, glanceBytes))
		}
	}
	said = said[max(0, len(said)-maxSaid):]
	if excerpts := sliding.Compress(said, room, a.in.Query); excerpts != "" {
		if text != "" {
			text += "\n"
		}
		text += excerpts
	}
	if text == "" {
		return
	}
	p := events.Part{Kind: events.PartSummary, Text: text, Tokens: chat.Tokens(text) + 1}
	if a.quote(p.Tokens, true, budget) {
		a.summary = &p
	}
}
