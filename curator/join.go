package curator

import (
	"fmt"
	"slices"
	"strings"

	"debrief/playbook"
	"debrief/playbook/similar"
)

// motion is a proposal while the groups' proposals are brought together.
type motion struct {
	op    playbook.Op
	from  []*docket // in the order of the batch, each once; none where the model did not say
	at    *docket   // that carries it: the last of those it rests on, else of its group
	group int       // the first that proposed it
	model string
}

// identity is the same for proposals that ask for the same. A vote is one reflection's own.
func (m *motion) identity() string {
	op := &m.op
	text := playbook.WordingOf(op.Content)
	switch op.Kind {
	case playbook.Tag:
		return fmt.Sprint(op.Kind, "\x00", op.Bullet, "\x00", voteOf(op), "\x00", m.at.id)
	case playbook.Add, playbook.Update:
		return fmt.Sprintf("%s\x00%s\x00%x", op.Kind, op.Bullet, text)
	case playbook.Merge:
		all := append(slices.Clone(op.Sources), op.Bullet)
		slices.Sort(all)
		return fmt.Sprintf("%s\x00%q\x00%x", op.Kind, all, text)
	}
	return fmt.Sprint(op.Kind, "\x00", op.Bullet)
}

// rest adds to what a motion rests on. Place says where in the batch a docket is.
func (m *motion) rest(from []*docket, place map[*docket]int) {
	for _, k := range from {
		if !slices.Contains(m.from, k) {
			m.from = append(m.from, k)
		}
	}
	slices.SortFunc(m.from, func(a, b *docket) int { return place[a] - place[b] })
	for _, k := range m.from {
		if place[k] > place[m.at] {
			m.at = k
		}
	}
}

// join makes one motion of those that ask for the same, in the place of the first.
func join(all []*motion, place map[*docket]int) []*motion {
	var kept []*motion
	known := make(map[string]*motion, len(all))
	for _, m := range all {
		key := m.identity()
		if same := known[key]; same != nil {
			same.rest(m.from, place)
			if place[m.at] > place[same.at] {
				same.at = m.at
			}
			continue
		}
		known[key] = m
		kept = append(kept, m)
	}
	return kept
}

// touches lists the bullets that an operation would change or take out. To second one changes nothing of what it says,
// and a vote neither.
func touches(op *playbook.Op) []playbook.BulletID {
	switch op.Kind {
	case playbook.Add, playbook.Tag, playbook.Second:
		return nil
	}
	return append([]playbook.BulletID{op.Bullet}, op.Sources...)
}

func collide(a, b *motion) bool {
	others := touches(&b.op)
	return slices.ContainsFunc(touches(&a.op), func(id playbook.BulletID) bool { return slices.Contains(others, id) })
}

// overlapping is how alike two new texts must be for somebody to look whether one of them is enough. Where it errs, a
// call is made for nothing.
const overlapping = 0.4

// manyMotions is how many proposals of several groups are too many to be told apart by their words.
const manyMotions = 16

// disputed reports whether proposals of several groups need to be seen together by somebody who can read: two would
// change one bullet, say something alike or come from the same reflection, or they are many.
func disputed(all []*motion) bool {
	several := slices.ContainsFunc(all, func(m *motion) bool { return m.group != all[0].group })
	if !several {
		return false
	}
	if len(all) > manyMotions {
		return true
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if collide(a, b) {
				return true
			}
			if a.op.Content == "" || b.op.Content == "" {
				continue
			}
			if a.group != b.group && slices.ContainsFunc(a.from, func(k *docket) bool { return slices.Contains(b.from, k) }) {
				return true
			}
			if similar.Likeness(a.op.Content, b.op.Content) >= overlapping {
				return true
			}
		}
	}
	return false
}

// settleCollisions leaves, of the proposals that would change one bullet in different ways, the one that rests on the
// most reflections; of equals the first. Proposals of one call are one call's idea and stay together.
func settleCollisions(all []*motion) (kept []*motion, rejected []loser) {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *motion) int { return len(b.from) - len(a.from) })
	lost := make(map[*motion]bool)
	for i, m := range order {
		for _, better := range order[:i] {
			if !lost[better] && better.group != m.group && collide(better, m) {
				lost[m] = true
				ids := make([]string, 0, len(touches(&better.op)))
				for _, id := range touches(&better.op) {
					ids = append(ids, string(id))
				}
				rejected = append(rejected, loser{m, fmt.Sprintf("another change of %s rests on %s: %s",
					clip(strings.Join(ids, ", "), maxName), reflections(len(better.from)), better.op.Kind)})
				break
			}
		}
	}
	for _, m := range all {
		if !lost[m] {
			kept = append(kept, m)
		}
	}
	return kept, rejected
}

func reflections(n int) string {
	if n == 1 {
		return "1 reflection"
	}
	return fmt.Sprintf("%d reflections", n)
}

// loser is a motion that comes to nothing, and why.
type loser struct {
	*motion
	why string
}
