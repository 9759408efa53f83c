package formats

import (
	"strings"

	"debrief/playbook"
)

// readText reads a text file.
func (r *reader) readText(text string) error {
	blocks, outside := scan(strings.TrimPrefix(text, bom), r.doc.Format)
	for i := range blocks {
		if blocks[i].kind == bullet {
			r.names.reserve(blocks[i].id)
		}
	}
	section := defaultSection(r.doc.Format)
	for i := range blocks {
		switch b := &blocks[i]; b.kind {
		case bullet:
			at := Note{Line: b.lineNo, Item: repairID(b.id)}
			r.addBullet(at, &playbook.Bullet{Section: section, Helpful: b.helpful, Harmful: b.harmful}, b.id, b.body)
		case header:
			section = sectionOf(b.title)
		default:
			r.note(Note{Line: b.lineNo}, "%s; ignored", b.note)
		}
	}
	if outside > 0 {
		r.note(Note{}, "lines outside bullets: %d; ignored", outside)
	}
	return nil
}
