package draft

import (
	"fmt"
	"math"
	"slices"
	"time"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/text"
)

// freeVotes is the number of votes of a limited source on a bullet that count without a check of its share, because the first vote on a new
// bullet is a large share of all.
const freeVotes = 2

// sources decides how much the sources of reflections are trusted.
type sources struct {
	*state
	added map[Contributor]int // number of bullets that this draft added
}

// evidenceOf returns the evidence of a cover, or an empty one.
func (d *sources) evidenceOf(cover int) playbook.Evidence {
	if cover < len(d.covers) && d.covers[cover].Evidence != nil {
		return *d.covers[cover].Evidence
	}
	return playbook.Evidence{}
}

// trustLevel returns the trust level of a cover: the lower one of its source and, if its outcome was inferred, of inferred outcomes.
func (d *sources) trustLevel(cover int) playbook.Trust {
	e := d.evidenceOf(cover)
	return d.Settings.Level(e.Source, e.Inferred)
}

// refuseSource returns the reason why the support of one reflection for a bullet must not count because of its source, or nil if it may.
func (d *sources) refuseSource(b *playbook.Bullet, cover int) *screen.Refusal {
	e := d.evidenceOf(cover)
	trust := d.Settings.Of(e.Source)
	fromSource := 0
	for _, o := range b.SupportBySource {
		if playbook.MatchesSource(trust.Source, o.Source) {
			fromSource += o.Count
		}
	}
	if refusal := refuseShare(b, trust, fromSource); refusal != nil {
		return refusal
	}
	if !e.Inferred {
		return nil
	}
	return refuseShare(b, d.Settings.OfInferred(), b.InferredSupport)
}

// refuseShare returns the reason why one more vote of a source on a bullet must not count, or nil if it may. fromSource is the number of
// times that the source supports the bullet already.
func refuseShare(b *playbook.Bullet, trust playbook.SourceTrust, fromSource int) *screen.Refusal {
	switch trust.Level {
	case playbook.Untrusted:
		return screen.Refusef(playbook.ReasonUntrusted, "source %q is not trusted: its vote on bullet %q does not count", trust.Source, b.ID)
	case playbook.Limited:
		before := b.Helpful + b.Harmful + b.Neutral + b.CurrentExperiment().Confirmations + 1 // the first proposal of the bullet
		all, ofSource := before+1, fromSource+1
		if ofSource > freeVotes && ofSource*100 > trust.Share*all {
			return screen.Refusef(playbook.ReasonSourceShare, "source %q has reached its share of the evidence of bullet %q: %d of %d, limit %d %%", trust.Source, b.ID, fromSource, before, trust.Share)
		}
	}
	return nil
}

// measures reports whether the outcome behind a cover counts in the experiment of a bullet. A source without trust measures only bullets
// that are shown already, so it helps no other bullet to be shown.
func (d *sources) measures(b *playbook.Bullet, cover int) bool {
	switch d.trustLevel(cover) {
	case playbook.Untrusted:
		return b.Shown()
	case playbook.Limited:
		return d.refuseSource(b, cover) == nil
	}
	return true
}

// authorKind returns the kind of the author of a proposal: a model, if a model made each reflection in its support. Otherwise the author is
// unknown, "".
func (d *sources) authorKind(support []int) admit.Source {
	for _, i := range support {
		if e := d.evidenceOf(i); e.Model == "" {
			return ""
		}
	}
	return admit.Model
}

// lateAfter is the number of events in the stream between an execution and its feedback from which on the outcome is late.
const lateAfter = 100

// isLate reports whether the outcome behind a proposal came late: the agents meanwhile did other tasks without the advice.
func (d *sources) isLate(support []int) bool {
	return slices.ContainsFunc(support, func(i int) bool {
		e := d.evidenceOf(i)
		execution, _, err := events.Handle(e.Execution).Parse()
		return err == nil && e.FeedbackSeq >= execution+lateAfter
	})
}

// lowestTrust returns the least trusted source in the support of an operation, and its level. One untrusted source is enough
// to distrust the operation, because the model itself chose the reflections in the support.
func (d *sources) lowestTrust(support []int) (playbook.Trust, string) {
	worst, name := playbook.Trusted, ""
	for _, i := range support {
		l := d.trustLevel(i)
		if l == playbook.Trusted {
			continue
		}
		e := d.evidenceOf(i)
		worst, name = l, e.Source
		if d.Settings.Of(e.Source).Level != l { // the level is that of inferred outcomes
			name = playbook.InferredSource
		}
		if l == playbook.Untrusted {
			return worst, name
		}
	}
	return worst, name
}

// allInferred reports whether every execution behind an operation has an inferred outcome. It is false without executions.
func (d *sources) allInferred(support []int) bool {
	found := false
	for _, i := range support {
		if i < len(d.covers) && d.covers[i].Evidence != nil {
			found = true
			if !d.covers[i].Evidence.Inferred {
				return false
			}
		}
	}
	return found
}

// trustedSupport returns the part of an operation's support that may count for a bullet. If it leaves some out, refusal is the reason for the
// last of these.
func (d *sources) trustedSupport(b *playbook.Bullet, support []int) (trusted []int, refusal *screen.Refusal) {
	for _, i := range support {
		if refused := d.refuseSource(b, i); refused != nil {
			refusal = refused
		} else {
			trusted = append(trusted, i)
		}
	}
	return trusted, refusal
}

