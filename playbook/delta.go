package playbook

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// OpKind is what an operation does. Stored; append only.
type OpKind string

const (
	// Add makes a bullet under an id that was minted before; it never overwrites.
	Add OpKind = "ADD"
	// Update replaces a bullet's content and rule, and its section where one is given. It never touches counters. Other
	// words open a new case, unless they are a rule's own.
	Update OpKind = "UPDATE"
	// Tag adds to a bullet's counters: one vote for each reflection in Support.
	Tag OpKind = "TAG"
	// Remove takes a bullet out for good. Its id is not used again.
	Remove OpKind = "REMOVE"
	// SetStatus changes who is shown the bullet. Who had asked for one that retires does not count from then on.
	SetStatus OpKind = "STATUS"
	// Pin sets or clears the bullet's pin.
	Pin OpKind = "PIN"
	// Merge gives a bullet new content and the counters of the Sources, which are removed.
	Merge OpKind = "MERGE"
	// Put stores a bullet whole, in place of the one with its id if there is one: as it was at an earlier version, or
	// in the book or file that it comes from. People's changes alone bring it.
	Put OpKind = "PUT"
	// Retag moves one vote of each reflection in Support from the counter Was to another, or takes it back.
	Retag OpKind = "RETAG"
	// AddExposures adds outcomes to a bullet's Case, one for each entry of Support, if it still has that case.
	AddExposures OpKind = "TRIAL"
	// Confirm counts the reflections in Support as asking for the same words again.
	Confirm OpKind = "SECOND"
)

// ErrUnknownOp is returned for an operation whose kind this program does not know: a newer program may have written it.
var ErrUnknownOp = errors.New("unknown operation")

// Op is one change of one bullet. Everything that took a clock, a threshold or a model to decide is already decided in
// it, so that the same log folds to the same state anywhere.
type Op struct {
	Kind   OpKind   `msgpack:"k" json:"type"`
	Bullet BulletID `msgpack:"b" json:"bullet_id"`

	Section   string     `msgpack:"s,omitempty" json:"section,omitempty"`    // Add, Update
	Content   string     `msgpack:"c,omitempty" json:"content,omitempty"`    // Add, Update, Merge
	Rule      *Rule      `msgpack:"y,omitempty" json:"rule,omitempty"`       // Add, Update
	Status    Status     `msgpack:"u,omitempty" json:"status,omitempty"`     // Add, SetStatus
	Pinned    bool       `msgpack:"p,omitempty" json:"pinned,omitempty"`     // Pin
	Sources   []BulletID `msgpack:"z,omitempty" json:"source_ids,omitempty"` // Merge
	PutBullet *Bullet    `msgpack:"w,omitempty" json:"whole,omitempty"`      // Put

	Helpful int `msgpack:"h,omitempty" json:"helpful,omitempty"` // Tag, Retag
	Harmful int `msgpack:"m,omitempty" json:"harmful,omitempty"` // Tag, Retag
	Neutral int `msgpack:"n,omitempty" json:"neutral,omitempty"` // Tag, Retag

	OldVote          Vote       `msgpack:"q,omitempty" json:"was,omitempty"`      // Retag: the vote before; a Retag without a new one takes it back
	ExperimentNumber int        `msgpack:"e,omitempty" json:"case,omitempty"`     // Trial: the number of the case
	Exposures        []Exposure `msgpack:"v,omitempty" json:"seen,omitempty"`     // Trial: parallel to Support
	Share            int        `msgpack:"g,omitempty" json:"share,omitempty"`    // Add, SetStatus to probation: percent of tasks; opens a case
	Replaces         BulletID   `msgpack:"x,omitempty" json:"replaces,omitempty"` // Add

	// Support lists, as indices into the delta's Covers, the reflections and edits that asked for this. A Tag moves one
	// counter and its votes are as many as its Support, so that each vote can be told from the others. In a change of
	// several deltas the covers are with the last one, and the indices are into those; where a person's change says
	// nothing, its operations rest on all of them.
	Support []int  `msgpack:"f,omitempty" json:"support,omitempty"`
	Code    Reason `msgpack:"d,omitempty" json:"code,omitempty"`   // of a decision of the Curator
	Reason  string `msgpack:"r,omitempty" json:"reason,omitempty"` // for people
}

