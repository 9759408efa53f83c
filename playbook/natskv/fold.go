package natskv

import (
	"fmt"

	"debrief/playbook"
)

// fold is a book's log, folded: the playbook, and where in the log that is.
type fold struct {
	book     playbook.Book
	playbook playbook.Playbook

	seq   uint64 // of the last delta, 0 for none
	chain []byte
	floor uint64
	// openAt is the sequence of the first delta of a change that has not come to its end, 0 if there is none.
	openAt uint64
	change string // the one that openAt is of
}

// apply folds the next delta of the log and returns the ids of the bullets it changed.
func (f *fold) apply(r *Record) ([]playbook.BulletID, error) {
	changed, err := f.playbook.Apply(&r.Delta)
	if err != nil {
		return nil, fmt.Errorf("playbook %q: %w: %w", f.book, err, ErrBrokenLog)
	}
	f.note(r)
	return changed, nil
}

// note records where the log is.
func (f *fold) note(r *Record) {
	f.seq, f.chain = r.Seq, r.Chain
	switch {
	case !f.playbook.Open():
		f.openAt = 0
	case f.openAt == 0 || r.Change != f.change: // in the place of one that came to no end
		f.openAt, f.change = r.Seq, r.Change
	}
	f.floor = max(f.floor, r.Floor)
}

// readFrom is the sequence of the first delta that a start from this state must read.
func (f *fold) readFrom() uint64 {
	if f.openAt > 0 {
		return f.openAt
	}
	return f.seq
}

func (f *fold) head() head {
	h := head{
		Version: f.playbook.Version(), Seq: f.seq, Chain: f.chain, Last: f.playbook.LastMinted(),
		Count: f.playbook.Len(), Sum: f.playbook.Checksum(), From: f.readFrom(),
	}
	if mode, set := f.playbook.Gate(); set {
		h.Gate = mode
	}
	return h
}
