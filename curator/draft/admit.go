package draft

import (
	"cmp"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/text"
)

// propose drafts a proposal of a model or a lesson. A proposal from an untrusted source goes to quarantine. against is the bullet that
// the proposal contradicts, or ""; see contested. propose returns the reason if the proposal is rejected, or nil.
func (d *draft) propose(op playbook.Op, against playbook.BulletID) *screen.Refusal {
	old := d.Bullet(op.Bullet)
	if old == nil && op.Kind != playbook.Add {
		return unknownBullet(op.Bullet)
	}
	if op.Kind == playbook.Confirm {
		return d.confirm(&op, duplicateText(old))
	}
	if op.Kind == playbook.Update || op.Kind == playbook.Merge {
		if refusal := d.keepCondition(&op); refusal != nil {
			return refusal
		}
	}
	if refusal := d.refuseStatuses(&op, old); refusal != nil {
		return refusal
	}
	status, refusal := d.firstStatus(&op, authorOf(d.evidenceBehind(op.Support)))
	switch status {
	case playbook.Quarantined:
		return d.quarantine(op, refusal)
	case playbook.Candidate:
		return d.addWaiting(op, old, refusal)
	}
	op.Code = "" // an operation with a mark of the screen is in quarantine by now
	if d.mode != playbook.GateOff {
		return d.proposeGated(op, old, against)
	}
	if op.Kind == playbook.Update || op.Kind == playbook.Merge || op.Kind == playbook.Remove {
		if b := d.contradictedBullet(&op); b != nil {
			if op.Kind == playbook.Merge {
				op.Bullet = b.ID // the text in quarantine would replace the bullet that it contradicts, which may be a source
			}
			return d.quarantine(op, refuseContradiction(b))
		}
	}
	return d.change(&op)
}

// refuseStatuses refuses a MERGE that would hide a shown bullet, or that would show a waiting text although no execution requests it. It
// returns nil for other operations. kept is the bullet that keeps its id.
func (d *draft) refuseStatuses(op *playbook.Op, kept *playbook.Bullet) *screen.Refusal {
	for _, id := range op.Sources {
		src := d.Bullet(id)
		if src == nil {
			continue
		}
		sameStatus := src.Status == kept.Status || src.Shown() && kept.Shown()
		switch {
		case sameStatus:
		case src.Shown():
			return screen.Refusef(playbook.ReasonStatus, "bullet %q is shown and bullet %q is not: keep the first one", src.ID, kept.ID)
		case len(op.Support) == 0:
			return screen.Refusef(playbook.ReasonStatus, "bullet %q waits for another execution, and the merge names none", src.ID)
		}
	}
	return nil
}

// firstStatus returns the status of the text that a proposal would set, with the reason if it is not shown at once.
func (d *draft) firstStatus(op *playbook.Op, author admit.Source) (playbook.Status, *screen.Refusal) {
	evidence := d.evidenceBehind(op.Support)
	level, least := d.lowestTrust(evidence)
	status, code := admit.FirstStatus(admit.Text{
		Source: author, Trust: level, Inferred: allInferred(evidence), Gate: d.mode, Review: d.review,
		Suspect: screen.IsSuspect(op),
	})
	switch code {
	case playbook.ReasonInjection:
		return status, &screen.Refusal{Code: op.Code, Reason: op.Reason}
	case playbook.ReasonUntrusted:
		return status, screen.Refusef(code, "source %q is not trusted", least)
	case playbook.ReasonReview:
		return status, screen.Refusef(code, "review first: a person approves each new text")
	case playbook.ReasonInferred:
		return status, screen.Refusef(code, "the outcome behind it was only inferred")
	}
	return status, nil
}

// addWaiting drafts the new text of a proposal as a candidate, which waits for another execution. The bullet old, which it would replace,
// stays. A proposal without a text is rejected with the refusal.
func (d *draft) addWaiting(op playbook.Op, old *playbook.Bullet, refusal *screen.Refusal) *screen.Refusal {
	add := playbook.Op{
		Kind: playbook.Add, Bullet: op.Bullet, Section: op.Section, When: op.When, Content: op.Content, Status: playbook.Candidate, Support: op.Support,
		Code: refusal.Code, Reason: text.Excerpt(refusal.Reason, screen.MaxReason),
	}
	switch op.Kind {
	case playbook.Add:
	case playbook.Update, playbook.Merge:
		add.Bullet, add.Section, add.Replaces = "", cmp.Or(add.Section, old.Section), old.ID
	default:
		return refusal
	}
	return d.change(&add)
}

