package draft

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/curator/screen"
	"debrief/events/chat"
	"debrief/playbook"
)

// DefaultTokenBudget is the default token budget of a playbook, as in the curator of the ACE authors (ace-agent/ace).
const DefaultTokenBudget = 80_000

// Tokens returns the number of tokens of a bullet's line in a prompt. It leaves out the votes, so that a vote cannot move a playbook over its
// budget.
func Tokens(b *playbook.Bullet) int {
	return chat.Tokens("- [" + string(b.ID) + "] " + strings.ReplaceAll(b.Content, "\n", "\n  ") + "\n")
}

// tokenSum is the number of tokens of the shown bullets, the headings of their sections and the title, as playbook.Render writes them. The sum of the
// tokens of single lines is never less than the tokens of the whole text.
type tokenSum struct {
	tokens   int
	sections map[string]int // number of shown bullets of each section
}

func newTokenSum(bullets iter.Seq[*playbook.Bullet]) *tokenSum {
	s := &tokenSum{chat.Tokens("## Learned Strategies\n"), map[string]int{}}
	for b := range bullets {
		s.add(b, 1)
	}
	return s
}

// add adds the tokens of b if sign is 1, and subtracts them if it is -1. It ignores nil and bullets that are not shown.
func (s *tokenSum) add(b *playbook.Bullet, sign int) {
	if b == nil || !b.Shown() {
		return
	}
	before := s.sections[b.Section]
	s.sections[b.Section] += sign
	s.tokens += sign * Tokens(b)
	if before == 0 || before+sign == 0 { // the heading is added or removed too
		s.tokens += sign * chat.Tokens("\n### "+playbook.SectionTitle(b.Section)+"\n")
	}
}

// TokenIndex has the tokens of the bullets of one playbook. A draft updates it to its state, and so counts only the bullets that have changed since
// the draft before. The zero value is an empty index. It is not safe for concurrent use.
type TokenIndex struct {
	sum     *tokenSum
	counted map[playbook.BulletID]*playbook.Bullet // the bullets in sum
	mark    playbook.Mark                          // of the last update
}

// update updates the index to the state p.
func (x *TokenIndex) update(p *playbook.Playbook) {
	ids, now, known := p.ChangedSince(x.mark)
	x.mark = now
	if !known {
		x.sum = newTokenSum(p.All())
		x.counted = make(map[playbook.BulletID]*playbook.Bullet, p.Len())
		for b := range p.All() {
			x.counted[b.ID] = b
		}
		return
	}
	for _, id := range ids {
		x.sum.add(x.counted[id], -1)
		delete(x.counted, id)
		if b := p.Bullet(id); b != nil { // not removed
			x.counted[id] = b
			x.sum.add(b, 1)
		}
	}
}

// enforceBudget keeps the playbook within its token budget. It retires the weakest bullets, and it drops new bullets that are
// weaker than all others. A playbook that is already over its budget, after an import or a change of the setting, does
// not grow further, but it is not cut to the budget at once. Pinned bullets stay. The budget does not apply to changes by
// a person.
func (d *draft) enforceBudget() {
	if d.MaxTokens < 1 || d.byPerson || !d.mayGrow() {
		return
	}
	index := cmp.Or(d.Tokens, new(TokenIndex))
	index.update(d.base)
	limit := max(d.MaxTokens, index.sum.tokens)
	sum := tokenSum{index.sum.tokens, maps.Clone(index.sum.sections)}
	for id, b := range d.changed {
		sum.add(d.base.Bullet(id), -1)
		sum.add(b, 1)
	}
	for sum.tokens > limit {
		weakest := d.weakest(maxWeakest)
		for _, b := range weakest {
			if sum.tokens <= limit || !d.retireOverBudget(b) {
				return
			}
			sum.add(b, -1)
		}
		if len(weakest) == 0 {
			return
		}
	}
}

// maxWeakest is the number of bullets that enforceBudget finds in one search. A delta mostly retires fewer.
const maxWeakest = 64

