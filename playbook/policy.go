package playbook

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Review is the review mode of a book: whether a new text waits for a person before a prompt may contain it. Stored; append only.
type Review string

// The review modes.
const (
	// ReviewFirst puts each new text into quarantine until a person approves it. Bullets that are active at that time stay.
	ReviewFirst Review = "first"
	// ReviewOff lets the gate show new texts. It is the default.
	ReviewOff Review = "off"
)

// Valid reports whether the mode is known or empty.
func (r Review) Valid() bool { return r == "" || r == ReviewFirst || r == ReviewOff }

// ValidateLeadingScore returns an error if a name of a score is too long. Nil and empty text are valid.
func ValidateLeadingScore(name *string) error {
	const limit = 80
	if name != nil && (len(*name) > limit || strings.TrimSpace(*name) != *name) {
		return fmt.Errorf("leading_score: must have at most %d bytes, without surrounding space", limit)
	}
	return nil
}

// About is the name and the description of a playbook, for people. The zero value has neither.
type About struct {
	Name        string `msgpack:"n,omitempty" json:"name,omitempty" doc:"Name for people, at most 80 bytes."`
	Description string `msgpack:"d,omitempty" json:"description,omitempty" doc:"What the playbook is for, at most 1,000 bytes."`
}

// AboutError is an invalid field of About.
type AboutError struct{ Field, Reason string }

func (e *AboutError) Error() string { return "about." + e.Field + ": " + e.Reason }

// Validate returns an *AboutError for a text that is too long, or a name of several lines. Nil is valid.
func (a *About) Validate() error {
	const maxName, maxDescription = 80, 1000
	switch {
	case a == nil:
		return nil
	case len(a.Name) > maxName || strings.TrimSpace(a.Name) != a.Name || strings.ContainsAny(a.Name, "\r\n"):
		return &AboutError{"name", fmt.Sprintf("must have one line of at most %d bytes, without surrounding space", maxName)}
	case len(a.Description) > maxDescription:
		return &AboutError{"description", fmt.Sprintf("must have at most %d bytes, got %d", maxDescription, len(a.Description))}
	}
	return nil
}

// Trust is the trust level of a source of executions. Stored; append only.
type Trust string

// The levels of trust.
const (
	Trusted Trust = "trusted"
	// Limited sources count only up to a share of the evidence of a bullet.
	Limited Trust = "limited"
	// Untrusted sources have no votes, and their proposals wait in quarantine for a person.
	Untrusted Trust = "untrusted"
)

// InferredSource is the name of the entry of a Policy for executions whose outcome was only inferred.
const InferredSource = "inferred"

// SourceTrust is the trust in one source.
type SourceTrust struct {
	Source string `msgpack:"o" json:"source" redact:"id"`
	Level  Trust  `msgpack:"l" json:"level"`
	Share  int    `msgpack:"s,omitempty" json:"share,omitempty"` // maximum share of a bullet's evidence, in percent; Limited only
}

// Policy contains the settings of the Curator that readers of a book need. The zero value trusts every source.
type Policy struct {
	Review Review        `msgpack:"r,omitempty" json:"review,omitempty"` // of a book whose mode no person has set
	Trust  []SourceTrust `msgpack:"t,omitempty" json:"trust,omitempty"`  // sorted by source, each once
	// Control is the control share of a book whose share no person has set.
	Control Share `msgpack:"c,omitempty" json:"control,omitempty"`
}

// Equal reports whether two policies are the same.
func (p Policy) Equal(o Policy) bool {
	return p.Review == o.Review && p.Control.PerMille() == o.Control.PerMille() && slices.Equal(p.Trust, o.Trust)
}

// Of returns the trust in a source. The entry for agent also applies to agent/NAME; the longest entry that matches counts. A source
// without an entry, and the empty source, is trusted.
func (p Policy) Of(source string) SourceTrust {
	best := SourceTrust{Source: source, Level: Trusted}
	length := -1
	for _, t := range p.Trust {
		if t.Source != InferredSource && MatchesSource(t.Source, source) && len(t.Source) > length {
			best, length = t, len(t.Source)
		}
	}
	return best
}

