package propose

import (
	"fmt"
	"slices"
	"strings"

	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// groupProposal is a proposal of one group, before the proposals of all groups are combined.
type groupProposal struct {
	op      playbook.Op
	support []*Item // in batch order, without duplicates; empty if the model named none
	owner   *Item   // the item that gets the proposal: the last one of support, or of the group if support is empty
	group   int     // the first group that proposed it
	model   string
}

// key returns the same string for proposals that differ only in their support, section and reason. The content begins with the condition.
func (p *groupProposal) key() string {
	op := &p.op
	text := playbook.ContentKeyOf(op.Content)
	switch op.Kind {
	case playbook.Add, playbook.Update:
		return fmt.Sprintf("%s\x00%s\x00%x", op.Kind, op.Bullet, text)
	case playbook.Merge:
		all := append(slices.Clone(op.Sources), op.Bullet)
		slices.Sort(all)
		return fmt.Sprintf("%s\x00%q\x00%x", op.Kind, all, text)
	}
	return fmt.Sprint(op.Kind, "\x00", op.Bullet)
}

// sortSupport sorts the support in the order of the batch and removes duplicates.
func (p *groupProposal) sortSupport() {
	slices.SortFunc(p.support, func(a, b *Item) int { return a.index - b.index })
	p.support = slices.Compact(p.support)
}

// addSupport adds the support of another proposal. The later one of the owners becomes the owner. A confirmation without a text
// takes that of another confirmation of the bullet.
func (p *groupProposal) addSupport(other *groupProposal) {
	if p.op.Kind == playbook.Confirm && p.op.Content == "" && p.op.Bullet == other.op.Bullet && other.op.Kind == playbook.Confirm {
		p.op.When, p.op.Content = other.op.When, other.op.Content
	}
	p.support = slices.Concat(p.support, other.support)
	p.sortSupport()
	if other.owner.index > p.owner.index {
		p.owner = other.owner
	}
}

// inheritCondition gives a new bullet without a condition the condition of the lessons behind it, if all have the same one.
func (p *groupProposal) inheritCondition() {
	if p.op.Kind != playbook.Add || p.op.When != "" {
		return
	}
	var shared *string
	for _, item := range p.support {
		for i := range item.Reflection.Lessons {
			when := &item.Reflection.Lessons[i].When
			if shared != nil && !strings.EqualFold(*when, *shared) {
				return
			}
			shared = when
		}
	}
	if shared == nil {
		return
	}
	if when, content, err := playbook.CleanText(*shared, p.op.Content); err == nil {
		p.op.When, p.op.Content = when, content
	}
}

// mergeEqual replaces equal proposals by one with their joint support, at the position of the first.
func mergeEqual(all []*groupProposal) []*groupProposal {
	var kept []*groupProposal
	known := make(map[string]*groupProposal, len(all))
	for _, p := range all {
		key := p.key()
		if same := known[key]; same != nil {
			same.addSupport(p)
			continue
		}
		known[key] = p
		kept = append(kept, p)
	}
	return kept
}

// affectedBullets returns the bullets whose content or existence an operation changes. A confirmation changes counters
// only.
func affectedBullets(op *playbook.Op) []playbook.BulletID {
	switch op.Kind {
	case playbook.Add, playbook.Confirm:
		return nil
	}
	return append([]playbook.BulletID{op.Bullet}, op.Sources...)
}

// conflict reports whether two proposals affect the same bullet.
func conflict(a, b *groupProposal) bool {
	others := affectedBullets(&b.op)
	return slices.ContainsFunc(affectedBullets(&a.op), func(id playbook.BulletID) bool { return slices.Contains(others, id) })
}

// overlapThreshold is the similarity of two new texts, from 0 to 1, from which on a model decides if one text is enough.
// A value that is too low only costs unnecessary requests.
const overlapThreshold = 0.4

// reducerThreshold is the number of proposals above which a model compares them, even if they do not overlap.
const reducerThreshold = 16

// needsReducer reports whether a model must compare the proposals of several groups: two of them affect the same bullet,
// have similar texts or come from the same reflection, or there are more than reducerThreshold.
func needsReducer(all []*groupProposal) bool {
	fromSeveralGroups := slices.ContainsFunc(all, func(p *groupProposal) bool { return p.group != all[0].group })
	if !fromSeveralGroups {
		return false
	}
	if len(all) > reducerThreshold {
		return true
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if conflict(a, b) {
				return true
			}
			if a.op.Content == "" || b.op.Content == "" {
				continue
			}
			shareSupport := slices.ContainsFunc(a.support, func(item *Item) bool { return slices.Contains(b.support, item) })
			if a.group != b.group && shareSupport {
				return true
			}
			if similar.Similarity(a.op.Content, b.op.Content) >= overlapThreshold {
				return true
			}
		}
	}
	return false
}

// resolveConflicts keeps, of conflicting proposals, the one with the most supporting reflections. Of equals it keeps the first.
// Proposals of the same group do not conflict, because one reply is consistent.
func resolveConflicts(all []*groupProposal) (kept []*groupProposal, rejected []droppedProposal) {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *groupProposal) int { return len(b.support) - len(a.support) })
	lost := make(map[*groupProposal]bool)
	for i, p := range order {
		better := slices.IndexFunc(order[:i], func(earlier *groupProposal) bool {
			return !lost[earlier] && earlier.group != p.group && conflict(earlier, p)
		})
		if better < 0 {
			continue
		}
		lost[p] = true
		winner := order[better]
		var ids []string
		for _, id := range affectedBullets(&winner.op) {
			ids = append(ids, string(id))
		}
		rejected = append(rejected, droppedProposal{p, fmt.Sprintf("another change of %s is preferred, with %s: %s",
			text.Excerpt(strings.Join(ids, ", "), screen.MaxName), countReflections(len(winner.support)), winner.op.Kind)})
	}
	for _, p := range all {
		if !lost[p] {
			kept = append(kept, p)
		}
	}
	return kept, rejected
}

// countReflections formats a number of reflections.
func countReflections(n int) string {
	if n == 1 {
		return "1 reflection"
	}
	return fmt.Sprintf("%d reflections", n)
}

// droppedProposal is a group proposal that was dropped, with the reason.
type droppedProposal struct {
	*groupProposal
	reason string
}
