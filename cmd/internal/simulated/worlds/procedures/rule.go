package procedures

import (
	"slices"
	"strings"
)

// kind is what a rule does to a list of steps.
type kind string

const (
	swap   kind = "swap"   // do other in place of step
	follow kind = "follow" // do other right after step
	skip   kind = "skip"   // leave out step
	before kind = "before" // do step before other
	begin  kind = "begin"  // begin with step
	check  kind = "check"  // make the check step first of all
)

// kinds are in the order in which rules are carried out.
var kinds = []kind{swap, follow, skip, before, begin, check}

// condition restricts a rule to a material and a client. An empty one means any.
type condition struct{ material, client string }

// rule changes the lists of steps of the jobs of a family. An empty family means all.
type rule struct {
	kind                kind
	family, step, other string
	when                condition
}

// withoutUnusedStep returns the rule without the step that its kind does not use.
func (r rule) withoutUnusedStep() rule {
	if r.kind == skip || r.kind == begin || r.kind == check {
		r.other = ""
	}
	return r
}

// concerns reports whether the rule holds for a job.
func (r *rule) concerns(j *job) bool {
	return (r.family == "" || r.family == j.family) &&
		(r.when.material == "" || r.when.material == j.material) && (r.when.client == "" || r.when.client == j.client)
}

// Condition implements worlds.Rule. Two rules with the same condition and different meanings contradict each other.
func (r rule) Condition() string {
	subject := r.step
	if r.kind == check || r.kind == begin { // a job has one first step, so two rules with different steps contradict each other
		subject = ""
	}
	return strings.Join([]string{string(r.kind), r.family, subject, r.when.material, r.when.client}, "|")
}

// Meaning implements worlds.Rule.
func (r rule) Meaning() string { return r.Condition() + "=" + r.step + "|" + r.other }

// Advice returns the content of the rule, without the material and the client. The simulated Curator compares it (worlds.adviser).
func (r rule) Advice() string {
	return strings.Join([]string{string(r.kind), r.family, r.step, r.other}, "|")
}

// Section implements worlds.Rule.
func (r rule) Section() string {
	if r.family == "" {
		return "all jobs"
	}
	return r.family
}

// carryOut returns the steps of a job, and the rules that apply, as indexes.
func carryOut(j *job, rules []rule) (list []string, applied []int) {
	list = slices.Clone(j.steps)
	for _, k := range kinds {
		passes := 1
		if k == before { // a rule may undo an earlier one, which the next pass applies again
			passes = 4
		}
		for pass := range passes {
			for i := range rules {
				r := &rules[i]
				if r.kind != k || !r.concerns(j) {
					continue
				}
				next, applies := r.apply(list)
				if applies && pass == 0 {
					applied = append(applied, i)
				}
				list = next
			}
		}
	}
	slices.Sort(applied)
	return list, applied
}

// apply returns the changed list, and whether the rule says something about the list.
func (r *rule) apply(list []string) (out []string, applies bool) {
	at, other := slices.Index(list, r.step), slices.Index(list, r.other)
	out = slices.Clone(list)
	switch r.kind {
	case check, begin:
		out = slices.DeleteFunc(out, func(s string) bool { return s == r.step })
		return slices.Insert(out, 0, r.step), true
	case before:
		if at < 0 || other < 0 || at == other {
			return list, false
		}
		if at > other {
			out = slices.Insert(slices.Delete(out, at, at+1), other, r.step)
		}
	case skip:
		if at < 0 {
			return list, false
		}
		out = slices.Delete(out, at, at+1)
	case follow:
		if at < 0 {
			return list, false
		}
		if other < 0 { // else the list has the other step already
			out = slices.Insert(out, at+1, r.other)
		}
	case swap:
		if at < 0 || other >= 0 {
			return list, false
		}
		out[at] = r.other
	}
	return out, true
}
