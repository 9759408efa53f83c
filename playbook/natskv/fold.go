package natskv

import (
	"fmt"

	"debrief/events"
	"debrief/playbook"
)

// coverSlack is how far under the floor covered ids are still kept in memory. The floor decides about those already;
// the slack only spares look-ups for what is redelivered late.
const coverSlack = 1024

// fold is a book's log, folded: the playbook, where in the log that is, and which reflections are in it.
type fold struct {
	book     playbook.Book
	playbook playbook.Playbook

	seq   uint64 // of the last delta, 0 for none
	chain []byte
	floor uint64
	// openAt is the sequence of the first delta of a change that has not come to its end, 0 if there is none.
	openAt uint64
	change string // the one that openAt is of

	covered map[events.ID]uint64 // id → sequence, above the floor less the slack; everything once complete
	spans   []span               // the deltas that cover something above the floor, oldest first
	// complete says that covered holds the ids of the whole log. It is loaded the first time a repeated event turns
	// up, and kept from then on.
	complete bool
	// judged is, by the handles of executions, what feedback on them is covered: as far back as covered.
	judged  map[string]judgement
	pruneAt int // so many of covered are walked in search of what the floor settles
}

// judgement is the highest sequence of feedback on an execution, and the highest of a reflection on any.
type judgement struct{ by, seq uint64 }

// span says how high the sequences go that one delta covers.
type span struct{ delta, highest uint64 }

// apply folds the next delta of the log and returns the ids of the bullets it changed.
func (f *fold) apply(r *Record) ([]playbook.BulletID, error) {
	changed, err := f.playbook.Apply(&r.Delta)
	if err != nil {
		return nil, fmt.Errorf("playbook %q: %w: %w", f.book, err, ErrBrokenLog)
	}
	f.note(r)
	return changed, nil
}

// note records where the log is and what a delta covers, apart from its operations.
func (f *fold) note(r *Record) {
	f.seq, f.chain = r.Seq, r.Chain
	switch {
	case !f.playbook.Open():
		f.openAt = 0
	case f.openAt == 0 || r.Change != f.change: // in the place of one that came to no end
		f.openAt, f.change = r.Seq, r.Change
	}
	if f.covered == nil {
		f.covered = make(map[events.ID]uint64)
	}
	f.floor = max(f.floor, r.Floor)
	var highest uint64
	for _, c := range r.Covers {
		f.covered[events.ID(c.ID)] = c.Seq
		highest = max(highest, c.Seq)
	}
	f.judge(r)
	f.spans = append(f.spans, span{r.Seq, highest})
	n := 0
	for n < len(f.spans) && f.spans[n].highest <= f.floor {
		n++
	}
	f.spans = f.spans[n:]
	f.prune()
}

// judge notes which executions a delta covers feedback on.
func (f *fold) judge(r *Record) {
	for _, c := range r.Covers {
		if e := c.Evidence; e != nil && e.Judged > 0 {
			if f.judged == nil {
				f.judged = make(map[string]judgement)
			}
			was := f.judged[e.Execution]
			f.judged[e.Execution] = judgement{max(was.by, e.Judged), max(was.seq, c.Seq)}
		}
	}
}

// prune forgets ids that the floor settles, once there are enough of them to be worth a walk: twice as many as were left
// by the one before, or a floor that stands still would have every delta walk them all.
func (f *fold) prune() {
	if f.complete || len(f.covered) < max(f.pruneAt, 4*coverSlack) {
		return
	}
	for id, seq := range f.covered {
		if seq+coverSlack <= f.floor {
			delete(f.covered, id)
		}
	}
	for execution, j := range f.judged {
		if j.seq+coverSlack <= f.floor {
			delete(f.judged, execution)
		}
	}
	f.pruneAt = 2 * len(f.covered)
}

// coversFrom is the sequence of the first delta with something above the floor, or of the open change where that began
// earlier.
func (f *fold) coversFrom() uint64 {
	from := f.seq
	if len(f.spans) > 0 {
		from = f.spans[0].delta
	}
	if f.openAt > 0 {
		from = min(from, f.openAt)
	}
	return from
}

func (f *fold) head() head {
	h := head{
		Version: f.playbook.Version(), Seq: f.seq, Chain: f.chain, Last: f.playbook.LastMinted(),
		Count: f.playbook.Len(), Sum: f.playbook.Checksum(), Covers: f.coversFrom(),
	}
	if mode, set := f.playbook.Gate(); set {
		h.Gate = mode
	}
	return h
}
