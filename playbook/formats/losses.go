package formats

import (
	"fmt"
	"slices"
	"time"

	"debrief/playbook"
)

// lossesOf returns a Loss for each value of a bullet that the file does not store. Id, section and content are always
// stored; held lists the other stored fields.
func lossesOf(f Format, b *playbook.Bullet, held ...string) (losses []Loss) {
	lose := func(field string, set bool, format string, args ...any) {
		if set && !slices.Contains(held, field) {
			losses = append(losses, Loss{b.ID, field, fmt.Sprintf(format, args...)})
		}
	}
	lose("helpful", b.Helpful != 0, "%s cannot store the count %d", f, b.Helpful)
	lose("harmful", b.Harmful != 0, "%s cannot store the count %d", f, b.Harmful)
	lose("neutral", b.Neutral != 0, "%s cannot store the count %d", f, b.Neutral)
	lose("status", !b.Shown(), "%s cannot store the status %s; readers of the file will treat the bullet as active", f, b.Status)
	lose("pinned", b.Pinned, "%s cannot store pins", f)
	for _, t := range []struct {
		field string
		time  time.Time
	}{{"created_at", b.CreatedAt}, {"updated_at", b.UpdatedAt}, {"last_used", b.LastUsed}} {
		lose(t.field, !t.time.IsZero(), "%s cannot store the time", f)
	}
	return losses
}

// markdown renders the active bullets like in a prompt.
func (w *writer) markdown() []byte {
	shown := make([]*playbook.Bullet, 0, len(w.bullets))
	for _, b := range w.bullets {
		if !b.Shown() {
			w.addLoss(b.ID, "status", "the bullet is %s and markdown has only active bullets; bullet skipped", b.Status)
			continue
		}
		shown = append(shown, b)
		w.losses = append(w.losses, lossesOf(w.format, b, "helpful", "harmful")...)
	}
	return []byte(playbook.RenderWithVotes(shown))
}
