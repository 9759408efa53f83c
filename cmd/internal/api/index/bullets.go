package index

import (
	"cmp"
	"slices"
	"strings"

	"debrief/cmd/internal/api/explain"
	"debrief/curator/gate"
	"debrief/playbook"
	"debrief/playbook/similar"
)

// BulletItem is a bullet with its record in experiments.
type BulletItem struct {
	*playbook.Bullet
	State  playbook.Status `json:"state" doc:"State; active for each bullet that is shown without an experiment."`
	Record *gate.Row       `json:"record,omitempty" doc:"Outcomes with and without the bullet, and its lift."`
}

// FindBullet returns a bullet of a playbook with its record, or nil.
func FindBullet(p *playbook.Playbook, id playbook.BulletID) *BulletItem {
	b := p.Bullet(id)
	if b == nil {
		return nil
	}
	return &BulletItem{Bullet: b, State: explain.Status(b), Record: gate.RowOf(p, b)}
}

// bulletItems returns the bullets of a playbook, sorted by id. They have no records, because those of 10,000 bullets take a second.
func bulletItems(p *playbook.Playbook) []BulletItem {
	var all []BulletItem
	for _, b := range p.Sorted() {
		all = append(all, BulletItem{Bullet: b, State: explain.Status(b)})
	}
	return all
}

// ShownState selects all bullets that generators show; see BulletFilter.
const ShownState = "shown"

// BulletFilter selects and sorts bullets. Empty fields select all.
type BulletFilter struct {
	Words   []string // the text contains each of these words, which are in lower case
	Section string
	State   string // a playbook.Status, or ShownState
	Order   string // one of BulletOrders; empty for the first
}

// BulletOrders are the orders of a list of bullets.
var BulletOrders = []string{"id", "section", "helpful", "harmful", "lift", "updated", "used"}

// compareBullets has a function for each of BulletOrders.
var compareBullets = map[string]func(a, b BulletItem) int{
	"id":      func(a, b BulletItem) int { return cmp.Compare(a.ID, b.ID) },
	"section": func(a, b BulletItem) int { return cmp.Compare(a.Section, b.Section) },
	"helpful": func(a, b BulletItem) int { return cmp.Compare(b.Helpful, a.Helpful) },
	"harmful": func(a, b BulletItem) int { return cmp.Compare(b.Harmful, a.Harmful) },
	"lift":    func(a, b BulletItem) int { return cmp.Compare(b.lift(), a.lift()) },
	"updated": func(a, b BulletItem) int { return b.UpdatedAt.Compare(a.UpdatedAt) },
	"used":    func(a, b BulletItem) int { return b.LastUsed.Compare(a.LastUsed) },
}

// unmeasured is the lift of a bullet that was not measured, below every other lift.
const unmeasured = -2

// lift returns the estimated lift of a bullet, from -1 to 1, or unmeasured.
func (b BulletItem) lift() float64 {
	e := b.CurrentExperiment()
	isTested := b.Shown() || b.State == playbook.Probation
	if !isTested || e.Shown.Count() == 0 || e.Withheld.Count() == 0 {
		return unmeasured
	}
	return e.Shown.Mean() - e.Withheld.Mean()
}

// Select returns the bullets of a playbook that match, in the order of the filter, without their records.
func (f *BulletFilter) Select(p *playbook.Playbook) []BulletItem {
	all := slices.DeleteFunc(bulletItems(p), func(b BulletItem) bool { return !f.matches(b) })
	slices.SortStableFunc(all, compareBullets[cmp.Or(f.Order, BulletOrders[0])])
	return all
}

// matches reports whether a bullet matches.
func (f *BulletFilter) matches(b BulletItem) bool {
	switch f.State {
	case "", string(b.State):
	case ShownState:
		if !b.Shown() {
			return false
		}
	default:
		return false
	}
	return (f.Section == "" || b.Section == f.Section) && containsAll(strings.ToLower(b.Content), f.Words)
}

// containsAll reports whether a text contains each of some words.
func containsAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// SimilarItem is a bullet with a similar text.
type SimilarItem struct {
	BulletItem
	Similarity float64 `json:"similarity" doc:"From 0 to 1, by words and by neighbouring characters."`
	Duplicate  bool    `json:"duplicate" doc:"The Curator would take one for a duplicate of the other."`
}

// minSimilarity is the least similarity of two bullets that are shown as similar.
const minSimilarity = 0.3

// Similar returns the bullets of a playbook with the most similar texts to that of a bullet, at most limit.
func Similar(p *playbook.Playbook, to *playbook.Bullet, limit int) []SimilarItem {
	all := []SimilarItem{}
	text := similar.Prepare(to.Content)
	for _, b := range bulletItems(p) {
		if s := text.Similarity(b.Content); b.ID != to.ID && s >= minSimilarity {
			all = append(all, SimilarItem{BulletItem: b, Similarity: s})
		}
	}
	slices.SortStableFunc(all, func(a, b SimilarItem) int { return cmp.Compare(b.Similarity, a.Similarity) })
	all = all[:min(limit, len(all))]
	for i := range all {
		x := &all[i]
		x.Duplicate = x.Similarity >= similar.DuplicateThreshold && similar.Difference(to.Content, x.Content).Kind == similar.Same
	}
	return all
}
