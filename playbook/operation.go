package playbook

import (
	"errors"
	"fmt"
	"time"
)

// This file defines the operations: their kinds and fields, their validation, and their effect on a bullet. Playbook.applyOp adds and
// removes bullets.

// OpKind is the kind of an operation. It is stored; append only.
type OpKind string

const (
	// Add adds a bullet. The id is new: Add never overwrites a bullet.
	Add OpKind = "ADD"
	// Update replaces a bullet's condition and content, and its section if Section is set. It never changes counters. A different
	// content starts a new experiment.
	Update OpKind = "UPDATE"
	// Tag adds votes to one counter of a bullet, one for each reflection in Support.
	Tag OpKind = "TAG"
	// Remove deletes a bullet. Its id is never used again.
	Remove OpKind = "REMOVE"
	// SetStatus changes the status of a bullet and its standing. If the bullet retires, its earlier confirmations no longer count.
	SetStatus OpKind = "STATUS"
	// Pin sets or clears the bullet's pin.
	Pin OpKind = "PIN"
	// Merge replaces a bullet's condition and content, adds the counters of the Sources to it, and removes the Sources.
	Merge OpKind = "MERGE"
	// Put stores a complete bullet and replaces the bullet with its id, if there is one. The bullet comes from an
	// earlier version, another playbook or a file. Only edits contain it.
	Put OpKind = "PUT"
	// Retag moves one vote for each reflection in Support from the counter OldVote to another counter, or withdraws it.
	Retag OpKind = "RETAG"
	// AddExposures adds outcomes to the experiment of a bullet, one for each entry of Support. It has no effect if the
	// bullet has another experiment by then.
	AddExposures OpKind = "EXPOSURES"
	// Confirm adds confirmations to a bullet: the reflections in Support request the same content.
	Confirm OpKind = "CONFIRM"
)

// OpKinds returns all kinds.
func OpKinds() []OpKind {
	return []OpKind{Add, Update, Tag, Remove, SetStatus, Pin, Merge, Put, Retag, AddExposures, Confirm}
}

// Counts reports whether operations of the kind change only votes, outcomes and confirmations.
func (k OpKind) Counts() bool { return k == Tag || k == Retag || k == AddExposures || k == Confirm }

// ErrUnknownOp is returned for an operation of an unknown kind. A newer program may have written it.
var ErrUnknownOp = errors.New("unknown operation")

// Op is one change of one bullet. It contains the result of every decision that needs a clock, a threshold or a model.
// The same log therefore folds to the same state everywhere.
type Op struct {
	Kind   OpKind   `msgpack:"k" json:"type"`
	Bullet BulletID `msgpack:"b" json:"bullet_id"`

	Section   string     `msgpack:"s,omitempty" json:"section,omitempty"`    // Add, Update
	When      string     `msgpack:"i,omitempty" json:"when,omitempty"`       // Add, Update, Merge: the condition; empty for none
	Content   string     `msgpack:"c,omitempty" json:"content,omitempty"`    // Add, Update, Merge: begins with the condition
	Status    Status     `msgpack:"u,omitempty" json:"status,omitempty"`     // Add, SetStatus
	Pinned    bool       `msgpack:"p,omitempty" json:"pinned,omitempty"`     // Pin
	Sources   []BulletID `msgpack:"z,omitempty" json:"source_ids,omitempty"` // Merge
	PutBullet *Bullet    `msgpack:"w,omitempty" json:"bullet,omitempty"`     // Put

	Helpful int `msgpack:"h,omitempty" json:"helpful,omitempty"` // Tag, Retag
	Harmful int `msgpack:"m,omitempty" json:"harmful,omitempty"` // Tag, Retag
	Neutral int `msgpack:"n,omitempty" json:"neutral,omitempty"` // Tag, Retag

	OldVote          Vote       `msgpack:"q,omitempty" json:"old_vote,omitempty"`   // Retag: the vote to move; withdrawn if there is no new vote
	ExperimentNumber int        `msgpack:"e,omitempty" json:"experiment,omitempty"` // AddExposures: number of the experiment
	Exposures        []Exposure `msgpack:"v,omitempty" json:"exposures,omitempty"`  // AddExposures: parallel to Support
	Standing         Standing   `msgpack:"g,omitempty" json:"standing,omitempty"`   // Add, Update, Merge: of the new wording; SetStatus: empty leaves it
	Restart          bool       `msgpack:"j,omitempty" json:"restart,omitempty"`    // SetStatus: start a new experiment
	Replaces         BulletID   `msgpack:"x,omitempty" json:"replaces,omitempty"`   // Add
	Contests         BulletID   `msgpack:"t,omitempty" json:"contests,omitempty"`   // Add

	// Support lists the reflections and edits that support the operation, as indices into the delta's Covers. A Tag
	// changes one counter and has one entry for each vote. In a change of several deltas, the indices refer to the
	// Covers of the last delta. An empty Support in an edit means all Covers.
	Support []int  `msgpack:"f,omitempty" json:"support,omitempty"`
	Code    Reason `msgpack:"d,omitempty" json:"code,omitempty"`   // reason of the Curator
	Reason  string `msgpack:"r,omitempty" json:"reason,omitempty"` // for people
}

