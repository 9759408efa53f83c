package admit

import (
	"slices"

	"debrief/playbook"
	"debrief/playbook/similar"
)

// NearCopy is the similarity from which a text counts as a copy of another one. It is low, because it is better to leave out a text that is
// only similar than to show a copy.
const NearCopy = 0.8

// Book has the facts of one version of a playbook that decide which reflections may be used. The zero value knows no version, and admits
// nothing. Methods other than Update may be called concurrently.
type Book struct {
	known     bool // the playbook has a version, so the fields are known
	gate      playbook.Gate
	admission playbook.Admission
	mark      playbook.Mark                  // of the last update
	learned   map[uint64][]playbook.BulletID // by the sequence of a reflection: the bullets that were learned from it
	states    map[playbook.BulletID]State    // of the bullets in learned
	sources   map[playbook.BulletID][]uint64 // by bullet in learned: the sequences of the reflections that it was learned from
	hidden    similar.Index                  // texts of the bullets that are not shown to every task
}

// Update changes the book to a version of the playbook.
func (b *Book) Update(p *playbook.Playbook) {
	b.known, b.admission = p.Version() > 0, p.Admission()
	b.gate, _ = p.Gate()
	ids, now, known := p.ChangedSince(b.mark)
	b.mark = now
	if !known {
		b.learned = map[uint64][]playbook.BulletID{}
		b.states = map[playbook.BulletID]State{}
		b.sources = map[playbook.BulletID][]uint64{}
		b.hidden = similar.Index{}
		for bullet := range p.All() {
			b.put(bullet.ID, bullet)
		}
		return
	}
	for _, id := range ids {
		b.put(id, p.Bullet(id))
	}
}

// put updates the data of a bullet, which is nil if it was removed.
func (b *Book) put(id playbook.BulletID, bullet *playbook.Bullet) {
	for _, seq := range b.sources[id] { // the list is cloned, because a caller of Learned may still read it
		b.learned[seq] = slices.DeleteFunc(slices.Clone(b.learned[seq]), func(o playbook.BulletID) bool { return o == id })
		if len(b.learned[seq]) == 0 {
			delete(b.learned, seq)
		}
	}
	delete(b.sources, id)
	delete(b.states, id)
	if bullet == nil || bullet.Shown() {
		b.hidden.Drop(string(id))
	} else {
		b.hidden.Put(string(id), bullet.Content)
	}
	if bullet == nil || len(bullet.LearnedFrom) == 0 {
		return
	}
	b.sources[id], b.states[id] = bullet.LearnedFrom, StateOf(bullet)
	for _, seq := range bullet.LearnedFrom {
		b.learned[seq] = append(b.learned[seq], id)
	}
}

// Gate returns the mode of the playbook's gate, or "" if it is unknown.
func (b *Book) Gate() playbook.Gate {
	if !b.known {
		return ""
	}
	return b.gate
}

// Admission returns the state that decides about reflections and executions.
func (b *Book) Admission() playbook.Admission { return b.admission }

// Learned returns the bullets that were learned from the reflection with a sequence. The caller must not change the list.
func (b *Book) Learned(seq uint64) []playbook.BulletID { return b.learned[seq] }

// HasHiddenCopy reports whether a bullet that is not shown to every task says about the same as a text.
func (b *Book) HasHiddenCopy(text string) bool {
	_, found := b.hidden.Nearest(text, NearCopy, nil)
	return found
}

// ReflectionState returns the state of the bullet that was learned from a reflection with this sequence and evidence. If several bullets
// were learned from it, the state is that of the first one that is retired, rejected or in quarantine, else that of the first one.
func (b *Book) ReflectionState(seq uint64, e *playbook.Evidence) State {
	switch {
	case !b.known || seq == 0:
		return ""
	case b.admission.Forgets(e):
		return Forgotten
	case b.admission.WasDropped(seq, len(b.learned[seq]) > 0):
		return Rejected
	case !b.admission.Decided.Has(seq):
		return Undecided
	}
	state := Decided
	for _, id := range b.learned[seq] {
		switch bulletState := b.states[id]; bulletState {
		case Active, Probation, Candidate:
			if state == Decided {
				state = bulletState
			}
		default: // Retired, Rejected or Quarantined
			return bulletState
		}
	}
	return state
}

// Facts returns the facts about a text of a reflection. The caller sets Foreign and Suspect, which the playbook does not know.
func (b *Book) Facts(use Use, seq uint64, e *playbook.Evidence) Text {
	t := Text{Use: use, Inferred: e.Inferred, State: b.ReflectionState(seq, e), Review: b.admission.ReviewsFirst(), Gate: b.Gate()}
	if e.Model != "" { // else the source stays unknown: lessons of rules are edits, not reflections
		t.Source = Model
	}
	if b.known {
		t.Trust = b.admission.Policy.Level(e.Source, e.Inferred)
	}
	return t
}
