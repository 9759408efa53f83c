package auditor

import (
	"maps"
	"slices"
	"time"
)

// history is the log of a playbook: its deltas, and the bullets after each.
type history struct {
	changes   []*change
	states    []map[string]record    // by version
	confirmed []map[string]time.Time // by version: the last confirmation of each bullet
}

func newHistory() *history {
	return &history{states: []map[string]record{{}}, confirmed: []map[string]time.Time{{}}}
}

// now returns the bullets after the last delta.
func (h *history) now() map[string]record { return h.states[len(h.states)-1] }

// add applies the next delta, unless it is outside of the log. A large change has several deltas and takes effect with the last of them.
func (h *history) add(m Message) error {
	c, err := decode[change](m.Data)
	if err != nil || c.Version != uint64(len(h.changes))+1 {
		return err
	}
	h.changes = append(h.changes, c)
	state, confirmed := maps.Clone(h.now()), maps.Clone(h.confirmed[len(h.confirmed)-1])
	if !c.More {
		for _, part := range h.parts(c) {
			for i := range part.Ops {
				confirm(confirmed, h.now(), &part.Ops[i], c.Time)
				applyOp(state, &part.Ops[i], part.Time)
			}
		}
	}
	h.states, h.confirmed = append(h.states, state), append(h.confirmed, confirmed)
	return nil
}

// parts returns the deltas of the change that ends with c.
func (h *history) parts(c *change) []*change {
	first := c.Version
	for c.Change != "" && first > 1 && h.changes[first-2].More && h.changes[first-2].Change == c.Change {
		first--
	}
	return h.changes[first-1 : c.Version]
}

// applyOp applies an operation to the bullets.
func applyOp(state map[string]record, o *changeOp, at time.Time) {
	b, known := state[o.Bullet]
	switch {
	case o.Kind == "ADD":
		b = record{ID: o.Bullet, Section: o.Section, When: o.When, Content: o.Content, Status: o.Status, Contests: o.Contests, Created: at}
		if o.Standing != "" {
			b.Experiment = experiment{Number: 1, Standing: o.Standing}
		}
	case o.Kind == "PUT":
		b = *o.Whole
	case !known:
		return
	}
	switch o.Kind {
	case "REMOVE":
		delete(state, o.Bullet)
		return
	case "UPDATE", "MERGE":
		if o.Content != b.Content {
			b.Experiment = experiment{Number: b.Experiment.Number + 1, Standing: o.Standing}
		}
		b.When, b.Content = o.When, o.Content
		if o.Kind == "UPDATE" && o.Section != "" {
			b.Section = o.Section
		}
		for _, id := range slices.Compact(slices.Sorted(slices.Values(o.Sources))) {
			if src, ok := state[id]; ok && id != b.ID {
				b.Helpful += src.Helpful
				b.Harmful += src.Harmful
				b.Neutral += src.Neutral
				b.Pinned = b.Pinned || src.Pinned
				delete(state, id)
			}
		}
	case "STATUS":
		b.Status = o.Status
		switch {
		case o.Restart:
			b.Experiment = experiment{Number: b.Experiment.Number + 1, Standing: o.Standing}
		case o.Standing != "":
			b.Experiment.Standing = o.Standing
		}
	case "PIN":
		b.Pinned = o.Pinned
	case "TAG", "RETAG":
		for vote, n := range map[string]*int{"helpful": &b.Helpful, "harmful": &b.Harmful, "neutral": &b.Neutral} {
			if o.Was == vote {
				*n -= len(o.Support)
			}
		}
		b.Helpful += o.Helpful
		b.Harmful += o.Harmful
		b.Neutral += o.Neutral
	case "EXPOSURES":
		if o.Number == b.Experiment.Number {
			for _, x := range o.Seen {
				b.Experiment.add(x)
			}
		}
	}
	state[o.Bullet] = b
}

// confirm sets the time of the last confirmation of a bullet if the operation confirms it. before has the bullets before the change.
func confirm(confirmed map[string]time.Time, before map[string]record, o *changeOp, at time.Time) {
	confirms := false
	switch o.Kind {
	case "ADD", "UPDATE", "CONFIRM":
		confirms = true
	case "PUT":
		_, known := confirmed[o.Bullet]
		confirms = !known
	case "TAG", "RETAG":
		confirms = o.Helpful > 0
	case "PIN":
		confirms = o.Pinned
	case "STATUS":
		confirms = o.Code == "person" && (o.Status == "" || o.Status == "active")
	case "EXPOSURES":
		b, known := before[o.Bullet]
		good := slices.ContainsFunc(o.Seen, func(x exposure) bool { return x.Cited && !x.Undo && x.Score >= 5 })
		confirms = good && (!known || b.Experiment.Number == o.Number)
	case "REMOVE":
		delete(confirmed, o.Bullet)
	case "MERGE":
		for _, id := range o.Sources {
			if id == o.Bullet {
				continue
			}
			if t := confirmed[id]; t.After(confirmed[o.Bullet]) {
				confirmed[o.Bullet] = t
			}
			delete(confirmed, id)
		}
	}
	if confirms {
		confirmed[o.Bullet] = at
	}
}

// differ counts the bullets that differ between two versions.
func (h *history) differ(from, to int) (n int) {
	was, is := h.states[from], h.states[to]
	for id, b := range was {
		now, ok := is[id]
		if !ok || now.stated() != b.stated() {
			n++
		}
	}
	for id := range is {
		if _, ok := was[id]; !ok {
			n++
		}
	}
	return n
}
