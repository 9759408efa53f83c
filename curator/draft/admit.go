package draft

import (
	"cmp"
	"slices"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/playbook"
)

// admission decides which proposals become operations.
type admission struct {
	*state
	sources *sources
	changes *changes
}

// propose drafts a proposal of a model or a lesson. A proposal from an untrusted source goes to quarantine. If the gate is
// on, new text becomes a candidate. propose returns the reason if the proposal is rejected, or nil.
func (d *admission) propose(op playbook.Op) *screen.Refusal {
	old := d.Bullet(op.Bullet)
	if old == nil && op.Kind != playbook.Add {
		return unknownBullet(op.Bullet)
	}
	if op.Kind == playbook.Confirm {
		op.Status = playbook.Candidate // the status that an ADD of the same text would have
		return d.changes.second(&op, duplicateText(old))
	}
	if level, source := d.sources.lowestTrust(op.Support); level == Untrusted {
		return d.quarantine(op, screen.Refusef(playbook.ReasonUntrusted, "source %q is not trusted", source))
	}
	if d.mode == playbook.GateOn {
		return d.proposeGated(op, old)
	}
	if op.Kind == playbook.Update || op.Kind == playbook.Merge || op.Kind == playbook.Remove {
		if b := d.sources.contradictedBullet(&op); b != nil {
			if op.Kind == playbook.Merge {
				op.Bullet = b.ID
			}
			return d.quarantine(op, refuseContradiction(b))
		}
	}
	return d.changes.change(&op)
}

// quarantine drafts the new text of a proposal as a bullet in quarantine, which waits for a person. The bullet that it would
// replace stays. A proposal without a text, such as a removal, is rejected with the reason why.
func (d *admission) quarantine(op playbook.Op, why *screen.Refusal) *screen.Refusal {
	add := playbook.Op{
		Kind: playbook.Add, Section: op.Section, Content: op.Content, Status: playbook.Quarantined, Support: op.Support,
		Code: why.Code, Reason: screen.Truncate(why.Reason, screen.MaxReason),
	}
	switch op.Kind {
	case playbook.Add:
		add.Bullet = op.Bullet // change refuses an ADD with an id
	case playbook.Update, playbook.Merge:
		b := d.Bullet(op.Bullet)
		add.Section, add.Replaces = cmp.Or(add.Section, b.Section), b.ID
	default:
		return why
	}
	return d.changes.change(&add)
}

// proposeGated drafts a proposal while the gate is on. New text becomes a candidate for an experiment. A proposal cannot
// remove a bullet that is shown to all; only the gate can retire it.
func (d *admission) proposeGated(op playbook.Op, old *playbook.Bullet) *screen.Refusal {
	switch op.Kind {
	case playbook.Add:
		op.Status = playbook.Candidate
	case playbook.Update:
		if playbook.ContentKeyOf(op.Content) != playbook.ContentKeyOf(old.Content) {
			return d.addCorrection(op, old)
		}
		op.Content, op.Rule = old.Content, old.Rule // it can only change the section
	case playbook.Merge:
		if playbook.ContentKeyOf(op.Content) != playbook.ContentKeyOf(old.Content) {
			return d.addCorrection(op, old)
		}
		op.Content = old.Content
		for _, id := range op.Sources {
			if src := d.Bullet(id); src != nil && src.Shown() {
				return d.refuseProven(src)
			}
		}
	case playbook.Remove:
		switch {
		case old.Pinned:
			return screen.Refusef(playbook.ReasonPinned, "bullet %q is pinned", old.ID)
		case old.Shown():
			return d.refuseProven(old)
		case old.Status != playbook.Candidate && old.Status != playbook.Probation:
			return screen.Refusef(playbook.ReasonStatus, "bullet %q is already %s", old.ID, old.Status)
		}
		op = playbook.Op{
			Kind: playbook.SetStatus, Bullet: old.ID, Status: playbook.Retired, Support: op.Support,
			Code: playbook.ReasonRemoval, Reason: cmp.Or(op.Reason, "removal requested before the experiment ended"),
		}
	}
	return d.changes.change(&op)
}

func (d *admission) refuseProven(b *playbook.Bullet) *screen.Refusal {
	return screen.Refusef(playbook.ReasonStatus, "bullet %q is shown to all tasks: only outcomes can retire it, not a proposal", b.ID)
}

// addCorrection drafts a correction of a bullet: a candidate that can replace it.
func (d *admission) addCorrection(op playbook.Op, old *playbook.Bullet) *screen.Refusal {
	return d.changes.change(&playbook.Op{
		Kind: playbook.Add, Section: cmp.Or(op.Section, old.Section), Content: op.Content, Status: playbook.Candidate,
		Replaces: gate.Family(old), Support: op.Support, Reason: op.Reason,
	})
}

// second drafts a SECOND: one more request for the text of a bullet that waits or is on probation. In all other cases it
// returns why, the refusal of the duplicate.
func (d *changes) second(op *playbook.Op, why *screen.Refusal) *screen.Refusal {
	b := d.Bullet(why.DuplicateOf)
	asks := op.Kind == playbook.Confirm || op.Status == playbook.Candidate
	waits := b.Status == playbook.Candidate || b.Status == playbook.Probation || d.mode == playbook.GateOn && d.Gate.MayReturn(b)
	if d.mode != playbook.GateOn || d.byPerson || !asks || !waits {
		return why
	}
	key := countKey{bullet: b.ID, kind: playbook.Confirm}
	asked := func(i int) bool { // whether this draft has the request of cover i
		if sum := d.sums[key]; sum != nil && slices.Contains(sum.Support, i) {
			return true
		}
		return slices.ContainsFunc(d.ops, func(made playbook.Op) bool {
			return made.Bullet == b.ID && (made.Kind == playbook.Add || made.Kind == playbook.Confirm) && slices.Contains(made.Support, i)
		})
	}
	support := slices.DeleteFunc(slices.Clone(op.Support), asked)
	if len(support) == 0 {
		return why
	}
	support, mistrusted := d.sources.trustedSupport(b, support)
	if len(support) == 0 {
		return mistrusted
	}
	second := playbook.Op{Kind: playbook.Confirm, Bullet: b.ID, Support: support}
	if !d.hasRoom(&second, 1) {
		return errFull
	}
	d.changed[b.ID] = b.Apply(&second, d.covers)
	d.sum(key, second)
	if b.Status == playbook.Retired {
		d.evidenceChanged[b.ID] = struct{}{}
	}
	return nil
}
