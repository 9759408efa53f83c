package playbook

// NewBullet returns the bullet that an Add creates, without times. Op.Support has indices into covers.
func NewBullet(op *Op, covers []Cover) *Bullet {
	b := &Bullet{ID: op.Bullet, Section: op.Section, Content: op.Content, Rule: op.Rule, Status: op.Status, Replaces: op.Replaces}
	if op.Share > 0 {
		b.Experiment = b.newCase(op.Share, true)
	}
	b.SupportBySource = b.addSupport(covers, op.Support, 1)
	return b
}

// Apply returns the bullet after an operation, with unchanged times. It returns nil if the operation has no effect on the
// bullet. Op.Support has indices into covers; sources are the bullets that a Merge combines. Apply and the code that
// drafts deltas both use it, so that they compute the same result.
func (b *Bullet) Apply(op *Op, covers []Cover, sources ...*Bullet) *Bullet {
	now := *b
	switch op.Kind {
	case Update:
		if counts := op.Rule != nil && b.Rule != nil && op.Rule.Key == b.Rule.Key; !counts && op.Content != b.Content {
			now.Experiment = b.newCase(b.CurrentExperiment().Share, false)
		}
		now.Content, now.Rule = op.Content, op.Rule
		if op.Section != "" {
			now.Section = op.Section
		}
	case Tag:
		now.Helpful += op.Helpful
		now.Harmful += op.Harmful
		now.Neutral += op.Neutral
		now.SupportBySource = b.addSupport(covers, op.Support, 1)
	case Retag:
		now.addVotes(op.OldVote, -len(op.Support))
		now.Helpful += op.Helpful
		now.Harmful += op.Harmful
		now.Neutral += op.Neutral
		if op.Helpful+op.Harmful+op.Neutral == 0 {
			now.SupportBySource = b.addSupport(covers, op.Support, -1)
		}
	case AddExposures:
		if op.ExperimentNumber != b.CurrentExperiment().Number {
			return nil // outcomes of an earlier case
		}
		now.Experiment = b.addOutcomes(op.Exposures)
	case Confirm:
		c := b.CurrentExperiment()
		c.Confirmations += len(op.Support)
		now.Experiment = &c
		now.SupportBySource = b.addSupport(covers, op.Support, 1)
	case SetStatus:
		now.Status = op.Status
		if c := b.CurrentExperiment(); op.Status == Retired && c.Confirmations > 0 { // earlier requests no longer count
			c.Confirmations = 0
			now.Experiment = &c
		}
		if op.Share > 0 {
			now.Experiment = b.newCase(op.Share, true)
		}
	case Pin:
		now.Pinned = op.Pinned
	case Merge:
		if op.Content != b.Content {
			now.Experiment = b.newCase(b.CurrentExperiment().Share, false)
		}
		now.Content = op.Content
		for _, src := range sources {
			now.Helpful += src.Helpful
			now.Harmful += src.Harmful
			now.Neutral += src.Neutral
			now.Pinned = now.Pinned || src.Pinned
			now.SupportBySource = now.mergeSupport(src.SupportBySource)
		}
	default:
		return nil
	}
	return &now
}
