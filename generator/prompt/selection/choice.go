package selection

import (
	"cmp"
	"slices"
	"strings"

	"debrief/events/chat"
	"debrief/playbook"
)

// selector is the state of one selection. A row is the index of a bullet in Index.rows. Selectors are reused, so that a selection allocates no lists
// of the length of the index. release clears only the rows that the selection has read.
type selector struct {
	x        *Index
	o        Options
	room     int  // tokens left
	weighted bool // ordered by a weighted sum

	relevant    []int32      // rows of the rankings; chooseRest sorts them, the best first
	ranks       []rank       // by row
	totals      []float64    // weighted sums by row; only if weighted
	decisions   []decision   // by row; undecided for a row without a decision
	decided     []int32      // rows with a decision
	sections    []int        // number of chosen bullets by section
	established int          // number of chosen bullets that are established, which are under the title
	drawn       int32        // row of the bullet in an experiment, or -1
	arm         playbook.Arm // of the experiment
	chosen      []int32      // rows in the order of the choice
	similar     []int32      // rows skipped as nearly equal to a chosen one
	now         int64        // reference for ages, in the unit of lastUse
	excluded    int          // number of rows excluded from the choice
	read        bool         // the rankings were read
}

// maxCompared is the number of chosen bullets that a candidate is compared with, the first ones. It keeps the work
// from growing with the square of the prompt.
const maxCompared = 64

// maxMisses is the number of consecutive bullets without room after which the search for further bullets ends.
const maxMisses = 64

func (x *Index) newSelector(o Options) *selector {
	c, _ := x.selectors.Get().(*selector)
	if c == nil {
		c = new(selector)
	}
	c.ranks, c.decisions = withLength(c.ranks, len(x.rows)), withLength(c.decisions, len(x.rows))
	c.sections = withLength(c.sections, len(x.sections))
	c.x = x
	c.o = o
	c.room = o.Tokens
	c.weighted = o.Weights != Weights{}
	c.now = 0
	c.excluded = 0
	c.established = 0
	c.read = false
	c.arm = ""
	c.drawn = -1
	return c
}

// withLength returns a list of n zero values. It reuses the memory of the given list, which must be zero up to its capacity.
func withLength[T any](list []T, n int) []T {
	if n <= cap(list) {
		return list[:n]
	}
	return make([]T, n, n+n/4)
}

// release clears the selector and returns it to the pool.
func (c *selector) release() {
	c.o = Options{} // drop references to the caller's values
	for _, row := range c.relevant {
		c.ranks[row] = rank{}
	}
	for _, row := range c.decided {
		c.decisions[row] = undecided
	}
	clear(c.sections)
	c.relevant, c.chosen, c.similar, c.decided = c.relevant[:0], c.chosen[:0], c.similar[:0], c.decided[:0]
	c.x.selectors.Put(c)
}

func (c *selector) decide(row int32, d decision) {
	if c.decisions[row] == undecided {
		c.decided = append(c.decided, row)
	}
	c.decisions[row] = d
}

// cost returns the tokens that a bullet adds to the prompt, with the title and the header that it needs first.
func (c *selector) cost(row int32) int {
	r := &c.x.rows[row]
	n := r.tokens
	if c.sections[r.section] == 0 {
		n += c.x.sections[r.section].header.tokens
	}
	if c.established == 0 && r.isEstablished() {
		n += c.x.title.tokens
	}
	return n
}

func (c *selector) add(row int32) {
	c.room -= c.cost(row)
	c.chosen = append(c.chosen, row)
	c.sections[c.x.rows[row].section]++
	if c.x.rows[row].isEstablished() {
		c.established++
	}
	c.decide(row, shown)
}

// isFull reports whether the maximum number of bullets is chosen.
func (c *selector) isFull() bool { return c.o.MaxBullets > 0 && len(c.chosen) >= c.o.MaxBullets }

