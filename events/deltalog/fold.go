package deltalog

import (
	"cmp"
	"fmt"

	"debrief/playbook"
)

// fold is the playbook of a book and the position in the log up to which it is folded.
type fold struct {
	book     playbook.Book
	playbook playbook.Playbook

	seq   uint64 // of the last delta, 0 for none
	chain []byte // chain hash of the log up to the last delta
	floor uint64 // highest floor of a delta: the messages of REFLECTIONS up to it were acknowledged
	// changeStart is the sequence of the first delta of an incomplete change, 0 if every change is complete.
	changeStart uint64
	change      string // id of the change that begins at changeStart
}

// apply folds the next delta of the log and returns the ids of the bullets it changed.
func (f *fold) apply(r *Record) ([]playbook.BulletID, error) {
	changed, err := f.playbook.Apply(&r.Delta)
	if err != nil {
		return nil, fmt.Errorf("playbook %q: %w: %w", f.book, err, ErrBrokenLog)
	}
	f.setPosition(r)
	return changed, nil
}

// setPosition records the position of a delta that the playbook contains.
func (f *fold) setPosition(r *Record) {
	f.seq, f.chain = r.Seq, r.Chain
	switch {
	case !f.playbook.InChange():
		f.changeStart = 0
	case f.changeStart == 0 || r.ChangeID != f.change: // a new change; it may replace an abandoned one
		f.changeStart, f.change = r.Seq, r.ChangeID
	}
	f.floor = max(f.floor, r.Floor)
}

// head returns the head of a view that contains the whole fold.
func (f *fold) head() head {
	h := head{
		Version: f.playbook.Version(), Seq: f.seq, Chain: f.chain, Last: f.playbook.LastMinted(),
		Count: f.playbook.Len(), Sum: f.playbook.Checksum(), From: cmp.Or(f.changeStart, f.seq),
		LeadingScore: f.playbook.LeadingScore(), About: f.playbook.About(), Admission: f.playbook.Admission(), Plain: f.playbook.Tally().Plain,
		Judge: f.playbook.Judge(), Verdicts: f.playbook.Tally().Verdicts,
	}
	if mode, set := f.playbook.Gate(); set {
		h.Gate = mode
	}
	return h
}
