package gate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"debrief/playbook"
	"debrief/playbook/similar"
)

// maxWaiting is the maximum number of candidates of a playbook that wait for a confirmation. The others retire.
const maxWaiting = 256

// Confirmations that a bullet needs.
const (
	confirmationsToShow   = 1 // for a candidate to be shown
	confirmationsToReturn = 2 // for a retired bullet to return: this number for each of its experiments, so each return is harder
)

// State is the playbook that the gate decides on, with the changes so far.
type State interface {
	All() iter.Seq[*playbook.Bullet]           // in undefined order
	Bullet(playbook.BulletID) *playbook.Bullet // nil for an unknown bullet
}

// Decider decides on the bullets of one state. State, Typical and Apply are required. It is not safe for concurrent use.
type Decider struct {
	Config Config
	Mode   playbook.Gate
	// Review is set if a person must approve each bullet before it is shown. A bullet that the decider would show then goes to
	// quarantine, and nothing else changes.
	Review bool
	State  State
	// Typical returns the mean score of the tasks that do not cite a bullet.
	Typical func(playbook.BulletID) playbook.Typical
	// Apply applies the operations of one decision to the state: changes of statuses and standings. It applies all of them or none. It
	// returns false if the delta has no room; then the decider decides no more.
	Apply func([]playbook.Op) bool

	ops  []playbook.Op // of the current decision
	full bool          // the delta is full: the next one continues
}

// Decide decides on the bullets with new evidence. It reports whether the delta is full. Then some bullets may have no decision yet, and
// the next delta needs the same call.
func (d *Decider) Decide(changed map[playbook.BulletID]struct{}) (full bool) {
	hasCandidate := false
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		b := d.State.Bullet(id)
		if b == nil || b.Pinned {
			continue
		}
		if d.full {
			return true
		}
		switch b.Status {
		case playbook.Candidate:
			hasCandidate = true
			n := b.CurrentExperiment().Confirmations
			if n >= confirmationsNeeded(d.State, b, d.Typical(b.ID)) {
				d.show(b, playbook.Op{Code: playbook.ReasonConfirmed, Reason: fmt.Sprintf("requested by %s", otherExecutions(n))})
			}
		case playbook.Retired:
			d.reconsider(b)
		case playbook.Quarantined: // a person decides
		default:
			d.assess(b)
		}
		d.endDecision()
	}
	if hasCandidate {
		d.limitWaiting()
	}
	return d.full
}

// confirmationsNeeded returns the number of confirmations that a candidate needs. The number is the largest of
//
//   - confirmationsToShow,
//   - the number that outweighs the candidate's own record after a suspension,
//   - the number that outweighs the good record of another bullet; see requestsNeeded.
func confirmationsNeeded(s State, b *playbook.Bullet, typical playbook.Typical) int {
	e := b.CurrentExperiment()
	requests := requestsNeeded(s, b, typical)
	return max(confirmationsToShow, confirmationsAgainst(failing(&e, typical)), requests-1) // the proposal of the candidate was the first request
}

// requestsNeeded returns the number of executions that must request b because a bullet that b replaces or contests has a good record. It is 0
// if that bullet fails now, or if b extends the bullet that it replaces.
func requestsNeeded(s State, b *playbook.Bullet, typical playbook.Typical) int {
	replaced := shownReplaced(s, b)
	old := cmp.Or(replaced, s.Bullet(b.Contests)) // the bullet whose record counts
	switch {
	case old == nil, replaced != nil && isExtension(replaced, b), !IsSupported(old, typical), failsNow(old):
		return 0
	}
	e := old.CurrentExperiment()
	requests := int(math.Ceil(failures(&e) * requestShare))
	if replaced != nil && IsTrusted(replaced) {
		requests = max(requests, trustedRequests, int(math.Ceil(float64(e.Cited.Count())*trustedShare)))
	}
	return requests
}

