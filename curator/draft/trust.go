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

// evidenceOf returns the evidence of a cover, or an empty one.
func (d *draft) evidenceOf(cover int) playbook.Evidence {
	if cover < len(d.covers) && d.covers[cover].Evidence != nil {
		return *d.covers[cover].Evidence
	}
	return playbook.Evidence{}
}

// trustLevel returns the trust level of a cover: the lower one of its source and, if its outcome was inferred, of inferred outcomes.
func (d *draft) trustLevel(cover int) playbook.Trust {
	e := d.evidenceOf(cover)
	return d.Policy.Level(e.Source, e.Inferred)
}

// refuseSource returns the reason why the support of one reflection for a bullet must not count because of its source, or nil if it may.
func (d *draft) refuseSource(b *playbook.Bullet, cover int) *screen.Refusal {
	e := d.evidenceOf(cover)
	trust := d.Policy.Of(e.Source)
	fromSource := 0
	for _, o := range b.SupportBySource {
		if playbook.MatchesSource(trust.Source, o.Source) {
			fromSource += o.Count
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
		before := b.Helpful + b.Harmful + b.Neutral + b.CurrentExperiment().Confirmations + 1 // the first proposal of the bullet
		all, ofSource := before+1, fromSource+1
		if ofSource > freeVotes && ofSource*100 > trust.Share*all {
			return screen.Refusef(playbook.ReasonSourceShare, "source %q has reached its share of the evidence of bullet %q: %d of %d, limit %d %%", trust.Source, b.ID, fromSource, before, trust.Share)
		}
	}
	return nil
}

// measures reports whether the outcome behind a cover counts in the experiment of a bullet. A source without trust measures only bullets
// that are shown already, so it helps no other bullet to be shown.
func (d *draft) measures(b *playbook.Bullet, cover int) bool {
	switch d.trustLevel(cover) {
	case playbook.Untrusted:
		return b.Shown()
	case playbook.Limited:
		return d.refuseSource(b, cover) == nil
	}
	return true
}

// authorKind returns the kind of the author of a proposal: a model, if a model made each reflection in its support. Otherwise the author is
// unknown, "".
func (d *draft) authorKind(support []int) admit.Source {
	for _, i := range support {
		if e := d.evidenceOf(i); e.Model == "" {
			return ""
		}
	}
	return admit.Model
}

// lateAfter is the number of events in the stream between an execution and its feedback from which on the outcome is late.
const lateAfter = 100

// isLate reports whether the outcome behind a proposal came late: the agents meanwhile did other tasks without the advice.
func (d *draft) isLate(support []int) bool {
	return slices.ContainsFunc(support, func(i int) bool {
		e := d.evidenceOf(i)
		execution, _, err := events.Handle(e.Execution).Parse()
		return err == nil && e.FeedbackSeq >= execution+lateAfter
	})
}

// lowestTrust returns the least trusted source in the support of an operation, and its level. One untrusted source is enough
// to distrust the operation, because the model itself chose the reflections in the support.
func (d *draft) lowestTrust(support []int) (playbook.Trust, string) {
	worst, name := playbook.Trusted, ""
	for _, i := range support {
		l := d.trustLevel(i)
		if l == playbook.Trusted {
			continue
		}
		e := d.evidenceOf(i)
		worst, name = l, e.Source
		if d.Policy.Of(e.Source).Level != l { // the level is that of inferred outcomes
			name = playbook.InferredSource
		}
		if l == playbook.Untrusted {
			return worst, name
		}
	}
	return worst, name
}

// allInferred reports whether every execution behind an operation has an inferred outcome. It is false without executions.
func (d *draft) allInferred(support []int) bool {
	found := false
	for _, i := range support {
		if i < len(d.covers) && d.covers[i].Evidence != nil {
			found = true
			if !d.covers[i].Evidence.Inferred {
				return false
			}
		}
	}
	return found
}

// trustedSupport returns the part of an operation's support that may count for a bullet. If it leaves some out, refusal is the reason for the
// last of these.
func (d *draft) trustedSupport(b *playbook.Bullet, support []int) (trusted []int, refusal *screen.Refusal) {
	for _, i := range support {
		if refused := d.refuseSource(b, i); refused != nil {
			refusal = refused
		} else {
			trusted = append(trusted, i)
		}
	}
	return trusted, refusal
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

const (
	// minAgree is the minimum number of executions that must agree against a well supported bullet. An attacker can plant one
	// execution, and repeat it.
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
	agree := map[string]bool{}
	for _, i := range op.Support {
		if i < len(d.covers) && d.covers[i].Evidence != nil {
			agree[d.covers[i].Evidence.Execution] = true
		}
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

// refuseContradiction returns the refusal of an operation against a well supported bullet.
func refuseContradiction(b *playbook.Bullet) *screen.Refusal {
	return screen.Refusef(playbook.ReasonContradicts, "contradicts bullet %q, which %d of %d outcomes support", b.ID, b.Helpful, b.Helpful+b.Harmful)
}
