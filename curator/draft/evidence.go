package draft

import (
	"math"
	"slices"

	"debrief/events"
	"debrief/playbook"
)

// maxTrials is the maximum number of outcomes of one reflection.
const maxTrials = 200

// addOutcomes drafts the outcome of a reflection's task for the bullets that were applicable to it. It ignores bullets that
// were removed or have a newer case.
func (d *draft) addOutcomes(k *Item) {
	if d.mode == playbook.GateOff || !k.Reflection.Outcome.Known() || d.trustLevel(k.coverIndex) == Untrusted {
		return
	}
	s := playbook.Exposure{Score: int(math.Round(k.Reflection.FirstRoundScore * playbook.MaxScore))}
	trials := k.Reflection.Exposures[:min(len(k.Reflection.Exposures), maxTrials)]
	for i, t := range trials {
		if slices.ContainsFunc(trials[:i], func(o events.Exposure) bool { return o.Bullet == t.Bullet }) {
			continue // a task counts once for each bullet
		}
		s.Arm = t.Arm
		if b := d.Bullet(t.Bullet); b != nil && (d.Trust[d.sourceOf(k.coverIndex)].Level != Limited || d.refuseSource(b, k.coverIndex) == nil) {
			d.addOutcome(b, t.Experiment, s, k.coverIndex)
		}
	}
}

// decided reports whether a case counts the outcomes of an arm.
func decided(a playbook.Arm) bool {
	return a == playbook.ArmShown || a == playbook.ArmWithheld || a == playbook.ArmOpen
}

// addOutcome drafts one outcome for a bullet's case, if the bullet still has the case with this number.
func (d *draft) addOutcome(b *playbook.Bullet, number int, s playbook.Exposure, cover int) {
	if !decided(s.Arm) {
		return
	}
	op := playbook.Op{Kind: playbook.AddExposures, Bullet: b.ID, ExperimentNumber: number, Exposures: []playbook.Exposure{s}, Support: []int{cover}}
	bullets := 1
	if d.changed[b.ID] != nil {
		bullets = 0
	}
	if !d.hasRoom(&op, bullets) {
		return
	}
	if now := b.Apply(&op, d.covers); now != nil {
		d.changed[b.ID] = now
		d.evidenceChanged[b.ID] = struct{}{}
		d.sum(countKey{bullet: b.ID, kind: playbook.AddExposures, number: number}, op)
	}
}