// OfInferred returns the trust in executions whose outcome was only inferred.
func (p Policy) OfInferred() SourceTrust {
	for _, t := range p.Trust {
		if t.Source == InferredSource {
			return t
		}
	}
	return SourceTrust{Source: InferredSource, Level: Trusted}
}

// Level returns the lower of the trust in a source and, if the outcome was inferred, the trust in inferred outcomes.
func (p Policy) Level(source string, inferred bool) Trust {
	level := p.Of(source).Level
	if inferred && p.OfInferred().Level.rank() < level.rank() {
		return p.OfInferred().Level
	}
	return level
}

// rank orders the levels, the least trusted first.
func (t Trust) rank() int { return slices.Index([]Trust{Untrusted, Limited, Trusted}, t) }

// MatchesSource reports whether a pattern selects a source: the source itself, or all sources below it, such as agent for agent/NAME.
// An empty pattern selects no source.
func MatchesSource(pattern, source string) bool {
	return pattern != "" && (source == pattern || strings.HasPrefix(source, pattern+"/"))
}

// Admission is the state of a book that decides which reflections a prompt may contain, besides the bullets and the gate. It is a
// part of the head of a view, so that generators know it without the log.
type Admission struct {
	Review  Review  `msgpack:"r,omitempty" json:"review,omitempty"` // set by a person; empty: Policy.Review counts
	Policy  Policy  `msgpack:"p,omitempty" json:"policy,omitzero"`
	Decided Decided `msgpack:"d,omitempty" json:"decided,omitzero"`
	// Control is set by a person; empty: Policy.Control counts. ControlShare returns the share that applies.
	Control Share `msgpack:"c,omitempty" json:"control,omitempty"`
	// ControlSalt is the key of the hash that assigns sessions. It is made when the share is first switched on, and stays. It is not in
	// JSON: clients that know it could choose sessions.
	ControlSalt []byte `msgpack:"s,omitempty" json:"-"`
	// Dropped has the sequences of the newest reflections whose bullet a person rejected, or whose bullet was removed, in order. Older
	// ones leave the list and raise DroppedFloor. Of the reflections up to DroppedFloor, a prompt may contain only those with a bullet.
	Dropped      []uint64 `msgpack:"x,omitempty" json:"dropped,omitempty"`
	DroppedFloor uint64   `msgpack:"z,omitempty" json:"dropped_floor,omitempty"`
	// Forgotten has the newest selections of forgotten executions, oldest first. Older ones leave the list and raise ForgottenFloor, which
	// has no selector: every execution before it counts as forgotten.
	Forgotten      []Forgotten `msgpack:"f,omitempty" json:"forgotten,omitempty"`
	ForgottenFloor Forgotten   `msgpack:"g,omitempty" json:"forgotten_floor,omitzero"`
}

// ReviewsFirst reports whether new texts wait for the approval of a person.
func (a *Admission) ReviewsFirst() bool { return cmp.Or(a.Review, a.Policy.Review) == ReviewFirst }

// Decided is the set of reflections that the Curator has decided on, by their sequence in the stream of reflections.
type Decided struct {
	Floor uint64   `msgpack:"f,omitempty" json:"floor,omitempty"` // all up to it
	Above []uint64 `msgpack:"a,omitempty" json:"above,omitempty"` // further ones, in order
}

// Has reports whether a reflection is decided.
func (d *Decided) Has(seq uint64) bool {
	_, found := slices.BinarySearch(d.Above, seq)
	return found || seq <= d.Floor
}

// WasDropped reports whether the bullet of a decided reflection was rejected or removed. linked is set if the playbook has a bullet
// that was learned from it.
func (a *Admission) WasDropped(seq uint64, linked bool) bool {
	_, found := slices.BinarySearch(a.Dropped, seq)
	return found || !linked && seq <= a.DroppedFloor
}

