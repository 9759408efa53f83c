package draft

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/similar"
)

// RefineOptions configures Refine. Zero fields are replaced by defaults.
type RefineOptions struct {
	MinVotes    int           // minimum number of harmful votes before a bullet can retire because of its votes
	MaxIdle     time.Duration // a candidate without activity for longer than this retires
	TokenBudget int           // maximum tokens of the shown bullets; below 0: no limit
	Now         time.Time     // end of the period of MaxIdle
	// Merges are merge operations that a model proposed, see propose.FindParaphrases. They come in addition to the duplicates that
	// Refine finds by comparing words.
	Merges []playbook.Op
}

// WithDefaults replaces zero fields by their defaults.
func (r RefineOptions) WithDefaults() RefineOptions {
	r.MinVotes = cmp.Or(r.MinVotes, 5)
	r.MaxIdle = cmp.Or(r.MaxIdle, 30*24*time.Hour)
	r.TokenBudget = cmp.Or(r.TokenBudget, DefaultTokenBudget)
	return r
}

// Step is one operation of a plan, with its reason. TokensSaved is the number of tokens by which it reduces the shown bullets; it
// is negative if they grow.
type Step struct {
	Op          playbook.Op `json:"operation"`
	Reason      string      `json:"reason"`
	TokensSaved int         `json:"tokens_saved"`
}

// Plan is a list of operations that clean up a playbook.
type Plan struct {
	Steps []Step `json:"steps"`
	// Number of shown bullets and of their tokens, before and after the plan.
	ShownBefore  int `json:"shown_before"`
	ShownAfter   int `json:"shown_after"`
	TokensBefore int `json:"tokens_before"`
	TokensAfter  int `json:"tokens_after"`
	// SameSubject is not changed by the plan: a model or a person decides.
	SameSubject [][]SubjectBullet `json:"same_subject" doc:"Bullets that are perhaps one rule in other words, or that contradict each other. The plan does not change them."`

	expect []events.Expectation
}

// Edit returns the plan as an edit. The Curator refuses the edit if one of its bullets has changed since the plan was made.
func (p *Plan) Edit() *events.Edit {
	e := &events.Edit{Expect: p.expect}
	for _, s := range p.Steps {
		op := s.Op
		op.Reason = s.Reason
		e.Ops = append(e.Ops, op)
	}
	return e
}

// planBuilder builds a Plan. It holds the state of the bullets after the steps so far.
type planBuilder struct {
	Plan
	before  *playbook.Playbook
	bullets map[playbook.BulletID]*playbook.Bullet
	tokens  *tokenSum
	touched map[playbook.BulletID]bool // the bullets that a step changes or removes
}

// Refine plans the clean-up of a playbook; it does not change the playbook. The plan has these steps, in this order:
//
//   - Merge bullets with the same or nearly the same text, and those of RefineOptions.Merges.
//   - If the gate is off, retire bullets with clearly more harmful than helpful votes.
//   - Retire candidates without activity for a long time.
//   - Retire the weakest bullets until the others fit the token budget.
//
// It never retires a pinned bullet or merges it into another one. It leaves out bullets that are retired or in quarantine.
func Refine(p *playbook.Playbook, r RefineOptions) *Plan {
	r = r.WithDefaults()
	f := &planBuilder{
		before: p, bullets: make(map[playbook.BulletID]*playbook.Bullet, p.Len()), tokens: newTokenSum(p.All()),
		touched: make(map[playbook.BulletID]bool),
	}
	for _, b := range p.Sorted() {
		f.bullets[b.ID] = b
		if b.Shown() {
			f.ShownBefore++
		}
	}
	f.Steps = []Step{} // not null in JSON
	f.TokensBefore = f.tokens.tokens
	f.mergeDuplicates()
	for i := range r.Merges {
		f.mergeParaphrase(&r.Merges[i])
	}
	if mode, chosen := p.Gate(); chosen && mode == playbook.GateOff {
		f.retireHarmful(r.MinVotes) // otherwise the gate decides by outcomes
	}
	f.retireUnused(r.Now.Add(-r.MaxIdle))
	f.retireOverBudget(r.TokenBudget)

	f.SameSubject = SameSubject(f.byPriority())
	f.TokensAfter = f.tokens.tokens
	for _, b := range f.bullets {
		if b.Shown() {
			f.ShownAfter++
		}
	}
	for _, b := range p.Sorted() {
		if f.touched[b.ID] {
			f.expect = append(f.expect, events.Expectation{Bullet: b.ID, Section: b.Section, Content: b.Content})
		}
	}
	return &f.Plan
}