// quarantine drafts the new text of a proposal as a bullet in quarantine, which waits for a person. The bullet that it would
// replace stays. A proposal without a text, such as a removal, is rejected with the refusal.
func (d *draft) quarantine(op playbook.Op, refusal *screen.Refusal) *screen.Refusal {
	add := playbook.Op{
		Kind: playbook.Add, Section: op.Section, When: op.When, Content: op.Content, Status: playbook.Quarantined, Support: op.Support,
		Code: refusal.Code, Reason: text.Excerpt(refusal.Reason, screen.MaxReason),
	}
	switch op.Kind {
	case playbook.Add:
		add.Bullet = op.Bullet // usually ""; kept so that change refuses an ADD whose model chose an id
	case playbook.Update, playbook.Merge:
		b := d.Bullet(op.Bullet)
		add.Section, add.Replaces = cmp.Or(add.Section, b.Section), b.ID
	default:
		return refusal
	}
	return d.change(&add)
}

// proposeGated drafts a proposal while the gate decides. A proposal cannot change the text of a supported bullet or remove it.
// Instead, the new text becomes a candidate that can take its place.
func (d *draft) proposeGated(op playbook.Op, old *playbook.Bullet, against playbook.BulletID) *screen.Refusal {
	switch op.Kind {
	case playbook.Add:
		op.Contests = against
		d.setFirstStatus(&op, against != "" || d.isDoubtful(&op))
	case playbook.Update, playbook.Merge:
		if playbook.ContentKeyOf(op.Content) == playbook.ContentKeyOf(old.Content) {
			op.When, op.Content = old.When, old.Content // only white space or case differs, so the text stays
		} else if d.isSupported(old) || gate.IsKept(old) || op.Kind == playbook.Update && d.isDoubtful(&op) {
			return d.addCorrection(op, old)
		}
		for _, id := range op.Sources {
			src := d.Bullet(id)
			if src == nil {
				continue
			}
			isStronger := d.isSupported(src) && !d.isSupported(old)
			if isStronger || gate.IsKept(src) {
				return refuseSupported(src)
			}
		}
	case playbook.Remove:
		switch {
		case old.Pinned:
			return screen.Refusef(playbook.ReasonPinned, "bullet %q is pinned", old.ID)
		case d.isSupported(old) || gate.IsKept(old):
			return refuseSupported(old)
		case len(op.Support) < len(old.LearnedFrom):
			return screen.Refusef(playbook.ReasonSupported, "at least %d executions request bullet %q, and %d its removal", len(old.LearnedFrom), old.ID, len(op.Support))
		case old.Status == playbook.Retired || old.Status == playbook.Quarantined:
			return screen.Refusef(playbook.ReasonStatus, "bullet %q is already %s", old.ID, old.Status)
		}
		op = playbook.Op{
			Kind: playbook.SetStatus, Bullet: old.ID, Status: playbook.Retired, Support: op.Support,
			Code: playbook.ReasonRemoval, Reason: cmp.Or(op.Reason, "removal requested, and its record is not good"),
		}
	}
	return d.change(&op)
}

// isSupported applies gate.IsSupported to a bullet of the state.
func (d *draft) isSupported(b *playbook.Bullet) bool { return gate.IsSupported(b, d.base.Typical("")) }

func refuseSupported(b *playbook.Bullet) *screen.Refusal {
	return screen.Refusef(playbook.ReasonSupported, "outcomes support bullet %q: only outcomes can retire it, not a proposal", b.ID)
}

// Tasks mostly succeed if their mean score is at least goodRate, over at least goodWeight outcomes. One failure is then as likely a wrong
// verdict as a gap in the playbook.
const (
	goodRate   = 0.7
	goodWeight = 50
)

