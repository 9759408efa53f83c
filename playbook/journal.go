package playbook

import (
	"maps"
	"slices"
)

// journal has the ids of the bullets that changed last, so that an index of a large playbook reads only these at a new version. A clone of
// the playbook starts its own journal.
type journal struct {
	ids []BulletID // one for each of the newest changes, at most 2*maxJournal
	end uint64     // number of changes so far
}

// maxJournal is the number of changes that stay in the journal when it is full. These are at least the changes of nine deltas, see MaxDeltaKeys.
const maxJournal = 1 << 13

// record adds a change to the journal.
func (p *Playbook) record(id BulletID) {
	if p.journal == nil {
		p.journal = new(journal)
	}
	j := p.journal
	if len(j.ids) >= 2*maxJournal {
		n := copy(j.ids, j.ids[len(j.ids)-maxJournal:])
		clear(j.ids[n:])
		j.ids = j.ids[:n]
	}
	j.ids = append(j.ids, id)
	j.end++
}

// Mark is a state of a playbook, for ChangedSince. The zero Mark is older than every state.
type Mark struct {
	journal *journal
	end     uint64 // of the journal at that time
}

// ChangedSince returns the ids of the bullets that were added, changed or removed since a mark, some of them more than once,
// and the mark of the current state. If known is false, the mark is too old or of another playbook, and any bullet may have
// changed. The caller must not change the ids, and reads them before the next change of the playbook.
func (p *Playbook) ChangedSince(m Mark) (ids []BulletID, now Mark, known bool) {
	j := p.journal
	if j == nil {
		return nil, Mark{}, false
	}
	now = Mark{j, j.end}
	n, changes := uint64(len(j.ids)), j.end-m.end
	if m.journal != j || changes > n {
		return nil, now, false
	}
	return j.ids[n-changes:], now, true
}

// Texts has the texts of the bullets of one playbook at the last update, so that an index reads only those that have changed since. The
// zero value has none. It is not safe for concurrent use.
type Texts struct {
	texts map[BulletID]string
	mark  Mark // of the last update
}

// Update calls put for each bullet of p whose text has changed since the last call, and drop for each bullet that was removed. The function text
// returns the text of a bullet.
func (t *Texts) Update(p *Playbook, text func(*Bullet) string, put func(id, text string), drop func(id string)) {
	ids, now, known := p.ChangedSince(t.mark)
	t.mark = now
	if !known {
		ids = slices.AppendSeq(slices.Collect(maps.Keys(t.texts)), maps.Keys(p.bullets))
	}
	if t.texts == nil {
		t.texts = make(map[BulletID]string, p.Len())
	}
	for _, id := range ids {
		b := p.Bullet(id)
		if b == nil {
			delete(t.texts, id)
			drop(string(id))
		} else if newText := text(b); t.texts[id] != newText {
			t.texts[id] = newText
			put(string(id), newText)
		}
	}
}
