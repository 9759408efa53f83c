package playbook

import (
	"fmt"
	"time"
)

// OpKind is what an operation does. Stored; append only.
type OpKind string

const (
	// Add makes a bullet under an id that was minted before; it never overwrites.
	Add OpKind = "ADD"
	// Update replaces a bullet's content and rule, and its section where one is given. It never touches counters.
	Update OpKind = "UPDATE"
	// Tag adds to a bullet's counters: one vote for each reflection in Support.
	Tag OpKind = "TAG"
	// Remove takes a bullet out for good. Its id is not used again.
	Remove OpKind = "REMOVE"
	// SetStatus changes who is shown the bullet.
	SetStatus OpKind = "STATUS"
	// Pin sets or clears the bullet's pin.
	Pin OpKind = "PIN"
	// Merge gives a bullet new content and the counters of the Sources, which are removed.
	Merge OpKind = "MERGE"
)

// Op is one change of one bullet. Everything that took a clock, a threshold or a model to decide is already decided in
// it, so that the same log folds to the same state anywhere.
type Op struct {
	Kind   OpKind   `msgpack:"k" json:"type"`
	Bullet BulletID `msgpack:"b" json:"bullet_id"`

	Section string     `msgpack:"s,omitempty" json:"section,omitempty"`    // Add, Update
	Content string     `msgpack:"c,omitempty" json:"content,omitempty"`    // Add, Update, Merge
	Rule    *Rule      `msgpack:"y,omitempty" json:"rule,omitempty"`       // Add, Update
	Status  Status     `msgpack:"u,omitempty" json:"status,omitempty"`     // Add, SetStatus
	Pinned  bool       `msgpack:"p,omitempty" json:"pinned,omitempty"`     // Pin
	Sources []BulletID `msgpack:"z,omitempty" json:"source_ids,omitempty"` // Merge

	Helpful int `msgpack:"h,omitempty" json:"helpful,omitempty"` // Tag
	Harmful int `msgpack:"m,omitempty" json:"harmful,omitempty"` // Tag
	Neutral int `msgpack:"n,omitempty" json:"neutral,omitempty"` // Tag

	// Support lists, as indices into the delta's Covers, the reflections and edits that asked for this.
	Support []int  `msgpack:"f,omitempty" json:"support,omitempty"`
	Reason  string `msgpack:"r,omitempty" json:"reason,omitempty"`
}

// Cover names a reflection or edit whose whole effect is in a delta: by id for ever, by sequence for look-ups.
type Cover struct {
	ID  string `msgpack:"i" json:"id"`
	Seq uint64 `msgpack:"s" json:"seq"`
}

// Rejection is something that was asked for and not done, with the reason in a sentence.
type Rejection struct {
	Op     Op     `msgpack:"o" json:"operation"`
	Reason string `msgpack:"r" json:"reason"`
}

// Delta is one committed change of one book, one record of its log.
type Delta struct {
	// Version counts 1, 2, 3 … in a book.
	Version uint64 `msgpack:"v" json:"version"`
	// PrevSeq is the stream sequence of the book's delta before this one, 0 for the first.
	PrevSeq uint64 `msgpack:"q" json:"previous_seq"`
	// PrevChain is the chain hash of the log up to that one, empty for the first.
	PrevChain []byte `msgpack:"x" json:"previous_chain"`
	// Covers are the reflections and edits this delta settles.
	Covers []Cover `msgpack:"c,omitempty" json:"covers,omitempty"`
	// Floor: everything at or under this sequence of the reflections' stream was settled before this delta.
	Floor uint64 `msgpack:"f,omitempty" json:"floor,omitempty"`

	Ops      []Op        `msgpack:"o,omitempty" json:"operations,omitempty"`
	Rejected []Rejection `msgpack:"j,omitempty" json:"rejected,omitempty"`

	Author string    `msgpack:"a,omitempty" json:"author,omitempty"`
	Reason string    `msgpack:"r,omitempty" json:"reason,omitempty"`
	Time   time.Time `msgpack:"t" json:"time"` // recorded, never decisive
}

// Limits of one delta.
const (
	MaxDeltaBytes = 256 << 10 // of its encoded form
	MaxDeltaKeys  = 900       // bullets changed: they go into the view as one atomic batch
)

// Validate reports what makes the delta unfit for a log.
func (d *Delta) Validate() error {
	if d.Version == 0 {
		return fmt.Errorf("version: must be at least 1")
	}
	if (d.Version == 1) != (len(d.PrevChain) == 0) {
		return fmt.Errorf("previous_chain: must be empty for version 1 and for that alone")
	}
	for i := range d.Ops {
		if err := d.Ops[i].validate(len(d.Covers)); err != nil {
			return fmt.Errorf("operations[%d]: %w", i, err)
		}
	}
	return nil
}

func (op *Op) validate(covers int) error {
	if op.Bullet == "" {
		return fmt.Errorf("bullet_id: is empty")
	}
	for _, s := range op.Support {
		if s < 0 || s >= covers {
			return fmt.Errorf("support: %d is not an index into covers", s)
		}
	}
	if op.Section != "" && Section(op.Section) != op.Section {
		return fmt.Errorf("section: %q is no name of a section", op.Section)
	}
	switch op.Kind {
	case Add, Update, Merge:
		if clean, err := CleanContent(op.Content); err != nil {
			return err
		} else if clean != op.Content {
			return fmt.Errorf("content: holds characters that a bullet cannot")
		}
	case Tag:
		if op.Helpful < 0 || op.Harmful < 0 || op.Neutral < 0 {
			return fmt.Errorf("helpful, harmful, neutral: cannot be negative")
		}
		if votes := op.Helpful + op.Harmful + op.Neutral; votes == 0 || votes > len(op.Support) {
			return fmt.Errorf("votes: %d from %d reflections", votes, len(op.Support))
		}
	case Remove, SetStatus, Pin:
	default:
		return fmt.Errorf("type: %q is none of ADD, UPDATE, TAG, REMOVE, STATUS, PIN, MERGE", op.Kind)
	}
	return nil
}
