package curator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"debrief/events"
	"debrief/playbook"
)

// A bullet that contrasts successes with failures is shown while at least minRuns of each kind were counted, as many of
// the successes had it, and their share is higher by a one-sided two-proportion z-test at 5 %. Many contrasts are looked
// at, so a shown one is a lead with its counts in plain view, no proof.
const (
	minRuns = 5
	minZ    = 1.645
)

// A bullet that contrasts two runs of one task is shown while at least minRuns pairs speak for it, and so many more than
// against it that a one-sided sign test at maxChance does not take it for chance. One run can be in several pairs, so
// the test says a little too much.
const maxChance = 0.05

// minConfidence is what a rule must be sure of a sighting by to make a bullet or to count on one. Less counts nowhere,
// so that the order of sightings does not matter.
const minConfidence = 0.7

// doubts are the keys of findings that were turned down as too unsure. Each is on record once, not once a run; a curator
// that begins anew may record it again.
type doubts map[string]struct{}

const maxDoubts = 4096

// byRule is the bullet of a rule's key in the draft, nil if there is none.
func (d *draft) byRule(key string) *playbook.Bullet {
	if key == "" {
		return nil
	}
	ids := [2]playbook.BulletID{d.rules[key]}
	if b := d.base.ByRule(key); b != nil {
		ids[1] = b.ID
	}
	for _, id := range ids {
		if b := d.get(id); b != nil && b.Rule != nil && b.Rule.Key == key { // it may be gone, or somebody's words now
			return b
		}
	}
	return nil
}

// Bounds of what a rule says, in bytes. A rule's text is stored twice, with and without counts.
const (
	maxRuleText = 4 << 10
	maxRuleKey  = 1 << 10
)

// finding counts one sighting. The first one makes the bullet, with the bare text; the counts are filled in, and who
// sees it is decided, by refreshRules.
func (d *draft) finding(f *events.Finding, cover int, voted map[playbook.BulletID]bool) {
	if f.Confidence != 0 && !(f.Confidence >= minConfidence) { // also NaN
		d.doubt(f, cover)
		return
	}
	b := d.byRule(f.Key)
	if b == nil {
		op := playbook.Op{Kind: playbook.Add, Section: f.Section, Status: playbook.Candidate, Support: []int{cover}}
		if why := d.sight(f, &op); why != nil {
			d.reject(op, no("finding %q: %s", clip(f.Key, maxName), why.reason))
			return
		}
		b = d.get(op.Bullet)
	}
	d.vote(playbook.Op{Kind: playbook.Tag, Bullet: b.ID, Support: []int{cover}}, f.Vote, voted)
}

// doubt records that a finding is too unsure for a bullet, unless that is known.
func (d *draft) doubt(f *events.Finding, cover int) {
	id := clip(f.Key, maxRuleKey)
	if _, known := d.policy.doubts[id]; known || d.doubted[id] || len(d.policy.doubts)+len(d.doubted) >= maxDoubts {
		return
	}
	d.doubted[id] = true
	op := playbook.Op{Kind: playbook.Add, Section: f.Section, Content: f.Text, Support: []int{cover}}
	d.reject(op, no("finding %q: confidence is %.2f, a bullet takes %.2f", clip(f.Key, maxName), f.Confidence, minConfidence))
}

// touch notes that the counts of a rule's bullet have moved, or that it is gone: what it says, and what those say that
// rest on it, is to be looked at again. Those that are new in this draft come in by their own first count.
func (d *draft) touch(b *playbook.Bullet) {
	if b.Rule == nil {
		return
	}
	d.stale[b.ID] = struct{}{}
	if !d.touched[b.Rule.Key] {
		d.touched[b.Rule.Key] = true
		for r := range d.base.RestingOn(b.Rule.Key) {
			d.stale[r.ID] = struct{}{}
		}
	}
}

// sight drafts the bullet of what a rule has seen for the first time. It returns why not, or nil.
func (d *draft) sight(f *events.Finding, op *playbook.Op) *refusal {
	text, err := playbook.CleanContent(f.Text)
	switch {
	case err != nil:
		return no("%v", err)
	case len(text) > maxRuleText:
		return no("text: is longer than %d bytes", maxRuleText)
	case secret(text) != "":
		return no("%s", holdsSecret(secret(text)))
	case len(f.Key) > maxRuleKey || len(f.Base) > maxRuleKey:
		return no("key, base: longer than %d bytes", maxRuleKey)
	}
	op.Content = text
	op.Rule = &playbook.Rule{Key: f.Key, Base: f.Base, Text: text, CountOnly: f.CountOnly, Paired: f.Paired}
	vote := playbook.Op{Kind: playbook.Tag, Support: op.Support}
	if !d.whole && d.bytes+opSize(op)+opSize(&vote)+2*idSize > fullBytes {
		return errFull // a bullet that nobody voted on would be no sighting
	}
	if why := d.change(op); why != nil {
		return why
	}
	d.rules[f.Key] = op.Bullet
	return nil
}

