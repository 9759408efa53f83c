package history

import "debrief/playbook"

// Withdrawn returns the texts that persons took out of a playbook: those of bullets that they removed or merged away, and those that they
// replaced by another text. A text that a later change sets again is not withdrawn. Changes that forget executions or restore a version
// withdraw nothing.
func Withdrawn(log Log) (map[string]bool, error) {
	w := withdrawals{latest: map[playbook.BulletID]string{}, texts: map[string]bool{}}
	err := log.changes(endOfLog, func(c change) error {
		last := c.last()
		byPerson := last.Author != Curator && last.Forget == nil && last.RestoredVersion == nil
		for _, part := range c {
			for i := range part.Ops {
				w.add(&part.Ops[i], byPerson)
			}
		}
		return nil
	})
	return w.texts, err
}

// withdrawals are the withdrawn texts in a part of a log.
type withdrawals struct {
	latest map[playbook.BulletID]string // the text of each bullet
	texts  map[string]bool
}

// add adds the effect of the next operation.
func (w *withdrawals) add(op *playbook.Op, byPerson bool) {
	switch op.Kind {
	case playbook.Remove:
		w.withdraw(op.Bullet, byPerson)
		delete(w.latest, op.Bullet)
	case playbook.Add, playbook.Update, playbook.Merge, playbook.Put:
		content := textOf(op)
		if content == "" { // an update of the section only
			return
		}
		w.withdraw(op.Bullet, byPerson)
		for _, source := range op.Sources {
			w.withdraw(source, byPerson)
		}
		delete(w.texts, content)
		w.latest[op.Bullet] = content
	}
}

// withdraw adds the text of a bullet.
func (w *withdrawals) withdraw(id playbook.BulletID, byPerson bool) {
	if content, ok := w.latest[id]; ok && byPerson {
		w.texts[content] = true
	}
}