// Cover names an event that has its whole effect in a delta: an execution with its own outcome, feedback on one, or an edit. The
// id is that of the execution, the feedback or the edit. The sequence is that of the reflection or edit in its stream.
type Cover struct {
	ID  string `msgpack:"i" json:"id"`
	Seq uint64 `msgpack:"s" json:"seq"`
	// Evidence is what a reflection was made of; nil of an edit.
	Evidence *Evidence `msgpack:"e,omitempty" json:"evidence,omitempty"`
}

// CoverKey identifies the event of a Cover. It is as wide as an event's id.
type CoverKey [16]byte

// Key returns the key of the event. Ids of different kinds never meet: a client that chooses the id of its
// feedback cannot take that of an execution or an edit.
func (c *Cover) Key() CoverKey { return coverKey(c.Kind(), c.ID) }

// Kind is "edit", "feedback" or "execution".
func (c *Cover) Kind() string {
	switch {
	case c.Evidence == nil:
		return "edit"
	case c.Evidence.FeedbackSeq > 0:
		return "feedback"
	}
	return "execution"
}

// FeedbackKey returns the key under which it is known that feedback on a sample is covered.
func FeedbackKey(sample string) CoverKey { return coverKey("judged", sample) }

func coverKey(kind, id string) CoverKey {
	sum := sha256.Sum256([]byte(kind + "\x00" + id))
	return CoverKey(sum[:16])
}

// Evidence is the digest of the execution behind a reflection. It stays in the log when reflection and execution have
// expired, so that a bullet can be traced, and taken out with its source, for as long as there is the log.
type Evidence struct {
	Execution string `msgpack:"x" json:"execution"` // handle
	// Sample is the id of the execution of the first round: what votes and outcomes count for, whatever handle names it.
	Sample    string  `msgpack:"i,omitempty" json:"sample_id,omitempty"`
	Session   string  `msgpack:"n,omitempty" json:"session,omitempty"`
	Source    string  `msgpack:"o,omitempty" json:"source,omitempty"`
	Excerpt   string  `msgpack:"t,omitempty" json:"excerpt,omitempty"` // beginning of what was asked
	Outcome   string  `msgpack:"l,omitempty" json:"outcome,omitempty"`
	Score     float64 `msgpack:"s,omitempty" json:"score,omitempty"`
	Reflector string  `msgpack:"r,omitempty" json:"reflector,omitempty"` // version of rules and prompt
	Model     string  `msgpack:"m,omitempty" json:"model,omitempty"`     // that reflected; empty for rules alone
	// FeedbackSeq is the sequence of the feedback that the cover is of and the outcome from. It is 0 where the cover is of the
	// execution with its own outcome.
	FeedbackSeq uint64 `msgpack:"j,omitempty" json:"judged,omitempty"`
}

