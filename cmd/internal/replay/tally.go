package replay

import (
	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/playbook"
)

// bulletUsage counts the training samples whose prompt contained a bullet.
type bulletUsage struct{ shown, cited, right int }

// tally sums the model usage and the use of bullets. The lock of the tracker guards it.
type tally struct {
	generator report.Usage
	reflector report.Usage
	model     string // of the latest execution
	bullets   map[playbook.BulletID]bulletUsage
}

// countBullets counts the bullets of an execution.
func (t *tally) countBullets(e *events.Execution) {
	for _, b := range e.Shown {
		u := t.bullets[b.ID]
		u.shown++
		if e.Outcome.Label == events.Success {
			u.right++
		}
		t.bullets[b.ID] = u
	}
	for _, id := range e.Cited {
		u := t.bullets[id]
		u.cited++
		t.bullets[id] = u
	}
}
