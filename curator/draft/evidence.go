package draft

import (
	"math"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
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
		add := func(arm playbook.Arm, score int, cited bool) {
			all = append(all, countedOutcome{x.Bullet, x.Experiment, playbook.Exposure{Arm: arm, Score: score, Cited: cited}})
		}
		earned, counts := credit(r, &x, score)
		counts = counts && x.Cited
		switch {
		case x.Arm.Random() && counts && earned != score:
			add(x.Arm, score, false)
			add(playbook.ArmOpen, earned, true)
		case x.Arm.Random():
			add(x.Arm, score, counts)
		case counts:
			add(playbook.ArmOpen, earned, true)
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
func (d *draft) addOutcome(b *playbook.Bullet, number int, s playbook.Exposure, cover int) {
	op := playbook.Op{Kind: playbook.AddExposures, Bullet: b.ID, ExperimentNumber: number, Exposures: []playbook.Exposure{s}, Support: []int{cover}}
	if !d.hasRoomForBullet(&op) {
		return
	}
	if changed := b.Apply(&op, d.covers); changed != nil {
		d.changed[b.ID] = changed
		d.evidenceChanged[b.ID] = struct{}{}
		d.sum(countKey{bullet: b.ID, kind: playbook.AddExposures, number: number}, op)
	}
}

// vote drafts the vote of one reflection on one bullet. voted has the bullets with a vote of this sample: a further vote is rejected.
func (d *draft) vote(op playbook.Op, v events.Vote, voted map[playbook.BulletID]bool) {
	setVote(&op, v)
	old := d.Bullet(op.Bullet)
	switch {
	case old == nil:
		d.reject(op, unknownBullet(op.Bullet))
		return
	case voted[op.Bullet]:
		d.reject(op, screen.Refusef(playbook.ReasonVoted, "bullet %q already has a vote of this sample", op.Bullet))
		return
	case !d.hasRoomForBullet(&op):
		d.reject(op, errFull)
		return
	}
	if refusal := d.refuseSource(old, d.covers[op.Support[0]].Evidence); refusal != nil {
		d.reject(op, refusal)
		return
	}
	voted[op.Bullet] = true
	if v == events.Harmful {
		d.evidenceChanged[op.Bullet] = struct{}{}
	}
	d.changed[op.Bullet] = old.Apply(&op, d.covers)
	d.sum(countKey{bullet: op.Bullet, kind: playbook.Tag, vote: v}, op)
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

// correctVotes drafts the change from the counted votes of a sample on a bullet to the wanted ones, and marks the bullet in voted. A bullet
// has several votes of one sample if bullets with votes were merged into it.
func (d *draft) correctVotes(id playbook.BulletID, counted, wanted []playbook.Vote, cover int, voted map[playbook.BulletID]bool) {
	b := d.Bullet(id)
	if b == nil && len(wanted) == 0 {
		return // the bullet was removed together with its votes
	}
	var old []playbook.Vote         // votes to move
	left := map[playbook.Vote]int{} // votes in the counters; a vote that they no longer contain cannot be moved
	if b != nil {
		left = map[playbook.Vote]int{playbook.Helpful: b.Helpful, playbook.Harmful: b.Harmful, playbook.Neutral: b.Neutral}
	}
	wanted = slices.Clone(wanted)
	kept := 0
	for _, v := range counted {
		if left[v] == 0 {
			continue
		}
		left[v]--
		if i := slices.Index(wanted, v); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			kept++
		} else {
			old = append(old, v)
		}
	}
	for _, from := range old {
		to := playbook.Vote("")
		if len(wanted) > 0 {
			to, wanted = wanted[0], wanted[1:]
			kept++
		}
		d.moveVote(id, from, to, cover)
	}
	if len(wanted) > 0 && kept == 0 {
		d.vote(playbook.Op{Kind: playbook.Tag, Bullet: id, Support: []int{cover}}, wanted[0], voted)
	}
	voted[id] = true
}

// correctOutcomes drafts the corrected outcomes of a sample for experiments that are still current. If the log has no outcome of the
// sample, one is added only if no outcome was reported before: a reported one that is not in the log was left out for a reason.
func (d *draft) correctOutcomes(item *Item) {
	if item.Reflection.Outcome.Inferred || !item.Reflection.Outcome.Known() {
		return
	}
	isFirst := !item.Reflection.Corrects || item.Contribution.Inferred()
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
		var right []playbook.Exposure
		for _, o := range wanted {
			if o.bullet == x.Bullet {
				right = append(right, o.exposure)
			}
		}
		op := playbook.Op{Kind: playbook.AddExposures, Bullet: x.Bullet, ExperimentNumber: x.Experiment}
		counted := item.Contribution.Outcomes(x.Bullet, x.Experiment)
		switch {
		case len(counted) == 0 && isFirst && d.mode != playbook.GateOff:
			op.Exposures = right
		case len(counted) > 0 && !slices.Equal(counted, right):
			for _, old := range counted {
				old.Undo = true
				op.Exposures = append(op.Exposures, old)
			}
			op.Exposures = append(op.Exposures, right...)
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

// setVote sets the counters of an operation to one vote.
func setVote(op *playbook.Op, v events.Vote) {
	op.Helpful = 0
	op.Harmful = 0
	op.Neutral = 0
	switch v {
	case events.Helpful:
		op.Helpful = 1
	case events.Harmful:
		op.Harmful = 1
	default:
		op.Neutral = 1
	}
}
