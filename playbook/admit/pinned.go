package admit

import "debrief/playbook"

// Pinned returns an old state of a playbook as prompts may contain it today: its own admission counts, and a text that people or the
// Curator have refused since is quarantined. A text is refused with its bullet, and with each bullet that has the same text. Bullets that
// were retired, changed, merged or removed since stay, so that versions can be compared.
//
// Then is the state without the executions forgotten since, see history.StateAt. Its view is the same if nothing is refused.
func Pinned(then, now *playbook.Playbook) *playbook.Playbook {
	texts := map[playbook.ContentKey]bool{}
	for b := range now.All() {
		if isRefused(b) {
			texts[playbook.ContentKeyOf(b.Content)] = true
		}
	}
	if len(texts) == 0 {
		return then
	}
	refused := false
	shown := playbook.Restore(then.Version(), then.LastMinted(), func(yield func(*playbook.Bullet) bool) {
		for b := range then.All() {
			if today := now.Bullet(b.ID); today != nil && isRefused(today) || texts[playbook.ContentKeyOf(b.Content)] {
				held := *b
				held.Status, refused = playbook.Quarantined, true
				b = &held
			}
			if !yield(b) {
				return
			}
		}
	})
	if !refused {
		return then
	}
	if mode, set := then.Gate(); set {
		shown.SetGate(mode)
	}
	shown.SetAdmission(then.Admission())
	return shown
}

// isRefused reports whether a bullet waits for a person, or a person rejected it.
func isRefused(b *playbook.Bullet) bool {
	state := StateOf(b)
	return state == Quarantined || state == Rejected
}