// falseShare replaces goodRate if the error of the verdicts is known: with at least this share of false failures, a failure is at least as
// likely a wrong verdict as a gap in the playbook.
const falseShare = 0.5

// Outcomes lag behind new bullets if at least maxUntested new bullets are shown without an outcome, and the playbook has fewer than
// testedOutcomes cited outcomes for each of these.
const (
	maxUntested    = 20
	testedOutcomes = 3
)

// isDoubtful reports whether new advice, or a new text of an unproven bullet, rests on one execution although a second one can be expected.
// There are two cases:
//
//   - Tasks mostly succeed. If the advice is right, other tasks will fail in the same way and request it again.
//   - Outcomes come late and lag behind new bullets. If the advice is right, the tasks before the first outcome will request it again. If it is
//     wrong, it would be shown until then.
//
// With a strict gate no advice is doubtful, because the gate tries all new advice first.
func (d *draft) isDoubtful(op *playbook.Op) bool {
	if d.mode != playbook.GateGuard || len(op.Support) >= 2 {
		return false
	}
	typical := d.base.Typical("")
	isGood := typical.Rate >= goodRate && typical.Outcomes >= goodWeight
	if d.base.Noise() != (playbook.Noise{}) {
		isGood = typical.FalseFailures >= falseShare
	}
	if isGood {
		return true
	}
	if !isLate(d.evidenceBehind(op.Support)) {
		return false
	}
	untested := d.countUntested()
	return untested >= maxUntested && d.base.Tally().Cited < testedOutcomes*untested
}

// countUntested counts the new bullets that are shown and untested: no task with an outcome cited them, and an arm of their experiment is
// empty.
func (d *draft) countUntested() (n int) {
	for b := range d.All() {
		e := b.CurrentExperiment()
		isTested := e.Cited.Count() > 0 || e.Shown.Count() > 0 && e.Withheld.Count() > 0
		if b.Shown() && e.Standing == playbook.StandingNew && !isTested {
			n++
		}
	}
	return n
}

// setFirstStatus sets the status of a new bullet. Doubtful advice waits for a confirmation.
func (d *draft) setFirstStatus(op *playbook.Op, isDoubtful bool) {
	switch {
	case isDoubtful:
		op.Status, op.Code = playbook.Candidate, playbook.ReasonUnconfirmed
	case d.mode == playbook.GateStrict:
		op.Status = playbook.Probation
	}
}

// addCorrection drafts a correction of a supported bullet: a bullet that takes its place after a confirmation.
func (d *draft) addCorrection(op playbook.Op, old *playbook.Bullet) *screen.Refusal {
	add := playbook.Op{
		Kind: playbook.Add, Section: cmp.Or(op.Section, old.Section), When: op.When, Content: op.Content, Replaces: old.ID,
		Support: op.Support, Reason: op.Reason,
	}
	d.setFirstStatus(&add, true)
	return d.change(&add)
}

// contested returns a supported bullet that the reflection behind a proposal blames for a failure, or ""; see blames. Such a proposal
// contradicts a bullet with a good record, so the failure may be a wrong verdict.
func (d *draft) contested(item *Item, from []*Item) playbook.BulletID {
	for _, k := range append([]*Item{item}, from...) {
		r := k.Reflection
		if r == nil || !r.Outcome.Known() {
			continue
		}
		for _, x := range r.Exposures {
			if !blames(r, &x) {
				continue
			}
			if b := d.Bullet(x.Bullet); b != nil && d.isSupported(b) && b.CurrentExperiment().Number == x.Experiment {
				return b.ID
			}
		}
	}
	return ""
}

// blames reports whether a reflection blames a bullet that its run cited: the run had a flaw and the vote is harmful. Without a vote on any
// cited bullet, a run that failed blames all of them.
func blames(r *events.Reflection, x *events.Exposure) bool {
	isFlawed := r.FirstRoundScore < 1
	hasFailed := r.FirstRoundScore < 0.5
	return x.Cited && isFlawed && (voteOn(r, x.Bullet) == events.Harmful || hasFailed && !hasVotes(r))
}
