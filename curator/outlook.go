package curator

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/curator/gate"
	"debrief/playbook"
)

// Outlook is how the gate sees a book.
type Outlook struct {
	// Tried are the bullets on probation, then those that are shown to all: those first that most is known of.
	Tried []Prospect
	// Waiting are those that wait for probation, the next one first.
	Waiting []Prospect
}

// Prospect is what the gate makes of one bullet.
type Prospect struct {
	*playbook.Bullet
	Lift gate.Lift
	// Next is what the gate does with it as things stand, in a sentence without an end.
	Next string
}

// Look is the outlook of a book under a configuration. Where the gate is not on, it says what it would do if it were.
func Look(p *playbook.Playbook, cfg gate.Config) Outlook {
	d := newDraft(p, policy{gate: cfg})
	q := d.queue()
	var out Outlook
	for b := range d.all() {
		if b.Shown() || b.Status == playbook.Probation {
			k := b.TheCase()
			out.Tried = append(out.Tried, Prospect{b, d.gate.Lift(&k), q.next(b, &k)})
		}
	}
	slices.SortFunc(out.Tried, func(a, b Prospect) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(outcomes(b), outcomes(a)), cmp.Compare(a.ID, b.ID))
	})
	free := d.gate.Slots - len(q.trying)
	for _, b := range q.line() {
		k := b.TheCase()
		next := "waits for a place"
		switch h := q.holder(b); {
		case h != nil && h.Shown():
			next = fmt.Sprintf("waits while %s is shown to all", h.ID)
		case h != nil:
			next = fmt.Sprintf("waits until more ask for it than for %s, or that is decided", h.ID)
		case free > 0:
			next = "goes on probation"
			free--
		}
		out.Waiting = append(out.Waiting, Prospect{b, d.gate.Lift(&k), next})
	}
	return out
}

func rank(p Prospect) int {
	if p.Status == playbook.Probation {
		return 0
	}
	return 1
}

func outcomes(p Prospect) int {
	k := p.TheCase()
	return k.Shown.N() + k.Withheld.N() + k.Open.N()
}

func (q *queue) next(b *playbook.Bullet, k *playbook.Case) string {
	if b.Status == playbook.Probation {
		switch v, why := q.gate.Judge(k); {
		case b.Pinned || v == gate.Promote:
			return "is shown to all"
		case v != gate.Undecided:
			return "retires: " + why
		}
		return fmt.Sprintf("is tried on, at most %d outcomes more", max(0, q.gate.Most-k.Shown.N()-k.Withheld.N()))
	}
	why := doubt(b)
	switch {
	case why != "" && kept(b):
		return "stays, because a person keeps it: " + why
	case why != "":
		return "is tried again: " + why
	case kept(b):
		return "stays, because a person keeps it"
	}
	return "stays"
}
