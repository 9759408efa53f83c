package selection

import (
	"fmt"
	"slices"

	"debrief/events"
)

// Limits of the report on omitted bullets.
const (
	maxRefs   = 10  // of each reason
	maxScores = 100 // including shown bullets
)

// PinnedNoRoom is the reason for omitting a pinned bullet.
const PinnedNoRoom = "pinned, and no room"

// decision is the reason why a bullet is shown or omitted.
type decision uint8

const (
	notAmongBest  decision = iota // outside the best Most
	sectionFull                   // better than a chosen bullet, but its section already has many
	duplicate                     // nearly equal to a chosen bullet
	noRoom                        // exceeds the remaining budget
	pinnedNoRoom                  // the same for a pinned bullet
	onProbation                   // on probation, and experiments are disabled
	notApplicable                 // on probation, and not applicable to the query
	withheld                      // on probation, in the withheld arm
	shown
	decisionCount
)

// why returns the reason as text.
func (c *selector) why(at int32) string {
	switch f := c.decision(at); {
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

func (c *selector) reason(f decision) string {
	switch f {
	case sectionFull:
		return "enough of its section"
	case duplicate:
		return "nearly the same as another"
	case noRoom:
		return "no room"
	case pinnedNoRoom:
		return PinnedNoRoom
	case onProbation:
		return "on probation"
	case notApplicable:
		return "on probation, and not about this"
	case withheld:
		return "withheld by chance"
	}
	return fmt.Sprintf("not among the best %d", c.o.Most)
}

// decision returns the final decision about a bullet.
func (c *selector) decision(at int32) decision {
	if f := c.decisions[at]; f != notAmongBest || c.totals[at] <= c.worstTotal {
		return f
	}
	return sectionFull
}

// left counts the omitted bullets by decision.
func (c *selector) left() []events.Omission {
	var sums [decisionCount]events.Omission
	var first [decisionCount]best
	for at := range c.x.rows {
		f := c.decision(int32(at))
		sums[f].Count++
		sums[f].Tokens += c.x.rows[at].tokens
		if f != shown {
			first[f].add(c, int32(at), maxRefs)
		}
	}
	var all []events.Omission
	for f, sum := range sums {
		if decision(f) == shown || sum.Count == 0 {
			continue
		}
		sum.Kind, sum.Why = events.PartBullet, c.reason(decision(f))
		for _, at := range first[f] {
			sum.Refs = append(sum.Refs, string(c.x.rows[at].bullet.ID))
		}
		all = append(all, sum)
	}
	return all
}

// scores returns the scores of the shown bullets and of the best others.
func (c *selector) scores() []events.BulletScore {
	var others best
	if n := maxScores - len(c.chosen); n > 0 {
		for at := range c.x.rows {
			if f := c.decisions[at]; f != shown && f != withheld {
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
				Total: c.totals[at], Tokens: r.tokens, Shown: c.decisions[at] == shown, Why: c.why(at),
			})
		}
	}
	return all
}

// best holds the first rows in order, up to a limit.
type best []int32

func (b *best) add(c *selector, at int32, most int) {
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