// Limits of the number of executions that must request a text before it is shown against a bullet with a good record. The number includes the
// execution that proposed the text.
const (
	// requestShare is the share of the failures blamed on a supported bullet. If the bullet is wrong, most of these failures request the same
	// right text, apart from paraphrases and wrong generalisations. If the verdicts are wrong, the failures request many different texts.
	requestShare = 0.25
	// trustedShare is the share of all outcomes of a trusted bullet, if the text would replace it. A bullet that is vague, or right only by
	// luck, fails often, and most of its failures request the exact text. If a fifth of the verdicts on a right bullet are wrong, they
	// request different texts.
	trustedShare = 0.1
	// trustedRequests is the least number against a trusted bullet: among a few wrong verdicts, two request the same text by chance.
	trustedRequests = 3
)

// isExtension reports whether b, which would replace the bullet old, keeps the condition and the advice of old and adds to them. Then both
// can be right, so a good record of old is no reason against b.
func isExtension(old, b *playbook.Bullet) bool {
	return old.Content != "" && similar.IsNarrower(old.When, b.When) && similar.IsExtension(old.Advice(), b.Advice())
}

// otherExecutions returns a number of executions in words, such as "1 other execution".
func otherExecutions(n int) string {
	if n == 1 {
		return "1 other execution"
	}
	return fmt.Sprintf("%d other executions", n)
}

// recentOutcomes is the number of the newest outcomes that decide whether a supported bullet fails now. If wrong verdicts
// turn a tenth of its successes into failures, at least three of six outcomes are failures with a probability below 2 %.
const recentOutcomes = 6

// failsNow reports whether at least half of the newest outcomes of a bullet are failures. It is true for a bullet without outcomes.
func failsNow(b *playbook.Bullet) bool {
	recent := b.CurrentExperiment().Recent
	recent = recent[max(0, len(recent)-recentOutcomes):]
	return 2*strings.Count(recent, string(playbook.RecentFailure)) >= len(recent)
}

// assess decides on a bullet that is shown or on probation.
func (d *Decider) assess(b *playbook.Bullet) {
	a := d.Config.Assess(b, d.Typical(b.ID))
	if a == (Assessment{}) {
		return
	}
	op := playbook.Op{
		Bullet: b.ID, Status: cmp.Or(b.Status, playbook.Active), Standing: a.Standing, Restart: a.Restart, Code: a.Code, Reason: a.Reason,
	}
	switch {
	case a.Retire:
		op.Status = playbook.Retired
	case a.Suspend:
		op.Status = playbook.Candidate
	case op.Status == playbook.Probation && a.Standing.Established():
		op.Status = playbook.Active
	case a.Restart && d.Mode == playbook.GateStrict:
		op.Status = playbook.Probation
	}
	d.setStatus(op)
	switch {
	case a.Retire, a.Suspend:
		d.restoreReplaced(b)
	case a.Restart:
		d.showAgainst(b.ID)
	case op.Status == playbook.Active && b.Status == playbook.Probation:
		d.retireReplaced(b)
	}
}

// setStatus adds a change of a status to the current decision. It sets the kind of op.
func (d *Decider) setStatus(op playbook.Op) {
	op.Kind = playbook.SetStatus
	d.ops = append(d.ops, op)
}

// endDecision applies the operations of the current decision, unless the delta is full.
func (d *Decider) endDecision() {
	if len(d.ops) > 0 && !d.full {
		d.full = !d.Apply(d.ops)
	}
	d.ops = nil
}

// replacedBy yields the bullets that b replaces, directly and through others, the newest first.
func replacedBy(s State, b *playbook.Bullet) iter.Seq[*playbook.Bullet] {
	return func(yield func(*playbook.Bullet) bool) {
		seen := map[playbook.BulletID]bool{b.ID: true} // an import can have a cycle
		for b.Replaces != "" && !seen[b.Replaces] {
			b = s.Bullet(b.Replaces)
			if b == nil || !yield(b) {
				return
			}
			seen[b.ID] = true
		}
	}
}

// shownReplaced returns the shown bullet that b replaces, directly or through others, or nil.
func shownReplaced(s State, b *playbook.Bullet) *playbook.Bullet {
	for old := range replacedBy(s, b) {
		if old.Shown() {
			return old
		}
	}
	return nil
}

