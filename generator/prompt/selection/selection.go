// Package selection chooses the bullets of a playbook for a prompt. Pinned bullets come first, then the bullets with
// the highest scores, within a token budget. So the prompt does not grow with the playbook.
//
// The score is the weighted sum of effectiveness, recency of the last use and relevance to the query, which the
// caller supplies. A bullet counts for less if it is nearly equal to a chosen one, or if many bullets of its section
// are already chosen.
//
// The package is pure: the caller passes the time, and the same input gives the same selection. Bullets are never
// shortened, and a selection does not count as a use.
package selection

import (
	"iter"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// DefaultMost is the default number of bullets in a prompt, as in swecli.
const DefaultMost = 30

// Options are the parameters of a selection.
type Options struct {
	Now time.Time
	// Still makes the selection independent of Now. The age of the last use counts in whole days before the newest
	// use of any bullet. Playbooks that were built by the same steps within a day then give the same selection.
	Still bool
	// Tokens is the budget for the output of playbook.Render, including headers, by chat.Tokens.
	Tokens int
	// Most is the maximum number of bullets; 0 means no maximum. Pinned bullets count, but are included even beyond
	// it.
	Most    int
	Weights Weights
	// Relevance yields the relevance of bullets to the query, clamped to 0..1. Bullets that it does not yield have 0.
	// It is nil without a query; its weight is then divided among the other parts. maps.All converts a map.
	Relevance iter.Seq2[playbook.BulletID, float64]
	// Trials enables experiments. Nil disables them; bullets on probation are then not shown.
	Trials *Trials
	// Explain requests the scores.
	Explain bool
}

// Selection is the result of Select.
type Selection struct {
	// Version is the version of the playbook.
	Version uint64
	// Bullets holds the pinned bullets, then the others, each by score. It includes the bullets that an experiment
	// withholds. The caller removes those last, so that the rest of the prompt is the same in both arms.
	Bullets []*playbook.Bullet
	// Parts is parallel to Bullets and describes them for a manifest. Each part has the tokens of its lines, and
	// a reason unless the score was the reason.
	Parts []events.Part
	// Tokens is chat.Tokens(playbook.Render(Bullets)) and never exceeds the budget. The sum of the parts differs
	// slightly: it lacks the headers, and each part is rounded up.
	Tokens int
	// Left counts the bullets that are not shown by reason, with the ids of the best.
	Left []events.Omission
	// Trials lists the applicable bullets with their arms, bullets on probation first and then by applicability, at
	// most MaxTrials.
	Trials []events.Exposure
	// Scores holds the scores of Bullets and of the best omitted bullets: a hundred in total, or more if more are
	// shown.
	Scores []events.BulletScore
}

// Select chooses from the bullets of the index in time proportional to their number.
func (x *Index) Select(o Options) Selection {
	c := x.newSelector(o)
	defer c.release()
	c.score()
	c.excludeProbation()
	if !c.chooseAll() {
		c.choosePinned()
		c.chooseRest()
	}
	s := Selection{Version: x.version}
	s.Bullets, s.Tokens = c.finish()
	s.Trials = c.assignTrials()
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
