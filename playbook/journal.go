package playbook

// journal has the ids of the bullets that changed last, so that an index of a large playbook reads only these at a new version. A clone of
// the playbook starts a journal of its own.
type journal struct {
	ids []BulletID // the newest, at most 2*maxJournal
	end uint64     // number of changes so far
}

// maxJournal is the number of changes that a journal has at least. A change of one delta has at most MaxDeltaKeys.
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
	at      uint64
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
	if m.journal != j || j.end-m.at > uint64(len(j.ids)) {
		return nil, now, false
	}
	return j.ids[uint64(len(j.ids))-(j.end-m.at):], now, true
}
