// Package selection chooses which bullets of a playbook a prompt shows. A playbook grows and a prompt must not: of ten or
// of ten thousand bullets, those that are pinned go in, then those with the highest score, within a budget of tokens.
//
// A score is the weighted sum of how surely a bullet helps, how lately it was used, and how near it is to the query,
// which the caller says. A bullet that is nearly the same as one that is in already counts for less, and so does one of
// a section that many are of already.
//
// The package is pure: the time is passed in, and the same playbook, options and time select the same. It cuts no
// bullet, learns nothing, and a selection is no use of a bullet.
package selection

import (
	"iter"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// DefaultMost is how many bullets a prompt shows where nobody says otherwise, as in swecli.
const DefaultMost = 30

// Options are what one selection depends on, besides the playbook.
type Options struct {
	Now time.Time
	// Still makes the selection one that does not move with time: how old a bullet's last use is counts in whole days, and
	// from the newest use of any of them instead of Now. Of playbooks that came about in the same steps within a day,
	// quickly or with interruptions, it selects the same.
	Still bool
	// Tokens is the budget of the bullets as playbook.Render has them, headers included, by chat.Tokens.
	Tokens int
	// Most bounds the bullets. The pinned count, but go in even if they are more. 0 is no bound.
	Most    int
	Weights Weights
	// Relevance is how near bullets are to the query, from 0 to 1 and cut to that; those that it does not name have 0.
	// Nil is no query: then the other two parts of the score share its weight. maps.All makes one of a map.
	Relevance iter.Seq2[playbook.BulletID, float64]
	// Trials says what the bullets are to be tried on. Nil tries none: then those on probation are not shown.
	Trials *Trials
	// Explain asks for the scores.
	Explain bool
}

// Selection is what a prompt shows and what it does not.
type Selection struct {
	// Version is that of the playbook.
	Version uint64
	// Bullets are the pinned, then the others, each by score. Where all are shown, this is the order of all. Those that
	// Trials withhold are among them: who lays out the prompt takes them out at last, so that all else in it is the same
	// as if they were shown.
	Bullets []*playbook.Bullet
	// Parts are parallel to Bullets, as a manifest lists them: each with the tokens of its own lines, and why it is
	// there, if not for its score.
	Parts []events.Part
	// Tokens is chat.Tokens(playbook.Render(Bullets)), never more than the budget. The parts come to less, for want of
	// headers, or to little more, for each is rounded up.
	Tokens int
	// Left is what is not shown, by reason, with the best of it by id.
	Left []events.LeftOut
	// Trials are those of Bullets that bear on the query, with what chance decided about them: the ones on probation
	// first, then those that bear on it most, no more than MaxTrials.
	Trials []events.Trial
	// Scores are those of Bullets and then of the best that were left out, a hundred together or as many as are shown.
	Scores []events.BulletScore
}

// Select chooses from the bullets of the index. It takes time in proportion to them, and allocates for what is chosen.
func (x *Index) Select(o Options) Selection {
	c := x.choice(o)
	defer c.done()
	c.score()
	c.admit()
	if !c.whole() {
		c.pinned()
		c.rest()
	}
	s := Selection{Version: x.version}
	s.Bullets, s.Tokens = c.settle()
	s.Trials = c.try()
	for _, at := range c.chosen {
		r := &x.rows[at]
		s.Parts = append(s.Parts, events.Part{Kind: events.PartBullet, Ref: string(r.bullet.ID), Tokens: r.tokens, Why: c.why(at)})
	}
	if len(c.chosen) < len(x.rows) || len(s.Trials) > 0 {
		s.Left = c.left()
	}
	if o.Explain {
		s.Scores = c.scores()
	}
	return s
}
