package playbook

// TypicalOf is Typical with sums of its own.
func TypicalOf(t Tally, b *Bullet) Typical { return t.without(b) }