// refreshRules brings the text and the status of rule bullets in line with their counts: those counted in this draft,
// those that rest on one, and those that the delta before had no room for. It returns those that this one has none
// for. The outcome depends on the counts alone, not on how they were batched.
func (d *draft) refreshRules() (left []playbook.BulletID) {
	for _, id := range slices.Sorted(maps.Keys(d.stale)) {
		if b := d.get(id); b != nil && b.Rule != nil && !d.refresh(b) {
			left = append(left, id)
		}
	}
	return left
}

// refresh reports whether there was room for what there was to do.
func (d *draft) refresh(b *playbook.Bullet) bool {
	base := &playbook.Bullet{}
	if found := d.byRule(b.Rule.Base); found != nil {
		base = found
	}
	now := *b
	status, content := playbook.Candidate, b.Rule.Text
	holds := told(b, base)
	if holds {
		status = playbook.Active
	}
	if d.mode == playbook.GateOn { // the counts say what may go on probation, and the gate what comes of it
		status = b.Status
		holds = holds || b.Status == playbook.Probation || b.Status == playbook.Active
	}
	if holds {
		content = fill(b.Rule.Text, b, base)
	}
	if clean, err := playbook.CleanContent(content); err == nil {
		now.Content = clean
	}
	if b.Status == playbook.Active || b.Status == playbook.Candidate || b.Status == playbook.Probation { // else somebody decided
		now.Status = status
	}
	update := playbook.Op{Kind: playbook.Update, Bullet: b.ID, Content: now.Content, Rule: b.Rule}
	turn := playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: now.Status}
	switch {
	case now.Content == b.Content && now.Status == b.Status:
		return true
	case !d.whole && (d.bytes+opSize(&update)+opSize(&turn) > fullBytes || d.changed[b.ID] == nil && len(d.changed) >= fullKeys):
		return false
	}
	d.changed[b.ID] = &now
	if now.Content != b.Content {
		d.texts[playbook.WordingOf(now.Content)] = b.ID
		d.emit(update)
	}
	if now.Status != b.Status {
		d.emit(turn)
	}
	return true
}

// holds reports whether the counts say that a rule's bullet teaches something.
func (d *draft) holds(b *playbook.Bullet) bool {
	base := d.byRule(b.Rule.Base)
	if base == nil {
		base = &playbook.Bullet{}
	}
	return told(b, base)
}

// told reports whether a rule's counts say that its bullet is shown.
func told(b, base *playbook.Bullet) bool {
	switch {
	case b.Rule.CountOnly:
		return false
	case b.Rule.Paired:
		return b.Helpful >= minRuns && chance(b.Helpful, b.Harmful) <= maxChance
	}
	return b.Rule.Base == "" || contrast(b, base)
}

// chance is how likely at least so many of all are for and not against where both are equally likely: the upper tail of
// a binomial distribution with p = 1/2.
func chance(pro, contra int) float64 {
	n := pro + contra
	if n > 1000 { // where the normal distribution is as good
		return math.Erfc((float64(pro)-0.5-float64(n)/2)/math.Sqrt(float64(n)/2)) / 2
	}
	sum, all := 0.0, lgamma(n+1)-float64(n)*math.Ln2
	for k := range contra + 1 { // of the other tail, which is the same and shorter where it matters
		sum += math.Exp(all - lgamma(k+1) - lgamma(n-k+1))
	}
	return sum
}

func lgamma(n int) float64 {
	v, _ := math.Lgamma(float64(n))
	return v
}

// contrast reports whether successful runs had it clearly more often than failed ones.
func contrast(b, base *playbook.Bullet) bool {
	if b.Helpful < minRuns || base.Helpful < minRuns || base.Harmful < minRuns {
		return false
	}
	n, m := float64(base.Helpful), float64(base.Harmful)
	p, q := float64(b.Helpful)/n, float64(b.Harmful)/m
	pooled := float64(b.Helpful+b.Harmful) / (n + m)
	spread := math.Sqrt(pooled * (1 - pooled) * (1/n + 1/m))
	return spread > 0 && (p-q)/spread >= minZ
}

// fill puts the counts into a rule's text.
func fill(text string, b, base *playbook.Bullet) string {
	if !strings.Contains(text, "{") {
		return text
	}
	n := func(i int) string { return fmt.Sprint(i) }
	return strings.NewReplacer(
		"{runs}", n(b.Helpful+b.Harmful+b.Neutral), "{helpful}", n(b.Helpful), "{harmful}", n(b.Harmful), "{neutral}", n(b.Neutral),
		"{base.runs}", n(base.Helpful+base.Harmful+base.Neutral), "{base.helpful}", n(base.Helpful),
		"{base.harmful}", n(base.Harmful), "{base.neutral}", n(base.Neutral),
	).Replace(text)
}
