package replay

import (
	"slices"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
)

// bulletUsage counts the training samples whose prompt contained a bullet.
type bulletUsage struct{ shown, cited, right int }

// tally sums the model usage and the use of bullets. The lock of the tracker guards it.
type tally struct {
	generator report.Usage
	reflector report.Usage
	models    []string // of the answers, in the order of their first answers
	bullets   map[playbook.BulletID]bulletUsage
}

// addModel adds the model of an answer.
func (t *tally) addModel(name string) {
	if name != "" && !slices.Contains(t.models, name) {
		t.models = append(t.models, name)
	}
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
