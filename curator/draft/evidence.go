package draft

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// addOutcomes drafts the outcome of a reflection's task for the bullets that its answer cited or that were in an experiment. It
// ignores bullets that were removed or have a newer experiment. Inferred outcomes do not count: they promote and retire nothing.
// Outcomes of an untrusted source count for active bullets: a lack of trust excludes texts and votes, but not measurements.
func (d *draft) addOutcomes(item *Item) {
	if d.mode == playbook.GateOff || item.Reflection.Outcome.Inferred || !item.Reflection.Outcome.Known() {
		return
	}
	for _, o := range outcomesOf(item.Reflection) {
		if b := d.Bullet(o.bullet); b != nil && d.measures(b, d.covers[item.coverIndex].Evidence) {
			d.addOutcome(b, o.experiment, o.exposure, item.coverIndex)
		}
	}
}

// countedOutcome is the outcome of a run as it counts for a bullet.
type countedOutcome struct {
	bullet     playbook.BulletID
	experiment int
	exposure   playbook.Exposure
}

// outcomesOf returns the outcome of a run as it counts for each bullet. In the random arms it counts with the score of the run. For a cited
// bullet it counts with the score that the bullet earned, see credit.
func outcomesOf(r *events.Reflection) (all []countedOutcome) {
	score := int(math.Round(r.FirstRoundScore * playbook.MaxScore)) // in tenths
	seen := map[playbook.BulletID]bool{}
	for _, x := range r.Exposures[:min(len(r.Exposures), events.MaxExposures)] {
		if !isValid(&x) || seen[x.Bullet] {
			continue
		}
		seen[x.Bullet] = true
		add := func(e playbook.Exposure) { all = append(all, countedOutcome{x.Bullet, x.Experiment, e}) }
		earned, counts := credit(r, &x, score)
		countsAsCited := counts && x.Cited
		switch {
		case x.Arm.Random() && countsAsCited && earned != score: // two outcomes, because the scores differ
			add(playbook.Exposure{Arm: x.Arm, Score: score})
			add(playbook.Exposure{Arm: playbook.ArmOpen, Score: earned, Cited: true})
		case x.Arm.Random():
			add(playbook.Exposure{Arm: x.Arm, Score: score, Cited: countsAsCited})
		case countsAsCited:
			add(playbook.Exposure{Arm: playbook.ArmOpen, Score: earned, Cited: true})
		}
	}
	return all
}

// credit returns the score that a cited bullet earns in a run with a score, and false if the run does not count for the bullet. An answer may
// follow several bullets, and a flaw is seldom the fault of all of them:
//
//   - A run without a flaw counts with the best score for all cited bullets.
//   - Otherwise it counts with 0 for a bullet that the reflection calls harmful, and with its score for one that it calls helpful.
//   - If the reflection has no votes on cited bullets, the run counts with its score for all of them.
func credit(r *events.Reflection, x *events.Exposure, score int) (earned int, counts bool) {
	switch {
	case score == playbook.MaxScore:
		return score, true
	case voteOn(r, x.Bullet) == events.Harmful:
		return 0, true
	case voteOn(r, x.Bullet) == events.Helpful, !hasVotes(r):
		return score, true
	}
	return 0, false
}

// voteOn returns the vote of a reflection on a bullet, or "".
func voteOn(r *events.Reflection, id playbook.BulletID) events.Vote {
	for _, t := range r.Tags {
		if t.ID == id {
			return t.Tag
		}
	}
	return ""
}

// hasVotes reports whether a reflection has a vote on a bullet that its run cited.
func hasVotes(r *events.Reflection) bool {
	return slices.ContainsFunc(r.Exposures, func(x events.Exposure) bool { return x.Cited && voteOn(r, x.Bullet) != "" })
}

// isValid reports whether an exposure is possible and says something about its bullet: an answer cannot cite a withheld bullet, and
// a bullet that was shown without a random decision counts only if it was cited.
func isValid(x *events.Exposure) bool {
	switch x.Arm {
	case playbook.ArmShown:
		return true
	case playbook.ArmWithheld:
		return !x.Cited
	case playbook.ArmOpen:
		return x.Cited
	}
	return false
}

// addOutcome drafts one outcome for a bullet, if its experiment still has this number.
func (d *draft) addOutcome(b *playbook.Bullet, number int, e playbook.Exposure, cover int) {
	op := playbook.Op{Kind: playbook.AddExposures, Bullet: b.ID, ExperimentNumber: number, Exposures: []playbook.Exposure{e}, Support: []int{cover}}
	if !d.hasRoomForBullet(&op) {
		return
	}
	if changed := b.Apply(&op, d.covers); changed != nil {
		d.changed[b.ID] = changed
		d.evidenceChanged[b.ID] = struct{}{}
		d.sum(countKey{bullet: b.ID, kind: playbook.AddExposures, number: number}, op)
	}
}

