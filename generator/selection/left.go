package selection

import (
	"fmt"
	"slices"

	"debrief/events"
)

// How much is told of what was left out.
const (
	maxRefs   = 10  // of each reason
	maxScores = 100 // shown ones included, unless there are more of them
)

// PinnedNoRoom is why a bullet is not shown that people pinned.
const PinnedNoRoom = "pinned, and no room"

// fate is why a bullet is shown, or not.
type fate uint8

const (
	passed     fate = iota // not among the best
	crowded                // better than what was chosen, but for the others of its section
	same                   // nearly the same as something that was chosen
	noRoom                 // too long for what was left of the budget
	pinnedLong             // the same of one that is pinned
	waits                  // on probation, where nothing is tried
	elsewhere              // on probation, and does not bear on the query
	withheld               // on probation, and chance said so
	shown
	fates
)

// why says it to people.
func (c *choice) why(at int32) string {
	switch f := c.fate(at); {
	case f == shown && c.x.rows[at].pinned:
		return "pinned"
	case f == shown && c.x.rows[at].probation:
		return "shown by chance"
	case f == shown:
		return ""
	default:
		return c.reason(f)
	}
}

func (c *choice) reason(f fate) string {
	switch f {
	case crowded:
		return "enough of its section"
	case same:
		return "nearly the same as another"
	case noRoom:
		return "no room"
	case pinnedLong:
		return PinnedNoRoom
	case waits:
		return "on probation"
	case elsewhere:
		return "on probation, and not about this"
	case withheld:
		return "withheld by chance"
	}
	return fmt.Sprintf("not among the best %d", c.o.Most)
}

// fate is the fate of a bullet when all is chosen.
func (c *choice) fate(at int32) fate {
	if f := c.fates[at]; f != passed || c.totals[at] <= c.worst {
		return f
	}
	return crowded
}

// left counts what is not shown.
func (c *choice) left() []events.LeftOut {
	var sums [fates]events.LeftOut
	var first [fates]best
	for at := range c.x.rows {
		f := c.fate(int32(at))
		sums[f].Count++
		sums[f].Tokens += c.x.rows[at].tokens
		if f != shown {
			first[f].add(c, int32(at), maxRefs)
		}
	}
	var all []events.LeftOut
	for f, sum := range sums {
		if fate(f) == shown || sum.Count == 0 {
			continue
		}
		sum.Kind, sum.Why = events.PartBullet, c.reason(fate(f))
		for _, at := range first[f] {
			sum.Refs = append(sum.Refs, string(c.x.rows[at].bullet.ID))
		}
		all = append(all, sum)
	}
	return all
}

// scores are those of what is shown and of the best of the rest.
func (c *choice) scores() []events.BulletScore {
	var others best
	if n := maxScores - len(c.chosen); n > 0 {
		for at := range c.x.rows {
			if f := c.fates[at]; f != shown && f != withheld {
				others.add(c, int32(at), n)
			}
		}
	}
	all := make([]events.BulletScore, 0, len(c.chosen)+len(others))
	for _, rows := range [...][]int32{c.chosen, others} {
		for _, at := range rows {
			r := &c.x.rows[at]
			all = append(all, events.BulletScore{
				ID: r.bullet.ID, Effectiveness: r.effectiveness, Recency: c.recency(r), Relevance: c.relevance[at],
				Total: c.totals[at], Tokens: r.tokens, Shown: c.fates[at] == shown, Why: c.why(at),
			})
		}
	}
	return all
}

// best are the first few of many rows, in order.
type best []int32

func (b *best) add(c *choice, at int32, most int) {
	list := *b
	if len(list) == most {
		if c.before(list[most-1], at) {
			return
		}
		list = list[:most-1]
	}
	to, _ := slices.BinarySearchFunc(list, at, c.compare)
	*b = slices.Insert(list, to, at)
}
