package selection

import (
	"cmp"
	"slices"
	"strings"

	"debrief/events/chat"
	"debrief/playbook"
)

// choice is the work on one selection. It is used again for others, so it refers to bullets by their rows.
type choice struct {
	x    *Index
	o    Options
	room int // tokens left

	relevance []float64 // by row
	totals    []float64 // by row
	fates     []fate    // by row
	sections  []int     // by section: how many were chosen of it
	chosen    []int32   // rows
	now       int64     // that ages are counted from, as lastUse has it
	worst     float64   // total of what was chosen beside the pinned
	barred    int       // how many rows may not be chosen

	candidates []candidate // of all queues
	queues     heap[queue]
}

// candidate is a bullet that may be chosen next.
type candidate struct {
	worth    float64 // its total, less for what it repeats
	row      int32
	compared int32 // with so many of the chosen
}

// queue is what may be chosen of one section.
type queue struct {
	section    int32
	candidates heap[candidate]
}

// fill is how many bullets of a section halve what more of it are worth, three times as many quarter it: what a prompt
// of the usual size holds. So a section may take all of a prompt, if it is twice as good as the others.
const fill = DefaultMost

// compared bounds with how many of the chosen a bullet is compared: the first ones, so that work does not grow with the
// square of what a prompt holds.
const compared = 64

func (x *Index) choice(o Options) *choice {
	c, _ := x.choices.Get().(*choice)
	if c == nil {
		c = new(choice)
	}
	n := len(x.rows)
	c.x, c.o, c.room, c.worst = x, o, o.Tokens, 0
	c.relevance, c.totals = zeros(c.relevance, n), zeros(c.totals, n)
	c.fates, c.sections = zeros(c.fates, n), zeros(c.sections, len(x.sections))
	c.chosen, c.candidates, c.queues = c.chosen[:0], c.candidates[:0], c.queues[:0]
	return c
}

func (c *choice) done() {
	c.o = Options{} // which refers to what is the caller's
	c.x.choices.Put(c)
}

