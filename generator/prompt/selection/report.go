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

// decision is the reason why a bullet is shown or omitted.
type decision uint8

const (
	notAmongBest decision = iota // undecided to the end: beyond the budget
	duplicate                    // nearly equal to a chosen bullet
	noRoom                       // exceeds the remaining budget
	pinnedNoRoom                 // pinned, and exceeds the remaining budget
	onProbation                  // on probation, and not for this task
	replaced                     // a bullet on probation takes its place
	withheld                     // in an experiment, in the withheld arm
	shown
	decisionCount

	undecided = notAmongBest // before a decision
)

// why returns the reason of the decision on a row. It is "" for a bullet that is shown for its relevance.
func (c *selector) why(row int32) string {
	switch d := c.decisions[row]; {
	case d == shown && c.x.rows[row].is(pinnedRows):
		return "pinned"
	case d == shown && row == c.drawn:
		return "shown by chance"
	case d == shown:
		return ""
	default:
		return c.reason(d)
	}
}

// reason returns the reason of a decision to omit a bullet.
func (c *selector) reason(d decision) string {
	switch d {
	case duplicate:
		return "nearly the same as another"
	case noRoom:
		return "no room"
	case pinnedNoRoom:
		return "pinned, and no room"
	case onProbation:
		return "on probation"
	case replaced:
		return "replaced by a bullet on probation"
	case withheld:
		return "withheld by chance"
	}
	if c.isFull() {
		return fmt.Sprintf("not among the best %d", c.o.MaxBullets)
	}
	return "less relevant than the bullets that fit"
}

// left counts the omitted bullets by decision, with the ids of the best ones.
func (c *selector) left() []events.Omission {
	var sums [decisionCount]events.Omission
	var refs [decisionCount][]int32
	rest := events.Omission{Count: len(c.x.rows), Tokens: c.x.tokens} // the rows without a decision
	for _, row := range c.decided {
		d, tokens := c.decisions[row], c.x.rows[row].tokens
		rest.Count--
		rest.Tokens -= tokens
		if d != shown {
			sums[d].Count++
			sums[d].Tokens += tokens
			refs[d] = append(refs[d], row)
		}
	}
	sums[notAmongBest] = rest
	if rest.Count > 0 {
		refs[notAmongBest] = c.following(maxRefs)
	}
	var all []events.Omission
	for d, sum := range sums {
		if decision(d) == shown || sum.Count == 0 {
			continue
		}
		sum.Kind, sum.Why = events.PartBullet, c.reason(decision(d))
		slices.SortFunc(refs[d], c.compare)
		for _, row := range refs[d][:min(maxRefs, len(refs[d]))] {
			sum.Refs = append(sum.Refs, string(c.x.rows[row].bullet.ID))
		}
		all = append(all, sum)
	}
	return all
}

// following returns the next n bullets without a decision, in order.
func (c *selector) following(n int) (rows []int32) {
	for row := range c.ordered() {
		if c.decisions[row] != undecided {
			continue
		}
		if len(rows) == n {
			break
		}
		rows = append(rows, row)
	}
	return rows
}

// scores returns the scores of the shown bullets, the first choice first, and of the best others.
func (c *selector) scores() []events.BulletScore {
	rows := slices.Clone(c.chosen)
	if n := maxScores - len(rows); n > 0 {
		var others []int32
		for _, row := range c.decided {
			if d := c.decisions[row]; d != shown && d != withheld {
				others = append(others, row)
			}
		}
		slices.SortFunc(others, c.compare)
		others = append(others, c.following(n)...)
		rows = append(rows, others[:min(n, len(others))]...)
	}
	all := make([]events.BulletScore, 0, len(rows))
	for _, row := range rows {
		r := &c.x.rows[row]
		all = append(all, events.BulletScore{
			ID: r.bullet.ID, Effectiveness: r.effectiveness, Recency: c.recency(r), Relevance: c.ranks[row].score, Total: c.total(row),
			Tokens: r.tokens, Shown: c.decisions[row] == shown, Why: c.why(row),
		})
	}
	return all
}
