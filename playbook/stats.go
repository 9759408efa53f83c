package playbook

import (
	"cmp"
	"iter"
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

	// Three classes of shown bullets.
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

// Stats computes the statistics of the playbook.
func (p *Playbook) Stats() Stats { return StatsOf(p.All()) }

// StatsOf computes the statistics of bullets. The classes are those of the ACE authors (ace-agent/ace), except that a bullet with
// only neutral votes is not Unused, because it was judged.
func StatsOf(bullets iter.Seq[*Bullet]) Stats {
	s := Stats{ByStatus: make(map[Status]int)}
	sections := make(map[string]SectionStats)
	for b := range bullets {
		s.Total++
		s.ByStatus[cmp.Or(b.Status, Active)]++
		if !b.Shown() {
			continue
		}
		section := sections[b.Section]
		section.Section = b.Section
		section.Bullets++
		section.Helpful += b.Helpful
		section.Harmful += b.Harmful
		sections[b.Section] = section
		switch {
		case b.Helpful > 5 && b.Harmful < 2:
			s.HighPerforming++
		case b.Harmful > 0 && b.Harmful >= b.Helpful:
			s.Problematic++
		case b.Helpful+b.Harmful+b.Neutral == 0:
			s.Unused++
		}
	}
	s.Sections = slices.AppendSeq(make([]SectionStats, 0, len(sections)), maps.Values(sections))
	slices.SortFunc(s.Sections, func(a, b SectionStats) int { return cmp.Compare(a.Section, b.Section) })
	return s
}
