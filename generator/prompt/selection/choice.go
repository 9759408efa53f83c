package selection

import (
	"cmp"
	"slices"
	"strings"

	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/heap"
)

// selector is the state of one selection. It is reused, so it refers to bullets by row.
type selector struct {
	x    *Index
	o    Options
	room int // tokens left

	relevance  []float64  // by row
	totals     []float64  // by row
	decisions  []decision // by row
	sections   []int      // by section: how many were chosen of it
	chosen     []int32    // rows
	now        int64      // reference for ages, in the unit of lastUse
	worstTotal float64    // lowest total of a chosen bullet that is not pinned
	excluded   int        // number of rows excluded from the choice

	candidates []candidate // backing array of all queues
	queues     heap.Heap[queue]
}

// candidate is a bullet that can be chosen next.
type candidate struct {
	value        float64 // its total, reduced by its similarity to chosen bullets
	row          int32
	comparedWith int32 // number of chosen bullets compared so far
}

// queue holds the candidates of one section.
type queue struct {
	section    int32
	candidates heap.Heap[candidate]
}

// sectionHalving is the number of chosen bullets of a section that halves the value of its other bullets; three times
// as many quarter it. It is the size of a usual prompt, so a section fills a prompt only if its bullets are twice as
// good.
const sectionHalving = DefaultMost

// maxCompared is the number of chosen bullets that a candidate is compared with, the first ones. It keeps the work
// from growing with the square of the prompt.
const maxCompared = 64

func (x *Index) newSelector(o Options) *selector {
	c, _ := x.selectors.Get().(*selector)
	if c == nil {
		c = new(selector)
	}
	n := len(x.rows)
	c.x, c.o, c.room, c.worstTotal = x, o, o.Tokens, 0
	c.relevance, c.totals = zeros(c.relevance, n), zeros(c.totals, n)
	c.decisions, c.sections = zeros(c.decisions, n), zeros(c.sections, len(x.sections))
	c.chosen, c.candidates, c.queues = c.chosen[:0], c.candidates[:0], c.queues[:0]
	return c
}

func (c *selector) release() {
	c.o = Options{} // drop references to the caller's values
	c.x.selectors.Put(c)
}

