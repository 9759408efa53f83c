package selection

import (
	"strings"
	"sync"

	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/text"
)

// Index prepares a playbook for selection. It holds the shown bullets, and with a strict gate also those on probation,
// with all data that does not depend on a task. Select may be called concurrently, but not during Update.
type Index struct {
	mark    playbook.Mark // of the playbook at the last Update
	gate    playbook.Gate
	rows    []rowData // in no order
	rowOf   map[playbook.BulletID]int32
	lists   [rowKinds][]int32 // rows of each kind, in no order; that of untriedRows is empty, see untried
	shares  map[int]int       // number of rows by share, without share 0
	untried [buckets][]int32  // the untriedRows, by the hash of the id, in no order
	tokens  int               // sum of the tokens of the lines of all rows

	sections     []section
	sectionIDs   map[string]int32 // index in sections, by name
	freeSections []int32          // unused elements of sections

	votes     bool       // the bullets are shown with their votes
	title     size       // of the title above the established bullets
	round     uint32     // number of calls of Update that read the whole playbook
	topRows   *sync.Once // fills top at the first call of best after an Update
	top       []int32    // result of best
	selectors sync.Pool  // of *selector
}

// The kinds of rows that have a list.
const (
	pinnedRows    = iota // with a pin
	probationRows        // on probation
	untriedRows          // without a pin, votes and outcomes
	rowKinds             // number of kinds
)

// buckets is the number of lists in Index.untried. A selection begins with the list that its seed selects, so that its time does not depend on
// the number of bullets that were never tried.
const buckets = 1 << 10

// rowData holds the data of a bullet that does not depend on a task.
type rowData struct {
	bullet        *playbook.Bullet
	effectiveness float64
	used          int64 // result of lastUse
	size                // of the lines of the bullet
	section       int32
	round         uint32          // value of Index.round at the last Update that read the whole playbook and found the bullet
	places        [rowKinds]int32 // position in each list from 1; 0 if it is not in the list
	hash          uint32          // of the id
	share         int             // result of shareOf
	place         int             // result of place
	words         *wordSet        // of the content without the condition
}

// is reports whether the row is of a kind.
func (r *rowData) is(kind int) bool { return r.places[kind] > 0 }

// isEstablished reports whether the bullet is established.
func (r *rowData) isEstablished() bool { return r.place == 0 }

// newerSection is the name of the section of all bullets that are not established. No bullet has it.
const newerSection = "\x00newer"

// section is a section of the prompt.
type section struct {
	name   string
	header size
	rows   int // number of rows in the section
}

// size is the size of lines in a prompt. The cost of a text is the sum of the costs of its lines. The sum of their tokens is slightly too large,
// because each number is rounded up.
type size struct {
	tokens int // after a line feed; see asFirst
	cost   int // by chat.Cost, after a line feed
	first  int // by chat.Cost, if nothing is before the lines
}

func sizeOf(lines string) size {
	cost := chat.Cost("\n", lines)
	return size{tokens: chat.CostTokens(cost), cost: cost, first: chat.Cost("", lines)}
}

// asFirst returns the size of lines that can be the first of a prompt, with their tokens there.
func (s size) asFirst() size {
	s.tokens = chat.CostTokens(max(s.first, s.cost))
	return s
}

// NewIndex returns the index of an empty playbook. Its bullets are shown as playbook.RenderPrompt formats them, with or without
// votes.
func NewIndex(votes bool) *Index {
	return &Index{votes: votes, rowOf: make(map[playbook.BulletID]int32), sectionIDs: make(map[string]int32), shares: make(map[int]int), topRows: new(sync.Once)}
}

// render formats bullets as they are in a prompt.
func (x *Index) render(bullets []*playbook.Bullet) string {
	return text.Clean(playbook.RenderPrompt(bullets, x.votes))
}

// Len returns the number of bullets that can be selected.
func (x *Index) Len() int { return len(x.rows) }