// NewVote returns the vote that a Tag or Retag casts. It is empty for a Retag that withdraws a vote.
func (op *Op) NewVote() Vote {
	switch {
	case op.Helpful > 0:
		return Helpful
	case op.Harmful > 0:
		return Harmful
	case op.Neutral > 0:
		return Neutral
	}
	return ""
}

// byPerson reports whether a person decided the operation.
func (op *Op) byPerson() bool { return op.Code == ReasonPerson }

// validate returns an error for an invalid field. covers is the number of covers that Support may refer to.
func (op *Op) validate(covers int) error {
	if op.Bullet == "" {
		return fmt.Errorf("bullet_id: required")
	}
	for _, s := range op.Support {
		if s < 0 || s >= covers {
			return fmt.Errorf("support: index %d out of range", s)
		}
	}
	if op.Kind == Add || op.Kind == Put {
		if err := op.Bullet.Validate(); err != nil {
			return fmt.Errorf("bullet_id: %w", err)
		}
	}
	if op.Section != "" && Section(op.Section) != op.Section {
		return fmt.Errorf("section: invalid name %q", op.Section)
	}
	if !op.Standing.Valid() {
		return fmt.Errorf("standing: unknown standing %q", op.Standing)
	}
	if err := validateRivals(op.Replaces, op.Contests); err != nil {
		return err
	}
	switch op.Kind {
	case Add, Update, Merge:
		return validateText(op.When, op.Content)
	case Tag:
		if op.Helpful < 0 || op.Harmful < 0 || op.Neutral < 0 {
			return fmt.Errorf("helpful, harmful, neutral: must be at least 0")
		}
		if votes := op.Helpful + op.Harmful + op.Neutral; votes == 0 || votes > len(op.Support) {
			return fmt.Errorf("votes: must be 1 to %d, the number of supporting reflections, got %d", len(op.Support), votes)
		}
	case Retag:
		if !op.OldVote.Valid() {
			return fmt.Errorf("old_vote: unknown vote %q", op.OldVote)
		}
		votes := op.Helpful + op.Harmful + op.Neutral
		isNegative := op.Helpful < 0 || op.Harmful < 0 || op.Neutral < 0
		movesAllOrNone := votes == 0 || votes == len(op.Support)
		if isNegative || !movesAllOrNone || len(op.Support) == 0 {
			return fmt.Errorf("votes: must be 0 or %d, the number of supporting reflections, got %d", len(op.Support), votes)
		}
	case AddExposures:
		if len(op.Exposures) != len(op.Support) || len(op.Exposures) == 0 {
			return fmt.Errorf("exposures: requires one outcome for each supporting reflection, got %d outcomes and %d reflections", len(op.Exposures), len(op.Support))
		}
		for i := range op.Exposures {
			if err := op.Exposures[i].validate(); err != nil {
				return err
			}
		}
	case Confirm:
		if len(op.Support) == 0 {
			return fmt.Errorf("support: required")
		}
	case Put:
		return op.validatePut()
	case Remove, SetStatus, Pin: // nothing further to check
	default:
		return fmt.Errorf("type %q: %w: must be one of %v", op.Kind, ErrUnknownOp, OpKinds())
	}
	return nil
}

