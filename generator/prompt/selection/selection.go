// Package selection chooses the bullets of a playbook for a prompt, within a token budget.
//
// If all bullets fit the budget, all are chosen. Otherwise relevance to the query decides. The caller supplies rankings,
// such as those by past tasks, by words and by conditions. The rankings take turns: each gets its best bullets into the prompt, a more
// reliable one more often. Votes break ties, and fill the rest of the budget. A part of the budget is for bullets that were
// never tried, because they have no votes and no outcomes yet. Pinned bullets come before all others.
//
// With Weights the bullets are ordered by a weighted sum of effectiveness, recency and relevance instead, as in the coding agent swecli.
//
// The chosen bullets are in a fixed order, by section and id, so that prompts of one version of the playbook begin alike and
// a provider's cache can reuse them.
//
// The package is pure: the caller passes the time, and the same input gives the same selection. Bullets are never
// shortened, and a selection does not count as a use.
package selection

import (
	"time"

	"debrief/events"
	"debrief/playbook"
)

// Options are the parameters of a selection.
type Options struct {
	// Tokens is the budget for the rendered bullets, including headers, by chat.Tokens.
	Tokens int
	// MaxBullets is the maximum number of bullets; 0 or less means no maximum. Pinned bullets count, but are included even
	// beyond it.
	MaxBullets int

	// Rankings returns the bullets that are relevant to the query, one ranking for each method. It is called at most once,
	// and only if not all bullets fit or the scores are needed. Nil: the prompt has no query.
	Rankings func() []Ranking
	// Reliability holds the reliability of each ranking, above 0 and at most 1. A place in a ranking counts as the place divided
	// by the reliability: the first place at reliability 0.5 counts as the second. Missing and other values count as 1.
	Reliability []float64
	// Seed determines which of the bullets that were never tried are shown. Each task should have its own seed.
	Seed string

	// Weights enables the order by weighted sum. The zero value disables it.
	Weights Weights
	// Now is the time for the recency in a weighted sum.
	Now time.Time
	// TimeIndependent replaces Now by the newest use of any bullet, and counts the age of a last use in whole days. Playbooks that were built by
	// the same steps, each within a day, then give the same selection.
	TimeIndependent bool

	// Draw enables experiments. Nil disables them; bullets on probation are then not shown.
	Draw *Draw
	// Explain requests the scores.
	Explain bool
}

// Ranking is an order of bullets by relevance, the best first. Bullets that it lacks are not relevant. Unknown bullets are
// ignored.
type Ranking []Ranked

// Ranked is a bullet in a ranking. Score is its relevance from 0 to 1, by the scale of the ranking. Only a weighted sum
// and the scores use it.
type Ranked struct {
	Bullet playbook.BulletID
	Score  float64
}

// Selection is the result of Select.
type Selection struct {
	// Bullets are in the order of the prompt: the established ones by section and id, then the others. They include the
	// bullets that an experiment withholds. The caller removes these after it has cut the prompt to its size, so that the rest of the prompt is
	// the same in both arms.
	Bullets []*playbook.Bullet
	// Parts is parallel to Bullets and describes each bullet for a manifest. A part has the tokens of the lines of its bullet, and a reason if it is
	// not the relevance.
	Parts []events.Part
	// Priority is parallel to Bullets. It is 0 for the bullet that was chosen first. A caller that must drop bullets drops those with the highest
	// numbers.
	Priority []int
	// Tokens is chat.Tokens of the rendered Bullets and never exceeds the budget. The sum of the parts differs
	// slightly: it lacks the headers, and each part is rounded up.
	Tokens int
	// Left counts the bullets that are not shown, by reason, with the ids of the best ones.
	Left []events.Omission
	// PinnedNoRoom is the number of pinned bullets that do not fit into the budget, and PinnedTokens the tokens that they need in addition to it.
	PinnedNoRoom, PinnedTokens int
	// Exposures are the bullets in an experiment, with their arms. Withheld are the bullets in Bullets that the experiment withholds.
	Exposures []events.Exposure
	Withheld  []playbook.BulletID
	// Scores has the scores of Bullets and of the best omitted bullets: up to a hundred in total, or more if more are shown. It is nil without
	// Options.Explain.
	Scores []events.BulletScore
}

// Select chooses from the bullets of the index. Without Weights its time depends on the budget and the rankings, not on the
// number of bullets. One selection of each version is an exception: the first one whose rankings do not fill the budget
// orders all bullets by their votes.
func (x *Index) Select(o Options) Selection {
	c := x.newSelector(o)
	defer c.release()
	c.draw()
	if c.weighted || o.Explain {
		c.setTime()
		c.readRankings()
	}
	if c.weighted {
		c.weigh()
	}
	if !c.chooseAll() {
		c.choosePinned()
		c.chooseRest()
	}
	var s Selection
	order := c.finish(&s) // sets Bullets, Priority and Tokens
	s.Exposures = c.withhold()
	s.Parts = make([]events.Part, 0, len(order))
	for _, row := range order {
		r := &x.rows[row]
		if c.decisions[row] == withheld {
			s.Withheld = append(s.Withheld, r.bullet.ID)
		}
		s.Parts = append(s.Parts, events.Part{Kind: events.PartBullet, Ref: string(r.bullet.ID), Tokens: r.tokens, Why: c.why(row)})
	}
	if len(c.chosen) < len(x.rows) || len(s.Withheld) > 0 {
		s.Left = c.left()
	}
	for _, row := range c.decided {
		if c.decisions[row] == pinnedNoRoom {
			s.PinnedNoRoom++
			s.PinnedTokens += c.cost(row)
		}
	}
	if o.Explain {
		s.Scores = c.scores()
	}
	return s
}
