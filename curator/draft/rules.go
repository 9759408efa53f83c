package draft

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// minConfidence is the minimum confidence of a finding. Findings below it are never counted, so the order of findings does
// not matter.
const minConfidence = 0.7

// FindingKeys are the keys of the findings that were rejected for low confidence. The rejection is recorded once for each key and
// not for each run. The set is lost when the Curator restarts, so a key may be recorded again.
type FindingKeys map[string]struct{}

const maxDoubts = 4096

// Limits on a rule's text and key, in bytes. The text is stored twice, with and without counts.
const (
	maxRuleText = 4 << 10
	maxRuleKey  = 1 << 10
)

// ruleCounts drafts the counts of rules, and the text and status of their bullets.
type ruleCounts struct {
	*state
	changes  *changes
	evidence *evidence
	doubted  map[string]bool // keys of findings rejected for low confidence
}

// countFinding counts one finding as a vote on its rule's bullet. The first finding adds the bullet, with the text without counts.
// refreshRules inserts the counts and sets the status.
func (d *ruleCounts) countFinding(f *events.Finding, cover int, voted map[playbook.BulletID]bool) {
	if f.Confidence != 0 && !(f.Confidence >= minConfidence) { // also NaN
		d.rejectFinding(f, cover)
		return
	}
	b := d.ruleBullet(f.Key)
	if b == nil {
		op := playbook.Op{Kind: playbook.Add, Section: f.Section, Status: playbook.Candidate, Support: []int{cover}}
		if why := d.addRuleBullet(f, &op); why != nil {
			d.reject(op, screen.Refusef(why.Code, "finding %q: %s", text.Excerpt(f.Key, screen.MaxName), why.Reason))
			return
		}
		b = d.Bullet(op.Bullet)
	}
	d.evidence.vote(playbook.Op{Kind: playbook.Tag, Bullet: b.ID, Support: []int{cover}}, f.Vote, voted)
}

// rejectFinding records the rejection of a finding with low confidence, unless its key is recorded already.
func (d *ruleCounts) rejectFinding(f *events.Finding, cover int) {
	id := text.Excerpt(f.Key, maxRuleKey)
	if _, known := d.LowConfidence[id]; known || d.doubted[id] || len(d.LowConfidence)+len(d.doubted) >= maxDoubts {
		return
	}
	d.doubted[id] = true
	op := playbook.Op{Kind: playbook.Add, Section: f.Section, Content: f.Text, Support: []int{cover}}
	d.reject(op, screen.Refusef(playbook.ReasonConfidence, "finding %q: confidence must be at least %.2f, got %.2f", text.Excerpt(f.Key, screen.MaxName), minConfidence, f.Confidence))
}

// addRuleBullet drafts the bullet of a rule's first finding. It returns the reason if it cannot, or nil.
func (d *ruleCounts) addRuleBullet(f *events.Finding, op *playbook.Op) *screen.Refusal {
	text, err := playbook.CleanContent(f.Text)
	switch {
	case err != nil:
		return screen.Refusef(playbook.ReasonInvalidText, "%v", err)
	case len(text) > maxRuleText:
		return screen.Refusef(playbook.ReasonInvalidText, "text: must have at most %d bytes, got %d", maxRuleText, len(text))
	}
	if why := screen.RefuseSecret(text); why != nil {
		return why
	}
	if len(f.Key) > maxRuleKey || len(f.Base) > maxRuleKey {
		return screen.Refusef(playbook.ReasonInvalid, "key, base: must have at most %d bytes", maxRuleKey)
	}
	op.Content = text
	op.Rule = &playbook.Rule{Key: f.Key, Base: f.Base, Text: text, CountOnly: f.CountOnly, Paired: f.Paired}
	vote := playbook.Op{Kind: playbook.Tag, Support: op.Support}
	if !d.unlimited && d.bytes+opSize(op)+opSize(&vote)+2*idSize > fullBytes {
		return errFull // a rule's bullet without a count would be useless
	}
	if why := d.changes.change(op); why != nil {
		return why
	}
	d.ruleBullets[f.Key] = op.Bullet
	return nil
}

// refreshRules updates the text and the status of the stale bullets of rules from their counts. It returns the bullets for
// which the delta has no room; the next delta must update them. The result depends only on the counts, not on the batches.
func (d *ruleCounts) refreshRules() (left []playbook.BulletID) {
	for _, id := range slices.Sorted(maps.Keys(d.stale)) {
		if b := d.Bullet(id); b != nil && b.Rule != nil && !d.refreshRule(b) {
			left = append(left, id)
		}
	}
	return left
}

// refreshRule updates one bullet. It returns false if the delta has no room.
func (d *ruleCounts) refreshRule(b *playbook.Bullet) bool {
	base := &playbook.Bullet{}
	if found := d.ruleBullet(b.Rule.Base); found != nil {
		base = found
	}
	now := *b
	status, content := playbook.Candidate, b.Rule.Text
	supported := gate.IsRuleSupported(b, base)
	if supported {
		status = playbook.Active
	}
	if supported {
		content = fillTemplate(b.Rule.Text, b, base)
	}
	if clean, err := playbook.CleanContent(content); err == nil {
		now.Content = clean
	}
	if b.Status == playbook.Active || b.Status == playbook.Candidate { // other statuses are a person's decision
		now.Status = status
	}
	updateOp := playbook.Op{Kind: playbook.Update, Bullet: b.ID, Content: now.Content, Rule: b.Rule}
	statusOp := playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: now.Status}
	switch {
	case now.Content == b.Content && now.Status == b.Status:
		return true
	case !d.unlimited && (d.bytes+opSize(&updateOp)+opSize(&statusOp) > fullBytes || d.changed[b.ID] == nil && len(d.changed) >= fullKeys):
		return false
	}
	d.changed[b.ID] = &now
	if now.Content != b.Content {
		d.contents[playbook.ContentKeyOf(now.Content)] = b.ID
		d.addOp(updateOp)
	}
	if now.Status != b.Status {
		d.addOp(statusOp)
	}
	return true
}

// fillTemplate replaces the placeholders in a rule's text by the counts.
func fillTemplate(text string, b, base *playbook.Bullet) string {
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
