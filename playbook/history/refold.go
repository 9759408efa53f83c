package history

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/playbook"
)

// refold folds a log as if some of what it covers had never been.
type refold struct {
	past
	matched  map[uint64]int // what each forgetting reaches that none before it did
	state    *state
	parts    playbook.Parts
	version  uint64                       // being folded
	kept     map[uint64]*state            // states that are needed later
	approved map[playbook.BulletID]uint64 // the last version in which a person had a bullet shown
	covers   []playbook.Cover             // of the delta that is being made
	real     *playbook.Playbook           // as the log has it; nil where nothing is forgotten
	said     map[playbook.BulletID]string // by operations of this change, and by those of them that are left
	left     map[playbook.BulletID]string
}

func (p *past) refold() *refold {
	empty := &state{mixed: map[playbook.BulletID][]uint64{}, dropped: map[playbook.BulletID]dropped{}}
	r := &refold{
		past: *p, matched: map[uint64]int{}, state: empty,
		kept: map[uint64]*state{0: empty.clone()}, approved: map[playbook.BulletID]uint64{},
	}
	if len(p.forgets) > 0 {
		r.real = new(playbook.Playbook)
	}
	return r
}

func (r *refold) run(log Log) error {
	return log(func(d *playbook.Delta) error {
		if d.Version > r.newest { // came while we read; it was not surveyed
			return nil
		}
		return r.take(d)
	})
}

// take folds one delta. Each becomes a delta of what is left of it, so that versions stay what they are.
func (r *refold) take(d *playbook.Delta) error {
	r.version = d.Version
	left := playbook.Delta{Version: d.Version, Time: d.Time}
	if c := change(r.parts.Take(d)); c != nil {
		r.covers = slices.Clip(d.Covers)
		ops, err := r.remains(c)
		if err != nil {
			return fmt.Errorf("version %d: %w", d.Version, err)
		}
		left.Ops, left.Covers = ops, r.covers
		for _, part := range c {
			left.Gate = cmp.Or(part.Gate, left.Gate)
		}
	}
	changed, err := r.state.playbook.Apply(&left)
	if err != nil {
		return err
	}
	if err := r.number(d, changed); err != nil {
		return err
	}
	if r.keep[d.Version] {
		r.kept[d.Version] = r.state.clone()
	}
	return nil
}

// number gives the cases of bullets that changed the numbers that they have in the log. Outcomes name the case they are
// of by its number, and some of what opened cases is not here: so they count where the bullet says what it said then,
// and nowhere else.
func (r *refold) number(d *playbook.Delta, changed []playbook.BulletID) error {
	if r.real == nil {
		return nil
	}
	really, err := r.real.Apply(d)
	if err != nil {
		return err
	}
	for _, id := range slices.Concat(changed, really) {
		is, was := r.state.playbook.Bullet(id), r.real.Bullet(id)
		if is == nil || was == nil {
			continue
		}
		n := was.TheCase().Number
		if is.Content != was.Content && (is.Rule == nil || was.Rule == nil) {
			n++
		}
		r.state.playbook.Renumber(id, n)
	}
	return nil
}

// remains is what is left of a change.
func (r *refold) remains(c change) (ops []playbook.Op, err error) {
	d := c.last()
	switch {
	case d.Restores != nil:
		return r.restored(c, *d.Restores)
	case d.Forgets != nil:
		return r.forgot(c), nil
	}
	gone := r.gone(d)
	r.said, r.left = map[playbook.BulletID]string{}, map[playbook.BulletID]string{}
	if d.Author != Curator {
		r.approve(c)
	}
	for _, part := range c {
		if r.real == nil {
			ops = append(ops, part.Ops...)
			continue
		}
		for _, op := range part.Ops {
			some := r.filter(op, r.rests(part, &op, gone), gone)
			note(r.said, op)
			note(r.left, some...)
			ops = append(ops, some...)
		}
	}
	for _, part := range c {
		for i := range part.Rejected {
			j := &part.Rejected[i]
			ops = append(ops, r.corroborate(j, r.rests(part, &j.Op, gone))...)
		}
	}
	return ops, nil
}

// note notes what operations say.
func note(says map[playbook.BulletID]string, ops ...playbook.Op) {
	for i := range ops {
		if ops[i].Content != "" {
			says[ops[i].Bullet] = ops[i].Content
		}
	}
}

// saidOf is what a bullet says in the log at this point.
func (r *refold) saidOf(id playbook.BulletID) string { return says(r.said, r.real, id) }

func says(now map[playbook.BulletID]string, p *playbook.Playbook, id playbook.BulletID) string {
	if text := now[id]; text != "" {
		return text
	}
	if b := p.Bullet(id); b != nil {
		return b.Content
	}
	return ""
}

// asSaid reports whether a bullet says here what it says in the log at this point.
func (r *refold) asSaid(id playbook.BulletID) bool {
	return playbook.WordingOf(r.saidOf(id)) == playbook.WordingOf(says(r.left, &r.state.playbook, id))
}

// gone says of each cover which forgetting takes it back, 0 for none. Of several it is the first: forgetting something
// once more is nothing new.
func (r *refold) gone(d *playbook.Delta) (gone []uint64) {
	gone = make([]uint64, len(d.Covers))
	for i, c := range d.Covers {
		for _, f := range r.forgets {
			if f.reaches(d.Version, c.Evidence) {
				gone[i] = f.at
				r.matched[f.at]++
				break
			}
		}
	}
	return gone
}

// approve notes which bullets a person has had shown.
func (r *refold) approve(c change) {
	for _, part := range c {
		for _, op := range part.Ops {
			asked := len(op.Support) > 0 || part.More // rules turn bullets, too
			if op.Kind == playbook.SetStatus && asked && (&playbook.Bullet{Status: op.Status}).Shown() {
				r.approved[op.Bullet] = c.last().Version
			}
		}
	}
}

// forgot is a forgetting made anew. What it took out is not here to begin with; what is mixed it quarantines, and people
// may approve that later. Besides, rules counted anew.
func (r *refold) forgot(c change) []playbook.Op {
	ops := unasked(c)
	for id, by := range r.state.mixed {
		if slices.Contains(by, r.version) && hideable(r.state.playbook.Bullet(id)) {
			ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Quarantined})
		}
	}
	return ops
}

// unasked is what a change that looks back does besides: it brings what rules say in line with their counts.
func unasked(c change) (ops []playbook.Op) {
	for _, part := range c {
		for _, op := range part.Ops {
			if op.Kind == playbook.Update || op.Kind == playbook.SetStatus {
				ops = append(ops, op)
			}
		}
	}
	return ops
}

// restored is a restoring change made anew: to how the restored version would have been.
func (r *refold) restored(c change, version uint64) ([]playbook.Op, error) {
	then, ok := r.kept[version]
	if !ok {
		return nil, fmt.Errorf("restores version %d, which is not before it", version)
	}
	hide := then.pending(version, c.last().Version, r.approved)
	ops := Towards(&r.state.playbook, quarantined(&then.playbook, version, hide))
	again := then.clone()
	r.state.mixed, r.state.dropped = again.mixed, again.dropped
	return append(ops, unasked(c)...), nil
}