// Refinable returns the bullets of p that can be part of a plan, in the order of Playbook.Sorted.
func Refinable(p *playbook.Playbook) []*playbook.Bullet {
	return slices.DeleteFunc(p.Sorted(), func(b *playbook.Bullet) bool { return !canRefine(b) })
}

// canRefine reports whether a bullet can be part of a plan.
func canRefine(b *playbook.Bullet) bool {
	return b != nil && b.Status != playbook.Retired && b.Status != playbook.Quarantined
}

// byPriority returns the bullets that can be part of a plan. The bullet that others should be merged into comes first:
// pinned bullets, then shown ones, then bullets on probation; within these, the highest score, then the oldest.
func (f *planBuilder) byPriority() []*playbook.Bullet {
	var all []*playbook.Bullet
	for _, b := range f.bullets {
		if canRefine(b) {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, comparePriority)
	return all
}

// comparePriority orders bullets as byPriority returns them.
func comparePriority(a, b *playbook.Bullet) int {
	return cmp.Or(
		cmp.Compare(priority(b), priority(a)), cmp.Compare(b.Score(), a.Score()),
		cmp.Compare(a.ID.Number(), b.ID.Number()), cmp.Compare(a.ID, b.ID),
	)
}

func priority(b *playbook.Bullet) int {
	switch {
	case b.Pinned:
		return 3
	case b.Shown():
		return 2
	case b.Status == playbook.Probation:
		return 1
	}
	return 0
}

// duplicates are the bullets that mergeDuplicates merges into another one.
type duplicates struct {
	sources []playbook.BulletID
	differ  bool    // a source has another text; lowest may still be 1, as for texts that differ only in punctuation
	lowest  float64 // lowest similarity of a source
}

// mergeDuplicates merges bullets with the same or nearly the same text. All duplicates of a bullet are merged in one step:
// the Curator refuses a merge into a text that a third bullet still has.
func (f *planBuilder) mergeDuplicates() {
	var kept similar.Index
	found := make(map[playbook.BulletID]*duplicates) // by the kept bullet
	var order []playbook.BulletID                    // the kept bullets
	for _, b := range f.byPriority() {
		match, ok := kept.Duplicate(b.Content, func(id string) string { return f.bullets[playbook.BulletID(id)].Content })
		if b.Pinned || !ok {
			kept.Put(string(b.ID), b.Content)
			found[b.ID] = &duplicates{lowest: 1}
			order = append(order, b.ID)
			continue
		}
		into := playbook.BulletID(match.ID)
		d := found[into]
		d.sources = append(d.sources, b.ID)
		if playbook.ContentKeyOf(b.Content) != playbook.ContentKeyOf(f.bullets[into].Content) {
			d.differ, d.lowest = true, min(d.lowest, match.Similarity)
		}
	}
	for _, id := range order {
		reason := "same text"
		if d := found[id]; d.differ {
			reason = fmt.Sprintf("nearly the same text (similarity %.2f)", d.lowest)
		}
		f.merge(f.bullets[id], found[id].sources, reason)
	}
}

// mergeParaphrase adds a merge that a model proposed, unless the texts differ in a number, name or negation, or the merge would lose a
// condition.
func (f *planBuilder) mergeParaphrase(proposed *playbook.Op) {
	op := *proposed
	var bullets []*playbook.Bullet
	for _, id := range append([]playbook.BulletID{op.Bullet}, op.Sources...) {
		b := f.bullets[id]
		if !canRefine(b) {
			return
		}
		bullets = append(bullets, b)
	}
	if completeCondition(&op, bullets) != nil || refuseLoss(&op, bullets) != nil {
		return
	}
	texts := []string{op.Content}
	for _, b := range bullets {
		if slices.ContainsFunc(texts, func(text string) bool { return changesMeaning(text, b.Content) }) {
			return
		}
		texts = append(texts, b.Content)
	}
	slices.SortFunc(bullets, comparePriority)
	into, sources := bullets[0], []playbook.BulletID{}
	for _, b := range bullets[1:] {
		if b.ID != into.ID && !b.Pinned {
			sources = append(sources, b.ID)
		}
	}
	merged := *into
	if !into.Pinned { // otherwise a person chose its text
		merged.When, merged.Content = op.When, op.Content
	}
	f.merge(&merged, sources, cmp.Or(op.Reason, "same advice in other words"))
}

// changesMeaning reports whether two texts differ in numbers, names or negations, and not only in plain words or their order.
func changesMeaning(a, b string) bool {
	switch similar.Difference(a, b).Kind {
	case similar.Numbers, similar.Identifiers, similar.Negations:
		return true
	}
	return false
}

// merge adds a merge step that leads to the text of merged, unless another bullet has the text: then the Curator would refuse it.
func (f *planBuilder) merge(merged *playbook.Bullet, sources []playbook.BulletID, reason string) {
	if len(sources) == 0 {
		return
	}
	into := merged.ID
	same := f.before.FindByContent(merged.Content)
	isOther := same != nil && same.ID != into && !slices.Contains(sources, same.ID)
	if isOther && f.bullets[same.ID] != nil { // no earlier step merges the other one
		return
	}
	before := f.tokens.tokens
	f.tokens.add(f.bullets[into], -1)
	b := *merged
	for _, id := range sources {
		src := f.bullets[id]
		b.Helpful += src.Helpful
		b.Harmful += src.Harmful
		b.Neutral += src.Neutral
		f.tokens.add(src, -1)
		delete(f.bullets, id)
		f.touched[id] = true
	}
	f.tokens.add(&b, 1)
	f.bullets[into], f.touched[into] = &b, true
	op := playbook.Op{Kind: playbook.Merge, Bullet: into, Sources: sources, When: b.When, Content: b.Content}
	f.Steps = append(f.Steps, Step{op, reason, before - f.tokens.tokens})
}

// retire adds a step that retires a bullet.
func (f *planBuilder) retire(b *playbook.Bullet, reason string) {
	before := f.tokens.tokens
	f.tokens.add(b, -1)
	retired := *b
	retired.Status = playbook.Retired
	f.bullets[b.ID], f.touched[b.ID] = &retired, true
	f.Steps = append(f.Steps, Step{playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: playbook.Retired}, reason, before - f.tokens.tokens})
}