// Forgotten selects executions that were forgotten. It applies to executions that were learned from before Version, and to executions
// that were published before the sequence Before, even if a Reflector reads them later. A single execution that the selector names by
// its handle or sample is forgotten at any time.
type Forgotten struct {
	Selector Selector `msgpack:"s" json:"selector"`
	Version  uint64   `msgpack:"v" json:"version"` // version that forgot the executions
	Before   uint64   `msgpack:"b" json:"before"`  // first sequence of the stream of executions that the selector does not apply to
}

// Matches reports whether an execution is forgotten, or the run that it was compared with. version is the version whose delta covers the
// execution, 0 if none does yet.
func (f *Forgotten) Matches(version uint64, e *Evidence) bool {
	return f.selects(version, e) || f.selects(version, e.OfCompared())
}

func (f *Forgotten) selects(version uint64, e *Evidence) bool {
	if !f.Selector.selects(e) {
		return false
	}
	byName := f.Selector.Execution != "" || f.Selector.Sample != ""
	learnedBefore := version > 0 && version < f.Version
	publishedBefore := e.sequence() < f.Before
	return byName || learnedBefore || publishedBefore
}

// sequence returns the sequence of the execution in its stream, with which its handle begins. An invalid handle gives 0, and the
// execution then counts as published before all others.
func (e *Evidence) sequence() uint64 {
	number, _, _ := strings.Cut(e.Execution, "-")
	seq, _ := strconv.ParseUint(number, 10, 64)
	return seq
}

// Forgets reports whether an execution is forgotten, so that nothing may be learned from it and no prompt may contain it.
func (a *Admission) Forgets(e *Evidence) bool {
	return e.sequence() < a.ForgottenFloor.Before || slices.ContainsFunc(a.Forgotten, func(f Forgotten) bool { return f.Matches(0, e) })
}

// ForgetsSince reports whether executions of a session were forgotten after a version. If so, a text about the session that was written
// at that version may contain them.
func (a *Admission) ForgetsSince(version uint64, owner, session string) bool {
	return version < a.ForgottenFloor.Version || slices.ContainsFunc(a.Forgotten, func(f Forgotten) bool {
		s := &f.Selector
		bySession := s.Session == "" || s.Session == session
		byOwner := s.Owner == "" || s.Owner == owner
		return bySession && byOwner && version < f.Version
	})
}

// LastForgotten returns the last version that forgot executions, or 0.
func (a *Admission) LastForgotten() uint64 {
	if n := len(a.Forgotten); n > 0 {
		return a.Forgotten[n-1].Version
	}
	return 0
}

// Limits of the lists of an Admission. An entry that no longer fits raises the floor of its list. A floor errs on the safe side: what is
// below it counts as decided, dropped or forgotten, even if it is none of these, such as a reflection that has waited for long.
const (
	maxDecided   = 512
	maxDropped   = 512
	maxForgotten = 128
)

// apply adds a delta to the state. It does not change slices of earlier copies.
func (a *Admission) apply(d *Delta) {
	if d.Review != "" {
		a.Review = d.Review
	}
	if d.Policy != nil {
		a.Policy = *d.Policy
	}
	a.Control = cmp.Or(d.Control, a.Control)
	if len(d.ControlSalt) > 0 {
		a.ControlSalt = d.ControlSalt
	}
	a.Decided.add(d.Floor, d.Covers)
	if d.Forget != nil {
		a.forget(Forgotten{*d.Forget, d.Version, d.ForgetBefore})
	}
	a.eraseNames(d.Redacted)
}

// forget adds a selection. It replaces an earlier one of the same executions.
func (a *Admission) forget(f Forgotten) {
	all := slices.DeleteFunc(slices.Clone(a.Forgotten), func(old Forgotten) bool { return old.Selector == f.Selector })
	all = append(all, f)
	for len(all) > maxForgotten {
		floor := &a.ForgottenFloor
		floor.Version = max(floor.Version, all[0].Version)
		floor.Before = max(floor.Before, all[0].Before)
		all = all[1:]
	}
	a.Forgotten = all
}