// restoreReplaced shows the newest bullet that b had replaced, because b is no longer shown. It does nothing if such a bullet is shown already. It
// leaves out bullets that their own record or a person retired.
func (d *Decider) restoreReplaced(b *playbook.Bullet) {
	if shownReplaced(d.State, b) != nil {
		return
	}
	for old := range replacedBy(d.State, b) {
		if !isRestorable(old) {
			continue
		}
		reason := fmt.Sprintf("bullet %q, which replaced it, is no longer shown", b.ID)
		if d.Review {
			d.holdForReview(old, reason)
		} else {
			d.setStatus(playbook.Op{Bullet: old.ID, Status: playbook.Active, Code: playbook.ReasonReturned, Reason: reason})
		}
		return
	}
}

// isRestorable reports whether a bullet retired with an established standing, so neither by its own record nor by a person. A bullet that was
// new when it was replaced does not return.
func isRestorable(b *playbook.Bullet) bool {
	s := b.CurrentExperiment().Standing
	return b.Status == playbook.Retired && s.Established() && s != playbook.StandingKept
}

// show shows a candidate or a retired bullet as a new one, and retires the bullets that it replaces. If the gate is strict, show puts the bullet
// on probation instead. It does nothing if a person keeps the shown bullet that b replaces, or if all outcomes behind b are inferred. op has the
// code and the reason, and may restart the experiment.
func (d *Decider) show(b *playbook.Bullet, op playbook.Op) {
	old := shownReplaced(d.State, b)
	if b.OnlyInferred || old != nil && IsKept(old) {
		return
	}
	if d.Review {
		d.holdForReview(b, op.Reason)
		return
	}
	op.Bullet = b.ID
	op.Standing = playbook.StandingNew
	op.Status = playbook.Active
	if d.Mode == playbook.GateStrict {
		op.Status = playbook.Probation
	}
	d.setStatus(op)
	if op.Status == playbook.Active {
		d.retireReplaced(b)
	}
}

// holdForReview puts a bullet that would be shown into quarantine.
func (d *Decider) holdForReview(b *playbook.Bullet, reason string) {
	d.setStatus(playbook.Op{Bullet: b.ID, Status: playbook.Quarantined, Code: playbook.ReasonReview, Reason: "review first: " + reason})
}

// retireReplaced retires the bullets that b replaces.
func (d *Decider) retireReplaced(b *playbook.Bullet) {
	for old := range replacedBy(d.State, b) {
		if old.Status == playbook.Retired || IsKept(old) {
			continue
		}
		d.setStatus(playbook.Op{
			Bullet: old.ID, Status: playbook.Retired, Code: playbook.ReasonReplaced, Reason: fmt.Sprintf("replaced by bullet %q", b.ID),
		})
	}
}

// showAgainst shows the candidates that wait because they contradict a bullet that has lost its trust. Only one of them can replace the
// bullet: the one with the most confirmations, else the newest.
func (d *Decider) showAgainst(id playbook.BulletID) {
	var replacement *playbook.Bullet
	var list []*playbook.Bullet
	for b := range d.State.All() {
		switch {
		case b.Status != playbook.Candidate:
		case b.Replaces == id:
			if replacement == nil || compareWaiting(b, replacement) < 0 {
				replacement = b
			}
		case b.Contests == id:
			list = append(list, b)
		}
	}
	if replacement != nil {
		list = append(list, replacement)
	}
	slices.SortFunc(list, compareWaiting)
	reason := fmt.Sprintf("outcomes of bullet %q, which it contradicts, have become worse", id)
	for _, b := range list {
		d.show(b, playbook.Op{Code: playbook.ReasonConfirmed, Reason: reason})
	}
}

// compareWaiting orders candidates by confirmations, most first, then the newest first.
func compareWaiting(a, b *playbook.Bullet) int {
	return cmp.Or(
		cmp.Compare(b.CurrentExperiment().Confirmations, a.CurrentExperiment().Confirmations),
		cmp.Compare(b.ID.Number(), a.ID.Number()), cmp.Compare(b.ID, a.ID),
	)
}

// reconsider shows a retired bullet again if enough executions have requested it since. It stays retired while a bullet that replaced it
// is shown, because the outcomes of that bullet decide.
func (d *Decider) reconsider(b *playbook.Bullet) {
	e := b.CurrentExperiment()
	needed := max(confirmationsToReturn*max(1, e.Number), requestsNeeded(d.State, b, d.Typical(b.ID)))
	if !MayReturn(b) || e.Confirmations < needed || d.isReplaced(b.ID) {
		return
	}
	d.show(b, playbook.Op{Restart: true, Code: playbook.ReasonConfirmed, Reason: fmt.Sprintf("%d more executions request it", e.Confirmations)})
}

