package draft

import (
	"math"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/admit"
)

// freeVotes is the number of votes of a limited source on a bullet that count without a check of its share, because the first vote on a new
// bullet is a large share of all.
const freeVotes = 2

// evidenceBehind returns the executions behind an operation with this support. An edit without executions has none.
func (d *draft) evidenceBehind(support []int) (all []*playbook.Evidence) {
	for _, i := range support {
		if e := d.covers[i].Evidence; e != nil {
			all = append(all, e)
		}
	}
	return all
}

// trustLevel returns the trust in an execution: that in its source or, if lower, that in inferred outcomes.
func (d *draft) trustLevel(e *playbook.Evidence) playbook.Trust {
	return d.Policy.Level(e.Source, e.Inferred)
}

// refuseSource returns the reason why one more execution must not count as support of a bullet because of its source, or nil if it may.
func (d *draft) refuseSource(b *playbook.Bullet, e *playbook.Evidence) *screen.Refusal {
	trust := d.Policy.Of(e.Source)
	fromSource := 0
	for _, s := range b.SupportBySource {
		if playbook.MatchesSource(trust.Source, s.Source) {
			fromSource += s.Count
		}
	}
	if refusal := refuseShare(b, trust, fromSource); refusal != nil {
		return refusal
	}
	if !e.Inferred {
		return nil
	}
	return refuseShare(b, d.Policy.OfInferred(), b.InferredSupport)
}

// refuseShare returns the reason why one more vote of a source on a bullet must not count, or nil if it may. fromSource is the number of
// times that the source supports the bullet already.
func refuseShare(b *playbook.Bullet, trust playbook.SourceTrust, fromSource int) *screen.Refusal {
	switch trust.Level {
	case playbook.Untrusted:
		return screen.Refusef(playbook.ReasonUntrusted, "source %q is not trusted: its vote on bullet %q does not count", trust.Source, b.ID)
	case playbook.Limited:
		support := b.Helpful + b.Harmful + b.Neutral + b.CurrentExperiment().Confirmations + 1 // 1 is the first proposal of the bullet
		isOverShare := (fromSource+1)*100 > trust.Share*(support+1)
		if fromSource >= freeVotes && isOverShare {
			return screen.Refusef(playbook.ReasonSourceShare, "source %q has reached its share of the evidence of bullet %q: %d of %d, limit %d %%",
				trust.Source, b.ID, fromSource, support, trust.Share)
		}
	}
	return nil
}

// measures reports whether the outcome of an execution counts in the experiment of a bullet. A source without trust measures only bullets
// that are shown already, so it helps no other bullet to be shown.
func (d *draft) measures(b *playbook.Bullet, e *playbook.Evidence) bool {
	switch d.trustLevel(e) {
	case playbook.Untrusted:
		return b.Shown()
	case playbook.Limited:
		return d.refuseSource(b, e) == nil
	}
	return true
}

// authorOf returns the author of a proposal: a model, if a model made each reflection behind it. Otherwise the author is unknown, "".
func authorOf(evidence []*playbook.Evidence) admit.Source {
	if slices.ContainsFunc(evidence, func(e *playbook.Evidence) bool { return e.Model == "" }) {
		return ""
	}
	return admit.Model
}

// lateAfter is the number of events in the stream between an execution and its feedback from which on the outcome is late.
const lateAfter = 100

// isLate reports whether an outcome behind a proposal came late: the agents meanwhile did other tasks without the advice.
func isLate(evidence []*playbook.Evidence) bool {
	return slices.ContainsFunc(evidence, func(e *playbook.Evidence) bool {
		execution, _, err := events.Handle(e.Execution).Parse()
		return err == nil && e.FeedbackSeq >= execution+lateAfter
	})
}

// lowestTrust returns the lowest trust in the executions behind an operation, and the source with it, "" if all are trusted. One untrusted
// source is enough to distrust the operation, because the model itself chose the reflections behind it.
func (d *draft) lowestTrust(evidence []*playbook.Evidence) (playbook.Trust, string) {
	lowest, name := playbook.Trusted, ""
	for _, e := range evidence {
		level := d.trustLevel(e)
		if level == playbook.Trusted {
			continue
		}
		// The level is Limited, or Untrusted, which ends the loop.
		lowest, name = level, e.Source
		if d.Policy.Of(e.Source).Level != level { // the level is that of inferred outcomes
			name = playbook.InferredSource
		}
		if level == playbook.Untrusted {
			break
		}
	}
	return lowest, name
}

// allInferred reports whether the outcome of every execution behind an operation is inferred. It is false without executions.
func allInferred(evidence []*playbook.Evidence) bool {
	return len(evidence) > 0 && !slices.ContainsFunc(evidence, func(e *playbook.Evidence) bool { return !e.Inferred })
}

// A bullet is well supported if it has at least minVotes votes, and if at least minHelpfulShare of them are helpful. The share is the lower
// limit of its 95 % confidence interval (Wilson 1927).
const (
	minVotes        = 5
	minHelpfulShare = 0.5
	wilsonZ         = 1.96
)

// isWellSupported reports whether a bullet with these votes is well supported; see minHelpfulShare.
func isWellSupported(helpful, harmful int) bool {
	n := float64(helpful + harmful)
	if helpful+harmful < minVotes {
		return false
	}
	p, z := float64(helpful)/n, wilsonZ
	low := (p + z*z/(2*n) - z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))) / (1 + z*z/n)
	return low >= minHelpfulShare
}

// Limits of the number of executions that must agree against a well supported bullet. Fewer than minAgree are not enough, because an attacker
// can plant one execution and repeat it.
const (
	minAgree = 3
	maxAgree = 1000 // a delta has fewer covers than this
)

// requiredToOverturn returns the number of executions that must agree to change a well supported bullet. If each of them were
// one more harmful vote, the bullet would no longer be well supported.
func requiredToOverturn(b *playbook.Bullet) int {
	n := minAgree
	for n < maxAgree && isWellSupported(b.Helpful, b.Harmful+n) {
		n++
	}
	return n
}

// contradictedBullet returns the first well supported bullet that the operation would remove or rewrite with the support of
// too few executions, or nil.
func (d *draft) contradictedBullet(op *playbook.Op) *playbook.Bullet {
	ids := []playbook.BulletID{op.Bullet}
	if op.Kind == playbook.Merge {
		ids = append(ids, op.Sources...)
	}
	agree := map[string]bool{} // executions
	for _, e := range d.evidenceBehind(op.Support) {
		agree[e.Execution] = true
	}
	for _, id := range ids {
		b := d.Bullet(id)
		if b == nil || !isWellSupported(b.Helpful, b.Harmful) || len(agree) >= requiredToOverturn(b) {
			continue
		}
		if op.Kind == playbook.Remove || playbook.ContentKeyOf(op.Content) != playbook.ContentKeyOf(b.Content) {
			return b
		}
	}
	return nil
}
