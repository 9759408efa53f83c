package history

import (
	"slices"

	"debrief/playbook"
)

// Role is the relation of an execution to a bullet.
type Role string

// The roles.
const (
	// Learned is the role of an execution on which the text rests: the bullet was added, changed or requested again because of it.
	Learned Role = "learned"
	// Helped and Harmed are the roles of executions in which the Reflector saw an effect of the bullet. A request to remove the bullet is
	// a harm as well.
	Helped Role = "helped"
	Harmed Role = "harmed"
	// NoEffect is the role of an execution that had the bullet in its prompt, but the Reflector saw no effect.
	NoEffect Role = "no_effect"
)

// Supporter is an execution behind the changes of a bullet.
type Supporter struct {
	playbook.Evidence          // as the newest change describes it
	Role              Role     `json:"role" doc:"learned: the text rests on it; helped, harmed or no_effect: its vote."`
	Versions          []uint64 `json:"versions" doc:"Versions whose changes of the bullet the execution supports."`
	Forgotten         bool     `json:"forgotten,omitempty" doc:"It was forgotten since, so it no longer counts."`
}

// supporters returns the executions behind events, each once, in the order of the first event that each supports. It leaves out the outcomes of
// experiments, which are in the record of the bullet.
func supporters(all []Event, forgotten func(version uint64, e *playbook.Evidence) bool) (list []Supporter) {
	index := map[string]int{} // in list, by execution
	for k := range all {
		e := &all[k]
		endsInMerge := e.Kind == playbook.Merge && e.Bullet != e.Op.Bullet // the executions support the text of the target, not of this bullet
		if e.Kind == playbook.AddExposures || endsInMerge {
			continue
		}
		for _, c := range e.Support {
			if c.Evidence == nil {
				continue
			}
			i, ok := index[c.Evidence.Execution]
			if !ok {
				i = len(list)
				index[c.Evidence.Execution] = i
				list = append(list, Supporter{Role: NoEffect, Forgotten: true}) // Forgotten stays true if all its covers are forgotten
			}
			s := &list[i]
			s.Evidence = *c.Evidence
			s.Forgotten = s.Forgotten && forgotten(e.Version, c.Evidence)
			if s.Role != Learned { // the vote of a run that taught the text is not independent
				s.Role = e.role(s.Role)
			}
			if !slices.Contains(s.Versions, e.Version) {
				s.Versions = append(s.Versions, e.Version)
			}
		}
	}
	return list
}

// role returns the role of an execution after the event that it supports. before is its role before the event.
func (e *Event) role(before Role) Role {
	switch e.Kind {
	case playbook.Tag, playbook.Retag:
		switch e.Op.NewVote() {
		case playbook.Helpful:
			return Helped
		case playbook.Harmful:
			return Harmed
		}
		return NoEffect
	case playbook.Remove:
		return Harmed
	case playbook.SetStatus, playbook.Pin:
		return before
	}
	return Learned
}