// vote drafts the vote of one reflection on one bullet. It reports whether the vote counts, and otherwise records why not.
func (d *draft) vote(id playbook.BulletID, v events.Vote, cover int) bool {
	op := voteOp(id, v, cover)
	b := d.Bullet(id)
	switch {
	case b == nil:
		d.reject(op, unknownBullet(id))
		return false
	case !d.hasRoomForBullet(&op):
		d.reject(op, errFull)
		return false
	}
	if refusal := d.refuseSource(b, d.covers[cover].Evidence); refusal != nil {
		d.reject(op, refusal)
		return false
	}
	if v == events.Harmful {
		d.evidenceChanged[id] = struct{}{}
	}
	d.changed[id] = b.Apply(&op, d.covers)
	d.sum(countKey{bullet: id, kind: playbook.Tag, vote: v}, op)
	return true
}

// voteOp returns the operation of a vote.
func voteOp(id playbook.BulletID, v events.Vote, cover int) playbook.Op {
	op := playbook.Op{Kind: playbook.Tag, Bullet: id, Support: []int{cover}}
	setVote(&op, v)
	return op
}

// moveVote drafts the move of a vote to another counter. An empty to removes the vote.
func (d *draft) moveVote(id playbook.BulletID, from, to playbook.Vote, cover int) {
	op := playbook.Op{Kind: playbook.Retag, Bullet: id, OldVote: from, Support: []int{cover}}
	if to != "" {
		setVote(&op, to)
	}
	if !d.hasRoomForBullet(&op) {
		d.reject(op, errFull)
		return
	}
	b := d.Bullet(id)
	if to == events.Harmful {
		d.evidenceChanged[id] = struct{}{}
	}
	d.changed[id] = b.Apply(&op, d.covers)
	d.addOp(op)
}

// correctVotes drafts the change from the counted votes of a sample on a bullet to the wanted ones. A bullet has
// several votes of one sample if bullets with votes were merged into it.
func (d *draft) correctVotes(id playbook.BulletID, counted, wanted []playbook.Vote, cover int) {
	b := d.Bullet(id)
	if b == nil && len(wanted) == 0 {
		return // the bullet was removed together with its votes
	}
	left := map[playbook.Vote]int{} // votes in the counters; a vote that they no longer contain cannot be moved
	if b != nil {
		left = map[playbook.Vote]int{playbook.Helpful: b.Helpful, playbook.Harmful: b.Harmful, playbook.Neutral: b.Neutral}
	}
	wanted = slices.Clone(wanted)
	hasVote := false // the sample has a vote after the moves
	var wrong []playbook.Vote
	for _, v := range counted {
		if left[v] == 0 {
			continue
		}
		left[v]--
		if i := slices.Index(wanted, v); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			hasVote = true
		} else {
			wrong = append(wrong, v)
		}
	}
	for _, from := range wrong {
		to := playbook.Vote("")
		if len(wanted) > 0 {
			to, wanted = wanted[0], wanted[1:]
			hasVote = true
		}
		d.moveVote(id, from, to, cover)
	}
	if len(wanted) > 0 && !hasVote { // a sample that has a vote gets no further one
		d.vote(id, wanted[0], cover)
	}
}

// correctOutcomes drafts the corrected outcomes of a sample for experiments that are still current. If the log has no outcome of the
// sample although one was reported, an earlier draft left it out for a reason, and none is added.
func (d *draft) correctOutcomes(item *Item) {
	if item.Reflection.Outcome.Inferred || !item.Reflection.Outcome.Known() {
		return
	}
	isFirst := !item.Reflection.Corrects || item.Contribution.Inferred() // inferred outcomes do not count
	isUntrusted := d.trustLevel(d.covers[item.coverIndex].Evidence) == playbook.Untrusted
	wanted := outcomesOf(item.Reflection)
	seen := map[playbook.BulletID]bool{}
	for _, x := range item.Reflection.Exposures {
		b := d.Bullet(x.Bullet)
		if b == nil || seen[x.Bullet] || b.CurrentExperiment().Number != x.Experiment {
			continue
		}
		seen[x.Bullet] = true
		if isUntrusted && !b.Shown() { // see addOutcomes
			continue
		}
		var corrected []playbook.Exposure
		for _, o := range wanted {
			if o.bullet == x.Bullet {
				corrected = append(corrected, o.exposure)
			}
		}
		op := playbook.Op{Kind: playbook.AddExposures, Bullet: x.Bullet, ExperimentNumber: x.Experiment}
		counted := item.Contribution.Outcomes(x.Bullet, x.Experiment)
		switch {
		case len(counted) == 0 && isFirst && d.mode != playbook.GateOff:
			op.Exposures = corrected
		case len(counted) > 0 && !slices.Equal(counted, corrected):
			for _, old := range counted {
				old.Undo = true
				op.Exposures = append(op.Exposures, old)
			}
			op.Exposures = append(op.Exposures, corrected...)
		}
		if len(op.Exposures) == 0 {
			continue
		}
		for range op.Exposures {
			op.Support = append(op.Support, item.coverIndex)
		}
		if !d.hasRoomForBullet(&op) {
			d.reject(op, errFull)
			continue
		}
		d.changed[x.Bullet] = b.Apply(&op, d.covers)
		d.evidenceChanged[x.Bullet] = struct{}{}
		d.addOp(op)
	}
}