// isReplaced reports whether a bullet that replaces id is shown or on probation.
func (d *Decider) isReplaced(id playbook.BulletID) bool {
	for b := range d.State.All() {
		if !b.Shown() && b.Status != playbook.Probation {
			continue
		}
		for old := range replacedBy(d.State, b) {
			if old.ID == id {
				return true
			}
		}
	}
	return false
}

// MayReturn reports whether a retired bullet may return after enough requests. It returns false for bullets that a person
// retired.
func MayReturn(b *playbook.Bullet) bool {
	return b.Status == playbook.Retired && b.CurrentExperiment().Standing != playbook.StandingKept
}

// IsKept reports whether a bullet has its status by a person's decision. The gate does not change it.
func IsKept(b *playbook.Bullet) bool {
	return b.Pinned || b.CurrentExperiment().Standing == playbook.StandingKept
}

// IsTrusted reports whether outcomes have made a bullet trusted or proven.
func IsTrusted(b *playbook.Bullet) bool {
	s := b.CurrentExperiment().Standing
	return s == playbook.StandingTrusted || s == playbook.StandingProven
}

// IsSupported reports whether a bullet is shown, and the tasks that cited it succeeded at least as often as they failed. One
// failure does not show that such a bullet is wrong, because the verdict may be wrong. So a proposal cannot change or remove it.
// A bullet without a standing is supported from the start: a person or an import added it, or the gate was off.
//
// Where most tasks fail, most verdicts of success are false. So if the error of the verdicts is known, the scores of these tasks, without
// the share that is probably false, must add up to at least half of one full success.
func IsSupported(b *playbook.Bullet, typical playbook.Typical) bool {
	e := b.CurrentExperiment()
	if !b.Shown() || e.Standing == playbook.StandingSuspect || lead(&e, typical) < 0 {
		return false
	}
	hasSuccess := e.Cited.Sum() > 0 && (typical.FalseSuccesses == 0 || successes(&e, typical) >= 0.5)
	return hasSuccess || e.Standing == ""
}

// Release shows the bullets that a stricter mode of the gate withheld: those on probation, and the candidates if the gate is off. A bullet
// that would replace a shown one becomes or stays a candidate. A candidate also stays one if a person must approve it, or if all outcomes
// behind it are inferred. Release reports whether the delta is full. Then the next delta needs the same call.
func (d *Decider) Release() (full bool) {
	reason := fmt.Sprintf("the gate is %s", d.Mode)
	var list []*playbook.Bullet
	for b := range d.State.All() {
		if b.Status == playbook.Probation || b.Status == playbook.Candidate && d.Mode == playbook.GateOff {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, compareWaiting)
	for _, b := range list {
		isCandidate := b.Status == playbook.Candidate
		wouldReplace := shownReplaced(d.State, b) != nil
		switch {
		case isCandidate && (d.Review || b.OnlyInferred || wouldReplace):
			continue
		case wouldReplace:
			d.setStatus(playbook.Op{Bullet: b.ID, Status: playbook.Candidate, Code: playbook.ReasonUnconfirmed, Reason: reason})
		default:
			d.setStatus(playbook.Op{Bullet: b.ID, Status: playbook.Active, Code: playbook.ReasonGateOff, Reason: reason})
		}
		d.endDecision()
	}
	return d.full
}

// limitWaiting retires the waiting candidates with the fewest confirmations, the oldest first, if there are more than maxWaiting.
func (d *Decider) limitWaiting() {
	var list []*playbook.Bullet
	for b := range d.State.All() {
		if b.Status == playbook.Candidate && !IsKept(b) {
			list = append(list, b)
		}
	}
	if len(list) <= maxWaiting {
		return
	}
	slices.SortFunc(list, compareWaiting)
	for _, b := range list[maxWaiting:] {
		d.setStatus(playbook.Op{
			Bullet: b.ID, Status: playbook.Retired, Code: playbook.ReasonTooMany,
			Reason: fmt.Sprintf("%d other waiting bullets have more confirmations or are newer", maxWaiting),
		})
		d.endDecision()
	}
}
