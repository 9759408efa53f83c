package draft

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/curator/screen"
	"debrief/events/chat"
	"debrief/playbook"
)

// DefaultTokenBudget is the default of Budget.Book, as in the curator of the ACE authors (ace-agent/ace).
const DefaultTokenBudget = 80_000

// Budget is the maximum number of tokens of the shown bullets, for the whole playbook and for each section. A value
// below 1 means no limit.
type Budget struct {
	Book, Section int // tokens
}

func (b Budget) isSet() bool { return b.Book > 0 || b.Section > 0 }

// renderTitle, renderHeading and renderLine return the lines that playbook.Render writes. The sum of the tokens of single lines is never less
// than the tokens of the whole text.
const renderTitle = "## Learned Strategies\n"

func renderHeading(section string) string { return "\n### " + playbook.SectionTitle(section) + "\n" }

// renderLine leaves out the votes, so that a vote cannot move a playbook over its budget.
func renderLine(b *playbook.Bullet) string {
	return "- [" + string(b.ID) + "] " + strings.ReplaceAll(b.Content, "\n", "\n  ") + "\n"
}

// Costs caches the token counts of the bullets of one playbook and the sums of its last version, because every draft that can add text needs
// them and few bullets change. A nil Costs caches nothing. It is not safe for concurrent use.
type Costs struct {
	lines   map[playbook.BulletID]cost
	sums    *tokenSums                             // of the bullets in counted; nil before the first draft
	counted map[playbook.BulletID]*playbook.Bullet // the bullets at mark
	mark    playbook.Mark
}

type cost struct {
	content string
	tokens  int
}

// Tokens returns the number of tokens of a bullet's line in a prompt, and caches it.
func (c *Costs) Tokens(b *playbook.Bullet) int {
	if c == nil {
		return chat.Tokens(renderLine(b))
	}
	if known, ok := c.lines[b.ID]; ok && known.content == b.Content {
		return known.tokens
	}
	n := chat.Tokens(renderLine(b))
	if c.lines == nil || len(c.lines) > 2*len(c.counted)+100 { // most lines are of removed bullets
		c.lines = make(map[playbook.BulletID]cost)
	}
	c.lines[b.ID] = cost{b.Content, n}
	return n
}

// sumsOf returns the sums of a playbook. It reads only the bullets that have changed since the last call. The caller must not change the sums.
func (c *Costs) sumsOf(p *playbook.Playbook) *tokenSums {
	if c == nil {
		c = new(Costs)
	}
	ids, now, known := p.ChangedSince(c.mark)
	c.mark = now
	if !known {
		c.sums, c.counted = newTokenSums(c), make(map[playbook.BulletID]*playbook.Bullet, p.Len())
		for b := range p.All() {
			c.sums.add(b, 1)
			c.counted[b.ID] = b
		}
	}
	for _, id := range ids {
		b := p.Bullet(id)
		c.sums.add(c.counted[id], -1)
		c.sums.add(b, 1)
		if b == nil {
			delete(c.counted, id)
		} else {
			c.counted[id] = b
		}
	}
	return c.sums
}

// tokenSums are the tokens of the shown bullets and their headings, in total and for each section.
type tokenSums struct {
	costs   *Costs
	book    int
	section map[string]sectionSum
}

type sectionSum struct{ tokens, bullets int }

func newTokenSums(c *Costs) *tokenSums {
	return &tokenSums{c, chat.Tokens(renderTitle), map[string]sectionSum{}}
}

// add adds the tokens of b if sign is 1, and subtracts them if it is -1. It ignores nil and bullets that are not shown.
func (s *tokenSums) add(b *playbook.Bullet, sign int) {
	if b == nil || !b.Shown() {
		return
	}
	n, old := s.costs.Tokens(b), s.section[b.Section]
	if old.bullets == 0 || old.bullets+sign == 0 { // the section heading is added or removed too
		n += chat.Tokens(renderHeading(b.Section))
	}
	s.book += sign * n
	s.section[b.Section] = sectionSum{old.tokens + sign*n, old.bullets + sign}
}

// enforceBudget keeps the playbook within its token budget. It retires the weakest bullets, and it drops new bullets that are
// weaker than all others. A playbook that is already over its budget, after an import or a change of the setting, does
// not grow further, but it is not cut to the budget at once. Pinned bullets stay. The budget does not apply to changes by
// a person.
func (d *draft) enforceBudget() {
	if !d.Budget.isSet() || d.byPerson || !d.mayGrow() {
		return
	}
	before := d.Costs.sumsOf(d.base)
	after := &tokenSums{costs: d.Costs, book: before.book, section: maps.Clone(before.section)}
	for id, b := range d.changed {
		after.add(d.base.Bullet(id), -1)
		after.add(b, 1)
	}
	if d.Budget.Section > 0 {
		for _, section := range slices.Sorted(maps.Keys(after.section)) {
			limit := max(d.Budget.Section, before.section[section].tokens)
			isOver := func() bool { return after.section[section].tokens > limit }
			d.retireWeakest(after, isOver, func(b *playbook.Bullet) bool { return b.Section == section })
		}
	}
	if d.Budget.Book > 0 {
		limit := max(d.Budget.Book, before.book)
		d.retireWeakest(after, func() bool { return after.book > limit }, func(*playbook.Bullet) bool { return true })
	}
}

// retireWeakest retires the weakest of the eligible bullets until isOver returns false or the delta is full. It updates the sums.
func (d *draft) retireWeakest(sums *tokenSums, isOver func() bool, eligible func(*playbook.Bullet) bool) {
	for isOver() {
		weakest := d.weakest(eligible)
		if len(weakest) == 0 {
			return
		}
		for _, b := range weakest {
			if !isOver() || !d.retireOverBudget(b) {
				return
			}
			sums.add(b, -1)
		}
	}
}

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

// maxWeakest is the length of a list of weakest. A delta retires mostly as many bullets as it adds.
const maxWeakest = 32

// weakest returns the eligible bullets that retire first because of the budget, at most maxWeakest, the weakest first. Of bullets with equal results,
// those that are new in this draft come last, and the others are in the order of compareStrength.
func (d *draft) weakest(eligible func(*playbook.Bullet) bool) []*playbook.Bullet {
	isNew := func(b *playbook.Bullet) int {
		if d.base.Bullet(b.ID) == nil {
			return 1
		}
		return 0
	}
	first := playbook.NewTop(maxWeakest, func(a, b *playbook.Bullet) int {
		if byResults := compareResults(a, b); byResults != 0 {
			return byResults
		}
		return cmp.Or(cmp.Compare(isNew(a), isNew(b)), compareStrength(a, b))
	})
	for b := range d.All() {
		if b.Shown() && !b.Pinned && eligible(b) {
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
	d.ops = slices.DeleteFunc(d.ops, func(op playbook.Op) bool {
		if op.Bullet != id {
			return false
		}
		if op.Kind == playbook.Add {
			for _, c := range d.contributors(&op) {
				d.added[c]--
				if d.added[c] == 0 {
					delete(d.added, c)
				}
			}
			op.Bullet = ""
			d.reject(op, screen.Refusef(playbook.ReasonTokenBudget, "token budget exceeded: all other bullets are stronger"))
		}
		return true
	})
	delete(d.changed, id) // it is not in the base either
}
