package draft

import (
	"maps"
	"math"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
)

// rejectOutdated rejects all parts of a reflection if later feedback on its sample is in the log.
func (d *draft) rejectOutdated(item *Item) {
	why := screen.Refusef(playbook.ReasonCorrected, "later feedback changed the outcome")
	for _, t := range item.Reflection.Tags {
		op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{item.coverIndex}}
		setVote(&op, t.Tag)
		d.reject(op, why)
	}
	for i := range item.Reflection.Findings {
		key := screen.Truncate(item.Reflection.Findings[i].Key, screen.MaxName)
		d.reject(playbook.Op{Kind: playbook.Tag, Support: []int{item.coverIndex}}, screen.Refusef(why.Code, "finding %q: %s", key, why.Reason))
	}
	for _, p := range item.Proposals {
		op := p.Op
		op.Support = []int{item.coverIndex}
		d.reject(op, why)
	}
	if len(item.Reflection.Tags)+len(item.Reflection.Findings)+len(item.Proposals) == 0 {
		d.reject(playbook.Op{Kind: playbook.Retag, Support: []int{item.coverIndex}}, why)
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
	wanted := map[playbook.BulletID][]playbook.Vote{}
	var order []playbook.BulletID
	want := func(id playbook.BulletID, v playbook.Vote) {
		if d.Bullet(id) == nil {
			id = item.Contribution.MergedInto(id)
		}
		if wanted[id] == nil {
			order = append(order, id)
		}
		wanted[id] = append(wanted[id], v)
	}
	asked := map[playbook.BulletID]bool{}
	for _, t := range item.Reflection.Tags {
		if !asked[t.ID] {
			asked[t.ID] = true
			want(t.ID, t.Tag)
		}
	}
	voted := map[playbook.BulletID]bool{}
	for i := range item.Reflection.Findings {
		f := &item.Reflection.Findings[i]
		if d.trustLevel(item.coverIndex) == Untrusted {
			break
		}
		if b := d.ruleBullet(f.Key); b == nil {
			d.countFinding(f, item.coverIndex, voted)
		} else if !asked[b.ID] && !voted[b.ID] {
			asked[b.ID] = true
			want(b.ID, f.Vote)
		}
	}
	has := item.Contribution.Votes()
	for _, id := range slices.Sorted(maps.Keys(has)) {
		if wanted[id] == nil {
			order = append(order, id)
		}
	}
	for _, id := range order {
		d.correctVotes(id, has[id], wanted[id], item.coverIndex, voted)
	}
	d.correctOutcomes(item)
	d.draftProposals(item, voted)
}

// correctVotes drafts the change from the votes that a bullet has of a sample to the wanted ones. A bullet has several votes
// of one sample if bullets with votes were merged into it.
func (d *draft) correctVotes(id playbook.BulletID, has, wanted []playbook.Vote, cover int, voted map[playbook.BulletID]bool) {
	b := d.Bullet(id)
	if b == nil && len(wanted) == 0 {
		return // the bullet was removed together with its votes
	}
	var old []playbook.Vote // votes to move; a vote that the counters no longer contain cannot be moved
	left := map[playbook.Vote]int{}
	if b != nil {
		left = map[playbook.Vote]int{playbook.Helpful: b.Helpful, playbook.Harmful: b.Harmful, playbook.Neutral: b.Neutral}
	}
	wanted = slices.Clone(wanted)
	kept := 0
	for _, v := range has {
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

// moveVote drafts the move of a vote to another counter. An empty to removes the vote.
func (d *draft) moveVote(id playbook.BulletID, from, to playbook.Vote, cover int) {
	op := playbook.Op{Kind: playbook.Retag, Bullet: id, OldVote: from, Support: []int{cover}}
	if to != "" {
		setVote(&op, to)
	}
	bullets := 1
	if d.changed[id] != nil {
		bullets = 0
	}
	if !d.hasRoom(&op, bullets) {
		d.reject(op, errFull)
		return
	}
	b := d.Bullet(id)
	d.markStale(b)
	if to == events.Harmful {
		d.evidenceChanged[id] = struct{}{}
	}
	d.changed[id] = b.Apply(&op, d.covers)
	d.addOp(op)
}

// correctOutcomes drafts the corrected outcomes of a sample for experiments that are still current. If the log has no
// outcome of the sample, it is added only for a first outcome; a corrected one was left out before for a reason.
func (d *draft) correctOutcomes(item *Item) {
	if !item.Reflection.Outcome.Known() || d.trustLevel(item.coverIndex) == Untrusted {
		return
	}
	score := int(math.Round(item.Reflection.FirstRoundScore * playbook.MaxScore))
	trials := item.Reflection.Exposures[:min(len(item.Reflection.Exposures), maxTrials)]
	for i, t := range trials {
		b := d.Bullet(t.Bullet)
		duplicate := slices.ContainsFunc(trials[:i], func(o events.Exposure) bool { return o.Bullet == t.Bullet })
		if b == nil || b.CurrentExperiment().Number != t.Experiment || duplicate {
			continue
		}
		op := playbook.Op{Kind: playbook.AddExposures, Bullet: t.Bullet, ExperimentNumber: t.Experiment}
		counted := item.Contribution.Outcomes(t.Bullet, t.Experiment)
		for _, seen := range counted {
			if seen.Score != score {
				undo := seen
				undo.Undo, seen.Score = true, score
				op.Exposures = append(op.Exposures, undo, seen)
			}
		}
		if len(counted) == 0 && !item.Reflection.Corrects && d.mode != playbook.GateOff && decided(t.Arm) {
			op.Exposures = append(op.Exposures, playbook.Exposure{Arm: t.Arm, Score: score})
		}
		if len(op.Exposures) == 0 {
			continue
		}
		for range op.Exposures {
			op.Support = append(op.Support, item.coverIndex)
		}
		bullets := 1
		if d.changed[t.Bullet] != nil {
			bullets = 0
		}
		if !d.hasRoom(&op, bullets) {
			d.reject(op, errFull)
			continue
		}
		d.changed[t.Bullet] = b.Apply(&op, d.covers)
		d.evidenceChanged[t.Bullet] = struct{}{}
		d.addOp(op)
	}
}