// setVote sets the counter of a vote in an operation without counters.
func setVote(op *playbook.Op, v events.Vote) {
	switch v {
	case events.Helpful:
		op.Helpful = 1
	case events.Harmful:
		op.Harmful = 1
	default:
		op.Neutral = 1
	}
}

// rejectOutdated rejects all parts of a reflection if later feedback on its sample is in the log.
func (d *draft) rejectOutdated(item *Item) {
	refusal := screen.Refusef(playbook.ReasonCorrected, "later feedback changed the outcome")
	for _, t := range item.Reflection.Tags {
		d.reject(voteOp(t.ID, t.Tag, item.coverIndex), refusal)
	}
	for _, p := range item.Proposals {
		op := p.Op
		op.Support = []int{item.coverIndex}
		d.reject(op, refusal)
	}
	if len(item.Reflection.Tags)+len(item.Proposals) == 0 { // at least one rejection says why the reflection has no effect
		d.reject(playbook.Op{Kind: playbook.Retag, Support: []int{item.coverIndex}}, refusal)
	}
}

// draftCorrection drafts a correction: it replaces the votes and outcomes of its sample and drafts the new proposals.
func (d *draft) draftCorrection(item *Item) {
	if item.Contribution.LastFeedback() > item.Reflection.FeedbackSeq {
		d.rejectOutdated(item)
		return
	}
	for _, r := range item.Rejected {
		d.rejections.add(r)
	}
	wanted := map[playbook.BulletID][]playbook.Vote{} // several if bullets with votes were merged
	tagged := map[playbook.BulletID]bool{}
	var order []playbook.BulletID // of the tags, then of the bullets whose votes are withdrawn
	for _, t := range item.Reflection.Tags {
		if tagged[t.ID] {
			continue // only the first vote on a bullet counts
		}
		tagged[t.ID] = true
		id := t.ID
		if d.Bullet(id) == nil {
			id = item.Contribution.MergedInto(id)
		}
		if wanted[id] == nil {
			order = append(order, id)
		}
		wanted[id] = append(wanted[id], t.Tag)
	}
	counted := item.Contribution.Votes() // before this correction
	for _, id := range slices.Sorted(maps.Keys(counted)) {
		if wanted[id] == nil {
			order = append(order, id)
		}
	}
	for _, id := range order {
		d.correctVotes(id, counted[id], wanted[id], item.coverIndex)
	}
	d.correctOutcomes(item)
	d.correction = item.Contribution
	d.draftProposals(item)
}

// suspendViolated puts the bullets behind a violation into quarantine. It does so in every mode of the gate and with every trust in the
// source, because an evaluator or a person reported the violation. Only a person, not later feedback, takes the bullets out of quarantine.
// A retired bullet stays retired.
func (d *draft) suspendViolated(item *Item) {
	for _, id := range item.Reflection.Suspends {
		b := d.Bullet(id)
		if b == nil || b.Status == playbook.Quarantined || b.Status == playbook.Retired {
			continue
		}
		op := playbook.Op{
			Kind: playbook.SetStatus, Bullet: id, Status: playbook.Quarantined, Code: playbook.ReasonViolation,
			Reason: text.Excerpt(violationSentence(item), screen.MaxReason), Support: []int{item.coverIndex},
		}
		if !d.hasRoomForBullet(&op) {
			d.reject(op, errFull)
			continue
		}
		d.changeBullet(op)
	}
}

// violationSentence returns the sentence for the person who decides: the run, who reported the violation, and the feedback.
func violationSentence(item *Item) string {
	r := item.Reflection
	sentence := fmt.Sprintf("run %s broke a rule", r.Handle)
	if r.Outcome.By != "" {
		sentence += ", says " + r.Outcome.By
	}
	if r.Outcome.Feedback != "" {
		sentence += ": " + r.Outcome.Feedback
	}
	return sentence
}
