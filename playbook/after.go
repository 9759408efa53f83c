package playbook

// Made is the bullet that an Add makes.
func Made(op *Op, covers []Cover) *Bullet {
	b := &Bullet{ID: op.Bullet, Section: op.Section, Content: op.Content, Rule: op.Rule, Status: op.Status, Replaces: op.Replaces}
	if op.Share > 0 {
		b.Case = b.open(op.Share, true)
	}
	b.Backing = b.backed(covers, op.Support, 1)
	return b
}

// After is the bullet as an operation on it leaves it, times aside, and nil where the operation does nothing to it. The
// covers are those that its Support counts in, the sources the bullets that a Merge takes in. Apply and whoever drafts a
// delta go by it, so that both see the same.
func (b *Bullet) After(op *Op, covers []Cover, sources ...*Bullet) *Bullet {
	now := *b
	switch op.Kind {
	case Update:
		if counts := op.Rule != nil && b.Rule != nil && op.Rule.Key == b.Rule.Key; !counts && op.Content != b.Content {
			now.Case = b.open(b.TheCase().Share, false)
		}
		now.Content, now.Rule = op.Content, op.Rule
		if op.Section != "" {
			now.Section = op.Section
		}
	case Tag:
		now.Helpful += op.Helpful
		now.Harmful += op.Harmful
		now.Neutral += op.Neutral
		now.Backing = b.backed(covers, op.Support, 1)
	case Retag:
		now.count(op.Was, -len(op.Support))
		now.Helpful += op.Helpful
		now.Harmful += op.Harmful
		now.Neutral += op.Neutral
		if op.Helpful+op.Harmful+op.Neutral == 0 {
			now.Backing = b.backed(covers, op.Support, -1)
		}
	case Trial:
		if op.Case != b.TheCase().Number {
			return nil // of words, or a time, that are past
		}
		now.Case = b.saw(op.Seen)
	case Second:
		c := b.TheCase()
		c.Seconded += len(op.Support)
		now.Case = &c
		now.Backing = b.backed(covers, op.Support, 1)
	case SetStatus:
		now.Status = op.Status
		if k := b.TheCase(); op.Status == Retired && k.Seconded > 0 { // from here on it takes others to ask for it
			k.Seconded = 0
			now.Case = &k
		}
		if op.Share > 0 {
			now.Case = b.open(op.Share, true)
		}
	case Pin:
		now.Pinned = op.Pinned
	case Merge:
		if op.Content != b.Content {
			now.Case = b.open(b.TheCase().Share, false)
		}
		now.Content = op.Content
		for _, src := range sources {
			now.Helpful += src.Helpful
			now.Harmful += src.Harmful
			now.Neutral += src.Neutral
			now.Pinned = now.Pinned || src.Pinned
			now.Backing = now.joined(src.Backing)
		}
	default:
		return nil
	}
	return &now
}