// Tokens returns the sum of the tokens of all bullets, each rounded up, without headers.
func (x *Index) Tokens() int { return x.tokens }

// Cost returns chat.Cost of the rendered text of selected bullets after a line feed. It adds known costs of lines.
func (x *Index) Cost(bullets []*playbook.Bullet) int {
	rows := make([]int32, 0, len(bullets))
	for _, b := range bullets {
		if row, ok := x.rowOf[b.ID]; ok {
			rows = append(rows, row)
		}
	}
	cost, _ := x.renderedCost(rows)
	return cost
}

// Update changes the index to a playbook of any version. It returns the selectable bullets that are new or changed, and the ids of the bullets
// that are no longer selectable, both in no order, for the other indexes of the caller.
func (x *Index) Update(p *playbook.Playbook) (changed []*playbook.Bullet, dropped []playbook.BulletID) {
	gate, _ := p.Gate()
	ids, now, known := p.ChangedSince(x.mark) // not known: any bullet may have changed
	known = known && gate == x.gate
	x.gate = gate
	x.mark = now
	x.topRows = new(sync.Once)
	if known {
		for _, id := range ids {
			if b := p.Bullet(id); b != nil && x.isSelectable(b) {
				if _, isNew := x.put(b); isNew {
					changed = append(changed, b)
				}
			} else if row, ok := x.rowOf[id]; ok {
				dropped = append(dropped, id)
				x.drop(row)
			}
		}
		return changed, dropped
	}
	x.round++
	found := 0
	for b := range p.All() {
		if !x.isSelectable(b) {
			continue
		}
		found++
		row, isNew := x.put(b)
		x.rows[row].round = x.round
		if isNew {
			changed = append(changed, b)
		}
	}
	for row := len(x.rows) - 1; len(x.rows) > found; row-- { // drop the rows that this round did not find
		if r := &x.rows[row]; r.round != x.round {
			dropped = append(dropped, r.bullet.ID)
			x.drop(int32(row))
		}
	}
	return changed, dropped
}

// isSelectable reports whether a bullet belongs into the index.
func (x *Index) isSelectable(b *playbook.Bullet) bool {
	return admit.Decide(admit.Text{Use: admit.UseBullet, State: admit.StateOf(b), Gate: x.gate}).Shown()
}

// put stores a bullet and returns its row. isNew is false if the row already had the same pointer: bullets are immutable.
func (x *Index) put(b *playbook.Bullet) (row int32, isNew bool) {
	row, ok := x.rowOf[b.ID]
	if !ok {
		row = int32(len(x.rows))
		x.rowOf[b.ID] = row
		x.rows = append(x.rows, rowData{section: -1})
	}
	if x.rows[row].bullet == b {
		return row, false
	}
	x.index(row, b)
	return row, true
}

// index stores a bullet in a row.
func (x *Index) index(row int32, b *playbook.Bullet) {
	r := &x.rows[row]
	title, header, own := x.renderedParts(b)
	section := b.Section
	if !b.Established() {
		section = newerSection
	}
	if r.words == nil || r.bullet.Content != b.Content {
		r.words = newWordSet(b.Advice())
	}
	if r.section < 0 || x.sections[r.section].name != section {
		x.leaveSection(r.section)
		r.section = x.joinSection(section, header)
	}
	x.tokens -= r.tokens
	r.bullet, r.size = b, sizeOf(own)
	x.tokens += r.tokens
	r.effectiveness, r.used = effectiveness(b), lastUse(b)
	r.place = place(b)
	if title != "" {
		x.title = sizeOf(title).asFirst()
	}
	r.hash = uint32(text.Hash(string(b.ID)))
	x.setMember(pinnedRows, row, b.Pinned)
	x.setMember(probationRows, row, b.Status == playbook.Probation)
	x.countShare(r.share, -1)
	r.share = shareOf(b)
	x.countShare(r.share, 1)
	x.setMember(untriedRows, row, !b.Pinned && isUntried(b))
}