// chooseAll chooses all bullets that are not excluded, if they fit. It reports whether it did.
func (c *selector) chooseAll() bool {
	x := c.x
	if c.o.MaxBullets > 0 && len(x.rows)-c.excluded > c.o.MaxBullets {
		return false
	}
	lines := x.tokens
	for _, row := range c.decided { // only the excluded rows have a decision yet
		lines -= x.rows[row].tokens
	}
	headers := x.title.tokens
	for i := range x.sections {
		headers += x.sections[i].header.tokens
	}
	// The prompt has between lower and upper tokens. Those of each line are rounded up, so all lines together may have up to a quarter less than
	// their sum. allFit counts exactly. It is slower, and needed only if the budget is between the two.
	lower, upper := lines-lines/4, lines+headers
	if lower > c.o.Tokens {
		return false
	}
	if upper > c.o.Tokens && !c.allFit() {
		return false
	}
	for row := range x.rows {
		if c.selectable(int32(row)) {
			c.add(int32(row))
		}
	}
	slices.SortFunc(c.chosen, x.byVotes) // without a ranking, bullets with bad votes are dropped first
	return true
}

// allFit reports whether all bullets together are within the budget when rendered.
func (c *selector) allFit() bool {
	all := make([]int32, 0, len(c.x.rows))
	for row := range c.x.rows {
		if c.selectable(int32(row)) {
			all = append(all, int32(row))
		}
	}
	return c.x.renderedTokens(all) <= c.o.Tokens
}

// renderedTokens returns chat.Tokens of the rendered bullets of rows, from the costs of their lines and headers.
func (x *Index) renderedTokens(rows []int32) int {
	cost, established := x.renderedCost(rows)
	switch { // the known costs are those after a line feed, but nothing is before the first line
	case established:
		cost += x.title.first - x.title.cost
	case len(rows) > 0:
		header := x.sections[x.rows[rows[0]].section].header // of the only section, newerSection
		cost += header.first - header.cost
	}
	return chat.CostTokens(cost)
}

// renderedCost returns chat.Cost of the rendered bullets of rows after a line feed, and whether one of them is established.
func (x *Index) renderedCost(rows []int32) (cost int, established bool) {
	counted := make([]bool, len(x.sections)) // the headers in cost
	for _, row := range rows {
		r := &x.rows[row]
		established = established || r.isEstablished()
		if !counted[r.section] {
			counted[r.section] = true
			cost += x.sections[r.section].header.cost
		}
		cost += r.cost
	}
	if established {
		cost += x.title.cost
	}
	return cost, established
}

// choosePinned chooses the pinned bullets that fit, the best first, even beyond MaxBullets.
func (c *selector) choosePinned() {
	pinned := slices.Clone(c.x.lists[pinnedRows])
	slices.SortFunc(pinned, c.x.byVotes)
	for _, row := range pinned {
		if c.cost(row) <= c.room {
			c.add(row)
		} else {
			c.decide(row, pinnedNoRoom)
		}
	}
}

// chooseRest chooses the other bullets. A part of the budget is for bullets that were never tried; the others are chosen in order. A bullet
// that is nearly equal to a chosen one is used only if there is room at the end.
func (c *selector) chooseRest() {
	c.readRankings()
	slices.SortFunc(c.relevant, c.byRelevance)
	if !c.weighted {
		c.explore()
	}
	misses := 0
	for row := range c.ordered() {
		if c.isFull() || misses == maxMisses {
			break
		}
		if c.choose(row) {
			misses = 0
		} else if c.decisions[row] == noRoom {
			misses++
		}
	}
	for _, row := range c.similar {
		if !c.isFull() && c.cost(row) <= c.room {
			c.add(row)
		}
	}
}