func (d *Decided) add(floor uint64, covers []Cover) {
	if floor <= d.Floor && len(covers) == 0 {
		return
	}
	above := slices.Clone(d.Above)
	for i := range covers {
		above = append(above, covers[i].Seq)
	}
	slices.Sort(above)
	above = slices.Compact(above)
	if n := len(above) - maxDecided; n > 0 {
		floor = max(floor, above[n-1])
	}
	d.Floor = max(d.Floor, floor)
	d.Above = slices.DeleteFunc(above, func(seq uint64) bool { return seq <= d.Floor })
	if len(d.Above) == 0 {
		d.Above = nil // as in a stored head
	}
}

// drop adds the reflections of a bullet that is rejected or removed.
func (a *Admission) drop(b *Bullet) {
	if b == nil || len(b.LearnedFrom) == 0 {
		return
	}
	if len(b.LearnedFrom) == maxLearnedFrom { // the list is full, and may have lost reflections of the bullet
		a.DroppedFloor = max(a.DroppedFloor, slices.Max(b.LearnedFrom))
	}
	a.setDropped(append(slices.Clone(a.Dropped), b.LearnedFrom...))
}

// undrop removes the reflections of a bullet whose rejection was withdrawn.
func (a *Admission) undrop(b *Bullet) {
	if len(b.LearnedFrom) == 0 {
		return
	}
	isOfBullet := func(seq uint64) bool { return slices.Contains(b.LearnedFrom, seq) }
	a.setDropped(slices.DeleteFunc(slices.Clone(a.Dropped), isOfBullet))
}

// setDropped sets the dropped reflections, of which it keeps the newest.
func (a *Admission) setDropped(all []uint64) {
	slices.Sort(all)
	all = slices.Compact(all)
	if n := len(all) - maxDropped; n > 0 {
		a.DroppedFloor = max(a.DroppedFloor, all[n-1])
	}
	a.Dropped = all[max(0, len(all)-maxDropped):]
	if len(a.Dropped) == 0 {
		a.Dropped = nil // as in a stored head
	}
}

// applyOp records the effect of an operation. before is the bullet before it, nil for a new one.
func (a *Admission) applyOp(op *Op, before *Bullet) {
	wasRetired := before != nil && before.Status == Retired
	switch {
	case op.Kind == Remove:
		a.drop(before)
	case op.Kind == SetStatus && op.Status == Retired && op.Standing == StandingKept: // by a person
		a.drop(before)
	case op.Kind == SetStatus && op.Status != Retired && wasRetired:
		a.undrop(before)
	}
}

// maxLearnedFrom is the maximum length of Bullet.LearnedFrom.
const maxLearnedFrom = 16

// learnFrom records the reflections behind an operation that sets or repeats the text of the bullet.
func (b *Bullet) learnFrom(op *Op, covers []Cover) {
	for _, i := range op.Support {
		if i < len(covers) && covers[i].Evidence != nil {
			b.addReflections(covers[i].Seq)
		}
	}
}

// addReflections adds to LearnedFrom. Of more than maxLearnedFrom it drops those in the middle.
func (b *Bullet) addReflections(seqs ...uint64) {
	for _, seq := range seqs {
		if slices.Contains(b.LearnedFrom, seq) {
			continue
		}
		b.LearnedFrom = append(slices.Clip(b.LearnedFrom), seq)
		if len(b.LearnedFrom) > maxLearnedFrom {
			b.LearnedFrom = slices.Delete(b.LearnedFrom, maxLearnedFrom/2, maxLearnedFrom/2+1)
		}
	}
}

// onlyInferred reports whether all executions behind an operation have an inferred outcome. It is false without executions.
func onlyInferred(op *Op, covers []Cover) bool {
	found := false
	for _, i := range op.Support {
		if i < len(covers) && covers[i].Evidence != nil {
			found = true
			if !covers[i].Evidence.Inferred {
				return false
			}
		}
	}
	return found
}
