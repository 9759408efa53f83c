package curator

import (
	"cmp"
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

// byRule is the bullet of a rule's key in the draft, nil if there is none.
func (d *draft) byRule(key string) *playbook.Bullet {
	if id, ok := d.rules[key]; ok {
		return d.get(id)
	}
	if b := d.base.ByRule(key); b != nil {
		if now := d.get(b.ID); now != nil && now.Rule != nil && now.Rule.Key == key {
			return now
		}
	}
	return nil
}

// finding counts one sighting. The first one makes the bullet, with the bare text; the counts are filled in, and who
// sees it is decided, by refreshRules.
func (d *draft) finding(f *events.Finding, cover int, voted map[playbook.BulletID]bool) {
	b := d.byRule(f.Key)
	if b == nil {
		text, err := playbook.CleanContent(f.Text)
		if err != nil {
			d.reject(playbook.Op{Kind: playbook.Add, Section: f.Section}, fmt.Sprintf("finding %q: %v", f.Key, err))
			return
		}
		op := playbook.Op{
			Kind: playbook.Add, Section: f.Section, Content: text, Status: playbook.Candidate, Support: []int{cover},
			Rule: &playbook.Rule{Key: f.Key, Base: f.Base, Text: text, CountOnly: f.CountOnly},
		}
		if reason := d.change(&op); reason != "" {
			d.reject(op, reason)
			return
		}
		d.rules[f.Key] = op.Bullet
		b = d.get(op.Bullet)
	}
	vote := playbook.Op{Kind: playbook.Tag, Bullet: b.ID, Support: []int{cover}}
	setVote(&vote, f.Vote)
	d.vote(vote, voted)
	d.touched[f.Key] = struct{}{}
}

// refreshRules brings the text and the status of rule bullets in line with their counts: those counted in this draft,
// and those that rest on one. The outcome depends on the counts alone, not on how they were batched.
func (d *draft) refreshRules() {
	stale := map[playbook.BulletID]*playbook.Bullet{}
	for key := range d.touched {
		if b := d.byRule(key); b != nil {
			stale[b.ID] = b
			for r := range d.base.RestingOn(key) {
				stale[r.ID] = d.get(r.ID)
			}
		}
	}
	for _, id := range d.rules {
		if b := d.get(id); b != nil && b.Rule != nil {
			stale[id] = b
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(stale), func(a, b playbook.BulletID) int { return cmp.Compare(a, b) }) {
		if b := stale[id]; b != nil && b.Rule != nil {
			d.refresh(b)
		}
	}
}

func (d *draft) refresh(b *playbook.Bullet) {
	base := &playbook.Bullet{}
	if b.Rule.Base != "" {
		if base = d.byRule(b.Rule.Base); base == nil {
			return
		}
	}
	status, content := playbook.Candidate, b.Rule.Text
	if !b.Rule.CountOnly && (b.Rule.Base == "" || contrast(b, base)) {
		status, content = playbook.Active, fill(b.Rule.Text, b, base)
	}
	if content != b.Content {
		op := playbook.Op{Kind: playbook.Update, Bullet: b.ID, Content: content, Rule: b.Rule}
		now := *b
		now.Content = content
		b = &now
		d.changed[b.ID] = b
		d.emit(op)
	}
	if status != b.Status && (b.Status == playbook.Active || b.Status == playbook.Candidate) {
		now := *b
		now.Status = status
		d.changed[b.ID] = &now
		d.emit(playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: status})
	}
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