// Rejection is an operation that was requested and not carried out.
type Rejection struct {
	Op     Op     `msgpack:"o" json:"operation"`
	Code   Reason `msgpack:"c" json:"code"`
	Reason string `msgpack:"r" json:"reason"` // for people
	// DuplicateOf is the bullet that says it already, where that is the reason. Op.Support then says who else does.
	DuplicateOf BulletID `msgpack:"b,omitempty" json:"same,omitempty"`
	// Count is the number of further rejections that the delta leaves out. It is 0 unless the code is ReasonMore.
	Count int `msgpack:"n,omitempty" json:"count,omitempty"`
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

	// ChangeID is set in the deltas of a change that is too large for one: they share it and follow one another. More says
	// that this is not the last. The operations of all of them take effect with the last, and if another delta comes
	// before that, never.
	ChangeID string `msgpack:"g,omitempty" json:"change,omitempty"`
	More     bool   `msgpack:"m,omitempty" json:"more,omitempty"`

	// What a person's change did besides its operations.
	Names           []Name    `msgpack:"n,omitempty" json:"names,omitempty"`
	RestoredVersion *uint64   `msgpack:"b,omitempty" json:"restores,omitempty"` // the version it brings back
	Forget          *Selector `msgpack:"d,omitempty" json:"forgets,omitempty"`
	Fork            *Fork     `msgpack:"w,omitempty" json:"fork,omitempty"` // set in the copy that a fork begins with
	// Gate is how new advice of the book earns its place from here on; empty leaves that as it is.
	Gate Gate `msgpack:"k,omitempty" json:"gate,omitempty"`

	Author string    `msgpack:"a,omitempty" json:"author,omitempty"`
	Reason string    `msgpack:"r,omitempty" json:"reason,omitempty"`
	Model  string    `msgpack:"l,omitempty" json:"model,omitempty"`  // that proposed; empty where none did
	Prompt string    `msgpack:"p,omitempty" json:"prompt,omitempty"` // version of the prompt it was given
	Time   time.Time `msgpack:"t" json:"time"`                       // recorded, never decisive
}

// Name gives a version a name that people can remember. A name that is given again moves.
type Name struct {
	Name    string `msgpack:"n" json:"name" redact:"id"`
	Version uint64 `msgpack:"v" json:"version"`
}

// Fork is the origin of a playbook that began as a copy of another one.
type Fork struct {
	Of Book   `msgpack:"o" json:"of"`
	At string `msgpack:"a" json:"at" redact:"id"` // label of the version
}

func (f Fork) String() string { return fmt.Sprintf("fork of %s at %s", f.Of, f.At) }

var versionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// Validate reports whether the name can be told from a version's number and from a time.
func (n Name) Validate() error {
	if !versionName.MatchString(n.Name) {
		return fmt.Errorf("name %q: a name of a version is a letter or _ and then up to 63 of A-Z a-z 0-9 _ . -", n.Name)
	}
	return nil
}

// Selector says of which executions nothing shall be left: those of a source, of a session, or a single one. Of several
// fields all must match.
type Selector struct {
	Source    string `msgpack:"o,omitempty" json:"source,omitempty" redact:"id"`
	Session   string `msgpack:"n,omitempty" json:"session,omitempty" redact:"id"`
	Execution string `msgpack:"x,omitempty" json:"execution,omitempty"` // handle
	// Sample is the id behind the handle, of the execution of the first round: it matches also what other handles name.
	Sample string `msgpack:"i,omitempty" json:"sample_id,omitempty"`
}

// Matches reports whether evidence is among what the selector names. What has no evidence, an edit, is not.
func (s *Selector) Matches(e *Evidence) bool {
	return e != nil && *s != Selector{} &&
		(s.Source == "" || s.Source == e.Source) &&
		(s.Session == "" || s.Session == e.Session) &&
		(s.Execution == "" && s.Sample == "" || s.Execution != "" && s.Execution == e.Execution || s.Sample != "" && s.Sample == e.Sample)
}

// Validate reports whether the selector names anything.
func (s *Selector) Validate() error {
	if *s == (Selector{}) {
		return errors.New("source, session, execution: want at least one of them")
	}
	return nil
}