func (f *planBuilder) retireHarmful(minVotes int) {
	for _, b := range f.byPriority() {
		if !b.Pinned && b.Harmful >= minVotes && harmfulTooOften(b.Helpful, b.Harmful) {
			f.retire(b, fmt.Sprintf("more harmful than helpful: %d helpful, %d harmful votes", b.Helpful, b.Harmful))
		}
	}
}

// harmfulTooOften reports whether there are more harmful votes than chance explains, by a sign test: if both kinds were equally likely, so many
// or more harmful votes would have a probability below 5 %. A few wrong verdicts therefore do not retire a right bullet.
func harmfulTooOften(helpful, harmful int) bool {
	n := helpful + harmful
	logTerm := -float64(n) * math.Ln2 // the logarithm of the probability of exactly k helpful votes, because 0.5^n is 0 for large n
	sum := 0.0
	for k := range helpful + 1 {
		sum += math.Exp(logTerm)
		logTerm += math.Log(float64(n-k)) - math.Log(float64(k+1))
	}
	return sum < 0.05
}

// retireUnused retires the candidates without activity since a time.
func (f *planBuilder) retireUnused(since time.Time) {
	for _, b := range f.byPriority() {
		if active := lastActivity(b); !b.Pinned && b.Status == playbook.Candidate && active.Before(since) {
			f.retire(b, "candidate without activity since "+active.UTC().Format(time.DateOnly))
		}
	}
}

// retireOverBudget retires the weakest shown bullets until the others have at most this number of tokens. It does nothing below 0.
func (f *planBuilder) retireOverBudget(tokens int) {
	if tokens < 0 {
		return
	}
	all := f.byPriority()
	slices.SortFunc(all, compareStrength)
	for _, b := range all {
		if f.tokens.tokens <= tokens {
			return
		}
		if b.Shown() && !b.Pinned {
			f.retire(b, "token budget exceeded: this was the weakest bullet")
		}
	}
}

// SubjectBullet is a bullet in a group on one subject.
type SubjectBullet struct {
	ID      playbook.BulletID `json:"id"`
	State   playbook.Status   `json:"state"`
	Content string            `json:"content"`
}

// SameSubject returns the groups of bullets that are perhaps one rule in other words, or that contradict each other. See
// similar.SameSubject.
func SameSubject(bullets []*playbook.Bullet) [][]SubjectBullet {
	all := [][]SubjectBullet{} // not null in JSON
	for _, group := range similar.SameSubject(bullets) {
		var subject []SubjectBullet
		for _, b := range group {
			subject = append(subject, SubjectBullet{ID: b.ID, State: cmp.Or(b.Status, playbook.Active), Content: b.Content})
		}
		all = append(all, subject)
	}
	return all
}
