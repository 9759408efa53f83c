package admit

import "debrief/playbook"

// Pinned returns an old state of a playbook for prompts of today. If a bullet of the newest state is in quarantine or rejected, Pinned
// quarantines the bullets of the old state that have its id or its text. Bullets that were retired, changed, merged or removed later stay as
// they were, so that versions can be compared. If nothing is refused, Pinned returns old itself, else a state with only the bullets and the
// gate mode: a pinned context has no reflections, which need the other settings.
//
// The old state must not contain the executions that were forgotten later, see history.StateAt.
func Pinned(old, newest *playbook.Playbook) *playbook.Playbook {
	refusedTexts := map[playbook.ContentKey]bool{}
	for b := range newest.All() {
		if isRefused(b) {
			refusedTexts[playbook.ContentKeyOf(b.Content)] = true
		}
	}
	if len(refusedTexts) == 0 {
		return old
	}
	anyRefused := false
	admitted := playbook.Restore(old.Version(), old.LastMinted(), func(yield func(*playbook.Bullet) bool) {
		for b := range old.All() {
			today := newest.Bullet(b.ID)
			if today != nil && isRefused(today) || refusedTexts[playbook.ContentKeyOf(b.Content)] {
				anyRefused = true
				held := *b
				held.Status = playbook.Quarantined
				b = &held
			}
			if !yield(b) {
				return
			}
		}
	})
	if !anyRefused {
		return old
	}
	if mode, set := old.Gate(); set {
		admitted.SetGate(mode)
	}
	return admitted
}

// isRefused reports whether a bullet waits for a person, or a person rejected it.
func isRefused(b *playbook.Bullet) bool {
	state := StateOf(b)
	return state == Quarantined || state == Rejected
}
