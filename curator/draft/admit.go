package draft

import (
	"cmp"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// propose drafts a proposal of a model or a lesson. It returns the reason if the proposal is rejected, or nil. g describes the runs behind it.
//
// A text that must not be shown yet becomes a bullet in quarantine or a candidate. Otherwise the gate decides how the text is tried. With the
// gate off, the votes decide: a proposal against a well supported bullet goes to quarantine.
func (d *draft) propose(op playbook.Op, g grounds) *screen.Refusal {
	old := d.Bullet(op.Bullet)
	if old == nil && op.Kind != playbook.Add {
		return unknownBullet(op.Bullet)
	}
	if op.Kind == playbook.Confirm {
		if !replacesNumber(old, &op) {
			return d.repeat(op, old, g)
		}
		op.Kind = playbook.Update // the model called another rule the same
	}
	isWaiting := op.Kind != playbook.Add && old.Status == playbook.Candidate && d.mode != playbook.GateOff
	if isWaiting && op.Kind == playbook.Update && isExtended(old, &op) && !screen.IsSuspect(&op) {
		return d.repeat(op, old, g)
	}
	if op.Kind == playbook.Update || op.Kind == playbook.Merge {
		if refusal := d.keepCondition(&op); refusal != nil {
			return refusal
		}
	}
	hasFailed := old != nil && old.Status == playbook.Retired && !gate.IsKept(old)
	if op.Kind == playbook.Update && hasFailed { // since the model read it: as its text, the advice would stay hidden
		op.Kind, op.Bullet, op.Section = playbook.Add, "", cmp.Or(op.Section, old.Section)
	}
	if refusal := d.refuseStatuses(&op, old); refusal != nil {
		return refusal
	}
	status, refusal := d.firstStatus(&op, authorOf(d.evidenceBehind(op.Support)))
	if status == playbook.Quarantined || status == playbook.Candidate {
		return d.addInstead(op, status, refusal)
	}
	op.Code = "" // until here it was the mark of package screen, which firstStatus reads; from here on it is the reason of the status
	if d.mode != playbook.GateOff {
		return d.proposeGated(op, old, g)
	}
	if op.Kind == playbook.Update || op.Kind == playbook.Merge || op.Kind == playbook.Remove {
		if contradicted := d.contradictedBullet(&op); contradicted != nil {
			if op.Kind == playbook.Merge {
				op.Bullet = contradicted.ID // the text in quarantine would replace this bullet, which may be a source of the merge
			}
			return d.addInstead(op, playbook.Quarantined, screen.Refusef(playbook.ReasonContradicts,
				"contradicts bullet %q, which %d of %d outcomes support", contradicted.ID, contradicted.Helpful, contradicted.Helpful+contradicted.Harmful))
		}
	}
	return d.change(&op)
}

// replacesNumber reports whether the text of an operation has another number where the bullet b has one.
func replacesNumber(b *playbook.Bullet, op *playbook.Op) bool {
	if op.Content == "" {
		return false
	}
	before, after := b.Advice(), playbook.Advice(op.When, op.Content)
	return similar.Missing(before, after).Kind == similar.Numbers && similar.Missing(after, before).Kind == similar.Numbers
}

// repeat drafts a proposal that gives the advice of the bullet b again, perhaps in a better text (isBetterText). g describes the runs behind the
// proposal.
//
//   - For a waiting bullet the proposal counts as a request. A candidate without outcomes and earlier requests also gets the better text. Another
//     text would lose them.
//   - A shown bullet needs no request. It gets a better text only if that adds a number or a name, by an UPDATE.
func (d *draft) repeat(op playbook.Op, b *playbook.Bullet, g grounds) *screen.Refusal {
	request := playbook.Op{Kind: playbook.Confirm, Bullet: b.ID, Support: op.Support}
	better := op
	better.Kind = playbook.Update
	hasText := op.Content != "" && d.isBetterText(&better, b)
	if !d.countsRequests(b) {
		added := similar.Missing(playbook.Advice(better.When, better.Content), b.Advice()).Kind
		if hasText && b.Shown() && (added == similar.Numbers || added == similar.Identifiers) {
			return d.propose(better, g)
		}
		return d.confirm(&request, duplicateAdvice(b))
	}
	experiment := b.CurrentExperiment()
	hasRecord := experiment.Outcomes()+experiment.Confirmations > 0
	isCounted := d.correction != nil && d.correction.Requested(b.ID) // confirm refuses a second request of the sample
	if hasText && b.Status == playbook.Candidate && !hasRecord && !isCounted {
		status, _ := d.firstStatus(&better, authorOf(d.evidenceBehind(op.Support)))
		if status == playbook.Active || status == playbook.Probation {
			better.Code = ""
			_ = d.change(&better) // if another bullet has this text, the request counts without it
		}
	}
	return d.confirm(&request, duplicateAdvice(d.Bullet(b.ID)))
}

// isBetterText reports whether an UPDATE keeps the condition, the numbers, the names and the negations of the bullet b. It completes the
// condition of the operation.
func (d *draft) isBetterText(op *playbook.Op, b *playbook.Bullet) bool {
	if refusal := completeCondition(op, []*playbook.Bullet{b}); refusal != nil || op.Kind != playbook.Update {
		return false
	}
	lost := similar.Missing(b.Advice(), playbook.Advice(op.When, op.Content)).Kind
	return lost == similar.Same || lost == similar.Words
}

// isExtended reports whether an UPDATE keeps the whole condition and the whole advice of the bullet b.
func isExtended(b *playbook.Bullet, op *playbook.Op) bool {
	return (op.When == "" || similar.IsNarrower(b.When, op.When)) && similar.IsExtension(b.Advice(), playbook.Advice(op.When, op.Content))
}

// refuseStatuses refuses a MERGE of bullets with different statuses in two cases: it would hide a shown bullet, or it would show a waiting
// text although no execution requests the merge. It returns nil for other operations, which have no sources. kept is the bullet that keeps
// its id.
func (d *draft) refuseStatuses(op *playbook.Op, kept *playbook.Bullet) *screen.Refusal {
	for _, id := range op.Sources {
		src := d.Bullet(id)
		if src == nil {
			continue
		}
		areAlike := src.Status == kept.Status || src.Shown() && kept.Shown()
		switch {
		case areAlike:
			continue
		case src.Shown(): // and kept is not
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
	level, source := d.lowestTrust(evidence)
	status, code := admit.FirstStatus(admit.Text{
		Source: author, Trust: level, Inferred: allInferred(evidence), Gate: d.mode, Review: d.review,
		Suspect: screen.IsSuspect(op),
	})
	switch code {
	case playbook.ReasonInjection:
		return status, &screen.Refusal{Code: op.Code, Reason: op.Reason}
	case playbook.ReasonUntrusted:
		return status, screen.Refusef(code, "source %q is not trusted", source)
	case playbook.ReasonReview:
		return status, screen.Refusef(code, "review first: a person approves each new text")
	case playbook.ReasonInferred:
		return status, screen.Refusef(code, "the outcome behind it was only inferred")
	}
	return status, nil
}

// addInstead drafts the new text of a proposal as a bullet of its own with a status: a candidate waits for another execution, and a bullet in
// quarantine waits for a person. The bullet that the text would replace stays. A proposal without a text, such as a removal, is rejected with
// the refusal.
func (d *draft) addInstead(op playbook.Op, status playbook.Status, refusal *screen.Refusal) *screen.Refusal {
	add := playbook.Op{
		Kind: playbook.Add, Section: op.Section, When: op.When, Content: op.Content, Status: status, Support: op.Support,
		Code: refusal.Code, Reason: text.Excerpt(refusal.Reason, screen.MaxReason),
	}
	switch op.Kind {
	case playbook.Add:
		add.Bullet = op.Bullet // usually ""; kept so that change refuses an ADD whose model chose an id
	case playbook.Update, playbook.Merge:
		replaced := d.Bullet(op.Bullet)
		add.Section, add.Replaces = cmp.Or(add.Section, replaced.Section), replaced.ID
	default:
		return refusal
	}
	return d.change(&add)
}

// proposeGated drafts a proposal while the gate decides. A proposal cannot change the text of a supported bullet or remove it.
// Instead, the new text becomes a candidate that can replace the bullet.
func (d *draft) proposeGated(op playbook.Op, old *playbook.Bullet, g grounds) *screen.Refusal {
	switch op.Kind {
	case playbook.Add:
		op.Contests = g.contested
		if g.contested != "" || d.isDoubtful(&op, g) {
			op.Status, op.Code = playbook.Candidate, playbook.ReasonUnconfirmed
		} else if d.mode == playbook.GateStrict {
			op.Status = playbook.Probation
		}
	case playbook.Update, playbook.Merge:
		isProtected := d.isSupported(old) || gate.IsKept(old)
		if playbook.ContentKeyOf(op.Content) == playbook.ContentKeyOf(old.Content) {
			op.When, op.Content = old.When, old.Content // only white space or case differs, so the text stays
		} else if isProtected || op.Kind == playbook.Update && d.isDoubtful(&op, g) {
			return d.addReplacement(op, old)
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

// Tasks with advice mostly succeed if the mean score of the tasks that cite a bullet is at least goodRate, over at least goodWeight outcomes.
const (
	goodRate   = 0.7
	goodWeight = 50
)

// falseShare is the limit in place of goodRate if the error of the verdicts is known. If at least this share of the failures is false, a failure
// is at least as likely a wrong verdict as a gap in the playbook.
const falseShare = 0.5

// Outcomes lag behind new bullets if at least maxUntested new bullets are shown without an outcome, and the playbook has fewer than
// testedOutcomes cited outcomes for each of these.
const (
	maxUntested    = 40
	testedOutcomes = 3
)

// isDoubtful reports whether new advice, or a new text of an unproven bullet, rests on one execution although a second one can be expected.
// There are two cases:
//
//   - Tasks with advice mostly succeed, and the run followed an established bullet. Its failure is then as likely a wrong verdict as a gap in
//     the playbook. If the advice is right, other tasks will fail in the same way and request it again. A run without such a bullet shows a
//     gap.
//   - Outcomes come late and lag behind new bullets. If the advice is right, the tasks before the first outcome will request it again. If it is
//     wrong, it would be shown until then.
//
// With a strict gate no advice is doubtful, because the gate tries all new advice first.
func (d *draft) isDoubtful(op *playbook.Op, g grounds) bool {
	if d.mode != playbook.GateGuard || len(op.Support) >= 2 {
		return false
	}
	typical := d.base.Typical("")
	isLikelyWrong := g.followsEstablished && typical.Rate >= goodRate && typical.Outcomes >= goodWeight
	if d.base.Noise() != (playbook.Noise{}) {
		isLikelyWrong = typical.FalseFailures >= falseShare
	}
	if isLikelyWrong {
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

// addReplacement drafts the new text of a bullet as a candidate, which replaces the bullet after a confirmation.
func (d *draft) addReplacement(op playbook.Op, old *playbook.Bullet) *screen.Refusal {
	return d.change(&playbook.Op{
		Kind: playbook.Add, Section: cmp.Or(op.Section, old.Section), When: op.When, Content: op.Content, Replaces: old.ID,
		Support: op.Support, Status: playbook.Candidate, Code: playbook.ReasonUnconfirmed, Reason: op.Reason,
	})
}

// grounds describes the runs behind a proposal.
type grounds struct {
	// contested is a supported bullet that a run blames for its flaw, or ""; see blames. The proposal contradicts a bullet with a good record,
	// so the verdict on the run may be wrong.
	contested playbook.BulletID
	// followsEstablished means that a run cited a bullet with a good record, or one that a person or an import brought, and that its flaw can be in
	// the part of the answer that this bullet decides.
	followsEstablished bool
}

// groundsOf returns the grounds of a proposal that belongs to item and is supported by others.
func (d *draft) groundsOf(item *Item, others []*Item) (g grounds) {
	for _, supporting := range append([]*Item{item}, others...) {
		r := supporting.Reflection
		if r == nil || !r.Outcome.Known() {
			continue
		}
		for _, x := range r.Exposures {
			b := d.Bullet(x.Bullet)
			if b == nil || !x.Cited || b.CurrentExperiment().Number != x.Experiment {
				continue
			}
			// If a part of the answer was right and the reflection calls the bullet helpful, the flaw is in a part that the bullet does not decide.
			wasRight := r.FirstRoundScore > 0 && r.FirstRoundScore < 1 && voteOn(r, x.Bullet) == events.Helpful
			if !wasRight && (b.Established() || gate.IsKept(b)) {
				g.followsEstablished = true
			}
			if g.contested == "" && blames(r, &x) && d.isSupported(b) {
				g.contested = b.ID
			}
		}
	}
	return g
}

// blames reports whether a reflection blames a bullet that its run cited: the run had a flaw and the vote is harmful. Without a vote on any
// cited bullet, a run that failed blames all of them.
func blames(r *events.Reflection, x *events.Exposure) bool {
	isFlawed := r.FirstRoundScore < 1
	hasFailed := r.FirstRoundScore < 0.5
	return x.Cited && isFlawed && (voteOn(r, x.Bullet) == events.Harmful || hasFailed && !hasVotes(r))
}