func zeros[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// score gives every bullet its total.
func (c *choice) score() {
	if c.o.Relevance != nil {
		for id, v := range c.o.Relevance {
			if at, there := c.x.at[id]; there && v > c.relevance[at] { // NaN is not
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

// recency is that of a bullet here.
func (c *choice) recency(r *row) float64 {
	if c.o.Still {
		return recency(c.now-(c.now-r.used)%day, r.used)
	}
	return recency(c.now, r.used)
}

// before is the order of bullets in a prompt: the pinned first, then by total, equals by id.
func (c *choice) before(a, b int32) bool { return c.compare(a, b) < 0 }

func (c *choice) compare(a, b int32) int {
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

// cost is what a bullet takes of the room, in tokens.
func (c *choice) cost(at int32) int {
	r := &c.x.rows[at]
	n := r.tokens
	if c.sections[r.section] == 0 {
		n += c.x.sections[r.section].header
	}
	if len(c.chosen) == 0 {
		n += c.x.title
	}
	return n
}

func (c *choice) take(at int32) {
	c.room -= c.cost(at)
	c.chosen = append(c.chosen, at)
	c.sections[c.x.rows[at].section]++
	c.fates[at] = shown
}

// whole chooses everything, if there is room for it.
func (c *choice) whole() bool {
	x := c.x
	if c.o.Most > 0 && len(x.rows)-c.barred > c.o.Most {
		return false
	}
	sum := x.title
	for i := range x.sections {
		sum += x.sections[i].header // 0 where nothing is in it
	}
	for i := range x.rows {
		if c.may(i) {
			sum += x.rows[i].tokens
		}
	}
	// Tokens are rounded up line by line, so the whole may be less than its parts. It is not by more than a quarter.
	if sum-sum/4 > c.o.Tokens || sum > c.o.Tokens && !c.fits() {
		return false
	}
	for at := range x.rows {
		if c.may(at) {
			c.take(int32(at))
		}
	}
	return true
}

// fits reports whether all bullets are within the budget when they are rendered.
func (c *choice) fits() bool {
	all := make([]*playbook.Bullet, 0, len(c.x.rows))
	for at := range c.x.rows {
		if c.may(at) {
			all = append(all, c.x.rows[at].bullet)
		}
	}
	return chat.Tokens(playbook.Render(all)) <= c.o.Tokens
}

// pinned chooses what is pinned, the best first, however many there are.
func (c *choice) pinned() {
	var pinned []int32
	for at := range c.x.rows {
		if c.x.rows[at].pinned {
			pinned = append(pinned, int32(at))
		}
	}
	slices.SortFunc(pinned, c.compare)
	for _, at := range pinned {
		if c.cost(at) <= c.room {
			c.take(at)
		} else {
			c.fates[at] = pinnedLong
		}
	}
}

// rest chooses what is not pinned: always what adds most to what is there already. Carbonell and Goldstein, "The use of
// MMR" (1998), choose so for prompts of documents. What a bullet adds falls as more are chosen and never rises, so the
// one in front of a queue is worked out anew and goes back if it is not the first any more; the others can wait.
func (c *choice) rest() {
	c.line()
	c.worst = 2 // more than any total
	for len(c.queues) > 0 && (c.o.Most <= 0 || len(c.chosen) < c.o.Most) {
		q := &c.queues[0]
		switch head := &q.candidates[0]; {
		case c.cost(head.row) > c.room:
			c.thin(q)
		case c.discount(head):
			q.candidates.sink(0, c.betterCandidate)
		default:
			c.worst = min(c.worst, c.totals[head.row])
			c.take(head.row)
			q.candidates.pop(c.betterCandidate)
		}
		if len(q.candidates) == 0 {
			c.queues.pop(c.betterQueue)
		} else {
			c.queues.sink(0, c.betterQueue)
		}
	}
}

// line puts everything that is not pinned in the queue of its section.
func (c *choice) line() {
	x := c.x
	c.candidates = slices.Grow(c.candidates, len(x.rows))[:len(x.rows)]
	next := make([]int, len(x.sections))
	n := 0
	for i := range x.sections {
		next[i] = n
		n += x.sections[i].rows
	}
	for at := range x.rows {
		if r := &x.rows[at]; !r.pinned && c.may(at) {
			c.candidates[next[r.section]] = candidate{worth: c.totals[at], row: int32(at)}
			next[r.section]++
		}
	}
	n = 0
	for i := range x.sections {
		if n < next[i] {
			c.queues = append(c.queues, queue{int32(i), c.candidates[n:next[i]]})
			c.queues[len(c.queues)-1].candidates.order(c.betterCandidate)
		}
		n += x.sections[i].rows
	}
	c.queues.order(c.betterQueue)
}

func (c *choice) betterCandidate(a, b *candidate) bool {
	if a.worth != b.worth {
		return a.worth > b.worth
	}
	return c.before(a.row, b.row)
}

// betterQueue compares what is in front, for less the more of the section were chosen: a quotient as D'Hondt's, by which
// sections share a prompt as parties do a parliament.
func (c *choice) betterQueue(a, b *queue) bool {
	s := a.candidates[0].worth / (1 + float64(c.sections[a.section])/fill)
	t := b.candidates[0].worth / (1 + float64(c.sections[b.section])/fill)
	if s != t {
		return s > t
	}
	return c.before(a.candidates[0].row, b.candidates[0].row)
}

// thin takes out of a queue all that there is no room for, which is never more than now.
func (c *choice) thin(q *queue) {
	q.candidates = slices.DeleteFunc(q.candidates, func(k candidate) bool {
		if c.cost(k.row) <= c.room {
			return false
		}
		c.fates[k.row] = noRoom
		return true
	})
	q.candidates.order(c.betterCandidate)
}

// discount takes off a bullet's worth what it shares with those chosen since the last look. It reports whether that
// was anything.
func (c *choice) discount(k *candidate) bool {
	worth, mine := k.worth, c.x.rows[k.row].wording
	for n := min(len(c.chosen), compared); int(k.compared) < n; k.compared++ {
		s := mine.sameness(c.x.rows[c.chosen[k.compared]].wording)
		k.worth = min(k.worth, c.totals[k.row]*(1-s))
	}
	if k.worth == worth {
		return false
	}
	c.fates[k.row] = same
	return true
}

// settle is what was chosen, in the order of a prompt, with the tokens of it as a prompt has it. Its parts were within
// the budget; if together they are not, the last ones have to go.
func (c *choice) settle() (bullets []*playbook.Bullet, tokens int) {
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
			if c.fates[last] = noRoom; c.x.rows[last].pinned {
				c.fates[last] = pinnedLong
			}
			c.chosen = c.chosen[:len(c.chosen)-1]
		}
	}
	return nil, 0
}
