package draft

import (
	"fmt"

	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/text"
)

// maxViolation bounds the sentence and the code of a suspension, in bytes.
const maxViolation = screen.MaxReason + 16

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
