package worlds

import (
	"slices"
	"strings"
)

// Features holds one value for each feature of a task. Each world numbers its features. In the condition of a case an empty value means
// any.
type Features [5]string

// With returns the features, replaced by those of others that are not empty.
func (f Features) With(others Features) Features {
	for i, v := range others {
		if v != "" {
			f[i] = v
		}
	}
	return f
}

// Case is a rule that decides one part of an answer, the slot, for the tasks with all features of When. Of two cases for a slot the one with
// more conditions wins.
type Case struct {
	When        Features
	Slot, Value string
}

// Applies reports whether the case decides a task.
func (c Case) Applies(task Features) bool { return task.With(c.When) == task }

// Conditions counts the features of the condition.
func (c Case) Conditions() int {
	n := 0
	for _, v := range c.When {
		if v != "" {
			n++
		}
	}
	return n
}

// Condition implements Rule.
func (c Case) Condition() string { return c.Slot + "|" + strings.Join(c.When[:], "|") }

// Meaning implements Rule.
func (c Case) Meaning() string { return c.Condition() + "=" + c.Value }

// Decide returns the index of the case that decides a slot of a task, or -1. It is the case with most conditions, and of several the
// first.
func Decide(cases []Case, slot string, task Features) int {
	best := -1
	for i, c := range cases {
		if c.Slot == slot && c.Applies(task) && (best < 0 || c.Conditions() > cases[best].Conditions()) {
			best = i
		}
	}
	return best
}

// Advice holds the cases that bullets state, each with its bullet.
type Advice struct {
	Cases   []Case
	Bullets []Bullet
}

// ReadAdvice returns the cases of bullets. It calls read for the case that a text states.
func ReadAdvice(bullets []Bullet, read func(text string) (Case, bool)) Advice {
	var a Advice
	for _, b := range bullets {
		if c, ok := read(b.Text); ok {
			a.Cases, a.Bullets = append(a.Cases, c), append(a.Bullets, b)
		}
	}
	return a
}

// Cited returns the advice of the cited bullets.
func (a Advice) Cited() Advice {
	var out Advice
	for i, b := range a.Bullets {
		if b.Cited {
			out.Cases, out.Bullets = append(out.Cases, a.Cases[i]), append(out.Bullets, b)
		}
	}
	return out
}

// Decide returns the case that decides a slot of a task, and the id of its bullet, or an empty id.
func (a Advice) Decide(slot string, task Features) (c Case, id string) {
	i := Decide(a.Cases, slot, task)
	if i < 0 {
		return c, ""
	}
	return a.Cases[i], a.Bullets[i].ID
}

// Supporter ignores the cases with another value. It returns the case that then decides a slot of a task.
func (a Advice) Supporter(slot, value string, task Features) (Case, bool) {
	agree := slices.DeleteFunc(slices.Clone(a.Cases), func(c Case) bool { return c.Value != value })
	i := Decide(agree, slot, task)
	if i < 0 {
		return Case{}, false
	}
	return agree[i], true
}
