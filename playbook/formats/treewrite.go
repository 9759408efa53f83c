package formats

import (
	"slices"
	"strconv"

	"debrief/playbook"
)

// writeTree writes a file with a map of items.
func (w *writer) writeTree(d dialect) ([]byte, error) {
	var last uint64
	items := make(object, len(w.bullets))
	for i, b := range w.bullets {
		items[i] = w.item(d, b)
		last = max(last, b.ID.Number())
	}
	top := object{{d.maps[0], items.encode()}}
	if d.of == Kayba {
		top = append(top, member{"sections", w.sectionLists().encode()})
	}
	top = append(top, member{"next_id", []byte(strconv.FormatUint(d.next(last), 10))})
	if d.of == Kayba {
		top = append(top, member{"similarity_decisions", []byte("{}")})
	}
	return indent(top.encode())
}

// item encodes a bullet.
func (w *writer) item(d dialect, b *playbook.Bullet) member {
	var out object
	var held []string // fields that the item stores
	for i := range d.fields {
		f := &d.fields[i]
		raw := f.write(b)
		if raw != nil {
			held = append(held, f.of)
		} else if raw = f.empty; raw == nil {
			continue
		}
		out = append(out, member{f.name, raw})
	}
	w.losses = append(w.losses, lossesOf(w.format, b, held...)...)
	if slices.Contains(held, "status") && !b.Shown() && b.Status != playbook.Retired {
		w.addLoss(b.ID, "status", "%s has no status %s; written as invalid", w.format, b.Status)
	}
	return member{string(b.ID), out.encode()}
}

// sectionLists returns the ids of each section, in the order of the bullets.
func (w *writer) sectionLists() object {
	order, bySection := groupBySection(w.bullets)
	lists := make(object, len(order))
	for i, section := range order {
		ids := make([]playbook.BulletID, len(bySection[section]))
		for j, b := range bySection[section] {
			ids[j] = b.ID
		}
		lists[i] = member{section, encode(ids)}
	}
	return lists
}

// groupBySection returns the sections in order of appearance and the bullets of each.
func groupBySection(bullets []*playbook.Bullet) (order []string, bySection map[string][]*playbook.Bullet) {
	bySection = map[string][]*playbook.Bullet{}
	for _, b := range bullets {
		if bySection[b.Section] == nil {
			order = append(order, b.Section)
		}
		bySection[b.Section] = append(bySection[b.Section], b)
	}
	return order, bySection
}
