package draft

import (
	"fmt"

	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/text"
)

// maxViolation bounds the sentence and the code of a suspension, in bytes.
const maxViolation = screen.MaxReason + 16

// suspendViolated puts the bullets behind a violation into quarantine, in every mode of the gate and whatever the trust in the source,
// because an evaluator or a person reported the violation. Later feedback does not undo it; a person decides in review. A retired bullet
// stays retired.
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

// violationSentence returns the sentence for the person who decides: the run, who said it, and what.
func violationSentence(item *Item) string {
	r := item.Reflection
	said := fmt.Sprintf("run %s broke a rule", r.Handle)
	if r.Outcome.By != "" {
		said += ", says " + r.Outcome.By
	}
	if r.Outcome.Feedback != "" {
		said += ": " + r.Outcome.Feedback
	}
	return said
}
