package draft

import (
	"maps"
	"slices"

	"debrief/curator/screen"
	"debrief/playbook"
)

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
	d.draftProposals(item)
}
