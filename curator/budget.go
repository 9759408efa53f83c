package curator

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
)

// budget is how many tokens the bullets may take that generators are shown; below 1 is no limit.
type budget struct {
	book, section int
}

func (b budget) limits() bool { return b.book > 0 || b.section > 0 }

// Lines are counted as playbook.Render has them: together they are never more tokens than one by one.
const title = "## Learned Strategies\n"

func heading(section string) string { return "\n### " + playbook.Title(section) + "\n" }

// line is a bullet's. Six digits are assumed of each counter, so that votes move no one over the budget.
func line(b *playbook.Bullet) string {
	return "- [" + string(b.ID) + "] " + strings.ReplaceAll(b.Content, "\n", "\n  ") + " (helpful=999999, harmful=999999)\n"
}

// costs remembers what the lines of a book's bullets cost: they are counted for every delta, and few of them change.
type costs map[playbook.BulletID]cost

type cost struct {
	content string
	tokens  int
}

// of is what a bullet's line costs. Without a memory it is counted anew.
func (c costs) of(b *playbook.Bullet) int {
	if known, ok := c[b.ID]; ok && known.content == b.Content {
		return known.tokens
	}
	n := chat.Tokens(line(b))
	if c != nil {
		c[b.ID] = cost{b.Content, n}
	}
	return n
}

// sums are the tokens of the shown bullets, in all and by section, with the lines over them.
type sums struct {
	costs   costs
	book    int
	section map[string]sum
}

type sum struct{ tokens, bullets int }

func newSums(c costs) *sums { return &sums{c, chat.Tokens(title), map[string]sum{}} }

// add adds a bullet, or takes it away where the sign is negative.
func (s *sums) add(b *playbook.Bullet, sign int) {
	if b == nil || !b.Shown() {
		return
	}
	n, in := s.costs.of(b), s.section[b.Section]
	if in.bullets == 0 || in.bullets+sign == 0 { // the heading comes or goes with it
		n += chat.Tokens(heading(b.Section))
	}
	s.book += sign * n
	s.section[b.Section] = sum{in.tokens + sign*n, in.bullets + sign}
}

// economise keeps a delta from taking a book over its budget: the weakest bullets retire, and new ones that are the
// weakest are not made. A book that is over it already, by a person's import or a smaller budget, does not grow; nobody
// takes from it at one blow what a person put there. Pinned bullets stay. People's own changes are not held to it.
func (d *draft) economise() {
	if !d.budget.limits() || d.person || !d.grows() {
		return
	}
	before := newSums(d.costs)
	for b := range d.base.All() {
		before.add(b, 1)
	}
	now := &sums{d.costs, before.book, maps.Clone(before.section)}
	for id, b := range d.changed {
		now.add(d.base.Bullet(id), -1)
		now.add(b, 1)
	}
	over := func(section string) bool {
		return d.budget.book > 0 && now.book > max(d.budget.book, before.book) ||
			d.budget.section > 0 && section != "" && now.section[section].tokens > max(d.budget.section, before.section[section].tokens)
	}
	sections := []string{""} // the book comes last
	if d.budget.section > 0 {
		for s := range now.section {
			sections = append(sections, s)
		}
		slices.Sort(sections[1:])
		slices.Reverse(sections)
	}
	var weakest []*playbook.Bullet
	for _, s := range sections {
		if !over(s) {
			continue
		}
		if weakest == nil {
			weakest = d.weakest()
		}
		for _, b := range weakest {
			if !over(s) {
				break
			}
			if s != "" && b.Section != s || !d.get(b.ID).Shown() {
				continue
			}
			if !d.retire(b) {
				return
			}
			now.add(b, -1)
		}
	}
}

// grows reports whether anything in the draft can make the shown bullets longer.
func (d *draft) grows() bool {
	return slices.ContainsFunc(d.ops, func(op playbook.Op) bool {
		return op.Kind != playbook.Remove && op.Kind != playbook.Pin
	})
}

// weakest is the shown bullets that may go, the weakest first: those that no gate has tried, then the lowest score, then those that were there before, then
// those that nothing was heard of for longest.
func (d *draft) weakest() []*playbook.Bullet {
	var all []*playbook.Bullet
	for b := range d.base.All() {
		if _, changed := d.changed[b.ID]; !changed && b.Shown() && !b.Pinned {
			all = append(all, b)
		}
	}
	for _, b := range d.changed {
		if b != nil && b.Shown() && !b.Pinned {
			all = append(all, b)
		}
	}
	isNew := func(b *playbook.Bullet) int {
		if d.base.Bullet(b.ID) == nil {
			return 1
		}
		return 0
	}
	tried := func(b *playbook.Bullet) int {
		if b.Case != nil && b.Case.Withheld.N() > 0 {
			return 1 // and found to help, since it is shown
		}
		return 0
	}
	slices.SortFunc(all, func(a, b *playbook.Bullet) int {
		return cmp.Or(
			cmp.Compare(tried(a), tried(b)), cmp.Compare(a.Score(), b.Score()), cmp.Compare(isNew(a), isNew(b)),
			lastHeard(a).Compare(lastHeard(b)), cmp.Compare(a.ID, b.ID),
		)
	})
	return all
}

// lastHeard is when a bullet was last made, changed or tagged; those of this draft now, so never before the others.
func lastHeard(b *playbook.Bullet) time.Time {
	if b.LastUsed.After(b.UpdatedAt) {
		return b.LastUsed
	}
	return b.UpdatedAt
}

// retire takes a bullet out of what is shown, or turns down the ADD that would have made it. It reports whether there
// was room to say so.
func (d *draft) retire(b *playbook.Bullet) bool {
	if d.base.Bullet(b.ID) == nil && d.justMade(b.ID) {
		d.unmake(b.ID)
		return true
	}
	op := playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: playbook.Retired, Reason: reasonBudget}
	if !d.room(&op, 1) {
		return false
	}
	d.turn(op)
	return true
}

// Why the budget took something out or did not let it in.
const (
	reasonBudget = "the playbook is at its token budget, and this was its weakest bullet"
	reasonNoRoom = "the playbook is at its token budget, and every bullet in it has done better"
)

// justMade reports whether nothing but an ADD, and changes of its words, is on a new bullet.
func (d *draft) justMade(id playbook.BulletID) bool {
	return !slices.ContainsFunc(d.ops, func(op playbook.Op) bool {
		return op.Bullet == id && op.Kind != playbook.Add && op.Kind != playbook.Update
	})
}

// unmake takes a bullet out of the draft that this draft has made.
func (d *draft) unmake(id playbook.BulletID) {
	d.ops = slices.DeleteFunc(d.ops, func(op playbook.Op) bool {
		if op.Bullet != id {
			return false
		}
		if op.Kind == playbook.Add {
			op.Bullet = ""
			d.reject(op, no(reasonNoRoom))
		}
		return true
	})
	d.changed[id] = nil
}
