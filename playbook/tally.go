package playbook

// Tally sums the records of a playbook's bullets.
type Tally struct {
	// Cited is the number of outcomes of tasks that cited a shown bullet, and Sum the sum of their scores, in tenths.
	Cited, Sum int
}

// Tally returns the sums over the current bullets.
func (p *Playbook) Tally() Tally { return p.tally }

// Typical returns the mean score of tasks that cite a shown bullet, from 0 to 1. With few outcomes it is near a half.
func (t Tally) Typical() float64 {
	return (float64(t.Sum)/MaxScore + 1) / float64(t.Cited+2)
}

// count adds the record of a bullet, or subtracts it if sign is -1. A nil bullet counts nothing.
func (t *Tally) count(b *Bullet, sign int) {
	if b == nil || b.Experiment == nil {
		return
	}
	e := b.Experiment
	if b.Shown() {
		t.Cited += sign * e.Cited.Count()
		t.Sum += sign * e.Cited.Sum()
	}
}
