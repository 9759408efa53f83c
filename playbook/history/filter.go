package history

import (
	"slices"

	"debrief/playbook"
)

// rests is what an operation rests on: how many things in all, how many that are left, and the forgettings of the others.
type rests struct {
	all, left int
	by        []uint64
	on        []int // the indices into the change's covers of those that are left
}

func (r *refold) rests(part *playbook.Delta, op *playbook.Op, gone []uint64) (on rests) {
	count := func(i int, by uint64) {
		if on.all++; by == 0 {
			on.left++
			on.on = append(on.on, i)
		} else {
			on.by = union(on.by, []uint64{by})
		}
	}
	if part.More && part.Author != Curator { // on all that the change covers
		for i, by := range gone {
			count(i, by)
		}
		return on
	}
	for _, s := range op.Support {
		if s >= 0 && s < len(gone) { // of a rejection nothing has checked it
			count(s, gone[s])
		}
	}
	return on
}

// trim leaves of an operation what rests on something that is left: outcomes and votes one by one.
func trim(op *playbook.Op, gone []uint64) {
	var support []int
	var seen []playbook.Seen
	for i, s := range op.Support {
		if s < len(gone) && gone[s] != 0 {
			continue
		}
		if support = append(support, s); i < len(op.Seen) {
			seen = append(seen, op.Seen[i])
		}
	}
	op.Support, op.Seen = support, seen
}

// held is an operation that waits for a later delta, with what it rests on.
type held struct {
	op playbook.Op
	on []playbook.Cover
}

func (r *refold) hold(op playbook.Op) held {
	h := held{op: op}
	for _, s := range op.Support {
		if s < len(r.covers) { // of an early part nothing has checked it
			h.on = append(h.on, r.covers[s])
		}
	}
	return h
}

// bring is a held operation in the delta that is being made.
func (r *refold) bring(h held) playbook.Op {
	h.op.Support = nil
	for _, c := range h.on {
		h.op.Support = append(h.op.Support, len(r.covers))
		r.covers = append(r.covers, c)
	}
	return h.op
}

// filter is what is left of an operation.
func (r *refold) filter(op playbook.Op, on rests, gone []uint64) []playbook.Op {
	s := r.state
	never, isDropped := s.dropped[op.Bullet]
	if on.all > 0 && on.left == 0 {
		if op.Kind == playbook.Add {
			s.dropped[op.Bullet] = dropped{made: op, by: on.by}
		}
		return nil
	}
	trim(&op, gone)
	switch op.Kind {
	case playbook.Tag:
		if n := counter(&op); n != nil && on.all > 0 { // each vote is one execution's: none is mixed
			*n, on.by = min(*n, on.left), nil
		}
		if isDropped && never.made.Rule != nil { // another run has seen it too: it would have been the first
			return append(r.revive(op.Bullet, op.Support[:min(1, len(op.Support))]), op)
		}
	case playbook.Retag:
		if n := counter(&op); n != nil {
			*n = len(op.Support)
		}
		on.by = nil
	case playbook.Trial:
		on.by = nil
	case playbook.Second:
		if on.by = nil; !isDropped {
			if !r.asSaid(op.Bullet) { // it asked for words that are forgotten
				return nil
			}
			break
		}
		// Who asked for it again would have been the first to.
		ops := r.again(op.Bullet, r.saidOf(op.Bullet), op.Support[:1])
		if op.Support = op.Support[1:]; len(op.Support) > 0 {
			ops = append(ops, op)
		}
		return ops
	case playbook.Update:
		if isDropped && on.left > 0 { // its words rest on something else
			s.mix(op.Bullet, union(never.by, on.by))
			return append(r.reviveMixed(op.Bullet, nil), op)
		}
	case playbook.Merge:
		if isDropped { // there is nothing to merge into: the sources stay as they are
			return nil
		}
		for _, id := range op.Sources {
			on.by = union(on.by, union(s.dropped[id].by, s.mixed[id]))
			delete(s.dropped, id)
			delete(s.mixed, id)
		}
	case playbook.Put, playbook.Remove:
		delete(s.dropped, op.Bullet)
		delete(s.mixed, op.Bullet)
		return []playbook.Op{op}
	}
	if isDropped {
		if op.Kind != playbook.Update { // of which only a rule's own, with its counts, comes to here
			never.later = append(slices.Clip(never.later), r.hold(op))
			s.dropped[op.Bullet] = never
		}
		return nil
	}
	s.mix(op.Bullet, on.by)
	return []playbook.Op{op}
}

// revive makes a bullet after all, on other grounds, with what was done to it since.
func (r *refold) revive(id playbook.BulletID, on []int) []playbook.Op {
	never := r.state.dropped[id]
	delete(r.state.dropped, id)
	never.made.Support = on
	ops := []playbook.Op{never.made}
	for _, h := range never.later {
		ops = append(ops, r.bring(h))
	}
	return ops
}

// reviveMixed revives a bullet that rests in part on what was forgotten: quarantined, if that was before.
func (r *refold) reviveMixed(id playbook.BulletID, on []int) []playbook.Op {
	ops := r.revive(id, on)
	if slices.ContainsFunc(r.state.mixed[id], func(at uint64) bool { return r.approved[id] < at && at < r.version }) {
		ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Quarantined})
	}
	return ops
}

// corroborate makes a bullet after all when something else said the same and was turned down for that. Where it said so
// in other words, a person has to look at it.
func (r *refold) corroborate(j *playbook.Rejection, on rests) []playbook.Op {
	_, isDropped := r.state.dropped[j.Same]
	if j.Same == "" || !isDropped || on.left == 0 {
		return nil
	}
	return r.again(j.Same, j.Op.Content, on.on)
}

// again revives a bullet because something else said so.
func (r *refold) again(id playbook.BulletID, content string, on []int) []playbook.Op {
	never := r.state.dropped[id]
	if playbook.WordingOf(never.made.Content) != playbook.WordingOf(content) {
		r.state.mix(id, never.by)
		return r.reviveMixed(id, on)
	}
	return r.revive(id, on)
}

// counter is the one counter that a tag moves, nil if it moves several.
func counter(op *playbook.Op) (one *int) {
	for _, n := range [...]*int{&op.Helpful, &op.Harmful, &op.Neutral} {
		if *n > 0 {
			if one != nil {
				return nil
			}
			one = n
		}
	}
	return one
}
