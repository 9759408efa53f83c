package admit

import "debrief/playbook"

// Pinned returns an old state of a playbook, then, as prompts may contain it now. A text that people or the Curator have refused since is
// quarantined, with its bullet and with each bullet that has the same text. Bullets that were retired, changed, merged or removed since
// stay, so that versions can be compared. The admission is that of the old state. If nothing is refused, Pinned returns then itself.
//
// The old state must not contain the executions that were forgotten since; see history.StateAt.
func Pinned(then, now *playbook.Playbook) *playbook.Playbook {
	refusedTexts := map[playbook.ContentKey]bool{}
	for b := range now.All() {
		if isRefused(b) {
			refusedTexts[playbook.ContentKeyOf(b.Content)] = true
		}
	}
	if len(refusedTexts) == 0 {
		return then
	}
	anyRefused := false
	admitted := playbook.Restore(then.Version(), then.LastMinted(), func(yield func(*playbook.Bullet) bool) {
		for b := range then.All() {
			today := now.Bullet(b.ID)
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
		return then
	}
	if mode, set := then.Gate(); set {
		admitted.SetGate(mode)
	}
	admitted.SetAdmission(then.Admission())
	return admitted
}

// isRefused reports whether a bullet waits for a person, or a person rejected it.
func isRefused(b *playbook.Bullet) bool {
	state := StateOf(b)
	return state == Quarantined || state == Rejected
}
