package selection

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"debrief/playbook/text"
)

// rank is the position of a bullet in the rankings.
type rank struct {
	best  float64 // best position in a ranking, from 1, divided by the reliability of the ranking; 0 if no ranking has the bullet
	sum   float64 // of reliability/(fusion+position) over the rankings
	score float64 // highest score in any ranking
}

// fusion is the constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms
// Condorcet and individual Rank Learning Methods", 2009). Here the fused rank only breaks ties.
const fusion = 60

// readRankings records the positions of bullets in the rankings.
func (c *selector) readRankings() {
	if c.o.Rankings == nil || c.read {
		return
	}
	c.read = true
	for i, ranking := range c.o.Rankings() {
		reliability, position := c.reliability(i), 0
		for _, r := range ranking {
			row, known := c.x.rowOf[r.Bullet]
			if !known {
				continue
			}
			position++
			k := &c.ranks[row]
			if k.best == 0 {
				c.relevant = append(c.relevant, row)
			}
			if best := float64(position) / reliability; k.best == 0 || best < k.best {
				k.best = best
			}
			k.sum += reliability / float64(fusion+position)
			if r.Score > k.score { // false for NaN
				k.score = min(r.Score, 1)
			}
		}
	}
}

// reliability returns the reliability of a ranking.
func (c *selector) reliability(ranking int) float64 {
	if ranking < len(c.o.Reliability) {
		if r := c.o.Reliability[ranking]; r > 0 && r < 1 {
			return r
		}
	}
	return 1
}

// total returns the value that a bullet is ordered by: its weighted sum, or else the reciprocal of its best rank.
func (c *selector) total(row int32) float64 {
	switch k := c.ranks[row]; {
	case c.weighted:
		return c.totals[row]
	case k.best > 0:
		return 1 / k.best
	}
	return 0
}

// byRelevance orders bullets by their best rank in any ranking, divided by its reliability. So each ranking gets its best
// bullets into the prompt in turn, a reliable one more often, and a ranking that finds nothing useful costs only its share.
// Ties are broken by all ranks together and then by votes.
func (c *selector) byRelevance(a, b int32) int {
	j, k := &c.ranks[a], &c.ranks[b]
	if j.best != k.best {
		switch {
		case j.best == 0:
			return 1
		case k.best == 0:
			return -1
		}
		return cmp.Compare(j.best, k.best)
	}
	if j.sum != k.sum {
		return cmp.Compare(k.sum, j.sum)
	}
	return cmp.Or(cmp.Compare(c.x.rows[a].place, c.x.rows[b].place), c.x.byVotes(a, b))
}

// byVotes orders bullets by effectiveness, then the one used last, then by id.
func (x *Index) byVotes(a, b int32) int {
	r, s := &x.rows[a], &x.rows[b]
	return cmp.Or(
		cmp.Compare(s.effectiveness, r.effectiveness), cmp.Compare(s.used, r.used), strings.Compare(string(r.bullet.ID), string(s.bullet.ID)),
	)
}

// byTotal orders bullets by their weighted sum, then by id.
func (c *selector) byTotal(a, b int32) int {
	return cmp.Or(
		cmp.Compare(c.totals[b], c.totals[a]), strings.Compare(string(c.x.rows[a].bullet.ID), string(c.x.rows[b].bullet.ID)),
	)
}

// compare orders bullets by the order of this selection: by total with weights, else by relevance and votes.
func (c *selector) compare(a, b int32) int {
	if c.weighted {
		return c.byTotal(a, b)
	}
	return c.byRelevance(a, b)
}

// exploreShare reserves 1/exploreShare of the budget for bullets that were never tried.
const exploreShare = 5

// untried yields the bullet of an experiment, then those that were never tried: first the relevant ones, in order, then
// others in a pseudo-random order that depends on the seed. It may yield a bullet twice: the caller skips those that it has decided on.
func (c *selector) untried() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		if c.drawn >= 0 && !yield(c.drawn) {
			return
		}
		for _, row := range c.relevant {
			if c.x.rows[row].is(untriedRows) && !yield(row) {
				return
			}
		}
		start := uint32(text.Hash(c.o.Seed))
		for i := range uint32(buckets) {
			rows := slices.Clone(c.x.untried[(start+i)%buckets])
			slices.SortFunc(rows, c.x.byID)
			for _, row := range rows {
				if !yield(row) {
					return
				}
			}
		}
	}
}

func (x *Index) byID(a, b int32) int {
	return strings.Compare(string(x.rows[a].bullet.ID), string(x.rows[b].bullet.ID))
}

// ordered yields all bullets in the order of this selection. Without weights it reads the bullets that no ranking has only
// if the caller wants more than the relevant ones.
func (c *selector) ordered() iter.Seq[int32] {
	if c.weighted {
		return c.byWeight()
	}
	return func(yield func(int32) bool) {
		for _, row := range c.relevant {
			if !yield(row) {
				return
			}
		}
		for _, row := range c.x.best() {
			if c.ranks[row].best == 0 && !yield(row) {
				return
			}
		}
	}
}

// weigh computes the weighted sums of all bullets.
func (c *selector) weigh() {
	w := c.o.Weights.shares(c.o.Rankings != nil)
	c.totals = slices.Grow(c.totals[:0], len(c.x.rows))[:len(c.x.rows)]
	for row := range c.x.rows {
		r := &c.x.rows[row]
		c.totals[row] = w.Effectiveness*r.effectiveness + w.Recency*c.recency(r) + w.Relevance*c.ranks[row].score
	}
}

// byWeight yields all bullets by their weighted sum.
func (c *selector) byWeight() iter.Seq[int32] {
	all := make([]int32, len(c.x.rows))
	for row := range all {
		all[row] = int32(row)
	}
	slices.SortFunc(all, c.byTotal)
	return slices.Values(all)
}

// setTime sets the reference for ages.
func (c *selector) setTime() {
	c.now = c.o.Now.UnixMicro()
	if !c.o.TimeIndependent {
		return
	}
	c.now = 0
	for row := range c.x.rows {
		c.now = max(c.now, c.x.rows[row].used)
	}
}

// recency returns the recency of a bullet. Without the current time it counts whole days before the last use of any bullet.
func (c *selector) recency(r *rowData) float64 {
	age := c.now - r.used
	if c.o.TimeIndependent {
		age -= age % day
	}
	return recency(r.used+age, r.used)
}