// burstWindow is the time within which a session, or a source that is not fully trusted, may add Burst.Max bullets. Further
// bullets go to quarantine and wait for a person. Each Curator process counts for itself, and begins at 0 after a restart.
const burstWindow = 10 * time.Minute

// Contributor is the origin of bullets: a session, or a source that is not fully trusted.
type Contributor struct {
	source bool // name is that of a source, not of a session
	name   string
}

// String returns the kind and the name of the contributor.
func (c Contributor) String() string {
	if c.source {
		return fmt.Sprintf("source %q", c.name)
	}
	return fmt.Sprintf("session %q", c.name)
}

// Burst limits the bullets that one contributor may add within burstWindow. A value of Max below 1 disables the limit.
type Burst struct {
	Max    int
	Recent map[Contributor]int // bullets added within the window, before this draft
}

// contributors returns the contributors in the support of an operation, each once.
func (d *sources) contributors(support []int) (all []Contributor) {
	add := func(m Contributor) {
		if m.name != "" && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	for _, i := range support {
		e := d.evidenceOf(i)
		add(Contributor{name: e.Session})
		if d.Settings.Of(e.Source).Level != playbook.Trusted {
			add(Contributor{source: true, name: e.Source})
		}
		if e.Inferred && d.Settings.OfInferred().Level != playbook.Trusted {
			add(Contributor{source: true, name: playbook.InferredSource})
		}
	}
	return all
}

// limitBurst puts a new bullet into quarantine if one of its contributors has reached the burst limit.
func (d *sources) limitBurst(op *playbook.Op) {
	if d.Burst.Max < 1 {
		return
	}
	for _, m := range d.contributors(op.Support) {
		if d.Burst.Recent[m]+d.added[m] >= d.Burst.Max {
			op.Status, op.Code = playbook.Quarantined, playbook.ReasonTooManyAtOnce
			op.Reason = fmt.Sprintf("%s has added more than %d bullets in %d minutes", text.Excerpt(m.String(), screen.MaxName), d.Burst.Max, int(burstWindow.Minutes()))
			return
		}
	}
}

// Additions counts the bullets that each contributor has added within burstWindow. The zero value is empty.
type Additions struct {
	at map[Contributor][]additionCount
}

type additionCount struct {
	time time.Time
	n    int
}

// Recent returns the counts at the time now. It deletes the entries that are older than burstWindow.
func (b *Additions) Recent(now time.Time) map[Contributor]int {
	counts := map[Contributor]int{}
	for m, list := range b.at {
		list = slices.DeleteFunc(list, func(c additionCount) bool { return now.Sub(c.time) >= burstWindow })
		b.at[m] = list
		if len(list) == 0 {
			delete(b.at, m)
		}
		for _, c := range list {
			counts[m] += c.n
		}
	}
	return counts
}

// Add adds counts of new bullets.
func (b *Additions) Add(added map[Contributor]int, now time.Time) {
	for m, n := range added {
		if b.at == nil {
			b.at = map[Contributor][]additionCount{}
		}
		b.at[m] = append(b.at[m], additionCount{now, n})
	}
}

// A bullet is well supported if it has at least minVotes votes, and if at least minHelpfulShare of them are helpful. The share is the lower
// limit of its 95 % confidence interval (Wilson 1927).
const (
	minVotes        = 5
	minHelpfulShare = 0.5
	wilsonZ         = 1.96
)

// isWellSupported reports whether a bullet with these votes is well supported; see minHelpfulShare.
func isWellSupported(helpful, harmful int) bool {
	n := float64(helpful + harmful)
	if helpful+harmful < minVotes {
		return false
	}
	p, z := float64(helpful)/n, wilsonZ
	low := (p + z*z/(2*n) - z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))) / (1 + z*z/n)
	return low >= minHelpfulShare
}

const (
	// minAgree is the minimum number of executions that must agree against a well supported bullet. An attacker can plant one
	// execution, and repeat it.
	minAgree = 3
	maxAgree = 1000 // a delta has fewer covers than this
)

// requiredToOverturn returns the number of executions that must agree to change a well supported bullet. If each of them were
// one more harmful vote, the bullet would no longer be well supported.
func requiredToOverturn(b *playbook.Bullet) int {
	n := minAgree
	for n < maxAgree && isWellSupported(b.Helpful, b.Harmful+n) {
		n++
	}
	return n
}

// contradictedBullet returns the first well supported bullet that the operation would remove or rewrite with the support of
// too few executions, or nil.
func (d *sources) contradictedBullet(op *playbook.Op) *playbook.Bullet {
	ids := []playbook.BulletID{op.Bullet}
	if op.Kind == playbook.Merge {
		ids = append(ids, op.Sources...)
	}
	agree := map[string]bool{}
	for _, i := range op.Support {
		if i < len(d.covers) && d.covers[i].Evidence != nil {
			agree[d.covers[i].Evidence.Execution] = true
		}
	}
	for _, id := range ids {
		b := d.Bullet(id)
		if b == nil || !isWellSupported(b.Helpful, b.Harmful) || len(agree) >= requiredToOverturn(b) {
			continue
		}
		if op.Kind == playbook.Remove || playbook.ContentKeyOf(op.Content) != playbook.ContentKeyOf(b.Content) {
			return b
		}
	}
	return nil
}

// refuseContradiction returns the refusal of an operation against a well supported bullet.
func refuseContradiction(b *playbook.Bullet) *screen.Refusal {
	return screen.Refusef(playbook.ReasonContradicts, "contradicts bullet %q, which %d of %d outcomes support", b.ID, b.Helpful, b.Helpful+b.Harmful)
}
