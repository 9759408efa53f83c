package playbook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Admission is the state of a playbook that decides which reflections a prompt may contain, besides the bullets and the gate. It is a
// part of the head of a stored view, so that generators know it without the log.
type Admission struct {
	Review  Review  `msgpack:"r,omitempty" json:"review,omitempty"` // set by a person; empty: Policy.Review counts
	Policy  Policy  `msgpack:"p,omitempty" json:"policy,omitzero"`
	Decided Decided `msgpack:"d,omitempty" json:"decided,omitzero"`
	// Control is set by a person; empty: Policy.Control counts. ControlShare returns the share that applies.
	Control Share `msgpack:"c,omitempty" json:"control,omitempty"`
	// ControlSalt is the key of the hash that assigns sessions, see InControl. It is made when the share is first switched on, and stays. JSON does
	// not contain it: a client that knows it could choose the group of its sessions.
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

// Forgotten returns the selection of a delta whose Forget is set.
func (d *Delta) Forgotten() Forgotten {
	return Forgotten{Selector: *d.Forget, Version: d.Version, Before: d.ForgetBefore}
}

// Matches reports whether an execution is forgotten, or the run that it was compared with. version is the version whose delta covers the
// execution, 0 if none does yet.
func (f *Forgotten) Matches(version uint64, e *Evidence) bool {
	return f.selects(version, e) || f.selects(version, e.ComparedEvidence())
}

// selects is Matches for the execution alone.
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

// Forgets reports whether an execution is forgotten. Then nothing may be learned from it, and no prompt may contain it.
func (a *Admission) Forgets(e *Evidence) bool {
	return e.sequence() < a.ForgottenFloor.Before || slices.ContainsFunc(a.Forgotten, func(f Forgotten) bool { return f.Matches(0, e) })
}

// LastForgotten returns the last version that forgot executions, or 0.
func (a *Admission) LastForgotten() uint64 {
	if n := len(a.Forgotten); n > 0 {
		return a.Forgotten[n-1].Version
	}
	return 0
}

// Limits of the lists of an Admission. An entry that no longer fits raises the floor of its list. Everything up to a floor counts as decided,
// dropped or forgotten. This may be wrong, for example for a reflection that has waited for long, but then a prompt lacks a text that it could contain.
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
		a.forget(d.Forgotten())
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

// add adds the reflections up to a floor, and those of covers.
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
	if n := len(above) - maxDecided; n > 0 { // the first n do not fit
		floor = max(floor, above[n-1])
	}
	d.Floor = max(d.Floor, floor)
	d.Above = slices.DeleteFunc(above, func(seq uint64) bool { return seq <= d.Floor })
	if len(d.Above) == 0 {
		d.Above = nil // as after decoding
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
	if n := len(all) - maxDropped; n > 0 { // the first n do not fit
		a.DroppedFloor = max(a.DroppedFloor, all[n-1])
	}
	a.Dropped = all[max(0, len(all)-maxDropped):]
	if len(a.Dropped) == 0 {
		a.Dropped = nil // as after decoding
	}
}

// applyOp records the effect of an operation. before is the bullet before it, nil for a new one.
func (a *Admission) applyOp(op *Op, before *Bullet) {
	wasRetired := before != nil && before.Status == Retired
	switch {
	case op.Kind == Remove:
		a.drop(before)
	case op.Kind == SetStatus && op.Status == Retired && op.Standing == StandingKept: // by a person; the gate retires with another standing
		a.drop(before)
	case op.Kind == SetStatus && op.Status != Retired && wasRetired:
		a.undrop(before)
	}
}

// Share is the control share of a playbook: the share of the sessions in the control group. Their prompts get no learned text, so that their
// outcomes show the worth of the playbook. It is a percentage with at most one decimal, such as 5% or 2.5%, or off. Empty means
// that it is not set. Stored.
type Share string

// ShareOff is the share without a control group. It is the default.
const ShareOff Share = "off"

// maxShare is the largest share, in tenths of a percent. Two groups of equal size need the fewest sessions for a comparison.
const maxShare = 500

// Valid reports whether the share is empty, off, or from 0.1% to 50%.
func (s Share) Valid() bool { return s == "" || s == ShareOff || s.PerMille() > 0 }

// PerMille returns the share in tenths of a percent, from 1 to 500. It is 0 for an empty share, for off, and for an invalid share.
func (s Share) PerMille() int {
	number, isPercentage := strings.CutSuffix(string(s), "%")
	whole, tenths, hasTenths := strings.Cut(number, ".")
	if !isPercentage || hasTenths && len(tenths) != 1 {
		return 0
	}
	share, err := strconv.ParseUint(whole+cmp.Or(tenths, "0"), 10, 16) // "2" and "5" give 25, "2" alone gives 20
	if err != nil || whole == "" || share > maxShare {
		return 0
	}
	return int(share)
}

// ShareSyntax is the form of a share, for errors.
const ShareSyntax = "must be off, or from 0.1% to 50% with at most one decimal"

func (s Share) validate() error {
	if !s.Valid() {
		return fmt.Errorf("control: %s, got %.80q", ShareSyntax, string(s))
	}
	return nil
}

// ControlShare returns the share that applies: that of a person, else that of the Curator. It is off without a salt.
func (a *Admission) ControlShare() Share {
	share := cmp.Or(a.Control, a.Policy.Control)
	if share.PerMille() == 0 || len(a.ControlSalt) == 0 {
		return ShareOff
	}
	return share
}

// InControl reports whether a session of an owner belongs to the control group if the group has this share. A hash gives each session a fixed
// number, and sessions with low numbers are in the group. So a larger share only adds sessions, and a smaller share only removes some. The key of the
// hash is the random salt of the playbook: no client can choose the group by the name of its session.
func (a *Admission) InControl(b Book, owner, session string, share Share) bool {
	mac := hmac.New(sha256.New, a.ControlSalt)
	for _, name := range [...]string{string(b), owner, session} { // each after its length, so that a, bc and ab, c differ
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
		mac.Write([]byte(name))
	}
	number := binary.BigEndian.Uint64(mac.Sum(nil))
	return number < uint64(share.PerMille())*(math.MaxUint64/1000)
}