func zeros[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// score computes the total of every bullet.
func (c *selector) score() {
	if c.o.Relevance != nil {
		for id, v := range c.o.Relevance {
			if at, there := c.x.rowOf[id]; there && v > c.relevance[at] { // false for NaN
				c.relevance[at] = min(v, 1)
			}
		}
	}
	w := c.o.Weights.shares(c.o.Relevance != nil)
	if c.now = c.o.Now.UnixMicro(); c.o.Still {
		c.now = 0
		for at := range c.x.rows {
			c.now = max(c.now, c.x.rows[at].used)
		}
	}
	for at := range c.x.rows {
		r := &c.x.rows[at]
		c.totals[at] = w.Effectiveness*r.effectiveness + w.Recency*c.recency(r) + w.Relevance*c.relevance[at]
	}
}

// recency returns the recency of a bullet.
func (c *selector) recency(r *row) float64 {
	if c.o.Still {
		return recency(c.now-(c.now-r.used)%day, r.used)
	}
	return recency(c.now, r.used)
}

// before orders bullets in a prompt: pinned bullets first, then by total, then by id.
func (c *selector) before(a, b int32) bool { return c.compare(a, b) < 0 }

func (c *selector) compare(a, b int32) int {
	r, s := &c.x.rows[a], &c.x.rows[b]
	switch {
	case r.pinned != s.pinned:
		if r.pinned {
			return -1
		}
		return 1
	case c.totals[a] != c.totals[b]:
		return cmp.Compare(c.totals[b], c.totals[a])
	}
	return strings.Compare(string(r.bullet.ID), string(s.bullet.ID))
}

// cost returns the tokens that a bullet adds.
func (c *selector) cost(at int32) int {
	r := &c.x.rows[at]
	n := r.tokens
	if c.sections[r.section] == 0 {
		n += c.x.sections[r.section].header
	}
	if len(c.chosen) == 0 {
		n += c.x.titleTokens
	}
	return n
}

func (c *selector) add(at int32) {
	c.room -= c.cost(at)
	c.chosen = append(c.chosen, at)
	c.sections[c.x.rows[at].section]++
	c.decisions[at] = shown
}

// chooseAll chooses all bullets if they fit.
func (c *selector) chooseAll() bool {
	x := c.x
	if c.o.Most > 0 && len(x.rows)-c.excluded > c.o.Most {
		return false
	}
	sum := x.titleTokens
	for i := range x.sections {
		sum += x.sections[i].header // 0 if the section is empty
	}
	for i := range x.rows {
		if c.selectable(i) {
			sum += x.rows[i].tokens
		}
	}
	// Tokens are rounded up per line, so the whole may cost up to a quarter less than the sum.
	if sum-sum/4 > c.o.Tokens || sum > c.o.Tokens && !c.allFit() {
		return false
	}
	for at := range x.rows {
		if c.selectable(at) {
			c.add(int32(at))
		}
	}
	return true
}

// allFit reports whether all bullets together are within the budget when rendered.
func (c *selector) allFit() bool {
	all := make([]*playbook.Bullet, 0, len(c.x.rows))
	for at := range c.x.rows {
		if c.selectable(at) {
			all = append(all, c.x.rows[at].bullet)
		}
	}
	return chat.Tokens(playbook.Render(all)) <= c.o.Tokens
}

// choosePinned chooses the pinned bullets that fit, the best first, in any number.
func (c *selector) choosePinned() {
	var pinned []int32
	for at := range c.x.rows {
		if c.x.rows[at].pinned {
			pinned = append(pinned, int32(at))
		}
	}
	slices.SortFunc(pinned, c.compare)
	for _, at := range pinned {
		if c.cost(at) <= c.room {
			c.add(at)
		} else {
			c.decisions[at] = pinnedNoRoom
		}
	}
}

// chooseRest chooses the other bullets: each time the one that adds the most to the chosen ones, as maximal marginal
// relevance does (Carbonell and Goldstein, "The use of MMR", 1998). The value of a bullet never rises while others
// are chosen. So it is enough to recompute the first candidate of a queue, and to move it back if another one is
// now better.
func (c *selector) chooseRest() {
	c.fillQueues()
	c.worstTotal = 2 // above any total
	for len(c.queues) > 0 && (c.o.Most <= 0 || len(c.chosen) < c.o.Most) {
		q := &c.queues[0]
		switch head := &q.candidates[0]; {
		case c.cost(head.row) > c.room:
			c.dropTooLong(q)
		case c.discount(head):
			q.candidates.Fix(c.betterCandidate)
		default:
			c.worstTotal = min(c.worstTotal, c.totals[head.row])
			c.add(head.row)
			q.candidates.Pop(c.betterCandidate)
		}
		if len(q.candidates) == 0 {
			c.queues.Pop(c.betterQueue)
		} else {
			c.queues.Fix(c.betterQueue)
		}
	}
}

// fillQueues puts every bullet that is not pinned into the queue of its section.
func (c *selector) fillQueues() {
	x := c.x
	c.candidates = slices.Grow(c.candidates, len(x.rows))[:len(x.rows)]
	next := make([]int, len(x.sections))
	n := 0
	for i := range x.sections {
		next[i] = n
		n += x.sections[i].rows
	}
	for at := range x.rows {
		if r := &x.rows[at]; !r.pinned && c.selectable(at) {
			c.candidates[next[r.section]] = candidate{value: c.totals[at], row: int32(at)}
			next[r.section]++
		}
	}
	n = 0
	for i := range x.sections {
		if n < next[i] {
			c.queues = append(c.queues, queue{int32(i), c.candidates[n:next[i]]})
			c.queues[len(c.queues)-1].candidates.Init(c.betterCandidate)
		}
		n += x.sections[i].rows
	}
	c.queues.Init(c.betterQueue)
}

func (c *selector) betterCandidate(a, b *candidate) bool {
	if a.value != b.value {
		return a.value > b.value
	}
	return c.before(a.row, b.row)
}

// betterQueue compares the first candidates. It divides by the number of chosen bullets of the section, like
// D'Hondt's method for seats in a parliament.
func (c *selector) betterQueue(a, b *queue) bool {
	s := a.candidates[0].value / (1 + float64(c.sections[a.section])/sectionHalving)
	t := b.candidates[0].value / (1 + float64(c.sections[b.section])/sectionHalving)
	if s != t {
		return s > t
	}
	return c.before(a.candidates[0].row, b.candidates[0].row)
}

// dropTooLong removes the candidates that do not fit. The free space only shrinks, so they will not fit later.
func (c *selector) dropTooLong(q *queue) {
	q.candidates = slices.DeleteFunc(q.candidates, func(k candidate) bool {
		if c.cost(k.row) <= c.room {
			return false
		}
		c.decisions[k.row] = noRoom
		return true
	})
	q.candidates.Init(c.betterCandidate)
}

// discount reduces the value of a candidate by its similarity to the bullets chosen since the last call. It reports
// whether the value changed.
func (c *selector) discount(k *candidate) bool {
	worth, mine := k.value, c.x.rows[k.row].words
	for n := min(len(c.chosen), maxCompared); int(k.comparedWith) < n; k.comparedWith++ {
		s := mine.similarity(c.x.rows[c.chosen[k.comparedWith]].words)
		k.value = min(k.value, c.totals[k.row]*(1-s))
	}
	if k.value == worth {
		return false
	}
	c.decisions[k.row] = duplicate
	return true
}

// finish returns the chosen bullets in the order of the prompt with their tokens. If together they exceed the budget,
// it removes the last ones.
func (c *selector) finish() (bullets []*playbook.Bullet, tokens int) {
	slices.SortFunc(c.chosen, c.compare)
	for len(c.chosen) > 0 {
		bullets = bullets[:0]
		for _, at := range c.chosen {
			bullets = append(bullets, c.x.rows[at].bullet)
		}
		tokens = chat.Tokens(playbook.Render(bullets))
		over := tokens - c.o.Tokens
		if over <= 0 {
			return bullets, tokens
		}
		for over > 0 && len(c.chosen) > 0 {
			last := c.chosen[len(c.chosen)-1]
			over -= c.x.rows[last].tokens
			if c.decisions[last] = noRoom; c.x.rows[last].pinned {
				c.decisions[last] = pinnedNoRoom
			}
			c.chosen = c.chosen[:len(c.chosen)-1]
		}
	}
	return nil, 0
}