func (s *Selector) String() string {
	var parts []string
	for _, f := range [...]struct{ name, value string }{{"source", s.Source}, {"session", s.Session}, {"execution", s.Execution}} {
		if f.value != "" {
			parts = append(parts, fmt.Sprintf("%s %q", f.name, f.value))
		}
	}
	return strings.Join(parts, ", ")
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
	if d.More && (d.ChangeID == "" || len(d.Covers) > 0) {
		return fmt.Errorf("more: a delta with more to come names its change and covers nothing yet")
	}
	for i := range d.Ops {
		covers := len(d.Covers)
		if d.More { // the last delta of the change has them
			covers = math.MaxInt
		}
		if err := d.Ops[i].validate(covers); err != nil {
			return fmt.Errorf("operations[%d]: %w", i, err)
		}
	}
	for _, n := range d.Names {
		if err := n.Validate(); err != nil {
			return fmt.Errorf("names: %w", err)
		}
	}
	if !d.Gate.Valid() {
		return fmt.Errorf("gate: %q is none of off, shadow, on", d.Gate)
	}
	if d.Forget != nil {
		if err := d.Forget.Validate(); err != nil {
			return fmt.Errorf("forgets: %w", err)
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
	if op.Kind == Add || op.Kind == Put {
		if err := op.Bullet.Validate(); err != nil {
			return fmt.Errorf("bullet_id: %w", err)
		}
	}
	if op.Section != "" && Section(op.Section) != op.Section {
		return fmt.Errorf("section: %q is no name of a section", op.Section)
	}
	if op.Share < 0 || op.Share > 100 {
		return fmt.Errorf("share: %d is no percentage", op.Share)
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
	case Retag:
		if !op.OldVote.Valid() {
			return fmt.Errorf("was: %q is no vote", op.OldVote)
		}
		votes := op.Helpful + op.Harmful + op.Neutral
		if op.Helpful < 0 || op.Harmful < 0 || op.Neutral < 0 || len(op.Support) == 0 || votes != 0 && votes != len(op.Support) {
			return fmt.Errorf("votes: %d in place of those of %d reflections", votes, len(op.Support))
		}
	case AddExposures:
		if len(op.Exposures) != len(op.Support) || len(op.Exposures) == 0 {
			return fmt.Errorf("seen: %d outcomes from %d reflections", len(op.Exposures), len(op.Support))
		}
		for i := range op.Exposures {
			if err := op.Exposures[i].validate(); err != nil {
				return err
			}
		}
	case Confirm:
		if len(op.Support) == 0 {
			return fmt.Errorf("support: is empty")
		}
	case Put:
		return op.validateWhole()
	case Remove, SetStatus, Pin:
	default:
		return fmt.Errorf("type: %q is none of ADD, UPDATE, TAG, REMOVE, STATUS, PIN, MERGE, PUT, RETAG, TRIAL, SECOND: %w", op.Kind, ErrUnknownOp)
	}
	return nil
}

func (op *Op) validateWhole() error {
	b := op.PutBullet
	switch {
	case b == nil:
		return errors.New("whole: is missing")
	case b.ID != op.Bullet:
		return fmt.Errorf("whole.id: is %q, bullet_id is %q", b.ID, op.Bullet)
	case Section(b.Section) != b.Section:
		return fmt.Errorf("whole.section: %q is no name of a section", b.Section)
	case b.Helpful < 0 || b.Harmful < 0 || b.Neutral < 0:
		return errors.New("whole: counters cannot be negative")
	case !b.Status.Valid():
		return fmt.Errorf("whole.status: %q is no status", b.Status)
	}
	clean, err := CleanContent(b.Content)
	if err == nil && clean != b.Content {
		err = errors.New("content: holds characters that a bullet cannot")
	}
	if err != nil {
		return fmt.Errorf("whole.%w", err)
	}
	return nil
}

// ChangeAssembler gathers the deltas of changes. The zero value has none.
type ChangeAssembler struct{ open []*Delta }

// Add takes the next delta of a log and returns those that take effect with it, in order: none while more of its
// change are to come, itself alone if it is all of its change. Parts of a change that did not come to its end are
// dropped.
func (p *ChangeAssembler) Add(d *Delta) []*Delta {
	if len(p.open) > 0 && p.open[0].ChangeID != d.ChangeID {
		p.open = nil
	}
	all := append(p.open, d)
	if d.More {
		p.open = all
		return nil
	}
	p.open = nil
	return all
}

// Incomplete reports whether a change has begun and not come to its end.
func (p *ChangeAssembler) Incomplete() bool { return len(p.open) > 0 }
