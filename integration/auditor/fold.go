package auditor

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
)

// fold is the folded log of one book, computed independently of the product.
type fold struct {
	book    string
	bullets map[string]record
	merged  map[string]string // removed bullet → the bullet that it was merged into

	version uint64
	seq     uint64
	chain   []byte
	parts   []*change // deltas of a change whose last delta has not come

	covered map[string][]uint64  // event id → sequences of the deltas that cover it
	covers  []support            // all of them, in the order of the log
	times   map[string]time.Time // event id → time of the first delta that covers it
	votes   []vote
	strays  []uint64 // sequences of messages outside the log
	faults  []string
}

// vote is one supporter of a TAG or RETAG operation.
type vote struct {
	delta     uint64
	by        support
	bullet    string
	tag       string // helpful, harmful or neutral; empty if the operation removes the vote
	forgotten bool   // the delta forgets an execution
}

func newFold(book string) *fold {
	return &fold{book: book, bullets: map[string]record{}, merged: map[string]string{}, covered: map[string][]uint64{}, times: map[string]time.Time{}}
}

func (f *fold) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf("book %s: ", f.book)+fmt.Sprintf(format, args...))
}

// add applies the next message on the book's subject. A message that is not the next delta is a stray.
func (f *fold) add(m Message) {
	d, err := decode[change](m.Data)
	if err != nil || d.Version != f.version+1 || d.PrevSeq != f.seq || !bytes.Equal(d.PrevChain, f.chain) {
		f.strays = append(f.strays, m.Seq)
		return
	}
	sum := sha256.Sum256(m.Data)
	f.version = d.Version
	f.seq = m.Seq
	f.chain = sum[:]
	for _, c := range d.Covers {
		if len(f.covered[c.ID]) == 0 {
			f.times[c.ID] = d.Time
		}
		f.covered[c.ID] = append(f.covered[c.ID], m.Seq)
		f.covers = append(f.covers, c)
	}
	if len(f.parts) > 0 && f.parts[0].Change != d.Change {
		f.parts = nil // the previous change is incomplete
	}
	f.parts = append(f.parts, d)
	if d.More {
		return
	}
	for _, part := range f.parts {
		for i := range part.Ops {
			f.apply(m.Seq, &part.Ops[i], d)
		}
	}
	f.parts = nil
}

// apply checks and applies one operation. Its Support has indexes into the covers of the last delta of its change.
func (f *fold) apply(seq uint64, o *changeOp, last *change) {
	_, known := f.bullets[o.Bullet]
	switch o.Kind {
	case "EXPOSURES", "CONFIRM": // do not change the audited state
		return
	case "ADD":
		if known {
			f.fault("delta at %d adds %s, which exists", seq, o.Bullet)
			return
		}
	case "PUT":
		delete(f.merged, o.Bullet)
	case "UPDATE", "MERGE", "REMOVE", "STATUS", "PIN", "TAG", "RETAG":
		if !known {
			f.fault("delta at %d: %s of %s, which does not exist", seq, o.Kind, o.Bullet)
			return
		}
	default:
		f.fault("delta at %d: unknown operation %q", seq, o.Kind)
		return
	}
	switch o.Kind {
	case "UPDATE", "MERGE":
		f.checkCondition(seq, o, last)
		for _, id := range o.Sources {
			if _, ok := f.bullets[id]; ok && id != o.Bullet {
				f.merged[id] = o.Bullet
			}
		}
	case "TAG", "RETAG":
		f.addVotes(seq, o, last)
	}
	f.change(o)
	f.checkContent(seq, o.Bullet)
}

// change applies an operation to the bullets.
func (f *fold) change(o *changeOp) {
	b := f.bullets[o.Bullet]
	switch o.Kind {
	case "ADD":
		b = record{ID: o.Bullet, Section: o.Section, When: o.When, Content: o.Content, Status: o.Status}
	case "PUT":
		b = *o.Whole
	case "REMOVE":
		delete(f.bullets, o.Bullet)
		return
	case "UPDATE", "MERGE":
		b.When, b.Content = o.When, o.Content
		if o.Kind == "UPDATE" && o.Section != "" {
			b.Section = o.Section
		}
		for _, id := range slices.Compact(slices.Sorted(slices.Values(o.Sources))) {
			if src, ok := f.bullets[id]; ok && id != b.ID {
				b.Helpful += src.Helpful
				b.Harmful += src.Harmful
				b.Neutral += src.Neutral
				b.Pinned = b.Pinned || src.Pinned
				delete(f.bullets, id)
			}
		}
	case "STATUS":
		b.Status = o.Status
	case "PIN":
		b.Pinned = o.Pinned
	case "TAG", "RETAG":
		if n := map[string]*int{"helpful": &b.Helpful, "harmful": &b.Harmful, "neutral": &b.Neutral}[o.Was]; n != nil {
			*n -= len(o.Support) // the supporters change their vote
		}
		b.Helpful += o.Helpful
		b.Harmful += o.Harmful
		b.Neutral += o.Neutral
	}
	f.bullets[o.Bullet] = b
}

// checkContent reports a bullet whose content does not begin with its condition.
func (f *fold) checkContent(seq uint64, id string) {
	if b := f.bullets[id]; b.When != "" && !strings.HasPrefix(b.Content, "When "+b.When+": ") {
		f.fault("delta at %d: the content of %s does not begin with its condition %q", seq, id, b.When)
	}
}

// checkCondition reports an operation of the Curator that leaves a bullet without a condition although one that it replaces has one. A person may
// remove a condition.
func (f *fold) checkCondition(seq uint64, o *changeOp, last *change) {
	for _, id := range append([]string{o.Bullet}, o.Sources...) {
		if when := f.bullets[id].When; when != "" && o.When == "" && last.Author == "curator" {
			f.fault("delta at %d: %s of %s loses the condition %q of %s", seq, o.Kind, o.Bullet, when, id)
		}
	}
}

// addVotes records the supporters of an operation, and compares their number with the gain of the counters.
func (f *fold) addVotes(seq uint64, o *changeOp, last *change) {
	tag := ""
	gain := 0
	for name, n := range map[string]int{"helpful": o.Helpful, "harmful": o.Harmful, "neutral": o.Neutral} {
		if n != 0 {
			tag = name
			gain += n
		}
	}
	isRemoval := o.Kind == "RETAG" && gain == 0
	if gain != len(o.Support) && !isRemoval {
		f.fault("delta at %d: %s of %s counts %d votes of %d supporters", seq, o.Kind, o.Bullet, gain, len(o.Support))
	}
	for _, i := range o.Support {
		if i < 0 || i >= len(last.Covers) {
			f.fault("delta at %d: %s of %s names supporter %d of %d", seq, o.Kind, o.Bullet, i, len(last.Covers))
			continue
		}
		f.votes = append(f.votes, vote{delta: seq, by: last.Covers[i], bullet: o.Bullet, tag: tag, forgotten: last.Forgets != nil})
	}
}

// mergedInto returns the bullet into which the given one was merged.
func (f *fold) mergedInto(id string) string {
	for range len(f.merged) {
		next, ok := f.merged[id]
		if !ok {
			break
		}
		id = next
	}
	return id
}
