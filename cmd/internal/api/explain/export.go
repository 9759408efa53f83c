package explain

import (
	"fmt"
	"slices"
	"strings"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// Exported returns the bullets of an export to a format. If all is true, these are all bullets, else those that are exported by default.
func Exported(p *playbook.Playbook, f formats.Format, all bool) []*playbook.Bullet {
	bullets := p.Sorted()
	if all {
		return bullets
	}
	return slices.DeleteFunc(bullets, func(b *playbook.Bullet) bool { return !exportedByDefault(f, b) })
}

// exportedByDefault reports whether a bullet is exported to a format by default.
func exportedByDefault(f formats.Format, b *playbook.Bullet) bool {
	switch f {
	case formats.JSON, formats.JSONL:
		return true
	case formats.Kayba: // the format has a status for retired bullets
		return b.Shown() || b.Status == playbook.Retired
	}
	return b.Shown()
}

// Losses describes the fields that a format could not represent. It returns a line for each pair of field and reason, with the first three
// bullets.
func Losses(losses []formats.Loss) []string {
	bullets := map[string][]string{}
	var kinds []string
	for _, l := range losses {
		kind := l.Field + ": " + l.Reason
		if bullets[kind] == nil {
			kinds = append(kinds, kind)
		}
		bullets[kind] = append(bullets[kind], string(l.Bullet))
	}
	var lines []string
	for _, kind := range kinds {
		which := bullets[kind]
		if len(which) > firstFew {
			which = append(which[:firstFew:firstFew], fmt.Sprintf("and %d more", len(bullets[kind])-firstFew))
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", kind, strings.Join(which, ", ")))
	}
	return lines
}
