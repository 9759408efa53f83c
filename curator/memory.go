package curator

import (
	"context"
	"slices"
	"strings"

	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/natskv"
	"debrief/playbook/recall"
	"debrief/playbook/similar"
)

// memory is what of a book was turned down or taken out lately, so that models can be told and the same thing is not
// decided anew every time somebody asks for it. It knows what this curator committed, and what the end of the log held
// when the book was opened; another curator's news comes with the next opening. It may forget, and holds no truth: what
// it says is turned down is on record with its reason.
type memory struct {
	loaded  bool
	lapses  map[string]*lapse // by key
	keys    []string          // of lapses, those that came first at the front
	words   recall.Words      // of lapses
	texts   similar.Index     // of what was turned down for good: lapses and retired bullets
	retired map[playbook.BulletID]*leaver
	leaving []playbook.BulletID // of retired, those that came first at the front
}

// lapse is a text that was turned down.
type lapse struct {
	text, reason string
	lasting      bool
}

// leaver is a bullet that retired, and what it said when it was last looked at.
type leaver struct{ text, reason string }

// Bounds of a memory.
const (
	maxLapses  = 256
	maxRetired = 512
	// tail is how far back in the stream of deltas the end of a book's log is read. Of a book that others are as busy as
	// it is fewer.
	tail = 300
)

// refusedBefore begins the reason for turning something down that was turned down for good.
const refusedBefore = "was turned down before: "

// lastingReasons begin the reasons for which a text is turned down for good, whatever the playbook says by then. Append
// what is decided about a text and not about the moment.
var lastingReasons = []string{reasonContent, refusedBefore}

func lasts(reason string) bool { return begins(reason, lastingReasons) }

func begins(reason string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(reason, p) })
}

// passing begin the reasons that say nothing about a text: it may be proposed again.
var passing = []string{errFull.reason, "bullet ", "type:", "bullet_id:", "source_ids:", "another ", "dropped beside"}

// places are in the reasons for which a bullet retires that lost its place, and nothing was found against it.
var places = []string{reasonBudget, "seconded less often", "others wait", "other corrections of", "asked to be removed"}

// condemned reports whether a reason to retire a bullet speaks against what it says.
func condemned(reason string) bool {
	return reason != "" && !slices.ContainsFunc(places, func(p string) bool { return strings.Contains(reason, p) })
}

// load reads the end of the log, once.
func (m *memory) load(ctx context.Context, w *natskv.Writer) error {
	if m.loaded {
		return nil
	}
	if err := w.Recent(ctx, tail, func(d *playbook.Delta) { m.note(d) }); err != nil {
		return err
	}
	m.loaded = true
	return nil
}

// note takes in a delta that was committed. The same delta twice is as good as once.
func (m *memory) note(d *playbook.Delta) {
	for i := range d.Rejected {
		j := &d.Rejected[i]
		if j.Op.Content == "" || j.Same != "" || begins(j.Reason, passing) || redact.Marked(j.Op.Content) {
			continue
		}
		if d.Author == Author {
			m.remember(j.Op.Content, j.Reason)
		}
	}
	for i := range d.Ops {
		op := &d.Ops[i]
		switch op.Kind {
		case playbook.SetStatus:
			if op.Status == playbook.Retired {
				why := op.Reason
				if why == "" && d.Author != Author {
					why = "a person retired it"
				}
				m.retire(op.Bullet, why)
			} else {
				m.unretire(op.Bullet)
			}
		case playbook.Remove:
			m.unretire(op.Bullet)
		case playbook.Add, playbook.Update, playbook.Merge, playbook.Put:
			if d.Author != Author { // somebody wants it after all
				content := op.Content
				if op.Whole != nil {
					content = op.Whole.Content
				}
				m.forget(lapseKey(content))
			}
		}
	}
}

func lapseKey(text string) string {
	w := playbook.WordingOf(text)
	return string(w[:])
}

func (m *memory) remember(text, reason string) {
	key := lapseKey(text)
	l := &lapse{text, strings.TrimPrefix(reason, refusedBefore), lasts(reason)}
	if old := m.lapses[key]; old != nil {
		if old.lasting && !l.lasting {
			return
		}
		m.forget(key)
	}
	if m.lapses == nil {
		m.lapses = make(map[string]*lapse)
	}
	m.lapses[key] = l
	m.keys = append(m.keys, key)
	m.words.Put(key, text)
	if l.lasting {
		m.texts.Put("lapse "+key, text)
	}
	if len(m.lapses) > maxLapses {
		m.forget(m.keys[0])
	}
}

func (m *memory) forget(key string) {
	if m.lapses[key] == nil {
		return
	}
	delete(m.lapses, key)
	m.words.Drop(key)
	m.texts.Drop("lapse " + key)
	for i, k := range m.keys {
		if k == key {
			m.keys = append(m.keys[:i], m.keys[i+1:]...)
			break
		}
	}
}

func (m *memory) retire(id playbook.BulletID, reason string) {
	m.unretire(id)
	if m.retired == nil {
		m.retired = make(map[playbook.BulletID]*leaver)
	}
	m.retired[id] = &leaver{reason: reason}
	m.leaving = append(m.leaving, id)
	if len(m.leaving) > maxRetired {
		m.unretire(m.leaving[0])
	}
}

func (m *memory) unretire(id playbook.BulletID) {
	if _, there := m.retired[id]; !there {
		return
	}
	delete(m.retired, id)
	m.texts.Drop("bullet " + string(id))
	for i, known := range m.leaving {
		if known == id {
			m.leaving = append(m.leaving[:i], m.leaving[i+1:]...)
			break
		}
	}
}

// follow brings the texts of retired bullets in line with a state.
func (m *memory) follow(p *playbook.Playbook) {
	for id, l := range m.retired {
		b := p.Bullet(id)
		if b != nil && b.Status == playbook.Retired && condemned(l.reason) {
			l.text = b.Content
			m.texts.Put("bullet "+string(id), l.text)
		} else {
			m.texts.Drop("bullet " + string(id))
		}
	}
}

// whyRetired is the reason on record for a retired bullet.
func (m *memory) whyRetired(id playbook.BulletID) string {
	if l := m.retired[id]; l != nil && l.reason != "" {
		return l.reason
	}
	return "it was retired"
}

// refuse is why a text is turned down that says, or nearly says, what was turned down for good; "" if it does not.
func (m *memory) refuse(content string) string {
	var other map[string]bool
	for range maxAlike {
		near, ok := m.texts.Near(content, similar.Nearly, func(id string) bool { return other[id] })
		if !ok {
			return ""
		}
		text, reason := m.about(near.ID)
		if text != "" && similar.Differ(text, content) == "" {
			return clip(refusedBefore+reason, maxReason)
		}
		if other == nil {
			other = make(map[string]bool)
		}
		other[near.ID] = true
	}
	return ""
}

// about is what is kept under an id of texts.
func (m *memory) about(id string) (text, reason string) {
	if key, ok := strings.CutPrefix(id, "lapse "); ok {
		if l := m.lapses[key]; l != nil {
			return l.text, l.reason
		}
		return "", ""
	}
	if l := m.retired[playbook.BulletID(strings.TrimPrefix(id, "bullet "))]; l != nil {
		return l.text, l.reason
	}
	return "", ""
}
