package similar

import "slices"

// Len returns the number of texts.
func (x *Index) Len() int { return len(x.ids) }

// Put adds a text or replaces the text of the same id.
func (x *Index) Put(id, text string) {
	text = normalize(text)
	if e := x.ids[id]; e != nil {
		if e.text == text {
			return
		}
		x.Drop(id)
	}
	if x.ids == nil {
		x.ids, x.texts = make(map[string]*entry), make(map[string]*entry)
	}
	e := x.texts[text]
	if e == nil { // no other id has the same normalized text
		e = &entry{text: text}
		x.texts[text] = e
		x.probe.load(text)
		for k := range setKinds {
			x.sketches[k].add(e, &x.probe.sets[k], k)
		}
	}
	at, _ := slices.BinarySearch(e.ids, id)
	e.ids = slices.Insert(e.ids, at, id)
	x.ids[id] = e
}

// Drop removes the text of an id. It does nothing for an unknown id.
func (x *Index) Drop(id string) {
	e := x.ids[id]
	if e == nil {
		return
	}
	delete(x.ids, id)
	at, _ := slices.BinarySearch(e.ids, id)
	e.ids = slices.Delete(e.ids, at, at+1)
	if len(e.ids) > 0 {
		return
	}
	delete(x.texts, e.text)
	for k := range setKinds {
		x.sketches[k].drop(e, k)
	}
}
