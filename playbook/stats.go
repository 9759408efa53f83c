package playbook

import (
	"cmp"
	"maps"
	"slices"
)

// Stats are the statistics of a playbook.
type Stats struct {
	Total int `json:"total"` // bullets of every status
	// ByStatus counts the bullets of each status. An empty status counts as active.
	ByStatus map[Status]int `json:"by_status"`
	// Sections has the active bullets of each section, sorted by name.
	Sections []SectionStats `json:"by_section"`

	// Three classes of active bullets.
	HighPerforming int `json:"high_performing"` // more than 5 helpful votes and fewer than 2 harmful ones
	Problematic    int `json:"problematic"`     // at least as many harmful votes as helpful ones, and at least one
	Unused         int `json:"unused"`          // no vote
}

// SectionStats are the statistics of one section.
type SectionStats struct {
	Section string `json:"section"`
	Bullets int    `json:"bullets"`
	Helpful int    `json:"helpful"` // votes of all bullets
	Harmful int    `json:"harmful"`
}

// Stats computes the statistics of the playbook. The classes are those of the ACE authors (ace-agent/ace), except that a bullet with
// only neutral votes is not Unused, because it was judged.
func (p *Playbook) Stats() Stats {
	var sum StatsSum
	for b := range p.All() {
		sum.Add(b, 1)
	}
	return sum.Stats()
}

// StatsSum sums up the statistics of a changing set of bullets. The zero value is that of an empty set.
type StatsSum struct {
	stats    Stats
	sections map[string]SectionStats
}

// Add adds a bullet if sign is 1, and removes it if sign is -1.
func (s *StatsSum) Add(b *Bullet, sign int) {
	if s.sections == nil {
		s.stats.ByStatus, s.sections = make(map[Status]int), make(map[string]SectionStats)
	}
	status := cmp.Or(b.Status, Active)
	s.stats.Total += sign
	s.stats.ByStatus[status] += sign
	if s.stats.ByStatus[status] == 0 {
		delete(s.stats.ByStatus, status)
	}
	if !b.Shown() {
		return
	}
	section := s.sections[b.Section]
	section.Section = b.Section
	section.Bullets += sign
	section.Helpful += sign * b.Helpful
	section.Harmful += sign * b.Harmful
	s.sections[b.Section] = section
	if section.Bullets == 0 {
		delete(s.sections, b.Section)
	}
	switch {
	case b.Helpful > 5 && b.Harmful < 2:
		s.stats.HighPerforming += sign
	case b.Harmful > 0 && b.Harmful >= b.Helpful:
		s.stats.Problematic += sign
	case b.Helpful+b.Harmful+b.Neutral == 0:
		s.stats.Unused += sign
	}
}

// Stats returns the statistics of the set.
func (s *StatsSum) Stats() Stats {
	all := s.stats
	all.ByStatus = make(map[Status]int, len(s.stats.ByStatus))
	maps.Copy(all.ByStatus, s.stats.ByStatus)
	all.Sections = slices.AppendSeq(make([]SectionStats, 0, len(s.sections)), maps.Values(s.sections))
	slices.SortFunc(all.Sections, func(a, b SectionStats) int { return cmp.Compare(a.Section, b.Section) })
	return all
}