// explore chooses the bullets of an experiment and bullets that were never tried.
func (c *selector) explore() {
	reserved := c.room - c.room/exploreShare // tokens to leave for the other bullets
	maxChosen := 0                           // number of chosen bullets at which explore ends; 0 for no limit
	if c.o.MaxBullets > 0 {
		left := c.o.MaxBullets - len(c.chosen)
		if left <= 1 { // the only place is for the most relevant bullet, tried or not, but for an experiment
			if c.drawn >= 0 {
				c.choose(c.drawn)
			}
			return
		}
		maxChosen = len(c.chosen) + max(1, left/exploreShare)
	}
	misses := 0
	for row := range c.untried() {
		isEnough := maxChosen > 0 && len(c.chosen) >= maxChosen
		if isEnough || c.isFull() || misses == maxMisses {
			return
		}
		if c.room-c.cost(row) < reserved {
			misses++
			continue
		}
		if c.choose(row) {
			misses = 0
		} else {
			misses++
		}
	}
}

// choose adds a bullet unless it is decided already, does not fit, or is nearly equal to a chosen one. It reports whether it added the
// bullet. Bullets that were never tried are chosen first; they do not keep out a nearly equal bullet that was tried.
func (c *selector) choose(row int32) bool {
	if c.decisions[row] != undecided {
		return false
	}
	if c.cost(row) > c.room {
		c.decide(row, noRoom)
		return false
	}
	candidate := &c.x.rows[row]
	for _, i := range c.chosen[:min(len(c.chosen), maxCompared)] {
		chosen := &c.x.rows[i]
		if !candidate.is(untriedRows) && chosen.is(untriedRows) {
			continue
		}
		if candidate.words.nearlyEquals(chosen.words) && strings.EqualFold(candidate.bullet.When, chosen.bullet.When) {
			c.decide(row, duplicate)
			c.similar = append(c.similar, row)
			return false
		}
	}
	c.add(row)
	return true
}

// finish sets Bullets, Priority and Tokens of s, and returns the rows of the bullets, in the order of the prompt. If the chosen bullets exceed the
// budget together, it first removes those that were chosen last.
func (c *selector) finish(s *Selection) []int32 {
	for len(c.chosen) > 0 {
		s.Tokens = c.x.renderedTokens(c.chosen)
		over := s.Tokens - c.o.Tokens
		if over <= 0 {
			n := len(c.chosen)
			order := make([]int32, n)
			s.Bullets, s.Priority = make([]*playbook.Bullet, n), make([]int, n)
			for i := range s.Priority {
				s.Priority[i] = i
			}
			slices.SortFunc(s.Priority, func(a, b int) int { return c.x.byPlace(c.chosen[a], c.chosen[b]) })
			for i, p := range s.Priority {
				order[i] = c.chosen[p]
				s.Bullets[i] = c.x.rows[order[i]].bullet
			}
			return order
		}
		for over > 0 && len(c.chosen) > 0 {
			last := c.chosen[len(c.chosen)-1]
			over -= c.x.rows[last].tokens
			c.decide(last, noRoom)
			if c.x.rows[last].is(pinnedRows) {
				c.decide(last, pinnedNoRoom)
			}
			c.chosen = c.chosen[:len(c.chosen)-1]
		}
	}
	s.Tokens = 0
	return nil
}

// byPlace orders bullets as in a prompt: established bullets first and suspect ones last, then by section and id.
func (x *Index) byPlace(a, b int32) int {
	r, s := &x.rows[a], &x.rows[b]
	if r.place != s.place {
		return cmp.Compare(r.place, s.place)
	}
	return cmp.Or(strings.Compare(r.bullet.Section, s.bullet.Section), x.byID(a, b))
}

// place returns the number of the part of the prompt that a bullet belongs to, from 0 for the first part to 3 for the last one.
func place(b *playbook.Bullet) int {
	switch {
	case b.Established():
		return 0
	case b.Experiment != nil && b.Experiment.Standing == playbook.StandingSuspect:
		return 3
	case b.Status == playbook.Probation:
		return 2
	}
	return 1
}

// selectable reports whether a bullet can be chosen.
func (c *selector) selectable(row int32) bool {
	return c.decisions[row] != onProbation && c.decisions[row] != replaced
}