// mayGrow reports whether the draft contains an operation that can make the shown bullets longer.
func (d *draft) mayGrow() bool {
	return slices.ContainsFunc(d.ops, func(op playbook.Op) bool {
		switch op.Kind {
		case playbook.Add, playbook.Update, playbook.Merge, playbook.Put, playbook.SetStatus:
			return true
		}
		return false
	})
}

// compareStrength orders bullets that are not new in a draft, the weakest first. Bullets without an experiment are weaker
// than bullets with one. Then the lower score is weaker, then the older last activity.
func compareStrength(a, b *playbook.Bullet) int {
	return cmp.Or(compareResults(a, b), lastActivity(a).Compare(lastActivity(b)), cmp.Compare(a.ID, b.ID))
}

// compareResults orders bullets by the experiment and the score, the weakest first.
func compareResults(a, b *playbook.Bullet) int {
	experiments := func(b *playbook.Bullet) int {
		if b.Experiment != nil && b.Experiment.Withheld.Count() > 0 {
			return 1 // the experiment did not retire the bullet, so it is likely to help
		}
		return 0
	}
	return cmp.Or(cmp.Compare(experiments(a), experiments(b)), cmp.Compare(a.Score(), b.Score()))
}

// weakest returns the first n of the bullets that may retire because of the budget, the weakest first. Of bullets with equal results, those that are
// new in this draft come last, and the others are in the order of compareStrength.
func (d *draft) weakest(n int) []*playbook.Bullet {
	isNew := func(b *playbook.Bullet) int {
		if _, isChanged := d.changed[b.ID]; isChanged && d.base.Bullet(b.ID) == nil {
			return 1
		}
		return 0
	}
	first := playbook.NewTop(n, func(a, b *playbook.Bullet) int {
		if results := compareResults(a, b); results != 0 {
			return results
		}
		return cmp.Or(cmp.Compare(isNew(a), isNew(b)), compareStrength(a, b))
	})
	for b := range d.All() {
		if b.Shown() && !b.Pinned {
			first.Offer(b)
		}
	}
	return first.Sorted()
}

// lastActivity returns the time when a bullet was last created, changed or tagged.
func lastActivity(b *playbook.Bullet) time.Time {
	if b.LastUsed.After(b.UpdatedAt) {
		return b.LastUsed
	}
	return b.UpdatedAt
}

// retireOverBudget retires a bullet, or rejects the ADD that created it in this draft. It returns false if the delta has no
// room for the operation.
func (d *draft) retireOverBudget(b *playbook.Bullet) bool {
	if d.base.Bullet(b.ID) == nil && d.isOnlyAdded(b.ID) {
		d.dropAdd(b.ID)
		return true
	}
	op := playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: playbook.Retired, Code: playbook.ReasonTokenBudget, Reason: "token budget exceeded: this was the weakest bullet"}
	if !d.hasRoom(&op, 1) {
		return false
	}
	d.changeBullet(op)
	return true
}

// isOnlyAdded reports whether the draft contains only the ADD and updates of the content of a new bullet.
func (d *draft) isOnlyAdded(id playbook.BulletID) bool {
	return !slices.ContainsFunc(d.ops, func(op playbook.Op) bool {
		return op.Bullet == id && op.Kind != playbook.Add && op.Kind != playbook.Update
	})
}

// dropAdd removes a new bullet and its operations from the draft, and records the rejection.
func (d *draft) dropAdd(id playbook.BulletID) {
	for _, op := range d.ops {
		if op.Bullet != id || op.Kind != playbook.Add {
			continue
		}
		for _, c := range d.contributors(&op) {
			d.added[c]--
			if d.added[c] == 0 {
				delete(d.added, c)
			}
		}
		op.Bullet = ""
		d.reject(op, screen.Refusef(playbook.ReasonTokenBudget, "token budget exceeded: all other bullets are stronger"))
	}
	d.ops = slices.DeleteFunc(d.ops, func(op playbook.Op) bool { return op.Bullet == id })
	delete(d.changed, id) // it is not in the base either
}