// validateRivals validates the ids of the bullets that a bullet replaces and contests. Each may be empty.
func validateRivals(replaces, contests BulletID) error {
	for _, f := range [...]struct {
		name string
		id   BulletID
	}{{"replaces", replaces}, {"contests", contests}} {
		if err := f.id.Validate(); f.id != "" && err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func (op *Op) validatePut() error {
	b := op.PutBullet
	switch {
	case b == nil:
		return errors.New("bullet: required")
	case b.ID != op.Bullet:
		return fmt.Errorf("bullet.id: must equal bullet_id %q, got %q", op.Bullet, b.ID)
	case Section(b.Section) != b.Section:
		return fmt.Errorf("bullet.section: invalid name %q", b.Section)
	case b.Helpful < 0 || b.Harmful < 0 || b.Neutral < 0:
		return errors.New("bullet: counters must be at least 0")
	case !b.Status.Valid():
		return fmt.Errorf("bullet.status: unknown status %q", b.Status)
	}
	if err := validateRivals(b.Replaces, b.Contests); err != nil {
		return fmt.Errorf("bullet.%w", err)
	}
	if err := b.Experiment.validate(); err != nil {
		return fmt.Errorf("bullet.experiment.%w", err)
	}
	if err := validateText(b.When, b.Content); err != nil {
		return fmt.Errorf("bullet.%w", err)
	}
	return nil
}

// NewBullet returns the bullet that an Add creates, without times. Op.Support has indices into covers.
func NewBullet(op *Op, covers []Cover) *Bullet {
	b := &Bullet{ID: op.Bullet, Section: op.Section, When: op.When, Content: op.Content, Status: op.Status, Replaces: op.Replaces, Contests: op.Contests}
	if op.Standing != "" {
		b.Experiment = b.newExperiment(op.Standing)
	}
	b.addSupport(covers, op.Support, 1)
	b.learnFrom(op, covers)
	b.OnlyInferred = onlyInferred(op, covers)
	b.Approved = op.byPerson() && b.Shown()
	return b
}

// Apply returns a copy of the bullet after an operation, with unchanged times. It returns nil if the operation has no effect on the
// bullet. Op.Support has indices into covers; sources are the bullets that a Merge adds to this one. Playbook.Apply and the package
// curator/draft both call this method, so a drafted delta predicts exactly the state after it.
func (b *Bullet) Apply(op *Op, covers []Cover, sources ...*Bullet) *Bullet {
	after := *b
	switch op.Kind {
	case Update:
		after.reword(op, covers)
		if op.Section != "" {
			after.Section = op.Section
		}
	case Tag:
		after.Helpful += op.Helpful
		after.Harmful += op.Harmful
		after.Neutral += op.Neutral
		after.addSupport(covers, op.Support, 1)
	case Retag:
		after.addVotes(op.OldVote, -len(op.Support))
		after.Helpful += op.Helpful
		after.Harmful += op.Harmful
		after.Neutral += op.Neutral
		if op.Helpful+op.Harmful+op.Neutral == 0 {
			after.addSupport(covers, op.Support, -1)
		}
	case AddExposures:
		if op.ExperimentNumber != b.CurrentExperiment().Number {
			return nil // outcomes of an earlier experiment
		}
		after.Experiment = b.addOutcomes(op.Exposures)
	case Confirm:
		c := b.CurrentExperiment()
		c.Confirmations += len(op.Support)
		after.Experiment = &c
		after.addSupport(covers, op.Support, 1)
		after.learnFrom(op, covers)
		after.OnlyInferred = b.OnlyInferred && onlyInferred(op, covers)
	case SetStatus:
		after.Status = op.Status
		if op.byPerson() && after.Shown() {
			after.Approved, after.OnlyInferred = true, false
		}
		if op.Restart {
			after.Experiment = b.repeatExperiment(op.Standing)
		} else if op.Standing != "" {
			e := after.CurrentExperiment()
			e.Standing = op.Standing
			after.Experiment = &e
		}
		e := after.CurrentExperiment()
		if op.Status == Retired && e.Confirmations > 0 { // earlier requests no longer count
			e.Confirmations = 0
			after.Experiment = &e
		}
	case Pin:
		after.Pinned = op.Pinned
	case Merge:
		after.reword(op, covers)
		for _, src := range sources {
			after.addReflections(src.LearnedFrom...)
			after.Helpful += src.Helpful
			after.Harmful += src.Harmful
			after.Neutral += src.Neutral
			after.Pinned = after.Pinned || src.Pinned
			after.SupportBySource = after.mergeSupport(src.SupportBySource)
			after.InferredSupport += src.InferredSupport
		}
	default:
		return nil
	}
	return &after
}

// reword sets the text of an Update or a Merge. Another text starts a new experiment.
func (b *Bullet) reword(op *Op, covers []Cover) {
	changed := op.Content != b.Content
	if changed {
		b.Experiment = b.newExperiment(op.Standing)
		if len(op.Support) > 0 || op.byPerson() { // a Merge without support rests on the executions behind its bullets
			b.OnlyInferred = onlyInferred(op, covers)
		}
	}
	b.learnFrom(op, covers)
	b.Approved = op.byPerson() || b.Approved && !changed
	b.When, b.Content = op.When, op.Content
}

// stamp sets the time that the operation changes. Votes are a use of the bullet; its outcomes and confirmations change no time.
func (b *Bullet) stamp(kind OpKind, at time.Time) {
	switch kind {
	case Update, SetStatus, Pin, Merge:
		b.UpdatedAt = at
	case Tag:
		b.LastUsed = at
	}
}