// isUntried reports whether a bullet has no votes and no outcomes yet.
func isUntried(b *playbook.Bullet) bool {
	e := b.CurrentExperiment()
	return b.Helpful+b.Harmful+b.Neutral <= 0 && e.Outcomes() == 0
}

// list returns the list that holds a row if the row is of a kind.
func (x *Index) list(kind int, r *rowData) *[]int32 {
	if kind == untriedRows {
		return &x.untried[r.hash%buckets]
	}
	return &x.lists[kind]
}

// setMember adds a row to a list or removes it. The last row of the list moves into the free position.
func (x *Index) setMember(kind int, row int32, member bool) {
	r := &x.rows[row]
	rows := x.list(kind, r)
	switch {
	case member && !r.is(kind):
		*rows = append(*rows, row)
		r.places[kind] = int32(len(*rows))
	case !member && r.is(kind):
		last := (*rows)[len(*rows)-1]
		(*rows)[r.places[kind]-1] = last
		x.rows[last].places[kind] = r.places[kind]
		r.places[kind] = 0
		*rows = (*rows)[:len(*rows)-1]
	}
}

// drop removes a row; the last row moves into its place.
func (x *Index) drop(row int32) {
	r := &x.rows[row]
	x.leaveSection(r.section)
	x.tokens -= r.tokens
	for kind := range rowKinds {
		x.setMember(kind, row, false)
	}
	x.countShare(r.share, -1)
	delete(x.rowOf, r.bullet.ID)
	last := int32(len(x.rows) - 1)
	if row != last {
		x.rows[row] = x.rows[last]
		x.rowOf[x.rows[row].bullet.ID] = row
		for kind, place := range x.rows[row].places {
			if place > 0 {
				(*x.list(kind, &x.rows[row]))[place-1] = row
			}
		}
	}
	x.rows[last] = rowData{}
	x.rows = x.rows[:last]
}

// maxTop is the number of bullets with the best votes that fill a prompt after the relevant ones.
const maxTop = 1024

// best returns the bullets with the best votes, at most maxTop, the best first. It reads all rows once for each version.
func (x *Index) best() []int32 {
	x.topRows.Do(func() {
		top := playbook.NewTop(maxTop, x.byVotes)
		for row := range x.rows {
			top.Offer(int32(row))
		}
		x.top = top.Sorted()
	})
	return x.top
}

// joinSection adds a bullet to a section.
func (x *Index) joinSection(name, header string) int32 {
	i, ok := x.sectionIDs[name]
	if !ok {
		if n := len(x.freeSections); n > 0 {
			i, x.freeSections = x.freeSections[n-1], x.freeSections[:n-1]
		} else {
			i = int32(len(x.sections))
			x.sections = append(x.sections, section{})
		}
		x.sectionIDs[name] = i
		x.sections[i] = section{name: name, header: sizeOf(header)}
		if name == newerSection { // it has a title only after established bullets
			x.sections[i].header = x.sections[i].header.asFirst()
		}
	}
	x.sections[i].rows++
	return i
}

// leaveSection removes a bullet from a section; it ignores -1.
func (x *Index) leaveSection(i int32) {
	if i < 0 {
		return
	}
	s := &x.sections[i]
	s.rows--
	if s.rows == 0 {
		delete(x.sectionIDs, s.name)
		*s = section{}
		x.freeSections = append(x.freeSections, i)
	}
}

// renderedParts renders a bullet and returns the title of the playbook, the header of the section and the lines of the bullet. It finds the
// lines as what a second copy of the bullet adds.
func (x *Index) renderedParts(b *playbook.Bullet) (title, header, own string) {
	once := x.render([]*playbook.Bullet{b})
	own = x.render([]*playbook.Bullet{b, b})[len(once):]
	above := once[:len(once)-len(own)]
	if !b.Established() { // these bullets have one header and no title
		return "", above, own
	}
	end := strings.IndexByte(above, '\n') + 1
	return above[:end], above[end:], own
}
